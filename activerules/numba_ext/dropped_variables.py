"""Variables that a function drops wherever it ends, also by an exception.

Needs       Numba's lowering of a function; who says whether that is wanted (`drops_variables`)
Gives       `DropsVariables`, for what lowers a function
            `DroppingCompiler`: Numba's pipeline for one that always drops its variables
Invariants  V1  every variable is in a place on the stack, which is null where it holds nothing
            V2  where the function raises, all are dropped; where it ends otherwise, those that an
                exception that was caught has left, and what is returned or kept is not

Numba writes down where a variable ends, but not where the exception of a callee passes through, or
is caught. What is lost there is otherwise found in what LLVM makes of the function
(`ir/held_references`); but not what flows together with references in memory that LLVM has not
made values of, as the state of a generator may be.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from weakref import WeakSet

from llvmlite import ir
from numba.core import ir as numba_ir
from numba.core import types
from numba.core.callconv import RETCODE_NONE, RETCODE_OK, RETCODE_STOPIT
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.runtime.context import NRTContext
from numba.core.typed_passes import NativeLowering

_dropping: WeakSet[Any] = WeakSet()
"""Libraries of functions that drop their variables."""

_INTRINSICS = "activerules.numba_ext."
"""Where functions come from that may release what their caller holds, when they raise."""

_RETURNS = (RETCODE_OK, RETCODE_NONE, RETCODE_STOPIT)


class DropsVariables(Lower):
    """Lowers a function; see the module docstring."""

    def drops_variables(self) -> bool:
        """Whether this function drops its variables: what it passes to one that does may flow
        together with what is in memory there, and so may what it passes to a derivative.
        """
        calls = self.fndesc.calltypes.items()
        return any(self._is_dropping(i, signature) for i, signature in calls)

    def _is_dropping(self, i: Any, signature: Any) -> bool:
        if not isinstance(i, numba_ir.Expr) or i.op != "call":
            return False
        callee = self.typeof(i.func.name)
        if isinstance(callee, types.Dispatcher):
            compiled = callee.dispatcher.overloads.get(tuple(signature.args))
            return compiled is not None and compiled.library in _dropping
        module = str(getattr(getattr(callee, "typing_key", None), "__module__", ""))
        return module.startswith("activerules.") and not module.startswith(_INTRINSICS)

    def init(self) -> None:
        """Begin: what is in a place, and not only known while a block is lowered (V1)."""
        super().init()
        self._drops = self.context.enable_nrt and self.drops_variables()
        self._catches = False
        self._left: list[tuple[ir.Instruction, Collection[str]]] = []
        if self._drops:
            self._singly_assigned_vars = set()
            _dropping.add(self.library)

    def raising(self) -> list[tuple[ir.Block, ir.Instruction]]:
        """The blocks that end with the status of an exception, and how."""
        ends = [(block, block.terminator) for block in self.function.blocks]
        return [(block, end) for block, end in ends if _raises(end)]

    def drop_variables(self) -> None:
        """Drop the variables where the function ends, when all places are known (V2)."""
        if not self._drops:
            return
        for _, end in self.raising():
            self._drop_before(end, ())
        for end, kept in self._left if self._catches else ():
            self._drop_before(end, kept)

    def leaves(self, kept: Collection[str]) -> None:
        """Note that the function ends here, and variables that are returned or kept."""
        block: Any = self.builder.block
        self._left.append((block.terminator, kept))

    def lower_inst(self, inst: Any) -> None:
        """A statement; if it is a return, note that."""
        before: Any = self.builder.block
        known = len(self.function.blocks)
        super().lower_inst(inst)
        if isinstance(inst, numba_ir.Return):  # what may be None is returned in one of two blocks
            for block in (before, *self.function.blocks[known:]):
                if isinstance(block.terminator, ir.Ret):
                    self._left.append((block.terminator, {inst.value.name}))

    def pre_block(self, block: Any) -> None:
        """Begin with a block; if it is in a `try`, note that."""
        super().pre_block(block)
        self._catches |= hasattr(self.builder, "_in_try_block")

    def _drop_before(self, end: ir.Instruction, kept: Collection[str]) -> None:
        b = self.builder
        b.position_before(end)
        for name in sorted(self.varmap.keys() - kept):
            typ, place = self.typeof(name), self.varmap[name]
            if self.context.data_model_manager[typ].contains_nrt_meminfo():
                NRTContext.decref(self.context.nrt, b, typ, b.load(place))


class _Always(DropsVariables):
    def drops_variables(self) -> bool:
        return True

    def post_lower(self) -> None:
        self.drop_variables()
        super().post_lower()


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    _name = "activerules_lowering_that_drops"

    @property
    def lowering_class(self) -> Any:
        return _Always


class DroppingCompiler(CompilerBase):
    """Numba's nopython pipeline; pass it as `pipeline_class` to compile code of our own that calls
    what may raise.
    """

    def define_pipelines(self) -> list[Any]:
        """Return the one pipeline."""
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [
            (_Lowering, why) if one is NativeLowering else (one, why)
            for one, why in pipeline.passes
        ]
        pipeline.finalize()
        return [pipeline]


def _raises(end: Any) -> bool:
    """Whether a block ends with the status of an exception."""
    return isinstance(end, ir.Ret) and end.operands[0] not in _RETURNS
