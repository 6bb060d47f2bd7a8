"""Rules of functions that were pickled: Numba pickles a compiled function by its code alone."""

import functools
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.rules.pickled import lost, original

MODULE = """
import math

from numba import njit

import activerules as ar


@njit
def square(x):
    return x * x


@njit
def plain(x):
    return x * x


@njit
def total(x):
    return square(x) + plain(x) + math.cosh(x)


slope = ar.grad(total)
"""

RULES = """
import math

import activerules as ar
from squares import square


@ar.augmented_primal(math.cosh)
def cosh_augmented(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(math.cosh(x.val), None, None)


@ar.reverse(math.cosh)
def cosh_reverse(config, dret: ar.Active, tape, x: ar.Active):
    return 1000.0 * dret.val


@ar.augmented_primal(square)
def square_augmented(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(square(x.val), None, None)


@ar.reverse(square)
def square_reverse(config, dret: ar.Active, tape, x: ar.Active):
    return 100.0 * dret.val
"""

LOADED = """
import pickle
import sys
from pathlib import Path

slope = pickle.loads(Path(sys.argv[1]).read_bytes())
try:
    print(slope(3.0))
except Exception as error:
    print(type(error).__name__, error)
"""


def run(folder: Path, *arguments: str) -> str:
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("summed", "slope"), [("square(x) + ", "1106.0\n"), ("", "1006.0\n")])
def test_another_process_imports_the_rules(tmp_path, summed, slope):
    (tmp_path / "squares.py").write_text(MODULE.replace("square(x) + ", summed))
    (tmp_path / "rules_of_squares.py").write_text(RULES)
    write = "import pickle, squares, rules_of_squares; from pathlib import Path; "
    write += "Path('slope').write_bytes(pickle.dumps(squares.slope))"
    run(tmp_path, "-c", write)
    assert run(tmp_path, "-c", LOADED, "slope") == slope


def test_rules_that_another_process_cannot_find_are_an_error(tmp_path):
    script = MODULE + RULES.replace("from squares import square", "")
    script += "import pickle; from pathlib import Path\n"
    script += "Path('slope').write_bytes(pickle.dumps(slope))\n"
    (tmp_path / "script.py").write_text(script)
    run(tmp_path, "script.py")
    said = run(tmp_path, "-c", LOADED, "slope")
    assert said.startswith("RuleError square, which was pickled, has rules"), said


def test_rules_for_functions_of_others_that_another_process_cannot_find_are_an_error(tmp_path):
    module = MODULE.replace("square(x) + ", "")
    (tmp_path / "squares.py").write_text(module)
    (tmp_path / "unused.py").write_text(module.replace("math.cosh(x)", "math.sinh(x)"))
    rules = RULES[: RULES.index("@ar.augmented_primal(square)")]
    script = rules + "import pickle; from pathlib import Path; import squares, unused\n"
    script += "print(squares.slope(3.0))\n"
    for name in ("squares", "unused"):
        script += f"Path('{name}.slope').write_bytes(pickle.dumps({name}.slope))\n"
    (tmp_path / "script.py").write_text(script)
    assert run(tmp_path, "script.py") == "1006.0\n"
    # also where the derivative has been compiled without them
    compiled = "import squares; squares.slope(3.0)\n" + LOADED
    for program in (LOADED, compiled):
        said = run(tmp_path, "-c", program, "squares.slope")
        assert said.startswith("RuleError math.cosh, which was pickled, has rules"), said
        assert "__main__" in said
    assert float(run(tmp_path, "-c", LOADED, "unused.slope")) == pytest.approx(6.0 + np.cosh(3.0))


def test_workers_that_run_the_script_again_have_its_rules(tmp_path):
    (tmp_path / "squares.py").write_text(MODULE.replace("square(x) + ", ""))
    script = RULES[: RULES.index("@ar.augmented_primal(square)")]
    script += """
import multiprocessing

import squares

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(*pool.map(squares.slope, [3.0]))
"""
    (tmp_path / "script.py").write_text(script)
    assert run(tmp_path, "script.py") == "1006.0\n"


@njit
def cube(x):
    return x**3


@ar.augmented_primal(cube)
def cube_augmented(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(cube(x.val), None, None)


@ar.reverse(cube)
def cube_reverse(config, dret: ar.Active, tape, x: ar.Active):
    return 100.0 * dret.val


def copied(function):
    plain = function.py_func
    copy = FunctionType(plain.__code__, plain.__globals__, plain.__name__)
    copy.__dict__.update(pickle.loads(pickle.dumps(plain.__dict__)))
    return copy


def test_a_copy_has_the_rules_of_its_original():
    copy = copied(cube)
    assert original(copy) is cube.py_func
    assert ar.grad(copy)(2.0) == 100.0
    assert not lost(copy)


def test_a_wrapper_has_no_rules_of_what_it_wraps():
    @functools.wraps(cube.py_func)
    def wrapper(x):
        return 2.0 * x

    assert original(wrapper) is wrapper
    assert not lost(wrapper)
    assert ar.grad(wrapper)(2.0) == 2.0
    assert ar.grad(lambda x: 2.0 * cube(x))(2.0) == 200.0
    assert not ar.has_rule(ar.grad(cube))
