"""Functions of values and shadows: zero shadows, sums of shadows, one-hot shadows, and the identity
that stops a gradient.

These are the Python versions; `numba_ext.calls.overloads` has those for `@njit` functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from activerules.annotations.activity import Active, Annotation, Const, Duplicated, MixedDuplicated
from activerules.annotations.containers import is_array, is_dict, is_list, is_tuple, like_tuple
from activerules.errors import ActivityError, ShadowMismatch


def ignore_derivatives(x: Any) -> Any:
    """Return `x` as a constant: derivatives do not pass through it.

    `x` is a float, a complex number, an array of these or a tuple of any of them; arrays are
    copied.
    """
    if is_tuple(x):
        return like_tuple(type(x), map(ignore_derivatives, x))
    return x.copy() if is_array(x) else x


def make_zero(x: Any) -> Any:
    """Return a zero shadow of `x`: the same structure, dtypes, shapes and strides.

    What carries no derivative (integers, strings, None) is returned as it is. The shadow of an
    object of a `jitclass` or a StructRef is an object of the same class, with the same integers.
    Raises `ActivityError` for Python's own lists and dicts, which have no shadows.
    """
    if is_tuple(x):
        return like_tuple(type(x), map(make_zero, x))
    if is_array(x):
        return zeros_with_strides(x)
    if isinstance(x, np.void):
        return np.zeros((), x.dtype)[()]
    if hasattr(x, "_numba_type_"):
        return _compiled_forms["make_zero"](x)
    _refuse_python_containers(x)
    return type(x)(0) if _is_number(x) else x


def tree_add(x: Any, y: Any) -> Any:
    """Return the sum of two values of the same structure, such as two shadows of one primal.

    Floats and complex numbers are added, however deep they are in tuples, arrays, records, objects,
    typed lists and dictionaries; what carries no derivative is taken from `x`. The sum is a new
    value.

    Raises `ShadowMismatch` where types, shapes, lengths or keys differ, and `ActivityError` for
    Python's own lists and dicts. Inside `@njit` different types are a `TypingError`.
    """
    return _sum(x, y, "x")


def _sum(x: Any, y: Any, name: str) -> Any:
    _refuse_python_containers(x)
    are_numbers = _is_number(x) and _is_number(y) and np.iscomplexobj(x) == np.iscomplexobj(y)
    if type(x) is not type(y) and not are_numbers:
        raise _not_alike(name, f"is {type(x).__name__}", type(y).__name__)
    if is_tuple(x):
        if len(x) != len(y):
            raise _not_alike(name, f"has {len(x)} items", str(len(y)))
        pairs = enumerate(zip(x, y, strict=True))
        return like_tuple(type(x), [_sum(a, b, f"{name}[{k}]") for k, (a, b) in pairs])
    if is_array(x):
        return _sum_of_arrays(x, y, name)
    if isinstance(x, np.void):
        left, right = np.array([x], x.dtype), np.array([y], y.dtype)
        return _sum_of_arrays(left, right, name)[0]
    if hasattr(x, "_numba_type_"):
        if x._numba_type_ != y._numba_type_:
            raise _not_alike(name, f"is {x._numba_type_}", str(y._numba_type_))
        return _compiled_forms["tree_add"](x, y)
    return x + y if are_numbers else x


def _sum_of_arrays(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], name: str) -> Any:
    if x.dtype != y.dtype:
        raise _not_alike(name, f"is of {x.dtype}", str(y.dtype))
    if x.shape != y.shape:
        raise _not_alike(name, f"has shape {x.shape}", str(y.shape))
    if x.dtype.names is not None:
        return _compiled_forms["tree_add"](x, y)
    if not np.issubdtype(x.dtype, np.inexact):
        return x
    return np.add(x, y, out=zeros_with_strides(x))


def _not_alike(name: str, is_: str, other: str) -> ShadowMismatch:
    return ShadowMismatch(f"tree_add: `{name}` {is_}, in the other value {other}", why=ADDED)


ADDED = "two shadows of one primal are added number by number"


def _refuse_python_containers(x: Any) -> None:
    if is_list(x) or is_dict(x):
        kind = type(x).__name__
        raise ActivityError(
            f"a {kind} of Python has no shadow",
            why="compiled code does not take it as an argument that carries derivatives",
            instead=["an array, a tuple of arrays", "numba.typed.List or numba.typed.Dict"],
        )


def laid_like(v: Any, x: Any, copies: list[tuple[np.ndarray, np.ndarray]]) -> Any:
    """Return `v` with its arrays laid out like the corresponding arrays of `x`.

    An array with the shape and dtype of its counterpart in `x` but other strides is copied, and the
    pair (copy, array) is appended to `copies`. Whatever does not match is left as it is.
    """
    if is_tuple(v) and is_tuple(x) and len(v) == len(x):
        items = [laid_like(*pair, copies) for pair in zip(v, x, strict=True)]
        same = all(new is old for new, old in zip(items, v, strict=True))
        return v if same else like_tuple(type(v), items)
    if not (is_array(v) and is_array(x)):
        return v
    if (v.shape, v.dtype) != (x.shape, x.dtype) or v.strides == x.strides:
        return v
    fresh = zeros_with_strides(x)
    fresh[...] = v
    copies.append((fresh, v))
    return fresh


_compiled_forms: dict[str, Callable[..., Any]] = {}


def use_compiled(**forms: Callable[..., Any]) -> None:
    """Register the functions that compute zeros and sums of objects of types that Numba defines."""
    _compiled_forms.update(forms)


def kind_of(x: Any) -> type[Annotation]:
    """Return the annotation under which everything in `x` that can carries a derivative."""
    if is_tuple(x):
        kinds = set(map(kind_of, x)) - {Const}
        return MixedDuplicated if len(kinds) > 1 else kinds.pop() if kinds else Const
    if is_array(x):
        return Duplicated if np.issubdtype(x.dtype, np.inexact) else Const
    return Active if _is_number(x) else Const


def onehot(x: Any) -> tuple[Any, ...]:
    """Return one shadow of `x` per float in it: one at that float, zero elsewhere.

    `x` is a number, an array, or a tuple of these; `ActivityError` for lists, dicts and objects.
    """
    return tuple(_with_one(x, index) for index in range(_count(x)))


def zeros_with_strides(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return zeros with the shape, dtype and strides of `x`, negative or zero ones included."""
    zeros = np.zeros_like(x, subok=False)
    if zeros.strides == x.strides or x.size == 0:
        return zeros
    reach = [(n - 1) * stride for n, stride in zip(x.shape, x.strides, strict=True)]
    below = -sum(r for r in reach if r < 0)
    nbytes = below + sum(r for r in reach if r > 0) + x.itemsize
    # The memory consists of whole items, so that the elements are aligned like those of `x`.
    memory = np.zeros(-(-nbytes // x.itemsize), x.dtype)
    return np.ndarray(x.shape, x.dtype, buffer=memory, offset=below, strides=x.strides)


def _count(x: Any) -> int:
    if is_tuple(x):
        return sum(map(_count, x))
    if is_array(x) and x.dtype.names is None:
        return x.size if np.issubdtype(x.dtype, np.inexact) else 0
    _refuse_python_containers(x)
    if hasattr(x, "_numba_type_") or isinstance(x, np.void) or is_array(x):
        raise ActivityError(
            f"onehot of a {type(x).__name__}: its floats have no order",
            instead=["make_zero(x), with a one in the field that is meant"],
        )
    return int(_is_number(x))


def _is_number(x: Any) -> bool:
    """Whether `x` is a number that may carry a derivative."""
    return isinstance(x, (float, complex, np.inexact))


def _with_one(x: Any, index: int) -> Any:
    """Return a zero shadow of `x` with a one at its float number `index`."""
    zero = make_zero(x)
    if is_tuple(x):
        items: list[Any] = []
        for item in x:
            count = _count(item)
            items.append(_with_one(item, index) if 0 <= index < count else make_zero(item))
            index -= count
        return like_tuple(type(x), items)
    if is_array(x):
        zero[np.unravel_index(index, x.shape)] = 1
        return zero
    return type(x)(1)
