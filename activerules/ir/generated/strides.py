"""Subscripts along axes that may have length one, so that LLVM need not copy the loops around them.

Needs       generated functions, before they are printed; marks of `ir/normal/short_axes`
Gives       `scale_subscripts`: a marked `condition ? i : 0` becomes `i * step`, where `step`, 1 or
            0, is loaded from a table that LLVM does not know to be constant
Invariants  S1  a subscript that was marked has the value it had
            S2  all other instructions stay as they are

Loop unswitching copies a nest of loops for each such condition: for two operands with four axes up
to 256 times, until a limit stops it. A stride leaves all loops instead. LLVM must not see what the
table holds: a product with a boolean becomes the select again. Innermost loops are left to
`ir/generated/plain_loops`.
"""

from __future__ import annotations

from collections.abc import Iterable

from activerules.ir.llvm.builder import Builder, Namer
from activerules.ir.llvm.model import Constant, Function, GlobalRef, Instruction
from activerules.ir.llvm.types import I64
from activerules.ir.normal.short_axes import ROW, SHORT_AXIS

_TABLE = "activerules.steps"
_DEFINITION = f"@{_TABLE} = linkonce_odr global [3 x i64] [i64 0, i64 1, i64 0]"


def scale_subscripts(functions: Iterable[Function], declarations: dict[str, str]) -> None:
    """Replace the marked subscripts; the table is defined in `declarations`."""
    for function in functions:
        marked = [i for i in function.instructions() if i.attributes.get(SHORT_AXIS) == ROW]
        namer = Namer("step", {i.name for i in function.instructions() if i.name})
        for i in marked:
            inserted: list[Instruction] = []
            _scale(i, Builder(inserted, namer))
            i.owner.insert(i.owner.instructions.index(i), *inserted)
            declarations[_TABLE] = _DEFINITION


def _scale(i: Instruction, b: Builder) -> None:
    condition, first, second = i.operands
    from_first = isinstance(second, Constant)
    start = b.gep(I64, GlobalRef(_TABLE), [b.const(I64, 0 if from_first else 1)])
    at = b.gep(I64, start, [b.cast("zext", condition, I64)])
    step = b.load(I64, at, 8, metadata=", !invariant.load !{}")
    i.opcode, i.operands = "mul", [first if from_first else second, step]
