"""Derivatives on disk: found again where they are what they were, and nowhere else.

Each test is a row of processes that run one program on one cache.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activerules.numba_ext.codegen.numba_versions import RELOADS

MODULES = {
    "constants": "HELPERS, RULES, FASTMATH = 2.0, 3.0, False",
    "helpers": """
from numba import njit
import constants

@njit
def halved(x):
    return 0.5 * x

@njit
def scaled(x):
    return constants.HELPERS * x
""",
    "rules": """
from numba import njit
import activerules as ar
import constants

@njit
def special(x):
    return x * x

@ar.augmented_primal(special)
@njit
def _(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(special(x.val), None, x.val)

@ar.reverse(special)
@njit
def _(config, dret: ar.Active, tape, x: ar.Active):
    return constants.RULES * dret.val
""",
    "functions": """
from numba import njit, prange
import activerules as ar
import constants, helpers, rules

@njit(cache=True)
def calls(x):
    return helpers.halved(x) * x

@njit(cache=True)
def reads(x):
    return helpers.scaled(x) * x

@njit(cache=True)
def served(x):
    return rules.special(x)

@njit(cache=True, fastmath=constants.FASTMATH)
def same(x):
    return x * x * x

recomputed = ar.checkpoint(calls)

@njit(cache=True)
def checkpointed(x):
    return recomputed(x) ** 2

@ar.parallel
@njit(cache=True)
def threaded(x):
    total = 0.0
    for i in prange(4):
        total += helpers.halved(x) * x
    return total
""",
    # Numba's own cache keeps these
    "callers": """
from numba import njit
import activerules as ar
import functions, helpers

gradients = {name: ar.grad(getattr(functions, name)) for name in
             ("calls", "reads", "served", "same", "checkpointed", "threaded")}
g_calls, g_served = gradients["calls"], gradients["served"]
g_lambda = ar.grad(lambda x: helpers.halved(x) * x)
g_recomputed = ar.grad(functions.recomputed)
g_threaded, h_threaded = ar.grad(functions.threaded), ar.hessian(functions.threaded)

@njit(cache=True)
def calls(x):
    return g_calls(x)

@njit(cache=True)
def served(x):
    return ar.autodiff(ar.Reverse, functions.served, ar.Active(x))[0]

@njit(cache=True)
def twice(x):
    return 2.0 * served(x)

@njit(cache=True)
def of_unnamed(x):
    return g_lambda(x) + g_recomputed(x)

@njit(cache=True)
def of_threaded(x):
    return g_threaded(x)

@njit(cache=True)
def twice_threaded(x):
    return of_threaded(x) + x * h_threaded(x)  # the derivative is linear
""",
    "program": """
import json, sys
from tests.compile_log import compiled

exec(sys.argv[1])
import callers

found = {name: gradient(2.0) for name, gradient in callers.gradients.items()}
callers_found = {name: getattr(callers, name)(2.0) for name in
                 ("calls", "served", "twice", "of_unnamed", "of_threaded", "twice_threaded")}
print(json.dumps([found, callers_found, compiled]))
""",
}
VALUES = {
    **{"calls": 2.0, "reads": 8.0, "served": 3.0, "same": 12.0},
    **{"checkpointed": 8.0, "threaded": 8.0},
}
ROOT = str(Path(__file__).parents[3])


class Machine:
    """A folder with the modules, and a cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.expected: dict[str, float] = {}
        for name in MODULES:
            self.edit(name)

    def edit(self, module: str, *change: str) -> None:
        """Write a module, with a text in it replaced."""
        text = MODULES[module]
        assert not change or change[0] in text
        text = text.replace(*change) if change else text
        path = self.folder / f"{module}.py"
        if not path.exists() or path.read_text() != text:  # old releases of Numba ask for its time
            path.write_text(text)

    def start(self, first: str = "", **environment: str) -> Any:
        """Start the program; `first` is run before anything is imported."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
        own = {"NUMBA_CACHE_DIR": str(self.folder / "cache"), "PYTHONPATH": ROOT}
        return subprocess.Popen(
            [sys.executable, "program.py", first],
            cwd=self.folder,
            env={**kept, **own, "PYTHONDONTWRITEBYTECODE": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, first: str = "", *, process: Any = None, **environment: str) -> list[str]:
        """Run the program; returns what was compiled. Its values are those of a new cache."""
        out, err = (process or self.start(first, **environment)).communicate(timeout=300)
        assert process is None or process.returncode == 0, err
        assert out, err
        found, by_callers, compiled = json.loads(out)
        expected = {**VALUES, **self.expected}
        assert found == expected
        assert not RELOADS or by_callers == {
            "calls": expected["calls"],
            "served": expected["served"],
            "twice": 2.0 * expected["served"],
            "of_unnamed": 2.0 * expected["calls"],
            "of_threaded": expected["threaded"],
            "twice_threaded": 2.0 * expected["threaded"],
        }
        return [name for name in compiled if name in _INTERESTING]

    @property
    def files(self) -> list[Path]:
        return sorted((self.folder / "cache").rglob("*.derivative"))


# Numba 0.62 does not start threads for cached code, so none is cached.
_GRADIENTS = [f"grad_{name}" for name in VALUES if RELOADS or name != "threaded"]
_RENEWED = ("served", "twice") if RELOADS else ()  # of the callers
_INTERESTING = {*_GRADIENTS, "calls", "served", "twice", "of_unnamed"}
if RELOADS:
    _INTERESTING |= {"of_threaded", "twice_threaded"}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """One where the program has run, and been found on disk."""
    machine = Machine(tmp_path_factory.mktemp("disk"))
    assert set(machine.run()) >= {*_GRADIENTS, "twice"}
    assert machine.run() == []
    return machine


@pytest.fixture(autouse=True)
def unedited(machine: Machine) -> Iterator[None]:
    yield
    machine.expected = {}
    for name in MODULES:
        machine.edit(name)


def test_o1_a_helper_in_another_module_is_edited(machine: Machine) -> None:
    machine.edit("helpers", "0.5 * x", "4.0 * x")
    machine.expected = {"calls": 16.0, "checkpointed": 512.0, "threaded": 64.0}
    compiled = machine.run()
    assert {"grad_calls", "grad_threaded"} & {*_GRADIENTS} <= {*compiled}
    assert "grad_same" not in compiled
    assert machine.run() == []


def test_o1_a_rule_or_a_constant_that_it_reads_is_edited(machine: Machine) -> None:
    machine.edit("rules", "dret.val\n", "dret.val + 1.0\n")
    machine.expected = {"served": 4.0}
    assert {"grad_served", *_RENEWED} <= set(machine.run())
    assert machine.run() == []
    machine.edit("constants", "3.0", "5.0")
    machine.expected = {"served": 6.0}
    assert {"grad_served", *_RENEWED} <= set(machine.run())


@pytest.mark.skipif(not RELOADS, reason="Numba 0.62 does not ask cached code what it depends on")
def test_o2_a_caller_of_code_that_was_itself_loaded_is_renewed(machine: Machine) -> None:
    machine.run()  # Numba's files have one entry for all edits: those of other tests go
    for name in ("twice", "twice_threaded"):
        for file in (machine.folder / "cache").rglob(f"callers.{name}-*"):
            file.unlink()
    # they link `served` and `of_threaded` as found on disk
    assert machine.run() == ["twice", "twice_threaded"]
    assert machine.run() == []
    machine.edit("constants", "3.0", "5.0")
    machine.expected = {"served": 5.0}
    assert {"grad_served", "served", "twice"} <= set(machine.run())


def test_o1_a_constant_of_a_callee_or_an_option_is_changed(machine: Machine) -> None:
    machine.edit("constants", "2.0, 3.0, False", "7.0, 3.0, True")
    machine.expected = {"reads": 28.0}
    compiled = machine.run()
    assert {"grad_reads", "grad_same"} <= set(compiled)
    assert "grad_calls" not in compiled


def test_o1_another_version_or_processor_finds_nothing(machine: Machine) -> None:
    engine = "import activerules.rules.registry as r; r.engine = lambda: 'another release'"
    versions = "import llvmlite; llvmlite.__version__ = '99.0.0'"
    for compiled in (
        machine.run(engine),
        machine.run(versions),
        machine.run(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES=""),
    ):
        assert set(compiled) >= {*_GRADIENTS, *_RENEWED}
    # what the others wrote is beside it (but for Numba's files, which have one entry for all)
    assert not {*machine.run()} & {*_GRADIENTS}


def test_o3_damaged_files_are_compiled_again(machine: Machine) -> None:
    for k, file in enumerate(machine.files):
        whole = file.read_bytes()
        flipped = whole[:-1] + bytes([whole[-1] ^ 1])
        file.write_bytes([whole[:-7], b"", flipped][k % 3])
    assert set(machine.run()) >= set(_GRADIENTS)
    assert machine.run() == []


def test_o3_nothing_is_raised_where_files_cannot_be_written(machine: Machine) -> None:
    for file in machine.files:
        file.unlink()
        file.mkdir()  # in the way
    assert set(machine.run()) >= set(_GRADIENTS)
    for file in machine.files:
        file.rmdir()


def test_o3_two_processes_write_at_once(machine: Machine) -> None:
    for file in (machine.folder / "cache").rglob("*.*"):
        file.unlink()
    others = [machine.start() for _ in range(2)]
    for each in others:
        machine.run(process=each)
    assert machine.run() == []
