"""Entry points: functions called from Python that only prepare the call of other code.

Needs       a function to be compiled, which compiled callers may call, too
Gives       `ENTRY_POINT`: its options for `njit`; `leave_unoptimised`: for a function that is
            being lowered
Invariants  E1  of the code of an entry point only the wrapper for calls from Python is left
                unoptimised

Numba's passes over single functions stay: they remove pairs of references that would stay behind
where a check of the entry point raises.
"""

from __future__ import annotations

from typing import Any

from numba.core.compiler import Compiler

from activerules.numba_ext.codegen.made_once import NO_C_WRAPPER

_PYTHON_WRAPPER = "_ZN7cpython"


def leave_unoptimised(function: Any) -> None:
    """Turn optimisation off for a function that is being lowered."""
    for attribute in ("noinline", "optnone"):
        function.attributes.add(attribute)


class EntryCompiler(Compiler):
    """Numba's compiler; the code library that it fills marks the wrapper for calls from Python."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a function; Numba would make the library when it lowers that."""
        if self.state.library is None:
            library = self.state.targetctx.codegen().create_library(func.__qualname__)
            library.enable_object_caching()
            _optimise_less(library)
            self.state.library = library
        return super().compile_extra(func)


def _optimise_less(library: Any) -> None:
    add = library.add_ir_module

    def add_marked(module: Any) -> None:
        for function in module.functions:
            if not function.is_declaration and function.name.startswith(_PYTHON_WRAPPER):
                leave_unoptimised(function)
        add(module)

    library.add_ir_module = add_marked


ENTRY_POINT: dict[str, Any] = {"pipeline_class": EntryCompiler, **NO_C_WRAPPER}
