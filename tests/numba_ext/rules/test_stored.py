"""Compiled rules on disk: found again where they mean the same, and nowhere else."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from numba import from_dtype, njit
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock

import activerules as ar
from activerules.numba_ext.codegen.link import is_bound_to_process
from activerules.numba_ext.codegen.unlinked import compile_to_link, to_link
from activerules.numba_ext.rules import stored
from activerules.rules.library import linalg

# A gradient through a rule of the library and one of its own: `rules` has both kinds of halves.
PROGRAM = """
import sys
import numpy as np
from numba import njit
import activerules as ar
from activerules.numba_ext.rules import pair_rules
import rules

compiled = []
compile_function = pair_rules.compile_function

def counted(function, *args):
    compiled.append(getattr(function, "__name__", function.__class__.__name__))
    return compile_function(function, *args)

pair_rules.compile_function = counted

@njit
def f(A, x):
    of_constant = rules.on_disk(1.0) - 1.0
    return np.linalg.det(A) + rules.cube(x) + rules.forgotten(x) + x * of_constant

A = np.array([[2.0, 1.0], [1.0, 3.0]])
g_A, g_x = ar.grad(f, argnums=(0, 1))(A, 2.0)
# The cofactors of A, and the slopes the rules say.
assert np.allclose(g_A, [[3.0, -1.0], [-1.0, 2.0]])

# Numba's own code of the functions that a stored rule calls is as it was.
@njit
def plain(A):
    return np.linalg.det(A)

if "plain" in sys.argv:
    assert abs(plain(A) - 5.0) < 1e-14
print(g_x, *dict.fromkeys(compiled))

try:
    ar.grad(f, argnums=(0, 1))(A, 20.0)
except ValueError as error:
    assert error.args == ("too large", 20.0)
else:
    raise AssertionError("nothing was raised")
"""
CONSTANTS = "SLOPE = {}"
RULES = """
from numba import njit
import activerules as ar
import constants

@njit
def cube(x):
    return x * x * x

@ar.augmented_primal(cube)
@njit(cache=True)
def cube_augmented(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(cube(x.val), None, x.val)

@ar.reverse(cube)
@njit(cache=True)
def cube_reverse(config, dret: ar.Active, tape, x: ar.Active):
    if tape > 10.0:
        raise ValueError("too large", tape)  # which needs an environment of Numba
    return constants.SLOPE * tape * tape * dret.val

@njit
def forgotten(x):
    return x * x

@ar.augmented_primal(forgotten)
def forgotten_augmented(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(forgotten(x.val), None, x.val)

@ar.reverse(forgotten)
def forgotten_reverse(config, dret: ar.Active, tape, x: ar.Active):
    return 2.0 * tape * dret.val

# Called with a constant, the function itself is linked: a later process has no IR of it.
@njit(cache=True)
def on_disk(x):
    return x * x

ar.chainrules.scalar_rule(on_disk, lambda out, x: 2.0 * x)
"""


class Machine:
    """A folder with a program, its rules, and a cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "program.py").write_text(PROGRAM)
        (folder / "rules.py").write_text(RULES)
        self.write_constants("3.0")

    def write_constants(self, slope: str) -> None:
        (self.folder / "constants.py").write_text(CONSTANTS.format(slope))

    def run(self, *options: str) -> tuple[float, list[str]]:
        """The derivative with respect to x, and the functions of rules that had to be compiled."""
        done = subprocess.run(
            [sys.executable, "program.py", *options],
            cwd=self.folder,
            env={**_environment(), "NUMBA_CACHE_DIR": str(self.folder / "cache")},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        slope, *compiled = done.stdout.split()
        return float(slope), compiled

    @property
    def files(self) -> list[Path]:
        return sorted((self.folder / "cache").rglob("*.rule"))


def _environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """One that has run the program once."""
    machine = Machine(tmp_path_factory.mktemp("stored"))
    slope, compiled = machine.run("plain")
    assert slope == 3.0 * 4.0 + 2.0 * 2.0
    assert {"_det", "_det_reverse", "cube_augmented", "forgotten_reverse"} <= set(compiled)
    return machine


def test_d1_another_process_compiles_only_what_is_not_stored(machine: Machine) -> None:
    slope, compiled = machine.run()
    assert slope == 16.0
    assert compiled == ["forgotten_augmented", "forgotten_reverse"]


def test_d1_damaged_files_and_values_that_rules_read_elsewhere_are_noticed(
    machine: Machine,
) -> None:
    (library,) = (file for file in machine.files if "cube" not in file.name)
    whole = library.read_bytes()
    library.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    machine.write_constants("4.0")  # the rules themselves are as they were
    slope, compiled = machine.run()
    assert slope == 4.0 * 4.0 + 4.0
    assert {"_det", "cube_reverse"} <= set(compiled)
    assert library.read_bytes()[:53] == whole[:53]


def in_a_function() -> Any:
    """A function that no import finds."""
    return lambda config, ret, x: None


def test_d2_what_means_something_else_in_another_process_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library_rule = vars(linalg)["_det"]
    array = types.Array(types.float64, 2, "C")
    assert stored.file_of((library_rule,), (array, types.float64)) is not None
    assert stored.file_of((library_rule, in_a_function()), (array,)) is None
    record = from_dtype(np.dtype([("x", np.float64)]))
    for found in (record, types.Array(record, 1, "C"), types.UniTuple(record, 2)):
        assert stored.file_of((library_rule,), (found,)) is None
    # of another package, and nobody asked for it
    assert stored.file_of((in_a_function, in_a_function), (array,)) is None
    address = llvm.parse_assembly(
        "define i64 @f() {\n %x = load i64, ptr inttoptr (i64 4096 to ptr)\n ret i64 %x\n}"
    )
    assert is_bound_to_process(address)

    written: list[str] = []
    monkeypatch.setattr(stored, "write_file", lambda path, *_: written.append(path))

    def is_written(function: Any) -> bool:
        with global_compiler_lock:
            result = compile_to_link(to_link(function), (types.float64,))
            names = [result.fndesc.llvm_func_name]
            file = stored.File("", "stamp", tuple(names))
            stored._on_disk(file, (), (), lambda _: (None, result.library, names))
        return bool(written)

    def raises(x):
        raise ValueError(np.full(2, x))

    assert not is_written(raises)  # the dtype is a constant
    assert is_written(lambda x: print(x))


def test_the_function_that_a_rule_differentiates_is_no_address_in_its_code() -> None:
    square = njit(lambda x: x * x)

    def slope(x):
        return ar.autodiff(ar.Reverse, square, ar.Active, ar.Active(x))[0]

    with global_compiler_lock:
        result = compile_to_link(to_link(slope), (types.float64,))
        module = stored._alone(result.library, "stem", [result.fndesc.llvm_func_name])
        assert not is_bound_to_process(module)
