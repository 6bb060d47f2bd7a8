"""What is asked of every kind of value, the columns of docs/values.md: its child process.

    python -m supported.value_cells KIND [COLUMN…]

prints for each cell the line `begin COLUMN`, then a line of JSON. What kills the process is the
outcome of the cell begun last. Derivatives are compared with finite differences of the program.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numba.core.errors import NumbaError

import activerules as ar
from activerules.errors import ActiverulesError
from activerules.testing import central_fdm
from supported.value_kinds import KINDS, Kind, use_optional

X, Y = np.array([0.7, 1.2, 0.9]), 1.3
BEFORE = np.array([2.0, -1.0, 3.0])  # what is in a shadow before
ALONG, Y_ALONG = np.array([0.4, -0.3, 0.8]), 0.5
WEIGHTS = np.array([1.0, 2.0, 3.0])
WORKS, REFUSED = "works", "refused"

Program = Callable[[np.ndarray, float], float]
# derivatives by the three numbers, and by y if it is there, and what they are derivatives of
Found = tuple[list[float], Program]
Column = Callable[[Kind], Found]


def argument(kind: Kind) -> Found:
    """`autodiff(Reverse, use, Active, Duplicated(v, dv), Active(y))`"""
    v, dv = kind.of(X), kind.of(BEFORE)
    found = ar.autodiff(ar.Reverse, kind.use, ar.Active, ar.Duplicated(v, dv), ar.Active(Y))
    return [*(kind.numbers(dv) - BEFORE), found[-1]], used(kind)


def used(kind: Kind) -> Program:
    return lambda x, y: kind.use(kind.of(x), y)


def forward(kind: Kind) -> Found:
    """`autodiff(Forward, use, Duplicated, Duplicated(v, dv), Duplicated(y, dy))`"""
    v, dv = kind.of(X), kind.of(ALONG)
    found = ar.autodiff(
        ar.Forward, kind.use, ar.Duplicated, ar.Duplicated(v, dv), ar.Duplicated(Y, Y_ALONG)
    )
    return [found], along(kind)


def along(kind: Kind) -> Program:
    """The value where all has moved along one direction, as far as the first number."""

    def program(x: np.ndarray, y: float) -> float:
        t = x[0] - X[0]
        return kind.use(kind.of(X + t * ALONG), y + t * Y_ALONG)

    return program


def gradient(kind: Kind) -> Found:
    """`grad(use, argnums=(0, 1))(v, y)`"""
    v_bar, y_bar = ar.grad(kind.use, argnums=(0, 1))(kind.of(X), Y)
    return [*kind.numbers(v_bar), y_bar], used(kind)


def argument_of_rule(kind: Kind) -> Found:
    """`autodiff(Reverse, …)` of a caller of a function with a rule, with respect to `v` and `y`"""
    program = calling_rule(kind)
    v, dv = kind.of(X), kind.of(BEFORE)
    found = ar.autodiff(ar.Reverse, program, ar.Active, ar.Duplicated(v, dv), ar.Active(Y))
    return [*(kind.numbers(dv) - BEFORE), found[-1]], lambda x, y: kind.use(kind.of(x), y) * y


def calling_rule(kind: Kind) -> Any:
    ruled = with_rule(kind)
    return njit(lambda v, y: ruled(v, y) * y)


def with_rule(kind: Kind) -> Any:
    """A function of v and y with a rule."""
    use, push = kind.use, kind.push

    @njit
    def ruled(v, y):
        return use(v, y)

    @ar.augmented_primal(ruled)
    def _(config, ret: ar.Active, v: ar.Duplicated, y: ar.Active):
        return ar.AugmentedReturn(use(v.val, y.val), None, None)

    @ar.reverse(ruled)
    def _(config, dret: ar.Active, tape, v: ar.Duplicated, y: ar.Active):
        return push(v.val, v.dval, y.val, dret.val)

    return ruled


def result(kind: Kind) -> Found:
    """`out, pullback = vjp(make, x, y); pullback(v_bar)`"""
    _, pullback = ar.vjp(kind.make, kind.x(X), Y)
    x_bar, y_bar = pullback(kind.of(WEIGHTS))
    return [*kind.numbers_in_x(x_bar), y_bar], made(kind)


def made(kind: Kind) -> Program:
    return lambda x, y: kind.numbers(kind.make(kind.x(x), y)) @ WEIGHTS


def result_of_rule(kind: Kind) -> Found:
    """`grad` of a function that uses the result of one with a rule, with respect to `x` and `y`"""
    make, pull, use = kind.make, kind.pull, kind.use

    @njit
    def ruled(x, y):
        return make(x, y)

    @ar.augmented_primal(ruled)
    def _(config, ret: ar.Duplicated, x: ar.Duplicated, y: ar.Active):
        v = make(x.val, y.val)
        dv = ar.make_zero(v)
        return ar.AugmentedReturn(v, dv, (x.val.copy(), dv))

    @ar.reverse(ruled)
    def _(config, dret: ar.Duplicated, tape, x: ar.Duplicated, y: ar.Active):
        return pull(tape[0], x.dval, y.val, tape[1])

    program = njit(lambda x, y: use(ruled(x, y), y))
    x_bar, y_bar = ar.grad(program, argnums=(0, 1))(kind.x(X), Y)
    return [*kind.numbers_in_x(x_bar), y_bar], lambda x, y: use(make(kind.x(x), y), y)


def split(kind: Kind) -> Found:
    """`autodiff_thunk(ReverseSplitWithPrimal, use, Active, Duplicated, Active)`"""
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitWithPrimal, kind.use, ar.Active, ar.Duplicated, ar.Active
    )
    v, dv = kind.of(X), kind.of(BEFORE)
    args = ar.Duplicated(v, dv), ar.Active(Y)
    tape, _, _ = augmented(*args)
    found = reverse(*args, 1.0, tape)
    return [*(kind.numbers(dv) - BEFORE), found[-1]], used(kind)


def jacobian_by(kind: Kind) -> Found:
    """`jacobian(f)(v, y)`, where `f` returns an array of `use(v, y)`"""
    use = kind.use
    both = njit(lambda v, y: np.array([use(v, y), use(v, y) * y]))
    rows = kind.rows_by(ar.jacobian(both)(kind.of(X), Y))
    return [*(np.array([1.0, 2.0]) @ rows)], lambda x, y: both(kind.of(x), y) @ [1.0, 2.0]


def jacobian_of(kind: Kind) -> Found:
    """`jacobian(make)(x, y)`"""
    rows = kind.rows_of(ar.jacobian(kind.make)(kind.x(X), Y))
    return [*(WEIGHTS @ rows)], made(kind)


def nested(kind: Kind) -> Found:
    """`autodiff(Reverse, …)` of `grad(use, 1)(v, y) * y`, with respect to `v` and `y`"""
    use = kind.use
    slope = njit(lambda v, y: ar.grad(use, argnums=1)(v, y) * y)
    v, dv = kind.of(X), kind.of(BEFORE)
    found = ar.autodiff(ar.Reverse, slope, ar.Active, ar.Duplicated(v, dv), ar.Active(Y))
    # ∂use/∂y · y = 2 use
    return [*(kind.numbers(dv) - BEFORE), found[-1]], lambda x, y: 2.0 * kind.use(kind.of(x), y)


COLUMNS: dict[str, Column] = {
    "argument": argument,
    "forward": forward,
    "grad": gradient,
    "argument of a rule": argument_of_rule,
    "result": result,
    "result of a rule": result_of_rule,
    "split": split,
    "Jacobian by it": jacobian_by,
    "Jacobian of it": jacobian_of,
    "nested": nested,
}


# --- what may be None is so in compiled code alone: there a function is called with it ---


@njit
def perhaps(x, y):
    return x if y > 0.0 else None


def optional_argument(kind: Kind) -> Found:
    @njit
    def program(x, dx, y):
        pair = ar.Duplicated(perhaps(x, y), perhaps(dx, y))
        return ar.autodiff(ar.Reverse, use_optional, ar.Active, pair, ar.Active(y))

    dv = BEFORE.copy()
    found = program(X, dv, Y)
    return [*(dv - BEFORE), found[-1]], used(kind)


def optional_forward(kind: Kind) -> Found:
    @njit
    def program(x, dx, y):
        pair = ar.Duplicated(perhaps(x, y), perhaps(dx, y))
        return ar.autodiff(ar.Forward, use_optional, ar.Duplicated, pair, ar.Duplicated(y, Y_ALONG))

    return [program(X, ALONG, Y)], along(kind)


def optional_gradient(kind: Kind) -> Found:
    program = njit(lambda x, y: ar.grad(use_optional, argnums=(0, 1))(perhaps(x, y), y))
    v_bar, y_bar = program(X, Y)
    return [*v_bar, y_bar], used(kind)


def optional_argument_of_rule(kind: Kind) -> Found:
    ruled = with_rule(kind)
    program = njit(lambda x, y: ruled(perhaps(x, y), y) * y)
    x_bar, y_bar = ar.grad(program, argnums=(0, 1))(X, Y)
    return [*x_bar, y_bar], lambda x, y: kind.use(kind.of(x), y) * y


def optional_split(kind: Kind) -> Found:
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitWithPrimal, use_optional, ar.Active, ar.Duplicated, ar.Active
    )

    @njit
    def program(x, dx, y):
        pair = ar.Duplicated(perhaps(x, y), perhaps(dx, y))
        tape, _, _ = augmented(pair, ar.Active(y))
        return reverse(pair, ar.Active(y), 1.0, tape)

    dv = BEFORE.copy()
    found = program(X, dv, Y)
    return [*(dv - BEFORE), found[-1]], used(kind)


def optional_jacobian(kind: Kind) -> Found:
    both = njit(lambda v, y: np.array([use_optional(v, y), use_optional(v, y) * y]))
    rows = njit(lambda x, y: ar.jacobian(both)(perhaps(x, y), y))(X, Y)
    return [*(np.array([1.0, 2.0]) @ rows)], lambda x, y: both(x, y) @ [1.0, 2.0]


def optional_nested(kind: Kind) -> Found:
    program = njit(lambda x, y: ar.grad(use_optional, argnums=1)(perhaps(x, y), y) * y)
    x_bar, y_bar = ar.grad(program, argnums=(0, 1))(X, Y)
    return [*x_bar, y_bar], lambda x, y: 2.0 * kind.use(kind.of(x), y)


OF_OPTIONAL: dict[str, Column] = {
    "argument": optional_argument,
    "forward": optional_forward,
    "grad": optional_gradient,
    "argument of a rule": optional_argument_of_rule,
    "split": optional_split,
    "Jacobian by it": optional_jacobian,
    "nested": optional_nested,
}


# --- outcomes ---


def measure(kind: Kind, column: str) -> dict[str, str]:
    """The outcome of a cell: that it works, that it is refused and why, or what is wrong."""
    attempt = COLUMNS[column]
    if kind.use is use_optional:
        attempt = OF_OPTIONAL.get(column, attempt)
    try:
        found, program = attempt(kind)
    except Exception as error:
        return refusal(error)
    return compared(found, program)


def refusal(error: BaseException) -> dict[str, str]:
    """What an error says; of an error of Numba's, what the one of ours says that it was made of."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, ActiverulesError):
        seen = seen.__cause__ or seen.__context__
    if isinstance(seen, ActiverulesError):
        what, why = readable(seen.what), readable(seen.why)
        instead = readable("; or ".join(seen.instead))
        named = {"outcome": REFUSED, "error": type(seen).__name__}
        return {**named, "what": what, "why": why, "instead": instead}
    outcome = "not compiled by Numba" if isinstance(error, NumbaError) else "wrong"
    what = readable(str(error))[:200]
    return {"outcome": outcome, "error": type(error).__name__, "what": what, "why": ""}


def readable(text: str) -> str:
    """In one line, without the addresses that Numba's names of classes have."""
    return re.sub(r"#[0-9a-f]+", "", " ".join(text.split()))


def compared(found: list[float], program: Program) -> dict[str, str]:
    """Against finite differences."""
    for k, one in enumerate(found):

        def moved(t: float, k: int = k) -> float:
            numbers = np.array([*X, Y])
            numbers[k] += t
            return float(program(numbers[:-1], numbers[-1]))

        expected, error = central_fdm(5, 1).estimate(moved, 0.0)
        if not abs(one - expected) <= 10 * error + 1e-8 * abs(expected) + 1e-10:
            what = f"derivative {k}: found {one:.9g}, expected {expected:.9g} ± {error:.1e}"
            return {"outcome": "wrong", "error": "", "what": what, "why": ""}
    return {"outcome": WORKS}


def main(title: str, columns: list[str]) -> None:
    """These cells of the kind with this title; all, if none are named."""
    (kind,) = (kind for kind in KINDS if kind.title == title)
    for column in columns or COLUMNS:
        print(f"begin {column}", flush=True)
        print(json.dumps(measure(kind, column)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
