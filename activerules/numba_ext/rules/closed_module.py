"""One module of compiled code and all that it calls, to be linked into derivatives.

Needs       a code library of the CPU target, the functions of it that are called from outside
Gives       `alone`: the module, optimised; `library_of`: a library of it
Invariants  A1  only what is called from outside can be seen there
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import llvmlite.binding as llvm

from activerules.ir.normal.normalise import scalar_tuning, target_machine
from activerules.numba_ext.codegen.link import leave_to_caller
from activerules.numba_ext.codegen.unlinked import cpu_context
from activerules.numba_ext.target.symbols import SHARED


def alone(library: Any, stem: str, exported: Collection[str]) -> Any:
    """One module of a library and all it links, which gives the `exported` functions; other names
    in it are told from those of other modules by `stem`.
    """
    # Numba keeps the module that it hands out.
    module = library._get_module_for_linking().clone()
    for one in (*module.functions, *module.global_variables):
        if one.is_declaration or one.name.startswith(SHARED):
            continue
        if one.name in exported:
            one.linkage = "external"
            continue
        one.linkage = "internal"
        # The JIT finds internal symbols, too: Numba's own code would call these, whose parameters
        # the passes change.
        one.name = f"{one.name}.{stem}"
    builder = llvm.create_pass_builder(target_machine(), scalar_tuning())
    builder.getModulePassManager().run(module, builder)
    counts = llvm.create_new_module_pass_manager()
    counts.add_refprune_pass()
    counts.run(module, builder)
    return module


def library_of(name: str, module: Any) -> Any:
    """A library of a module, left for its callers to optimise."""
    library = cpu_context().codegen().create_library(name)
    leave_to_caller(library)
    library.add_llvm_module(module)
    library.finalize()
    return library
