"""The functions that run the chunks of a parallel loop in a forward or reverse sweep.

Needs       a loop, the function of one chunk of it, and the annotated types of its arguments
Gives       `ForwardSweep`, `ReverseSweep`: what the rule of the loop calls
Invariants  S1  what two groups add to at the same time is not the same memory

They are source text. A sweep takes its arguments apart, and passes a tuple on to `step`, which is
one group. The names:

    n0, n1  the first iteration, and the one behind the last
    q, c    how many groups, and how many chunks; k: one of them
    v0, d0  value and shadow of argument 0; e0: the shadow that a group adds to
    s0, p0  whether groups share d0; if not, the shadows of all groups
    g0      the derivatives with respect to numbers, of all groups
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np
from numba import types

from activerules.annotations.activity import Active, Const, Duplicated, MixedDuplicated
from activerules.annotations.signature import Forward, Mode, Reverse
from activerules.annotations.values import make_zero
from activerules.api.autodiff import autodiff
from activerules.errors import NotYetSupported
from activerules.numba_ext.calls.refused_kinds import refuse_generators
from activerules.numba_ext.codegen.stubs import Stub
from activerules.numba_ext.codegen.threads import in_threads
from activerules.numba_ext.codegen.types import as_strict
from activerules.numba_ext.target.effects import draws_numbers
from activerules.parallel_loops import schedule
from activerules.parallel_loops.accesses import Access
from activerules.parallel_loops.outline import WITHOUT_THREADS, Loop
from activerules.rules.pattern import type_name
from activerules.rules.written import by_name, function_from, tuple_of
from activerules.values.layout import layout_of
from activerules.values.leaf_texts import leaves_at

_CALLED = {
    **by_name(Active, Const, Duplicated, MixedDuplicated, autodiff, in_threads, prefix="_"),
    **by_name(make_zero, schedule.which_meet, prefix="_"),
    **by_name(schedule.add_share, schedule.phases, schedule.scratch, schedule.start_of, prefix="_"),
    **by_name(schedule.no_derivative, schedule.plus, schedule.total_of, prefix="_"),
    "_np": np,
}
_OF_GROUP = "for j in range(k * (c // q), (k + 1) * (c // q)):"  # its chunks
_ONE_BY_ONE = "the threads add to numbers and arrays of their own, which are then added up"


class Argument:
    """One argument of a sweep.

    ty       its annotated type
    access   which part of it an iteration accesses
    written  the loop may write into its memory
    numbers  what is returned are derivatives with respect to numbers
    arrays   the paths to the arrays in its shadow
    adds_up  it has numbers and arrays of numbers only
    """

    def __init__(self, k: int, name: str, ty: Any, access: Access, *, written: bool) -> None:
        self.k, self.name, self.kind, self.type = k, name, ty.kind, ty.val
        self.access, self.written = access, written
        self.is_array = isinstance(ty.val, types.Array)
        leaves = [*leaves_at("", ty.val)]
        self.adds_up = all(e.carries or layout_of(e.numba_type).activity == "const" for e in leaves)
        self.arrays = [each.path for each in leaves if each.is_array]
        self.has_shadow = _is_double(self) and not isinstance(ty.val, types.Number)
        self.numbers = ty.kind in (Active, MixedDuplicated)
        self.is_disjoint = self.is_array and getattr(ty.val, "ndim", 0) > 0 and access.is_disjoint

    def passed(self, shadow: str) -> str:
        """Source of the annotated value."""
        value = f"v{self.k}"
        return f"_{self.kind.__name__}({f'{value}, {shadow}' if _is_double(self) else value})"


class Sweep:
    """Generates the functions of one sweep.

    chunk       the function of one chunk
    compiled    compiles source text that sees some names, with the options of the loop
    """

    mode: Mode

    def __init__(
        self,
        loop: Loop,
        arguments: Sequence[Argument],
        chunk: Any,
        compiled: Callable[[str, dict[str, Any]], Any],
    ) -> None:
        self.loop, self.arguments, self.chunk, self.compiled = loop, arguments, chunk, compiled
        for each in arguments:
            if each.kind not in (Const, Active, Duplicated, MixedDuplicated):
                raise self.refused_type(each)

    def refused_type(self, argument: Argument) -> NotYetSupported:
        """The error for an argument of which threads can have no parts of their own."""
        state = "that is written" if argument.kind is Const else "with a derivative"
        what = f"`{argument.name}` is {type_name(argument.type)} {state}"
        return self.refused(what, _ONE_BY_ONE, [f"the numbers and arrays in `{argument.name}`"])

    def refused(self, what: str, why: str, instead: list[str]) -> NotYetSupported:
        """An error that names the loop."""
        where = ("the loop", self.loop.iterations.__qualname__, self.loop.location)
        return NotYetSupported(
            f"{what}, in a parallel loop", [where], why, [*instead, WITHOUT_THREADS]
        )

    def function(self, config: Any) -> Callable[..., Any]:
        """The sweep, for a configuration of the rule: a function of that, of the iterations and how
        they are divided, and of a tuple of the arguments.
        """
        names = {**_CALLED, "_mode": as_strict(self.mode, config), "_chunk": self.chunk}
        parts = [name for each in self.arguments for name in self.parts(each)]
        passed = f"(n0, n1, q, c, {tuple_of(parts)})"
        step = _lines([f"{passed} = args", *self.step()])
        names["_step"] = Stub(self.compiled(f"def f(k, args):\n{step}", names))
        source = f"""def f(config, first, last, group_count, count, args):
    n0, n1, q, c = first.val, last.val, group_count.val, count.val
{_lines(self.unpack())}
    if q > 0:
        phases = 1
{_lines(self.shared(), 8)}
        for phase in range(phases):
            _in_threads(_step, phase, phases, (q - phase + phases - 1) // phases, {passed})
{_lines(self.together(), 8)}
    return {self.result()}"""
        return function_from(source, "f", names, module=__name__)

    def unpack(self) -> list[str]:
        """Takes the annotated arguments apart."""
        values = [f"v{e.k} = args[{e.k}].val" for e in self.arguments]
        return values + [f"d{e.k} = args[{e.k}].dval" for e in self.arguments if _is_double(e)]

    def parts(self, argument: Argument) -> list[str]:
        """The names of what groups need of an argument."""
        return [f"v{argument.k}", *([f"d{argument.k}"] if _is_double(argument) else [])]

    def call(self, private: Set[int] = frozenset()) -> str:
        """The derivative of a chunk, whose group has shadows of its own for some arguments."""
        bounds = [f"_Const(_start_of({k}, n0, n1, c))" for k in ("j", "j + 1")]
        passed = [e.passed(f"{'e' if e.k in private else 'd'}{e.k}") for e in self.arguments]
        return f"_autodiff(_mode, _chunk, _Const, {', '.join([*bounds, '_Const(j)', *passed])})"

    def step(self) -> list[str]:
        """Runs the derivatives of a group of chunks."""
        return [_OF_GROUP, f"    {self.call()}"]

    def shared(self) -> list[str]:
        """Decides which groups run at the same time, and what they share."""
        return ["pass"]

    def together(self) -> list[str]:
        """Adds up what groups do not share."""
        return []

    def result(self) -> str:
        """What the rule returns."""
        return "None"


class ForwardSweep(Sweep):
    """Tangents are read where values are, and written where values are: as in the primal, no two
    iterations write to the same memory, and chunks share all of it.
    """

    mode = Forward


class ReverseSweep(Sweep):
    """Cotangents are added to wherever values are read, which may be the same memory."""

    mode = Reverse

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        shadowed = [each for each in self.arguments if each.has_shadow]
        self._disjoint = [each for each in shadowed if each.is_disjoint]
        self._private = [each for each in shadowed if not each.written]
        for each in self.arguments:
            unsaved = each.access.never_read and not each.is_array
            if unsaved or ((each.has_shadow or each.numbers) and not each.adds_up):
                raise self.refused_type(each)
        for each in shadowed:
            if each.written and not each.is_disjoint:
                separate = [f"variables for the arrays in `{each.name}`, before the loop"]
                by_index = [
                    "subscripts that have the index on one axis, as `a[i, j]` and `a[i + 1]`",
                    f"rows as arguments of functions: g({each.name}[i])",
                ]
                raise self.refused(
                    f"`{each.name}` may be written, there or in a function that it is passed to, "
                    "and is read by other subscripts than the index",
                    "which of its entries belong to one iteration alone is not known",
                    by_index if each.is_array else separate,
                )
        values = tuple(each.type for each in self.arguments)
        refuse_generators(values)
        if draws_numbers(self.chunk, (types.intp, types.intp, types.intp, *values)):
            raise self.refused(
                "random numbers are drawn",
                "the reverse sweep runs the loop once more, and would draw others",
                ["an array of numbers that are drawn before the loop"],
            )

    def unpack(self) -> list[str]:
        """Takes the arguments apart, and allocates what groups leave."""
        lines = super().unpack()
        for each in self.arguments:
            if each.access.never_read:
                lines.append(f"v{each.k} = _scratch(v{each.k})")
            if each.numbers:
                lines.append(f"g{each.k} = [_no_derivative(v{each.k})] * q")
        return lines

    def parts(self, argument: Argument) -> list[str]:
        """The names of what groups need of an argument."""
        private = [f"{letter}{argument.k}" for letter in "sp" if argument in self._private]
        numbers = [f"g{argument.k}"] if argument.numbers else []
        return [*super().parts(argument), *private, *numbers]

    def shared(self) -> list[str]:
        """Decides which groups run at the same time, and what they share."""
        lines = ["spread, serial = 0, False"]
        apart = ""
        if len(self._disjoint) > 1:
            lines.append(f"meet = _which_meet({tuple_of(f'd{e.k}' for e in self._disjoint)})")
            apart = " and not meet[{i}]"
        for i, (k, first) in enumerate((e.k, e.access.first) for e in self._disjoint):
            # a negative subscript counts from the end
            lines.append(f"h{k} = n0 >= {-first}" + apart.format(i=i))
        for each in self._disjoint:
            if each.access.last > each.access.first:
                width = each.access.last - each.access.first
                lines.append(f"if h{each.k}: spread = max(spread, {width})")
            if each.written:
                lines.append(f"if not h{each.k}: serial = True")
        lines.append("phases = q if serial else _phases(n0, n1, q, spread)")
        for each in self._private:
            also = f"h{each.k} or " if each.is_disjoint else ""
            # a single group has its own, too: arrays that overlap may have saved values that do not
            lines.append(f"s{each.k} = {also}serial or 1 < q == phases")
            lines.append(f"p{each.k} = [d{each.k}] * (0 if s{each.k} else q)")
        return lines

    def step(self) -> list[str]:
        """Runs the derivatives of a group of chunks, and keeps what is not shared."""
        private = {each.k for each in self._private}
        lines = [f"e{k} = d{k} if s{k} else _make_zero(d{k})" for k in sorted(private)]
        lines += [_OF_GROUP, f"    found = {self.call(private)}"]
        numbers = [e.k for e in self.arguments if e.numbers]
        lines += [f"    g{i}[k] = _plus(g{i}[k], found[{i + 3}])" for i in numbers]
        return lines + [f"if not s{k}: p{k}[k] = e{k}" for k in sorted(private)]

    def together(self) -> list[str]:
        """One array after the other, as they may overlap."""
        shared = [(each.k, path) for each in self._private for path in each.arrays]
        return [
            f"if not s{k}: "
            f"_in_threads(_add_share, 0, 1, q, (q, d{k}{path}, [each{path} for each in p{k}]))"
            for k, path in shared
        ]

    def result(self) -> str:
        """The derivatives with respect to numbers."""
        totals = [
            f"_total_of(_no_derivative(v{e.k}), g{e.k})" if e.numbers else "None"
            for e in self.arguments
        ]
        return tuple_of(["None"] * 4 + totals)


def _is_double(argument: Argument) -> bool:
    return argument.kind in (Duplicated, MixedDuplicated)


def _lines(lines: Sequence[str], indent: int = 4) -> str:
    return "\n".join(" " * indent + line for line in lines)
