"""How the analyses interpret calls and arithmetic.

A marked call is described by its record, arithmetic by its row in the table of derivatives.
"""

from __future__ import annotations

from activerules.ir.derivatives.rulecall import MARKED_PREFIX, CallInfo, RuleCompiler
from activerules.ir.derivatives.table import is_inactive_math, is_pure_call, row_for
from activerules.ir.llvm.model import Instruction
from activerules.ir.normal.effects import CallEffect

IGNORE_PREFIX = "activerules.ignore."


class EngineCalls:
    """The answers of the table of derivatives and of the rule compiler."""

    def __init__(self, rules: RuleCompiler | None) -> None:
        self._rules = rules
        self._infos: dict[str, CallInfo] = {}

    def marked(self, call: Instruction) -> CallInfo | None:
        """The record of a marked call; None for any other instruction."""
        name = call.callee_name
        if name is None or self._rules is None or not name.startswith(MARKED_PREFIX):
            return None
        if name not in self._infos:
            self._infos[name] = self._rules.call_info(name)
        return self._infos[name]

    def marked_effect(self, call: Instruction) -> CallEffect | None:
        """The effect of a marked call on memory: it fills its result, and may write arguments."""
        info = self.marked(call)
        if info is None:
            return None
        reads = [k for a in info.arguments for k in a.memory_operands]
        writes = [k for a in info.arguments if a.written for k in a.memory_operands]
        written = [a for a in info.arguments if a.container and a.written]
        follows = [k for a in written for k in a.memory_operands]
        return CallEffect(
            reads=tuple(reads),
            writes=(0, 1, *writes),
            follows=tuple(follows),
            replaces_pointers=not written or any(a.replaces_pointers for a in written),
            hands_out=info.hands_out,
        )

    def is_arithmetic(self, call: Instruction) -> bool:
        """Whether a call has no effect but its result."""
        name = call.callee_name or ""
        return name.startswith(IGNORE_PREFIX) or is_pure_call(name) or is_inactive_math(name)

    def smooth_operands(self, instruction: Instruction) -> tuple[int, ...] | None:
        """Indices of the operands on which its float result depends smoothly; None: not known."""
        name = instruction.callee_name if instruction.opcode == "call" else None
        if name is not None and (name.startswith(IGNORE_PREFIX) or is_inactive_math(name)):
            return ()
        if instruction.opcode in {"sitofp", "uitofp", "bitcast"}:
            return ()
        row = row_for(instruction)
        if row is None:
            return None
        return tuple(k for k, partial in enumerate(row.partials) if partial is not None)
