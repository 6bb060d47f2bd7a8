"""Machine code that derivatives call: loaded once, and by code on disk before it runs.

What could end the process runs in another one: a row of them shares one cache.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest
from numba.core.runtime.nrt import rtsys

from activerules.errors import UnknownCall
from activerules.numba_ext.codegen.machine_code import compiled, is_called
from activerules.numba_ext.codegen.numba_versions import RELOADS
from activerules.numba_ext.codegen.unlinked import cpu_context

MODULES = {
    "rules": """
import numpy as np
from numba import njit
import activerules as ar

@njit
def energy(a):
    return np.sum(np.tanh(a @ a))

slope = ar.grad(energy)

@njit(cache=True)
def served(a):
    return energy(a)

@ar.augmented_primal(served)
@njit(cache=True)
def _augmented(config, ret: ar.Active, a: ar.Duplicated):
    return ar.AugmentedReturn(energy(a.val), None, None)

@ar.reverse(served)
@njit(cache=True)
def _reverse(config, dret: ar.Active, tape, a: ar.Duplicated):
    a.dval[:] += dret.val * slope(a.val)
""",
    "in_parallel": """
import numpy as np
from numba import njit, prange
import activerules as ar

@njit(cache=True)
def squares(v):
    return np.sum(v * v)

@ar.augmented_primal(squares)
@njit(cache=True, parallel=True)
def _augmented(config, ret: ar.Active, v: ar.Duplicated):
    total = 0.0
    for i in prange(v.val.size):
        total += v.val[i] ** 2
    return ar.AugmentedReturn(total, None, v.val.copy())

@ar.reverse(squares)
@njit(cache=True, parallel=True)
def _reverse(config, dret: ar.Active, tape, v: ar.Duplicated):
    for i in prange(tape.size):
        v.dval[i] += 2.0 * dret.val * tape[i]

gradient = ar.grad(squares, cache=True)

@njit(cache=True)
def doubled(v):
    return squares(v) + squares(v)
""",
    "training": """
import numpy as np
from numba import njit
import activerules as ar
import rules

@njit(cache=True)
def loss(a, b):
    return np.sum(np.tanh(a @ b))

@njit(cache=True)
def behind(a):
    return 2.0 * rules.served(a)

gradient = ar.grad(loss, argnums=(0, 1), cache=True)
of_rule = ar.grad(behind)

@njit(cache=True)
def step(a, b):
    da, db = gradient(a, b)
    return da + a, db

@njit(cache=True)
def steps(a, b):
    return step(a, b)
""",
    "uncached": """
import numpy as np
from numba import njit
import activerules as ar

@njit
def step(u, v):
    w, z = np.empty_like(u), np.empty_like(u)
    for i in range(len(u)):
        w[i] = v[i] + 0.1 * np.sin(u[i])
        z[i] = u[i] + 0.1 * w[i] * w[i]
    return z, w

kept_nowhere = ar.checkpoint(step)

@njit(cache=True)
def run(u, v):
    for _ in range(5):
        u, v = kept_nowhere(u, v)
    return np.sum(u * v)

@njit
def plain(u, v):
    for _ in range(5):
        u, v = step(u, v)
    return np.sum(u * v)

gradient = ar.grad(run, cache=True)
""",
    "program": """
import json, sys
import numpy as np
import activerules as ar
import in_parallel
import training
import uncached
from activerules.numba_ext.codegen import machine_code

rng = np.random.default_rng(3)
a, b = rng.normal(size=(3, 3)), rng.normal(size=(3, 3))

def slopes(a, b):  # of the sum of tanh(a @ b)
    inner = 1.0 - np.tanh(a @ b) ** 2
    return inner @ b.T, a.T @ inner

def check(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12)

da, db = slopes(a, b)
if "steps" in sys.argv:
    check(training.steps(a, b), (da + a, db))
if "gradient" in sys.argv:
    check(training.gradient(a, b), (da, db))
if "rule" in sys.argv:
    da, db = slopes(a, a)
    check(training.of_rule(a), 2.0 * (da + db))
if "new" in sys.argv:  # the machine code that is loaded already is called by another derivative
    da, db = slopes(a, b)
    check(ar.grad(lambda a, b: 3.0 * np.sum(np.tanh(a @ b)))(a, b), 3.0 * da)
if "threads" in sys.argv:
    check(in_parallel.gradient(a[0]), 2.0 * a[0])
if "threads of a rule" in sys.argv:
    check(ar.grad(in_parallel.doubled)(a[0]), 4.0 * a[0])
if "uncached anew" in sys.argv:
    found = ar.grad(lambda u, v: 2.0 * uncached.run(u, v))(a[0], b[0])
    check(found, 2.0 * ar.grad(uncached.plain)(a[0], b[0]))
