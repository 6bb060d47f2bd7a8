"""Inner products of a function's result with weights, as compiled functions.

Gives       `as_number(f, args, rng)`: a function that returns a float, and its further arguments
            `slope(f, argnums, directions, count)`: the slope of `f` along directions
            `leaves(tree)`: the numbers and arrays of a tree, in the order of the arguments of both

A tree of weights has the structure of the value: floats, complex numbers, arrays and tuples of
them, with None in place of everything else. The compiled functions take each of its leaves as an
argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit

import activerules as ar
from activerules.rules.written import function_from
from activerules.testing.numeric import copied, inner_terms, rand_tangent

_PRODUCTS = {
    "number": "{x} * {w}",
    "complex": "({x} * np.conj({w})).real",
    "array": "np.sum({x} * {w})",
    "complex array": "np.sum({x} * np.conj({w})).real",
}


def as_number(
    f: Callable[..., Any], args: tuple[Any, ...], rng: np.random.Generator
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The function that returns `inner(weights, f(*args))`, and the weights as its last arguments.

    A function that returns a float, or nothing that is weighted, is returned unchanged.
    """
    value = f(*map(copied, args))
    if not isinstance(value, tuple | complex | np.complexfloating | np.ndarray):
        return f, ()
    weights = _weights(value, rng)
    if not any(True for _ in leaves(weights)):
        return f, ()
    compiled = njit(f) if isinstance(f, FunctionType) else f
    return _weighted(compiled, _form(weights), len(args)), tuple(leaves(weights))


def _weights(value: Any, rng: np.random.Generator) -> Any:
    """A tree of weights; `ValueError` for floats in lists and objects, which get none."""
    if isinstance(value, tuple):
        return tuple(_weights(item, rng) for item in value)
    weight = rand_tangent(value, rng)
    if isinstance(value, complex | float | np.inexact | np.ndarray):
        return weight
    if any(True for _ in inner_terms(weight, weight)):
        raise ValueError(
            f"a {type(value).__name__} of floats is not checked where it is returned in a tuple"
        )
    return None


def slope(f: Callable[..., Any], argnums: tuple[int, ...], directions: Any, count: int) -> Any:
    """The function `<grad f(x), v>` of the `count` arguments of `f`, and of the leaves of `v`."""
    return _slope(f, argnums, _form(directions), count)


def leaves(tree: Any) -> Iterator[Any]:
    """The leaves of nested tuples in order, without None."""
    if isinstance(tree, tuple):
        for item in tree:
            yield from leaves(item)
    elif tree is not None:
        yield tree


# one function for all points, since compiling is slow
@lru_cache(maxsize=64)
def _weighted(f: Any, form: Any, count: int) -> Any:
    return _product("weighted", f, form, count)


@lru_cache(maxsize=64)
def _slope(f: Any, argnums: tuple[int, ...], form: Any, count: int) -> Any:
    return _product("slope", ar.grad(f, argnums), form, count)


def _product(name: str, f: Any, form: Any, count: int) -> Any:
    """The compiled function of `count` values, and of weights with a structure."""
    weights: list[str] = []
    terms = _terms("value", form, weights)
    values = ", ".join(f"x{i}" for i in range(count))
    names = ", ".join(filter(None, [values, *weights]))
    source = f"def {name}({names}):\n value = f({values})\n return {' + '.join(terms)}"
    product = function_from(source, name, {"f": f, "np": np}, module=__name__)
    product.__name__ = getattr(f, "__name__", name)  # the one that errors are about
    return njit(product)


def _terms(value: str, form: Any, weights: list[str]) -> list[str]:
    """The terms of the inner product of a value with weights, whose names go to `weights`."""
    if isinstance(form, tuple):
        items = enumerate(form)
        return [term for k, item in items for term in _terms(f"{value}[{k}]", item, weights)]
    if form is None:
        return []
    weights.append(f"w{len(weights)}")
    return [_PRODUCTS[form].format(x=value, w=weights[-1])]


def _form(tree: Any) -> Any:
    """The structure of a tree: a tuple of structures, a name in `_PRODUCTS`, or None."""
    if isinstance(tree, tuple):
        return tuple(map(_form, tree))
    if tree is None:
        return None
    kind = "array" if isinstance(tree, np.ndarray) else "number"
    if not np.iscomplexobj(tree):
        return kind
    return "complex array" if kind == "array" else "complex"
