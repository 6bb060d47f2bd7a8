"""The blocks of a Jacobian: one per leaf of the result and leaf of an argument.

A block is computed as a matrix, a row per number of the result's leaf and a column per number of
the argument's, and handed out with the shape `out.shape + in.shape`. They are arranged as the
result, each of its leaves replaced by its derivatives: by the arguments of a tuple of argnums, each
of those as the argument. The code is made from types; what it calls at run time is here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload, register_jitable

from activerules.annotations.values import make_zero
from activerules.errors import ActivityError, NotYetSupported
from activerules.numba_ext.kinds import (
    has_shadow,
    is_container,
    is_number_array,
    leaves_of,
    returned_type,
)
from activerules.numba_ext.leaf_texts import Leaf, TupleTexts, leaves_at
from activerules.numba_ext.overwriting import overwrite
from activerules.rules.pattern import type_name
from activerules.rules.written import function_from

Block = Callable[[Leaf, Leaf], str]


def carrying(root: str, found: Any) -> list[Leaf]:
    """The leaves of a value that have a derivative."""
    return [leaf for leaf in leaves_at(root, found) if leaf.carries]


def rows_of(result: Any) -> Any:
    """The type of a result, as its leaves are counted: that of an optional number is a number."""
    return returned_type(result)


def is_complex(found: Any) -> bool:
    """Whether there are complex numbers in a value."""
    return any(isinstance(leaf.number, types.Complex) for leaf in carrying("", found))


def require_numbers(name: str, found: Any, *, complex_too: bool) -> None:
    """Raise `ActivityError` unless a value is made of numbers, arrays of them, and tuples of these;
    integers and the like beside them are constant.
    """
    carriers = carrying("", found)
    real = all(isinstance(leaf.number, types.Float) for leaf in carriers)
    memory = [leaf for leaf in leaves_of(found) if has_shadow(leaf) and not is_number_array(leaf)]
    if carriers and not memory and (real or complex_too):
        return
    floats = "numbers" if complex_too else "floats"
    instead = ["another argnums"]
    if carriers and not real and not memory:
        instead.append(
            "jacrev, for complex numbers; holomorphic=True, if the result is complex too"
        )
    raise ActivityError(
        f"`{name}` is {type_name(found)}: there is no Jacobian by it",
        why=f"argnums names the arguments to differentiate by: {floats}, arrays and tuples of them",
        instead=[*instead, "vjp or jvp, which take what autodiff takes"],
    )


def require_rows(dispatcher: Any, result: Any) -> None:
    """Raise `ActivityError` if there is nothing in a result that has a derivative."""
    if not carrying("out", rows_of(result)):
        raise ActivityError(
            f"a Jacobian of {dispatcher.py_func.__name__}, which returns {type_name(result)}",
            why="it is made of floats or complex numbers, arrays of them, and tuples of these",
            instead=["return what is to be differentiated"],
        )


def require_holomorphic(
    dispatcher: Any, names: Sequence[str], found: Sequence[Any], argnums: Sequence[int], result: Any
) -> None:
    """Raise `ActivityError` unless arguments and result are complex."""
    rows = [(f"`{names[k]}` is", found[k]) for k in argnums]
    rows.append((f"{dispatcher.py_func.__name__} returns", rows_of(result)))
    for what, ty in rows:
        leaves = carrying("", ty)
        if not leaves or not all(isinstance(leaf.number, types.Complex) for leaf in leaves):
            raise ActivityError(
                f"{what} {type_name(ty)}, and a holomorphic derivative is asked for",
                why="it is that of a complex result by complex numbers, and arrays of them",
                instead=["the Jacobian without holomorphic=True"],
            )


def require_copyable(name: str, found: Any) -> None:
    """Raise unless an argument that the function writes into can be copied: each run of it is to
    begin with the same values.
    """
    for leaf in leaves_of(found):
        if is_container(leaf):
            raise NotYetSupported(
                f"`{name}` is {type_name(found)}, which the function writes into",
                why="a Jacobian takes several runs of it, each with what was there before",
                instead=["arrays, and tuples of them", "jvp or vjp, which run it once"],
            )


def arranged(texts: TupleTexts, result: Any, args: Sequence[Any], asked: Any, block: Block) -> str:
    """The text of a Jacobian: `block` for each leaf of the result and of the arguments."""

    def by_arguments(row: Leaf) -> str:
        if not row.carries:
            return "None"
        entries = [
            texts.rebuilt(args[k], lambda x: block(row, x) if x.carries else "None", f"x{k}")
            for k in asked.argnums
        ]
        return entries[0] if asked.single else f"({''.join(entry + ', ' for entry in entries)})"

    return texts.rebuilt(rows_of(result), by_arguments, "out")


class Columns:
    """Lines that fill the blocks with columns for one argument, some tangents at a time.

    root    the argument's text
    width   how many tangents travel together
    push    from the texts of that many tangents to the text of the derivatives along them, a tuple
    rows    the leaves of these
    before  lines that each run begins with
    """

    def __init__(
        self,
        root: str,
        found: Any,
        width: int,
        push: Callable[[list[str]], str],
        rows: Sequence[Leaf],
        before: Sequence[str] = (),
    ) -> None:
        self._root, self._found, self._push = root, found, push
        self._rows, self._before = rows, before
        self._leaves = carrying(root, found)
        self._at_once = width >= len(self._leaves) and not any(x.is_array for x in self._leaves)
        self._width = width
        self._texts = TupleTexts()

    @property
    def classes(self) -> dict[str, Any]:
        """The named tuples in the lines."""
        return self._texts.classes

    def block(self, row: Leaf, column: Leaf) -> str:
        """The text of a block, once the lines have run."""
        if self._at_once:
            return f"t_{self._root}[{self._leaves.index(column)}]{row.place}"
        first = f"t_{self._root}[0]{row.place}"
        return f"shaped({self._matrix(row, column)}, {first}, {column.text})"

    def lines(self) -> list[str]:
        """Everything that leaves the blocks."""
        if self._at_once:
            units = [self._tangent(lambda x, one=one: _one(x, x == one)) for one in self._leaves]
            return [*self._before, f"t_{self._root} = {self._push(units)}"]
        return [
            *self._memory(),
            "k = 0",
            *self._run(),
            *(
                f"{self._matrix(row, x)} = new_block(t_{self._root}[0]{row.place}, {x.text})"
                for row in self._rows
                for x in self._leaves
            ),
            *self._put(),
            f"for k in range({self._width}, n_{self._root}, {self._width}):",
            *("    " + line for line in (*self._run(), *self._put())),
        ]

    def _memory(self) -> list[str]:
        """Lines that make the tangents, and count the numbers before each leaf."""
        lines, end = [], "0"
        for x in self._leaves:
            lines.append(f"o_{x.name} = {end}")
            end = f"o_{x.name} + {f'{x.text}.size' if x.is_array else '1'}"
            if x.is_array:
                lines += [f"e_{x.name}_{c} = make_zero({x.text})" for c in range(self._width)]
        return [*lines, f"n_{self._root} = {end}"]

    def _run(self) -> list[str]:
        arrays = [x for x in self._leaves if x.is_array]
        lanes = range(self._width)
        tangents = [self._tangent(lambda x, c=c: self._unit(x, c)) for c in lanes]
        return [
            *(f"set_unit(e_{x.name}_{c}, {_number(x, c)})" for x in arrays for c in lanes),
            *self._before,
            f"t_{self._root} = {self._push(tangents)}",
        ]

    def _unit(self, x: Leaf, lane: int) -> str:
        if x.is_array:
            return f"e_{x.name}_{lane}"
        return f"unit({x.text}, {_number(x, lane)})"

    def _tangent(self, text: Callable[[Leaf], str]) -> str:
        def of(leaf: Leaf) -> str:
            return text(leaf) if leaf.carries else leaf.text

        return self._texts.rebuilt(self._found, of, self._root)

    def _put(self) -> list[str]:
        return [
            f"put_column({self._matrix(row, x)}, t_{self._root}[{c}]{row.place}, {_number(x, c)})"
            for row in self._rows
            for x in self._leaves
            for c in range(self._width)
        ]

    def _matrix(self, row: Leaf, column: Leaf) -> str:
        return f"b_{row.name}_{column.name}"


def _number(x: Leaf, lane: int) -> str:
    """Which number of a leaf a lane is for."""
    return f"k + {lane} - o_{x.name}"


def _one(x: Leaf, chosen: bool) -> str:
    return f"type({x.text})({1.0 if chosen else 0.0})"


# --- what the code calls ---


@register_jitable
def set_unit(direction, k, unit=1.0):
    """Make an array zero, but for a one (or `unit`) in place `k`, if it has one."""
    direction[...] = 0.0
    if 0 <= k < direction.size:
        direction.flat[k] = unit


@register_jitable
def unit(x, k):
    """A one of the type of `x` if `k` is zero, else a zero."""
    return type(x)(1.0) if k == 0 else type(x)(0.0)


def copy_of(x: Any) -> Any:
    """A copy of an array with its strides, or of the arrays in a tuple."""
    raise NotImplementedError("this function only has a compiled form")


@overload(copy_of)
def _copy_of(x):
    if isinstance(x, types.BaseTuple):
        texts = TupleTexts()
        source = (
            f"def impl(x): return {texts.rebuilt(x, lambda leaf: f'copy_of({leaf.text})', 'x')}"
        )
        return function_from(source, "impl", {**texts.classes, "copy_of": copy_of}, module=__name__)
    if not isinstance(x, types.Array):
        return lambda x: x

    def impl(x):
        y = make_zero(x)
        overwrite(y, x)
        return y

    return impl


def new_block(column: Any, x: Any) -> Any:
    """Memory for the derivative of what `column` is one of, by `x`: a row per number of it."""
    raise NotImplementedError("this function only has a compiled form")


@overload(new_block)
def _new_block(column, x):
    if isinstance(column, types.Array):
        if isinstance(x, types.Array):
            return lambda column, x: np.empty((column.size, x.size), column.dtype)
        return lambda column, x: np.empty((column.size, 1), column.dtype)
    if isinstance(x, types.Array):
        return lambda column, x: np.empty((1, x.size), type(column))
    return lambda column, x: np.empty((1, 1), type(column))


def put_column(block: Any, column: Any, k: int) -> None:
    """Write column `k` of a block; nothing if there is no such column."""
    raise NotImplementedError("this function only has a compiled form")


@overload(put_column)
def _put_column(block, column, k):
    if isinstance(column, types.Array):

        def put_array(block, column, k):
            if 0 <= k < block.shape[1]:
                r = 0
                for value in column.flat:
                    block[r, k] = value
                    r += 1

        return put_array

    def put_number(block, column, k):
        if 0 <= k < block.shape[1]:
            block[0, k] = column

    return put_number


def shaped(block: Any, out: Any, x: Any) -> Any:
    """A block with the shape `out.shape + x.shape`; a number if both are numbers."""
    raise NotImplementedError("this function only has a compiled form")


@overload(shaped)
def _shaped(block, out, x):
    if isinstance(out, types.Array):
        if isinstance(x, types.Array):
            return lambda block, out, x: block.reshape(out.shape + x.shape)
        return lambda block, out, x: block.reshape(out.shape)
    if isinstance(x, types.Array):
        return lambda block, out, x: block.reshape(x.shape)
    return lambda block, out, x: block[0, 0]


RUN_TIME: dict[str, Any] = {
    "copy_of": copy_of,
    "make_zero": make_zero,
    "new_block": new_block,
    "put_column": put_column,
    "set_unit": set_unit,
    "shaped": shaped,
    "unit": unit,
}
