"""Several threads of Python that compile derivatives, or ask about them, at once."""

import subprocess
import sys
import types

import numpy as np

from activerules.annotations.trees import flattened

EXPLAINED_WHILE_COMPILING = """
import faulthandler
import math
import sys
import threading
import time
import traceback

from numba import float64, njit
from numba.core.compiler_lock import global_compiler_lock

import activerules as ar

faulthandler.dump_traceback_later(100, exit=True)


@njit
def rule(x):
    return math.sin(x)


@ar.augmented_primal(rule)
def _(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(rule(x.val), None, x.val)


@ar.reverse(rule)
def _(config, dret: ar.Active, tape, x: ar.Active):
    return 2.0 * dret.val * math.cos(tape)


@njit
def once(x):
    return rule(x)


@njit
def twice(x):
    return rule(rule(x))


def waiting_at(thread):
    # The names of the functions in which a thread waits for the lock; none when it has ended.
    while thread.is_alive():
        frame = sys._current_frames().get(thread.ident)
        if frame is None:  # it has just ended
            continue
        names = [frame.f_code.co_name for frame, _ in traceback.walk_stack(frame)]
        if names[:1] == ["acquire"]:
            return names
        time.sleep(0.001)
    return []


reports = []
asks = threading.Thread(target=lambda: reports.append(ar.explain(once, ar.Active[float64])))
asks.start()
while asks.is_alive():
    with global_compiler_lock:
        if "__get__" in waiting_at(asks):  # of a cached property, which Python 3.11 locks
            ar.grad(twice)(0.5)
    time.sleep(0.001)
slope = ar.grad(twice)(0.5)
asks.join()
print(abs(slope - 4.0 * math.cos(math.sin(0.5)) * math.cos(0.5)) < 1e-9, len(reports[0].rules))
"""


def test_explain_waits_for_a_thread_that_compiles():
    command = [sys.executable, "-c", EXPLAINED_WHILE_COMPILING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.returncode) == ("True 1\n", 0), done.stderr[-2000:]


def test_another_thread_is_importing_masked_arrays(monkeypatch):
    class Marked(np.ndarray):
        pass

    monkeypatch.setitem(sys.modules, "numpy.ma", types.ModuleType("numpy.ma"))
    x = np.zeros(2).view(Marked)
    assert flattened(x) is x
