# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""What editors and type checkers know of user code; read by pyright in `make lint`, never run.

A line with `pyright: ignore` must be reported: an ignore that is not needed is an error here.
"""

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np
from numba import njit
from numpy.typing import NDArray

import activerules as ar

Array = NDArray[np.float64]


@njit
def loss(x: Array, scale: float = 1.0) -> float:
    return scale * float((x * x).sum())


def plain(x: float, k: int) -> float:
    return x**k


@njit
def with_aux(x: float) -> tuple[float, int]:
    return x * x, 3


x = np.ones(3)

# the parameters of a derivative are those of the function
ar.grad(loss)(x, scale=2.0)
ar.grad(plain, argnums="x", cache=True)(2.0, 3)
ar.grad(plain)("two", 3)  # pyright: ignore[reportArgumentType]
ar.grad(plain)(2.0)  # pyright: ignore[reportCallIssue]
ar.jacobian(plain)(2.0, power=3)  # pyright: ignore[reportCallIssue]
ar.hessian(plain)(2.0, 3)
ar.jacfwd(plain, (0,))(2.0, 3)
ar.jacrev(plain, has_aux=True)(2.0, 3)

value, slope = ar.value_and_grad(plain)(2.0, 3)
assert_type(value, float)
assert_type(ar.value_and_grad(with_aux, has_aux=True)(2.0)[0], tuple[float, int])

# products, pushforwards and pullbacks have the type of the result
assert_type(ar.hvp(plain)(2.0, 1.0, 3), float)
assert_type(ar.hvp(plain, 2.0, 1.0, 3), float)
assert_type(ar.jvp(plain, (2.0, 3), (1.0, None)), tuple[float, Any])
out, pullback = ar.vjp(plain, 2.0, 3)
assert_type(out, float)
assert_type(pullback, Callable[[Any], tuple[Any, ...]])
_, _, aux = ar.vjp(with_aux, 2.0, has_aux=True)
assert_type(aux, int)
assert_type(ar.checkpoint(plain)(2.0, 3), float)

# modes, annotations, rules
derivatives = ar.autodiff(ar.Reverse.strong_zero(), plain, ar.Active(2.0), ar.Const(3))
ar.Reverse.strong_zeros()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
report = ar.explain(loss, ar.Duplicated(x, np.zeros_like(x)), 1.0)
assert_type(str(report), str)
assert_type([kept.bytes for kept in report.cached], list[int])


@ar.augmented_primal(plain)
def plain_augmented(config: Any, ret: ar.Active, x: ar.Active, k: ar.Const):
    return ar.AugmentedReturn(plain(x.val, k.val), None, x.val)


@ar.reverse(plain)
def plain_reverse(config: Any, dret: ar.Active, tape: float, x: ar.Active, k: ar.Const):
    return (k.val * tape ** (k.val - 1) * dret.val,)


assert_type([str(rule) for rule in ar.rules_for(plain)], list[str])
ar.chainrules.rrule(plain, 2.0, 3)
ar.testing.check_gradient(plain, (2.0, 3))
