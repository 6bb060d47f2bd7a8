"""The columns of a Jacobian: forward derivatives along unit tangents, several per run.

If the first run of the function raises, `numba_ext.replaced.in_steps` releases the memory that was
allocated before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numba import njit, types

from activerules.annotations.activity import BatchDuplicated, Duplicated
from activerules.annotations.signature import Forward
from activerules.api.autodiff import autodiff
from activerules.api.jacobian_blocks import RUN_TIME, carrying
from activerules.errors import ShadowMismatch
from activerules.numba_ext.calls.intrinsics import dispatcher_of_type
from activerules.numba_ext.calls.nested_forms import calling
from activerules.numba_ext.codegen.made_once import compiled_lines
from activerules.numba_ext.codegen.protocols import TypingContext
from activerules.numba_ext.codegen.random_states import random_states, set_random_states
from activerules.numba_ext.codegen.unoptimised import compiles_for_derivative
from activerules.numba_ext.replaced.in_steps import Steps, passing, steps_form
from activerules.numba_ext.rules.checks import apart
from activerules.rules.written import by_name
from activerules.values.leaf_texts import LeafText, TupleTexts, leaves_at

keep_apart = njit(
    apart(
        "arguments of a Jacobian share memory that the function writes: give it copies of them",
        ShadowMismatch,
    )
)


_STATES = "states"
"""The name of the states that every run begins to draw random numbers from."""


@dataclass(frozen=True)
class Run:
    """How one run of a function gives derivatives along several tangents of an argument.

    width   the number of tangents
    push    from the texts of the tangents, the text of the derivatives along them, a tuple
    copied  the arguments that each run is given a copy of: `y0` for `x0`
    draws   whether the function draws random numbers: each run must draw the same
    """

    width: int
    push: Callable[[list[str]], str]
    copied: Sequence[int] = ()
    draws: bool = False


class Columns:
    """Lines that compute the blocks with respect to one argument, several columns per run.

    root    the text of the argument, such as `x0`
    args    the types of all arguments
    rows    the leaves of the result
    texts   writes the tuples
    """

    def __init__(
        self, root: str, args: Sequence[Any], run: Run, rows: Sequence[LeafText], texts: TupleTexts
    ) -> None:
        self._root, self._args, self._rows, self.texts = root, args, rows, texts
        self._width, self._push, self._copies = run.width, run.push, run.copied
        self.draws = run.draws
        self._type = args[int(root[1:])]
        self._leaves = carrying(root, self._type)
        self._at_once = self._width >= len(self._leaves) and not self._arrays

    def block(self, row: LeafText, column: LeafText) -> str:
        """The text of a block, for use after the lines."""
        if self._at_once:
            return f"t_{self._root}[{self._leaves.index(column)}]{row.path}"
        first = f"t_{self._root}[0]{row.path}"
        return f"shaped({self._matrix(row, column)}, {first}, {column.text})"

    @property
    def allocated(self) -> list[str]:
        """The names of the arrays that are allocated before the first run."""
        lanes = range(self._width)
        tangents = [f"e_{x.name}_{c}" for x in self._arrays for c in lanes]
        return [*tangents, *(f"y{k}" for k in self._copies)]

    def lines(self) -> list[str]:
        """All lines that compute the blocks."""
        return [*self.begin(), f"{self.runs} = {self.first}", *self.rest()]

    @property
    def runs(self) -> str:
        """The name of the derivatives that the last run computed."""
        return f"t_{self._root}"

    def begin(self) -> list[str]:
        """Lines that allocate the arrays in `allocated`."""
        allocations = [self._allocation(x, c) for x in self._arrays for c in range(self._width)]
        apart = lines_apart(self._args, self._copies)
        return [*apart, *self.counts(), *filter(None, allocations), *self._before()]

    @property
    def first(self) -> str:
        """The text of the derivatives that the first run computes."""
        if self._at_once:
            units = [
                self._tangent(lambda x, leaf=leaf: _one(x, x == leaf)) for leaf in self._leaves
            ]
            return self._push(units)
        return self._run()

    def rest(self) -> list[str]:
        """Lines after the first run: they store its columns, and compute the others."""
        if self._at_once:
            return []
        run = [*self._before(), f"t_{self._root} = {self._run()}"]
        return [
            *(
                f"{self._matrix(row, x)} = {self._new(x, f't_{self._root}[0]{row.path}')}"
                for row in self._rows
                for x in self._leaves
            ),
            *self._put(),
            f"for k in range({self._width}, n_{self._root}, {self._width}):",
            *("    " + line for line in (*run, *self._put())),
        ]

    def counts(self) -> list[str]:
        """Lines that compute the first column of each leaf, and the number of columns."""
        if self._at_once:
            return []
        lines, end = [], "0"
        for x in self._leaves:
            lines.append(f"o_{x.name} = {end}")
            end = f"o_{x.name} + {f'{x.text}.size' if x.is_array else '1'}"
        return [*lines, f"n_{self._root} = {end}", "k = 0"]

    @property
    def _arrays(self) -> list[LeafText]:
        return [x for x in self._leaves if x.is_array]

    def _before(self) -> list[str]:
        """Lines before each run: they set the unit tangents, and copy the arguments it writes."""
        units = [self._set(x, c) for x in self._arrays for c in range(self._width)]
        copies = [f"y{k} = copy_of(x{k})" for k in self._copies]
        return [*units, *copies, *self._restart()]

    def _restart(self) -> list[str]:
        """The line that lets a run draw the same random numbers as the others."""
        return [f"set_random_states({_STATES})"] * self.draws

    def _run(self) -> str:
        lanes = range(self._width)
        return self._push([self._tangent(lambda x, c=c: self._unit(x, c)) for c in lanes])

    def _unit(self, x: LeafText, lane: int) -> str:
        if x.is_array:
            return f"e_{x.name}_{lane}"
        return f"unit({x.text}, {self._number(x, lane)})"

    def _tangent(self, text: Callable[[LeafText], str]) -> str:
        def of(leaf: LeafText) -> str:
            return text(leaf) if leaf.carries else leaf.text

        return self.texts.rebuilt(self._type, of, self._root)

    def _put(self) -> list[str]:
        lanes = range(self._width)
        return [
            line
            for row in self._rows
            for x in self._leaves
            for line in self._put_block(row, x, [f"t_{self._root}[{c}]{row.path}" for c in lanes])
        ]

    def _put_block(self, row: LeafText, x: LeafText, columns: Sequence[str]) -> list[str]:
        """Lines that write the columns that a run computed into a block."""
        matrix = self._matrix(row, x)
        if row.is_array and len(columns) > 1:
            together = f"({', '.join(columns)})"
            return [f"put_columns({matrix}, {together}, {self._number(x, 0)})"]
        return [
            f"put_column({matrix}, {column}, {self._number(x, c)})"
            for c, column in enumerate(columns)
        ]

    def _allocation(self, x: LeafText, lane: int) -> str:
        """The line that allocates the tangent of an array."""
        return f"e_{x.name}_{lane} = make_zero({x.text})"

    def _set(self, x: LeafText, lane: int) -> str:
        """The line that sets the tangent of an array before a run."""
        return f"set_unit(e_{x.name}_{lane}, {self._number(x, lane)})"

    def _new(self, x: LeafText, column: str) -> str:
        """The text of a new block, given that of a column."""
        return f"new_block({column}, {x.text})"

    def _number(self, x: LeafText, lane: int) -> str:
        """The column of a block to which the tangent of a lane belongs."""
        return f"k + {lane} - o_{x.name}"

    def _matrix(self, row: LeafText, column: LeafText) -> str:
        return f"b_{row.name}_{column.name}"


def lines_apart(args: Sequence[Any], copies: Sequence[int]) -> list[str]:
    """Lines that raise `ShadowMismatch` if an array to be copied shares memory with another one."""
    arrays = [
        (k, leaf.text)
        for k, ty in enumerate(args)
        for leaf in leaves_at(f"x{k}", ty)
        if isinstance(leaf.numba_type, types.Array)
    ]
    return [
        f"keep_apart({left}, {right})"
        for first, (k, left) in enumerate(arrays)
        for m, right in arrays[first + 1 :]
        if k in copies or m in copies
    ]


def _one(x: LeafText, chosen: bool) -> str:
    return f"type({x.text})({1.0 if chosen else 0.0})"


def columns_form(
    typing_context: TypingContext,
    before: Sequence[Any],
    args: Sequence[Any],
    columns: Sequence[Columns],
    result: str,
    **more: Any,
) -> Any:
    """The compiled form that runs the lines of `columns` and returns the text `result`, whose
    tuples the same `texts` wrote. Both may use `function`, `autodiff` with what forward mode takes,
    and the names in `more`.

    before  the types of the arguments of the call that precede `x0`, `x1`, …: the last of them is
            that of the function
    """
    dispatcher, texts = dispatcher_of_type(before[-1]), columns[0].texts
    names = [f"x{k}" for k, _ in enumerate(args)]
    scope = {
        **RUN_TIME,
        **by_name(BatchDuplicated, Duplicated, autodiff, passing),
        **by_name(random_states, set_random_states),
        "Forward": Forward,
        "function": dispatcher,
        "keep_apart": keep_apart,
        **more,
    }

    def compiled(name: str, parameters: Sequence[str], lines: Sequence[str]) -> Any:
        key = tuple(before), tuple(args)
        used = {**scope, **texts.classes}
        return compiled_lines(dispatcher, name, parameters, lines, used, *key)

    first, *others = columns
    ending = [*(line for each in others for line in each.lines()), f"return {result}"]
    draws = any(each.draws for each in columns)
    states = [f"{_STATES} = random_states()"] * draws
    names_allocated = [_STATES] * draws + first.allocated
    if compiles_for_derivative() or not names_allocated:
        lines = [*states, *first.lines(), *ending]
        callee = compiled("columns", names, lines)
        return calling(typing_context, callee, before, args)
    allocated = f"{', '.join(names_allocated)},"
    start = [f"{allocated} = allocated", *first.counts()]
    steps = Steps(
        compiled("make", names, [*states, *first.begin(), f"return ({allocated})"]),
        compiled("run", ["allocated", *names], [*start, f"return {first.first}"]),
        compiled(
            "finish",
            ["allocated", "first", *names],
            [*start, f"{first.runs} = first", *first.rest(), *ending],
        ),
    )
    return steps_form(typing_context, steps, before, args)