if "uncached" in sys.argv:
    check(uncached.gradient(a[0], b[0]), ar.grad(uncached.plain)(a[0], b[0]))
hits = sum(training.steps.stats.cache_hits.values())
print(json.dumps([hits, sorted(machine_code._loaded)]))
""",
}


needs_reload = pytest.mark.skipif(not RELOADS, reason="code on disk cannot ask for machine code")


class Machine:
    """A folder with a program and a cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in MODULES.items():
            (folder / f"{name}.py").write_text(text)

    def run(self, *parts: str) -> tuple[int, list[str]]:
        """How often Numba's cache served `steps`, and the names of the machine code loaded."""
        done = subprocess.run(
            [sys.executable, "program.py", *parts],
            cwd=self.folder,
            env={
                **{k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")},
                "NUMBA_CACHE_DIR": str(self.folder / "cache"),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        hits, loaded = json.loads(done.stdout)
        return hits, loaded

    @property
    def rules(self) -> list[Path]:
        return sorted((self.folder / "cache").rglob("*.rule"))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """One that has run the whole program once."""
    machine = Machine(tmp_path_factory.mktemp("machine_code"))
    hits, loaded = machine.run("steps", "gradient", "rule")
    assert hits == 0
    assert bool(loaded) == RELOADS
    return machine


def test_m1_a_stored_rule_calls_the_machine_code_of_another(machine: Machine) -> None:
    _, loaded = machine.run("rule")
    assert bool(loaded) == RELOADS


@needs_reload
def test_m1_m3_code_on_disk_contains_the_machine_code_that_it_calls(machine: Machine) -> None:
    kept = {file: file.read_bytes() for file in machine.rules}
    try:
        for file in kept:
            file.unlink()
        hits, loaded = machine.run("steps")
        assert hits == 1
        assert loaded
        assert machine.run("gradient") == (0, loaded)
        hits, more = machine.run("steps", "gradient", "new")
        assert hits == 1
        assert set(more) >= set(loaded)
    finally:
        for file, content in kept.items():
            file.write_bytes(content)


def test_m3_a_rule_compiled_anew_beside_that_in_code_on_disk(machine: Machine) -> None:
    """A rule that is not on disk is compiled in each process; the names of its code differ."""
    _, stored = machine.run("uncached")
    _, loaded = machine.run("uncached anew", "uncached")
    assert set(stored) <= set(loaded)
    assert len(loaded) == len(stored) + RELOADS


@pytest.mark.skipif(not RELOADS, reason="Numba 0.62 forgets the threads of any cached caller")
def test_m1_machine_code_with_loops_in_parallel_starts_numbas_threads(machine: Machine) -> None:
    machine.run("threads", "threads of a rule")
    machine.run("threads")
    machine.run("threads of a rule")
    # the functions of the rule come from Numba's cache, which forgets that they need threads
    for file in machine.rules:
        if "in_parallel" in file.name:
            file.unlink()
    machine.run("threads of a rule")
    machine.run("threads of a rule")


@pytest.fixture
def runtime() -> None:
    """Numba's, which a first compilation initialises."""
    rtsys.initialize(cpu_context())


def _module(call: str) -> Any:
    body = "\n".join(f" %x{k + 1} = fadd double %x{k}, %y" for k in range(120))
    return llvm.parse_assembly(
        f"declare double @{call}(double)\n"
        f"define double @large(double %x, double %y) {{\n %x0 = call double @{call}(double %x)\n"
        f"{body}\n ret double %x120\n}}\n"
        "define double @small(double %x) {\n ret double %x\n}\n"
    )


@pytest.mark.usefixtures("runtime")
def test_m2_code_with_undefined_symbols_is_not_compiled() -> None:
    assert compiled("test.undefined", _module("activerules.nobody.defines"), ["large"], ()) is None


@needs_reload
@pytest.mark.usefixtures("runtime")
def test_m2_code_whose_symbols_another_process_lacks_is_not_loaded() -> None:
    made = compiled("test.external", _module("sin"), ["large"], ())
    assert made is not None
    assert "sin" in made.external
    elsewhere = replace(made, name="test.elsewhere", external=("activerules.nobody.defines",))
    with pytest.raises(UnknownCall, match="nobody"):
        elsewhere.load()


@needs_reload
@pytest.mark.usefixtures("runtime")
def test_m3_machine_code_is_loaded_once() -> None:
    first = compiled("test.loaded.once", _module("sin"), ["large"], ())
    assert first is not None
    assert compiled("test.loaded.once", _module("sin"), ["large"], ()) is first


def test_functions_that_are_inlined_are_not_called() -> None:
    assert is_called(_module("sin"), ["large"])
    assert not is_called(_module("sin"), ["large", "small"])
