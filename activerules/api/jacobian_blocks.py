"""The blocks of a Jacobian: one per leaf of the result and leaf of an argument.

A block is computed as a matrix, with a row per number of the result's leaf and a column per number
of the argument's, and returned with the shape `out.shape + in.shape`. The blocks are arranged like
the result: each of its leaves is replaced by a tuple with an entry per argument of `argnums` (by
the entry itself if `argnums` is one number), which is arranged like the argument. The code is made
from types; the functions it calls at run time are here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import types
from numba.extending import register_jitable

from activerules.annotations.values import make_zero
from activerules.errors import ActivityError, NotYetSupported
from activerules.numba_ext.calls.refused_kinds import refuse_generators, refuse_kind
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.rules.checks import copy_in_place
from activerules.rules.pattern import type_name
from activerules.rules.written import by_name, function_from, tuple_of
from activerules.values.kinds import is_number_array, leaves_of, optional_leaf, returned_type
from activerules.values.layout import layout_of
from activerules.values.leaf_texts import LeafText, TupleTexts, leaves_at

Block = Callable[[LeafText, LeafText], str]


def carrying(root: str, ty: Any) -> list[LeafText]:
    """The leaves of a value that have a derivative."""
    return [leaf for leaf in leaves_at(root, ty) if leaf.carries]


def rows_of(result: Any) -> Any:
    """The type of a result whose leaves give the rows: an optional number counts as a number."""
    return returned_type(result)


def is_complex(ty: Any) -> bool:
    """Whether a type contains complex numbers."""
    return any(isinstance(leaf.number, types.Complex) for leaf in carrying("", ty))


def require_numbers(name: str, ty: Any, *, complex_too: bool) -> None:
    """Raise `ActivityError` unless a value is made of numbers, arrays of them, and tuples of these;
    integers and the like beside them are constant.
    """
    carriers = carrying("", ty)
    real = all(isinstance(leaf.number, types.Float) for leaf in carriers)
    memory = [
        leaf for leaf in leaves_of(ty) if layout_of(leaf).has_shadow and not is_number_array(leaf)
    ]
    if carriers and not memory and (real or complex_too):
        return
    refuse_kind(name, ty)
    floats = "numbers" if complex_too else "floats"
    instead = ["another argnums"]
    if memory:
        instead = ["a function of the arrays and numbers in it, which calls this one with it"]
    if carriers and not real and not memory:
        instead.append(
            "jacrev, for complex numbers; holomorphic=True, if the result is complex too"
        )
    raise ActivityError(
        f"`{name}` is {type_name(ty)}: no Jacobian with respect to it",
        why=f"the last axes of a Jacobian are those of the argument, which {floats}, arrays and "
        "tuples of them have",
        instead=[*instead, "vjp or jvp, which take what autodiff takes"],
    )


def require_rows(dispatcher: Any, result: Any) -> None:
    """Raise `ActivityError` if nothing in the result has a derivative."""
    if not carrying("out", rows_of(result)):
        raise ActivityError(
            f"a Jacobian of {dispatcher.py_func.__name__}, which returns {type_name(result)}",
            why="it is made of floats or complex numbers, arrays of them, and tuples of these",
            instead=["return what is to be differentiated"],
        )
    if any(optional_leaf(leaf) is not None for leaf in leaves_of(rows_of(result))):
        raise NotYetSupported(
            f"a Jacobian of {dispatcher.py_func.__name__}, which returns {type_name(result)}",
            why="an entry of a tuple that may be None has no shape before the function has run",
            instead=["vjp or jvp", "a function that returns the other entries"],
        )


def require_holomorphic(
    dispatcher: Any,
    names: Sequence[str],
    argtypes: Sequence[Any],
    argnums: Sequence[int],
    result: Any,
) -> None:
    """Raise `ActivityError` unless arguments and result are complex."""
    rows = [(f"`{names[k]}` is", argtypes[k]) for k in argnums]
    rows.append((f"{dispatcher.py_func.__name__} returns", rows_of(result)))
    for what, ty in rows:
        leaves = carrying("", ty)
        if not leaves or not all(isinstance(leaf.number, types.Complex) for leaf in leaves):
            raise ActivityError(
                f"{what} {type_name(ty)}, and a holomorphic derivative is asked for",
                why="it is that of a complex result with respect to complex numbers and arrays",
                instead=["the Jacobian without holomorphic=True"],
            )


def require_copyable(name: str, ty: Any) -> None:
    """Raise `NotYetSupported` unless an argument that the function writes into can be copied: each
    run of the function must begin with the same values.
    """
    refuse_generators([ty])
    for leaf in leaves_of(ty):
        if layout_of(leaf).is_container:
            raise NotYetSupported(
                f"`{name}` is {type_name(ty)}, which the function may write into",
                why="a Jacobian takes several runs of it, each with the original contents",
                instead=[
                    "arrays, and tuples of them",
                    "hessian(f) for the Jacobian of grad(f)",
                    "jvp or vjp, which run it once",
                ],
            )


def arranged(texts: TupleTexts, result: Any, args: Sequence[Any], spec: Any, block: Block) -> str:
    """The text of a Jacobian, with `block` for each leaf of the result and leaf of an argument."""

    def by_arguments(row: LeafText) -> str:
        if not row.carries:
            return "None"
        entries = [
            texts.rebuilt(args[k], lambda x: block(row, x) if x.carries else "None", f"x{k}")
            for k in spec.argnums
        ]
        return entries[0] if spec.single else tuple_of(entries)

    return texts.rebuilt(rows_of(result), by_arguments, "out")


# --- called by the generated code ---


@register_jitable
def set_unit(direction, k, unit=1.0):
    """Fill an array with zeros, and set its item number `k`, if there is one, to `unit`."""
    direction[...] = 0.0
    if 0 <= k < direction.size:
        set_item(direction, k, unit)


@chosen_by_types
def set_item(x, k, value):  # noqa: ARG001
    """Set an item by its number in row-major order."""

    def of_vector(x, k, value):
        x[k] = value

    def of_array(x, k, value):
        x.flat[k] = value

    return of_vector if x.ndim == 1 else of_array


@chosen_by_types
def in_order(x):
    """The items of an array in row-major order, in one dimension; a view where possible.

    A vector is returned unchanged: a view would cost a reference count and a computed shape.
    """
    return (lambda x: x) if x.ndim == 1 else (lambda x: x.ravel())


@register_jitable
def unit(x, k):
    """One if `k` is zero, zero otherwise; of the type of `x`."""
    return type(x)(1.0) if k == 0 else type(x)(0.0)


@chosen_by_types
def copy_of(x):
    """A copy of an array with its strides, or of the arrays in a tuple; others are returned."""
    if isinstance(x, types.BaseTuple):
        texts = TupleTexts()
        source = (
            f"def impl(x): return {texts.rebuilt(x, lambda leaf: f'copy_of({leaf.text})', 'x')}"
        )
        return function_from(source, "impl", {**texts.classes, "copy_of": copy_of}, module=__name__)
    return (lambda x: copy_in_place(x, x)) if isinstance(x, types.Array) else lambda x: x


@chosen_by_types
def new_block(column, x):
    """Memory for a block with respect to `x`: as many rows as `column`, one column per number."""
    if isinstance(column, types.Array):
        if isinstance(x, types.Array):
            return lambda column, x: np.empty((column.size, x.size), column.dtype)
        return lambda column, x: np.empty((column.size, 1), column.dtype)
    if isinstance(x, types.Array):
        return lambda column, x: np.empty((1, x.size), type(column))
    return lambda column, x: np.empty((1, 1), type(column))


@chosen_by_types
def put_column(block, column, k):  # noqa: ARG001
    """Write column `k` of a block; do nothing if there is no such column."""
    if isinstance(column, types.Array):

        def put_array(block, column, k):
            if 0 <= k < block.shape[1]:
                for r, value in enumerate(column.flat):
                    block[r, k] = value

        return put_array

    def put_number(block, column, k):
        if 0 <= k < block.shape[1]:
            block[0, k] = column

    return put_number


@chosen_by_types
def put_columns(block, columns, k):  # noqa: ARG001
    """Write a tuple of arrays into the columns from `k` on, as far as there are any.

    They are written together, since each item of a column is in a cache line of its own.
    """
    lanes = range(len(columns))
    lines = [
        f"if k < 0 or k + {len(columns)} > block.shape[1]:",
        *(f" put_column(block, columns[{c}], k + {c})" for c in lanes),
        " return",
        *(f"c{c} = in_order(columns[{c}])" for c in lanes),
        "for r in range(block.shape[0]):",
        *(f" block[r, k + {c}] = c{c}[r]" for c in lanes),
    ]
    source = "def impl(block, columns, k):\n    " + "\n    ".join(lines)
    scope = {"put_column": put_column, "in_order": in_order}
    return function_from(source, "impl", scope, module=__name__)


@register_jitable
def put_row(block, row, k):
    """Write row `k` of a block; do nothing if there is no such row."""
    if 0 <= k < block.shape[0]:
        items = in_order(row)
        for i in range(block.shape[1]):
            block[k, i] = items[i]


@register_jitable
def add_row(block, factor, row, k):
    """Add a multiple of an array to row `k` of a block."""
    items = in_order(row)
    for i in range(block.shape[1]):
        block[k, i] += factor * items[i]


@chosen_by_types
def shaped(block, out, x):  # noqa: ARG001
    """A block with the shape `out.shape + x.shape`; a number if both are numbers."""
    if isinstance(out, types.Array):
        if isinstance(x, types.Array):
            if out.ndim == x.ndim == 1:
                return lambda block, out, x: block
            return lambda block, out, x: block.reshape(out.shape + x.shape)
        return lambda block, out, x: block.reshape(out.shape)
    if isinstance(x, types.Array):
        return lambda block, out, x: block.reshape(x.shape)
    return lambda block, out, x: block[0, 0]


RUN_TIME = by_name(
    add_row, copy_of, make_zero, new_block, put_column, put_columns, put_row, set_unit, shaped, unit
)
