"""Whether a compiled function only reads its array arguments, as proved by LLVM.

Needs       Numba's compile result of a function
Gives       `only_reads_arrays`: true if nothing is written through an argument's arrays;
            `arguments_read`: the arguments whose arrays may be read
Invariants  O1  conservative: a pointer that is stored in memory, or passed to code that is not
                visible, counts as written through
Cost        that of optimising the function once more: 0.1 s for a few lines

Numba's read-only array types do not guarantee it: `x.flat[i] = y`, `np.dot(a, b, out=x)` and the
result of `np.ascontiguousarray(x)` write into them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import llvmlite.binding as llvm
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock

from activerules.ir.text.normalise import target_machine
from activerules.ir.text.symbols import with_parameters
from activerules.numba_ext.target.symbols import BLAS_INPUTS
from activerules.values.kinds import items_of

# The field of Numba's array structure that points to the items.
_DATA = 4


@global_compiler_lock
def only_reads_arrays(compiled: Any, position: int) -> bool:
    """Whether a function writes into no array of the argument at `position`, which may be an array
    or a tuple with arrays.
    """
    name = compiled.fndesc.args[position]
    wanted = set(_data_pointers(f"arg.{name}", compiled.signature.args[position]))
    proved = _proved(compiled)
    return all(proved.get(pointer, frozenset()) & _READ for pointer in wanted)


_READ = frozenset({b"readonly", b"readnone"})


@global_compiler_lock
def arguments_read(compiled: Any, values: Mapping[int, types.Type]) -> set[int]:
    """The positions of arguments whose arrays a rule function may read; the arguments at these
    positions are annotations of values of these types.
    """
    proved = _proved(compiled)
    names = compiled.fndesc.args
    return {
        position
        for position, ty in values.items()
        for pointer in _data_pointers(f"arg.{names[position]}.0", ty)
        if b"readnone" not in proved.get(pointer, ())
    }


def _data_pointers(path: str, ty: types.Type) -> Iterator[str]:
    """The names that Numba gives to the parameters that point to the items of arrays."""
    if isinstance(ty, types.Array):
        yield f"{path}.{_DATA}"
    elif isinstance(ty, types.BaseTuple):
        for i, item in enumerate(items_of(ty)):
            yield from _data_pointers(f"{path}.{i}", item)


def _proved(compiled: Any) -> dict[str, frozenset[bytes]]:
    """The attributes of each parameter after LLVM's passes, which run on a copy."""
    name = compiled.fndesc.llvm_func_name
    text = str(compiled.library._get_module_for_linking())
    # the BLAS wrappers only read these operands
    module = llvm.parse_assembly(with_parameters(text, BLAS_INPUTS, "nocapture readonly"))
    for function in module.functions:
        # LLVM proves nothing about a definition that the linker may replace.
        if not function.is_declaration:
            function.linkage = "external" if function.name == name else "internal"
    builder = llvm.create_pass_builder(
        target_machine(), llvm.create_pipeline_tuning_options(speed_level=2)
    )
    builder.getModulePassManager().run(module, builder)
    arguments = module.get_function(name).arguments
    return {argument.name: frozenset(argument.attributes) for argument in arguments}
