"""Inner products of a function's result with weights, as compiled functions.

Gives       `as_number(f, args, rng)`: a function that returns a float, and its further arguments
            `slope(f, argnums, count)`: the slope of `f` along directions

Weights have the structure of the value: floats, complex numbers, arrays and tuples of them, with
None in place of everything else. They are the last argument of the compiled functions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit

import activerules as ar
from activerules.annotations.containers import like_tuple
from activerules.nested.pullbacks import inner_product
from activerules.rules.written import function_from
from activerules.testing.numeric import copied, inner_terms, rand_tangent


def as_number(
    f: Callable[..., Any], args: tuple[Any, ...], rng: np.random.Generator
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The function that returns `inner(weights, f(*args))`, and the weights as its last argument.

    A function that returns a float, or nothing that is weighted, is returned unchanged.
    """
    value = f(*map(copied, args))
    if not isinstance(value, tuple | complex | np.complexfloating | np.ndarray):
        return f, ()
    weights = _weights(value, rng)
    if not any(True for _ in inner_terms(weights, weights)):
        return f, ()
    compiled = njit(f) if isinstance(f, FunctionType) else f
    return _product(compiled, len(args)), (weights,)


def _weights(value: Any, rng: np.random.Generator) -> Any:
    """The weights of a value; `ValueError` for floats in lists and objects, which get none."""
    if isinstance(value, tuple):
        return like_tuple(type(value), [_weights(item, rng) for item in value])
    weight = rand_tangent(value, rng)
    if isinstance(value, complex | float | np.inexact | np.ndarray):
        return weight
    if any(True for _ in inner_terms(weight, weight)):
        raise ValueError(
            f"a {type(value).__name__} of floats is not checked where it is returned in a tuple"
        )
    return None


@lru_cache(maxsize=64)
def slope(f: Any, argnums: tuple[int, ...], count: int) -> Any:
    """The function `<grad f(x), v>` of the `count` arguments of `f`, and of the directions `v`."""
    return _product(ar.grad(f, argnums), count)


# one function for all points, since compiling is slow
@lru_cache(maxsize=64)
def _product(f: Any, count: int) -> Any:
    """The compiled function of `count` arguments, and of the weights of what `f` returns."""
    names = "".join(f"x{i}, " for i in range(count))
    source = f"def product({names}weights): return inner_product(weights, f({names}))"
    scope = {"f": f, "inner_product": inner_product}
    product = function_from(source, "product", scope, module=__name__)
    product.__name__ = getattr(f, "__name__", "product")  # the one that errors are about
    return njit(product)
