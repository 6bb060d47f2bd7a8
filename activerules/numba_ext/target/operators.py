"""Operators with rules become calls, so that Numba neither fuses nor rewrites them.

Needs       Numba IR before types are inferred; which callables carry a rule
Gives       `RuledOperators`, a pass: `a % b` becomes a call of `operator.mod` if that carries a
            rule, so that Numba does not fuse it into an array expression;
            `plain_operator`: the operator that an augmented assignment of numbers falls back to

`x %= y` is `operator.imod`; for numbers, which are immutable, it equals `operator.mod`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from numba.core import ir, types
from numba.core.compiler_machinery import register_pass

from activerules.numba_ext.codegen.protocols import TypingContext, UntypedPass
from activerules.numba_ext.target.marked_calls import CallTable
from activerules.numba_ext.target.rule_function import RuleFunction

_PLAIN: dict[Any, Callable[..., Any]] = {
    getattr(operator, f"i{name}"): getattr(operator, name)
    for name in "add sub mul truediv floordiv mod pow matmul".split()
}


def plain_operator(value: object) -> Callable[..., Any] | None:
    """`operator.mod` for `operator.imod`; None if `value` is no augmented assignment."""
    return _PLAIN.get(value) if type(value) is type(operator.imod) else None


class AugmentedOperator(RuleFunction):
    """The type of `operator.imod` if only `operator.mod` has rules, which then serve numbers."""

    def __init__(self, function: Any, ordinary: Any, table: CallTable) -> None:
        super().__init__(function, ordinary, table)
        self.name = f"Augmented{self.name}"

    def get_call_type(self, context: TypingContext, args: Any, kws: Any) -> Any:
        """The signature of the plain operator for numbers, else of Numba's own assignment."""
        if all(isinstance(ty, types.Number) for ty in args):
            return super().get_call_type(context, args, kws)
        return self.ordinary.get_call_type(context, args, kws)


@register_pass(mutates_CFG=False, analysis_only=False)
class RuledOperators(UntypedPass):
    """Turns unary and binary operators with rules into calls."""

    _name = "activerules_ruled_operators"

    def run_pass(self, state: Any) -> bool:
        """Return whether an operator was replaced."""
        carries_rule = state.typingctx.session.calls.carries_rule
        changed = False
        for block in state.func_ir.blocks.values():
            body: list[Any] = []
            for statement in block.body:
                value: Any = getattr(statement, "value", None)
                if _is_operator(value) and carries_rule(value.fn):
                    body.append(_called(state.func_ir, statement, block.scope))
                    changed = True
                body.append(statement)
            block.body[:] = body
        return changed


def _is_operator(value: Any) -> bool:
    return isinstance(value, ir.Expr) and value.op in ("binop", "unary")


def _called(function: Any, statement: Any, scope: Any) -> Any:
    """Turn the operator of an assignment into a call; return the assignment of the callee, to be
    inserted before it.
    """
    operation = statement.value
    callee = scope.redefine("$activerules_operator", operation.loc)
    operands = [operation.lhs, operation.rhs] if operation.op == "binop" else [operation.value]
    statement.value = ir.Expr.call(callee, operands, (), operation.loc)
    function._definitions[statement.target.name] = [
        statement.value if each is operation else each
        for each in function._definitions[statement.target.name]
    ]
    assigned = ir.Assign(
        ir.Global(operation.fn.__name__, operation.fn, operation.loc), callee, operation.loc
    )
    function._definitions[callee.name].append(assigned.value)
    return assigned
