"""What an import loads: rule authors pay for the rule vocabulary, not for the engine."""

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import activerules

PACKAGES = Path(__file__).parent / "packages"


def loaded_by(statement: str) -> set[str]:
    """The modules a fresh interpreter has after a statement."""
    program = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_vocabulary_of_rules_loads_no_numba_and_rules_their_library_but_not_the_engine():
    modules = loaded_by(
        "from activerules.annotations import Active, Const\n"
        "from activerules.rules import augmented_primal, reverse, inactive\n"
        "assert not sys.modules.keys() & {'numba', 'llvmlite', 'activerules.rules.library'}\n"
        "import math\n"
        "inactive(math.floor)"
    )
    assert "activerules.rules.library.linalg" in modules
    assert not modules & {"activerules.ir", "activerules.numba_ext", "activerules.pipeline"}


def test_the_engine_alone_needs_no_numba():
    assert "numba" not in loaded_by("from activerules import ir")


def test_the_names_come_without_the_engine_the_library_and_a_look_at_all_objects():
    """A full collection goes through what Numba keeps; the user's thresholds are put back."""
    modules = loaded_by(
        "import gc, numba\n"
        "gc.set_threshold(500, 2, 2)\n"
        "gc.collect()\n"
        "gc.callbacks.append(lambda phase, info: info['generation'] == 2 and full.append(phase))\n"
        "full = []\n"
        "import activerules as ar\n"
        "ar.grad, ar.vjp, ar.hessian, ar.checkpoint\n"
        "gc.callbacks.clear()\n"
        "assert not full and gc.get_threshold() == (500, 2, 2), (full, gc.get_threshold())"
    )
    late = {
        "activerules.pipeline.compile_derivative",
        "activerules.ir.plan.facts",
        "activerules.ir.normal.effects",
        "activerules.ir.derivatives.table",
        "activerules.numba_ext.target.marked_calls",
        "activerules.rules.library",
        "activerules.explain.collect",
        "numba.np.arraymath",
        "numpy.ma",
        "scipy.linalg",
    }
    assert not modules & late


def test_the_package_is_pickled_by_name():
    """So that functions that mention it can be sent to other processes."""
    assert pickle.loads(pickle.dumps(activerules)) is activerules


def test_a_submodule_does_not_hide_the_function_of_its_name():
    loaded_by(
        "import activerules.api.grad, activerules.explain.text\n"
        "import activerules as ar\n"
        "assert ar.autodiff.__name__ == 'autodiff' and ar.explain.__name__ == 'explain'\n"
        "assert {'grad', 'Active', 'chainrules'} <= set(dir(ar)) and not hasattr(ar, 'nonsense')\n"
        "assert not hasattr(ar.ir, 'nonsense')\n"
        "assert not {'pipeline', 'numba_ext', 'Any', 'sys'} & set(dir(ar))\n"
        "for module in (ar.chainrules, ar.testing, ar.annotations, ar.ir, ar.rules):\n"
        "    assert dir(module) == sorted(module.__all__), module"
    )


@pytest.mark.parametrize("way", ["announced", "imported"])
def test_rules_of_another_package(way, tmp_path):
    """By its entry point, or by importing the module that defines them."""
    shutil.copytree(PACKAGES / "springs", tmp_path / "springs")
    if way == "announced":
        metadata = "springs-1.0.dist-info"
        shutil.copytree(PACKAGES / metadata, tmp_path / metadata)
    program = shutil.copy(PACKAGES / "uses_springs.py", tmp_path)
    path = os.pathsep.join([str(tmp_path), str(PACKAGES.parents[1])])
    done = subprocess.run(
        [sys.executable, program, way],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_first_mention_may_be_inside_a_compiled_function():
    program = (
        "import activerules as ar\n"
        "from numba import njit\n"
        "f = njit(lambda x: x * x)\n"
        "g = njit(lambda x: ar.autodiff(ar.Reverse, f, ar.Active, ar.Active(x)))\n"
        "assert g(3.0) == (6.0,)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
