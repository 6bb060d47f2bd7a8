"""Machine code that derivatives call instead of containing it: of rules too large to be inlined.

Needs       a module, optimised or not, and the names of the functions in it that others call
Gives       `MachineCode`; `compiled`: that of a module; `is_called`: whether LLVM would call the
            functions of a module even where it could inline them
Invariants  M1  whatever calls machine code was compiled after that was loaded, or runs after it:
                code on disk loads the machine code that it calls, which it contains, before itself
            M2  nothing in it is undefined where it is loaded: LLVM would end the process
            M3  a process loads the machine code of one name once

LLVM optimises a derivative together with all that it links. A rule as large as a product of
matrices is never inlined; as part of each derivative that uses it, it would be optimised and
translated again for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime.nrt import rtsys

from activerules.numba_ext.codegen.link import (
    check_symbols,
    declared_in,
    environments_of,
    leave_as_is,
    provide_environments,
    start_threads_for,
    undefined_symbols,
)
from activerules.numba_ext.codegen.numba_versions import RELOADS
from activerules.numba_ext.codegen.on_disk import pass_on, prepare
from activerules.numba_ext.codegen.unlinked import cpu_context

# LLVM inlines up to a cost of 250, and an instruction costs 5. Twice that: some cost nothing.
_INSTRUCTIONS = 100

# by name: machine code, and the library that keeps it in the process
_loaded: dict[str, tuple[MachineCode, Any]] = {}


@dataclass(frozen=True)
class MachineCode:
    """Machine code with the functions `symbols`; a part of the code on disk that calls it.

    name          is made from all that the code depends on
    environments  names of the Numba environments that it reads
    needs         what to call first: other machine code, vector functions, Numba's threads
    external      the symbols that it finds in the process
    """

    name: str
    symbols: tuple[str, ...]
    code: bytes
    environments: tuple[str, ...]
    needs: tuple[Callable[[], None], ...]
    external: tuple[str, ...]

    def __call__(self) -> None:
        """Called before code on disk is loaded that calls this."""
        self.load()
        pass_on(self)

    @global_compiler_lock
    def load(self) -> None:
        """Make the functions known to code that is compiled or loaded from now on.

        Raises `UnknownCall` if something that they call is not in this process.
        """
        if self.name in _loaded:
            return
        prepare(self.needs)
        start_threads_for(self.external)
        missing = [each for each in self.external if llvm.address_of_symbol(each) is None]
        check_symbols(self.name, missing)
        codegen: Any = cpu_context().codegen()
        provide_environments(codegen, self.name, self.environments)
        library = codegen.create_library(self.name)
        library.enable_object_caching()
        library._set_compiled_object(self.code)
        library._finalize_final_module()
        _loaded[self.name] = self, library


def is_called(module: Any, symbols: Sequence[str], *, optimised: bool = True) -> bool:
    """Whether LLVM inlines none of these functions of a module, most likely if that is not
    optimised yet.
    """
    least = _INSTRUCTIONS if optimised else 2 * _INSTRUCTIONS
    sizes = (
        sum(1 for block in module.get_function(symbol).blocks for _ in block.instructions)
        for symbol in symbols
    )
    return all(size >= least for size in sizes)


@global_compiler_lock
def compiled(
    name: str, module: Any, symbols: Sequence[str], needs: Sequence[Callable[[], None]]
) -> MachineCode | None:
    """The machine code of a module that is not bound to the process, loaded; None if code on disk
    could not ask for it (Numba 0.62), or if something in the module is undefined (M2).
    """
    if name in _loaded:  # by code on disk
        return _loaded[name][0]
    called = [part for part in needs if isinstance(part, MachineCode)]
    known = {symbol for part in called for symbol in part.symbols}
    if not RELOADS or not known.issuperset(undefined_symbols(module, [rtsys.library])):
        return None
    external = [each for each in declared_in(module, [rtsys.library]) if each not in known]
    codegen: Any = cpu_context().codegen()
    environments = environments_of(module, name)
    provide_environments(codegen, name, environments)
    library = codegen.create_library(name)
    library.enable_object_caching()
    library._optimize_functions = leave_as_is  # `finalize` optimises the module
    library.add_llvm_module(module)
    library.add_linking_library(rtsys.library)
    library.finalize()
    code = library._get_compiled_object()
    loaded = MachineCode(name, tuple(symbols), code, environments, tuple(needs), tuple(external))
    _loaded[name] = loaded, library
    return loaded
