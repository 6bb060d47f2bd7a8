"""Code libraries that keep the IR as it was lowered: what the AD target compiles into.

Needs       Numba's own code libraries, which these classes cut short
Gives       `ADCodegen`, which makes `ADCodeLibrary` objects: callees linked in (T1 of `target`), no
            pass run, nothing executable; `NeverCalled`; the name of the target; `LOWERING`, the
            registry of implementations that are its own
"""

from __future__ import annotations

from typing import Any

from numba.core import codegen
from numba.core.imputils import Registry

AD_TARGET = "activerules_ad"
LOWERING = Registry(AD_TARGET)


class ADCodeLibrary(codegen.JITCodeLibrary):
    """A code library that links its callees and stops there: no passes, no machine code."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Do nothing: the engine has its own list of passes."""

    def _finalize_final_module(self) -> None:
        """Nothing but that: Numba looks through all globals for addresses, which only its cache
        asks for, and this code is not what is cached.
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
