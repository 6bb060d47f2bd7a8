"""Differentiates rows, each outcome one word or an error: the child process of the page.

    python -m supported.measure INDEX…

prints for each row the line `begin INDEX`, then a line of JSON. What kills the process is the
outcome of the row begun last.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np

import activerules as ar
from activerules.errors import ActiverulesError, RuleCheckError
from activerules.rules.registry import RULES
from activerules.testing.gradient import check_gradient, default_activity
from activerules.testing.numeric import copied, directional_derivative, rand_tangent
from supported.rows import Row

WORKS, RULE, INACTIVE = "works", "rule", "inactive"
GOOD = (WORKS, RULE, INACTIVE)
WRONG = "wrong"


def measure(row: Row) -> dict[str, str]:
    """The outcome of each mode."""
    program, args = row.program(), row.arguments()
    try:
        value = program(*args)
    except Exception:  # Numba also lets assertions fail
        return dict.fromkeys(("reverse", "forward"), "not compiled by Numba in this form")
    if not math.isfinite(value):
        return dict.fromkeys(("reverse", "forward"), f"the row has no value: {value}")
    return {
        "reverse": outcome(lambda: reverse(row, program, args)),
        "forward": outcome(lambda: forward(row, program, args)),
    }


def outcome(attempt: Any) -> str:
    """What `attempt` says, or the refusal."""
    try:
        return attempt()
    except RuleCheckError as error:
        return f"{WRONG}: {error.what}"
    except ar.NotYetSupported as error:
        return f"not yet: {error.what}"
    except ActiverulesError as error:
        return f"refused: {type(error).__name__}: {error.what}"
    except Exception as error:
        return f"{WRONG}: {type(error).__name__}: {str(error).splitlines()[0]}"


def reverse(row: Row, program: Any, args: tuple) -> str:
    """The gradient against finite differences."""
    check_gradient(program, args, seed=1, trials=1)
    return word(row)


def forward(row: Row, program: Any, args: tuple) -> str:
    """The derivative along one direction against finite differences."""
    rng = np.random.default_rng(5)
    active = [default_activity(x) is not ar.Const for x in args]
    tangents = tuple(rand_tangent(x, rng) if a else None for x, a in zip(args, active, strict=True))
    copies = list(map(copied, args))
    annotated = [
        ar.Const(x) if t is None else ar.Duplicated(x, t)
        for x, t in zip(copies, tangents, strict=True)
    ]
    found = float(ar.autodiff(ar.Forward, program, ar.Duplicated, *annotated))
    expected, error = slope(program, args, tangents)
    if not abs(found - expected) <= 10 * error + tolerance(args) * abs(expected) + 1e-9:
        return f"{WRONG}: found {found:.9g}, expected {expected:.9g} ± {error:.1e}"
    return word(row)


def slope(program: Any, args: tuple, tangents: tuple) -> tuple[float, float]:
    """Finite differences of the program on copies of its arguments, with their error."""

    def value(*moved: Any) -> float:
        return float(program(*map(copied, moved)))

    eps = float(np.finfo(np.float32 if tolerance(args) > 1e-6 else np.float64).eps)
    expected, error = directional_derivative(value, args, tangents, eps=eps)
    return float(expected), float(error)


def tolerance(args: tuple) -> float:
    """What rounding may add, relative."""
    single = any(isinstance(x, np.ndarray) and x.dtype == np.float32 for x in args)
    return 2e-4 if single else 1e-8


def word(row: Row) -> str:
    """How a row that is right came to its derivative."""
    function = function_named(row.name)
    if function is not None and RULES.carries_rule(function):
        if RULES.is_inactive(function):
            return INACTIVE
        return RULE if RULES.rules_for(function) else WORKS
    return WORKS


def function_named(name: str) -> Any:
    """`np.linalg.solve (2-D)` -> the function."""
    root, *path = name.partition(" ")[0].split(".")
    found = {"np": np, "math": math}.get(root)
    for part in path:
        found = getattr(found, part, None)
    return found if path else None


def main(indices: list[int]) -> None:
    """The rows at `indices`."""
    from supported import ROWS

    for index in indices:
        print(f"begin {index}", flush=True)
        print(json.dumps(measure(ROWS[index])), flush=True)


if __name__ == "__main__":
    main([int(index) for index in sys.argv[1:]])
