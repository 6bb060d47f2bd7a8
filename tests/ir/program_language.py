"""The language of random programs: its limits, and what all of its forms share."""

from __future__ import annotations

from typing import Any

LENGTH, MASK, OFFSETS = 12, 7, 3
FLOATS, INTEGERS, POINTERS = 4, 3, 2
UNARY = ("sin", "cos", "tanh", "soft", "root", "neg", "fabs", "exps")
Node = tuple[Any, ...]


def most_slots(body: list[Node]) -> int:
    """Number of integer slots the statements use."""
    count = INTEGERS
    for statement in body:
        if statement[0] == "for":
            count = max(count, statement[1] + 1)
        for part in statement:
            for inner in [part] if _is_body(part) else part if isinstance(part, list) else []:
                count = max(count, most_slots(inner))
    return count


def _is_body(part: Any) -> bool:
    return isinstance(part, list) and all(isinstance(s, tuple) for s in part)
