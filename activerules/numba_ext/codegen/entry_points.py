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
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.typed_passes import NativeLowering

from activerules.numba_ext.codegen.made_once import NO_C_WRAPPER

_PYTHON_WRAPPER = "_ZN7cpython"


def leave_unoptimised(function: Any) -> None:
    """Turn optimisation off for a function that is being lowered."""
    for attribute in ("noinline", "optnone"):
        function.attributes.add(attribute)


@register_pass(mutates_CFG=False, analysis_only=False)
class LibraryOfEntryPoint(LoweringPass):
    """Make the code library of an entry point, which Numba's next pass would make otherwise."""

    _name = "activerules_library_of_entry_point"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Make it where there is a wrapper for calls from Python."""
        if state.library is not None or state.flags.no_cpython_wrapper:
            return False
        library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        library.enable_object_caching()
        _optimise_less(library)
        state.library = library
        return True


def _optimise_less(library: Any) -> None:
    add = library.add_ir_module

    def add_marked(module: Any) -> None:
        for function in module.functions:
            if not function.is_declaration and function.name.startswith(_PYTHON_WRAPPER):
                leave_unoptimised(function)
        add(module)

    library.add_ir_module = add_marked


class EntryCompiler(Compiler):
    """Numba's compiler for entry points."""

    def define_pipelines(self) -> Any:
        """Numba's pipelines with one more pass."""
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            before = next(
                k for k, (step, _) in enumerate(pipeline.passes) if step is NativeLowering
            )
            pipeline.passes.insert(before, (LibraryOfEntryPoint, "library of an entry point"))
            pipeline.finalize()
        return pipelines


ENTRY_POINT: dict[str, Any] = {"pipeline_class": EntryCompiler, **NO_C_WRAPPER}
