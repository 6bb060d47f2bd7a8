"""Code libraries that keep the IR as it was lowered: what the AD target compiles into.

Needs       Numba's own code libraries, which these classes cut short
Gives       `ADCodegen`, which makes `ADCodeLibrary` objects: callees linked in (T1 of `target`),
            nothing executable; `NeverCalled`; the name of the target, and whether code is compiled
            for it; `LOWERING`, the registry of implementations that are its own
Invariants  N1  no pass runs over code that the engine has to see as it was lowered: what a user
                calls first, comparisons of floats (Q1 of `ir.text.equalities`), copies in which
                only the caller's types tell floats (`ir.text.byte_blocks`), marked calls
            N2  nor over functions that return the status of None or of the end of an iteration:
                `capture` looks for these constants where they are returned

Functions of Numba's own, such as those that find common shapes, are compiled once and linked into
whatever calls them. They are optimised before that, or each capture would do it again.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core import codegen
from numba.core.cgutils import normalize_ir_text
from numba.core.imputils import Registry
from numba.core.target_extension import current_target

from activerules.numba_ext.codegen.numba_versions import with_pointers

AD_TARGET = "activerules_ad"
LOWERING = Registry(AD_TARGET)
# in code with functions that are not compiled yet; where None or no further item is returned (N2)
_AS_LOWERED = r"\.numba\.unresolved\$|\bret i32 -[23]\b"


def compiles_for_derivative() -> bool:
    """Whether the code being typed or lowered is itself differentiated."""
    return current_target() == AD_TARGET


def _is_entry_of_numba(function: Any) -> bool:
    """Whether a library was made for this function, and Numba's package defines it."""
    own = function.linkage == llvm.Linkage.external and not function.is_declaration
    return own and function.name.startswith("_ZN5numba")


class ADCodeLibrary(codegen.JITCodeLibrary):
    """A code library that links its callees and stops there: no machine code, and no passes but
    for Numba's own functions.
    """

    def add_ir_module(self, ir_module: Any) -> None:
        """Add a module as Numba lowered it, with addresses that the engine can follow."""
        module = llvm.parse_assembly(with_pointers(normalize_ir_text(str(ir_module))))
        module.name = ir_module.name
        module.verify()
        self.add_llvm_module(module)

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Optimise what Numba defines (N1, N2); the engine has a list of passes for the rest."""
        from activerules.ir.text.normalise import optimise_alone  # late: imports much

        module = self._final_module
        if any(map(_is_entry_of_numba, module.functions)):
            optimise_alone(module, unless=_AS_LOWERED)

    def _finalize_final_module(self) -> None:
        """Do nothing else: Numba would search all globals for addresses, for its cache of machine
        code, which does not get this code.
        """
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """There is no machine code; a null pointer where Numba wants to store one."""
        self._ensure_finalized()
        return 0

    def enable_object_caching(self) -> None:
        """Do nothing: there is no object code."""


class ADCodegen(codegen.JITCPUCodegen):
    """Makes `ADCodeLibrary` objects; its execution engine stays empty."""

    _library_class = ADCodeLibrary

    def _check_llvm_bugs(self) -> None:
        """Do nothing: Numba makes the same checks whenever it makes machine code."""

    def set_env(self, env_name: str, env: Any) -> None:
        """Do nothing: environments are set where the derivative is linked."""


class NeverCalled:
    """Stands for the executable of a function compiled for the AD target, and keeps its environment
    alive.
    """

    def __init__(self, environment: Any, library: Any) -> None:
        self.environment = environment
        self.library = library
