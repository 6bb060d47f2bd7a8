"""An frule as a forward rule of the engine.

    rule(deltas, f, x, y) -> (z, dz)          forward(config, ret, x, y) -> (z, dz)

Nothing is captured, so nothing has to be converted: the rule is called with the tangents of its
arguments, zeros for Const ones, and the tangent it returns is copied if it shares their memory.
"""

from __future__ import annotations

from typing import Any

from activerules.annotations.tangents import NoTangent
from activerules.rules.closures.delivery import pushed, separate, tangent
from activerules.rules.written import definition, function_from


def forward_rule(rule: Any, function: Any, names: tuple[str, ...], compiled: Any) -> Any:
    """Return the forward rule that calls an frule; `compiled` is the frule for compiled code."""
    primals = [f"x{i}" for i in range(len(names))]
    lines = [
        f"deltas = ({', '.join(['own', *(f'tangent({x})' for x in primals)])})",
        f"y, dy = rule({', '.join(['deltas', 'function', *(f'{x}.val' for x in primals)])})",
        "dy = pushed(y, dy)",
        *(f"dy = separate(dy, {x})" for x in primals),
        "return y, dy",
    ]
    scope: dict[str, Any] = {
        "function": function,
        "own": NoTangent(),
        "pushed": pushed,
        "rule": compiled,
        "separate": separate,
        "tangent": tangent,
    }
    source = definition("forward", ("config", "ret", *primals), lines)
    return function_from(source, "forward", scope, module=__name__, like=rule)
