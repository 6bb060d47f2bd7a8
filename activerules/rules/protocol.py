"""What rules are passed and what they return and call, as plain Python.

The compiled forms of `RuleConfig`, `AugmentedReturn`, `active` and `accumulate` (in `numba_ext`)
mean the same; a rule can be called and tested without compiling it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from activerules.annotations.activity import Annotation, Const
from activerules.annotations.containers import is_array, is_tuple
from activerules.annotations.tangents import is_zero
from activerules.errors import RuleReturnError


@dataclass(frozen=True)
class RuleConfig:
    """Facts about the call a rule is compiled for; each is a compile-time constant in the rule.

    needs_primal  whether the result may be read: by the program, by `reverse` in `dret`, or by a
                  caller that asked for the value with the derivative. If not, a rule may return
                  None for it. (An array is kept for `dret`; `vjp`, and so `jacrev`, return the
                  value.)
    needs_shadow  whether the rule has to return a shadow: it is for a Duplicated result; in forward
                  mode, whether the tangent is used
    width         the number of shadows of a Duplicated argument
    overwritten   per argument, whether its memory may change before `reverse` runs
    written       per argument, whether the function itself may write into its memory
    """

    overwritten: tuple[bool, ...] = ()
    needs_primal: bool = True
    needs_shadow: bool = True
    width: int = 1
    runtime_activity: bool = False
    strong_zero: bool = False
    written: tuple[bool, ...] = ()


class AugmentedReturn(NamedTuple):
    """What `augmented_primal` returns: the result, its shadow of zeros, and what `reverse` needs.

    `shadow` is None unless the result is Duplicated; `tape` is any value Numba can type.
    """

    primal: Any = None
    shadow: Any = None
    tape: Any = None


def active(x: Annotation) -> bool:
    """Whether an argument of a rule carries a derivative; a constant in compiled rules."""
    return not isinstance(x, Const)


def accumulate(x: Annotation, g: Any) -> None:
    """Add `g` to the shadow of a Duplicated argument; do nothing for a Const one.

    `g` is converted to the dtype of the shadow: a real shadow gets the real part of a complex `g`.
    Raises `RuleReturnError` if the shapes differ: a cotangent has the shape of its primal, and
    broadcasting would hide a missing sum. For a tuple of arrays `g` is a tuple, with None for items
    without a cotangent and for numbers, whose derivatives are returned. Of a contiguous `g` that
    overlaps the shadow but begins elsewhere in it, pass a copy.
    """
    if isinstance(x, Const):
        return
    _add(getattr(x, "dval", None), g)


def _add(shadow: Any, g: Any) -> None:
    if g is None or is_zero(g):
        return
    if is_tuple(shadow):
        if len(g) != len(shadow):
            raise RuleReturnError("accumulate: the cotangent does not have the length of the tuple")
        for part, g_part in zip(shadow, g, strict=True):
            _add(part, g_part)
        return
    if not is_array(shadow):
        raise RuleReturnError(
            "accumulate takes a Duplicated array; an Active derivative is returned"
        )
    if np.shape(g) != shadow.shape:
        raise RuleReturnError("accumulate: the cotangent does not have the shape of the shadow")
    if np.asarray(g).dtype == np.bool_:
        raise RuleReturnError("accumulate: truth values are not cotangents")
    added = g if np.iscomplexobj(shadow) else np.real(g)
    shadow += np.asarray(added).astype(shadow.dtype)


def accumulate_scaled(x: Annotation, scale: Any, u: Any) -> None:
    """`accumulate(x, scale * u)`; when compiled, without a temporary array."""
    if not isinstance(x, Const):
        accumulate(x, scale * u)


def accumulate_outer(x: Annotation, u: Any, v: Any) -> None:
    """`accumulate(x, u vᵀ)` for vectors u and v; when compiled, without a temporary array."""
    if not isinstance(x, Const):
        accumulate(x, np.multiply.outer(u, v))


def accumulate_product(x: Annotation, a: Any, b: Any) -> None:
    """`accumulate(x, a @ b)` for a matrix `a`; when compiled, small products need no temporary."""
    if not isinstance(x, Const):
        accumulate(x, np.dot(a, b))


def accumulate_adjoint_product(x: Annotation, a: Any, b: Any) -> None:
    """`accumulate(x, aᴴ @ b)` for a matrix `a`; when compiled, small products need no temporary."""
    if not isinstance(x, Const):
        accumulate(x, np.dot(np.conj(a).T, b))


def accumulate_product_adjoint(x: Annotation, a: Any, b: Any) -> None:
    """`accumulate(x, a @ bᴴ)` for matrices; when compiled, small products need no temporary."""
    if not isinstance(x, Const):
        accumulate(x, np.dot(a, np.conj(b).T))
