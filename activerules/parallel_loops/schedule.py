"""How the iterations of a loop are divided among threads, and how sums come together.

Needs       the iterations of a loop; shadows
Gives       `groups`, `chunks`, `start_of`: how iterations are divided; `phases`: which groups run
            together;
            `which_meet`: of some arrays, those that share memory;
            `add_share`: the sum of the shadows of all groups; `no_derivative`, `plus`, `total_of`:
            of derivatives with respect to numbers; `scratch`; `start_with`, `new_partials`,
            `fold_of`: reductions
Invariants  C1  iterations of different groups of a phase are further apart than they reach

A group of consecutive chunks of consecutive iterations is what one thread runs. It has several
chunks as the reverse computes each of them again: its tape is short, and stays in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import register_jitable

from activerules.annotations.values import make_zero
from activerules.errors import NotYetSupported
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.threads import thread_count
from activerules.numba_ext.rules.checks import overlap
from activerules.parallel_loops.names import Reduction
from activerules.rules.pattern import type_name
from activerules.rules.written import by_name, function_from, over_elements, tuple_of
from activerules.values.kinds import is_number
from activerules.values.leaf_texts import LeafText, TupleTexts
from activerules.values.overlaps import span_of, which_overlap


@register_jitable
def groups(first, last, per_thread):
    """The number of groups of a range of iterations."""
    return min(thread_count() * per_thread, max(last - first, 0))


@chosen_by_types
def chunks(first, last, group_count, reduced):  # noqa: ARG001
    """The number of chunks of a range of iterations: as many in each group, at most 64. There is
    one in each if the tuple `reduced` has arrays, as each chunk has such an array of its own.
    """
    if any(isinstance(ty, types.Array) for ty in reduced):
        return lambda first, last, group_count, reduced: group_count

    def of_numbers(first, last, group_count, reduced):  # noqa: ARG001
        return group_count * min((last - first) // group_count, 64) if group_count > 0 else 0

    return of_numbers


@register_jitable
def start_of(part, first, last, count):
    """The first iteration of one of `count` parts; for `count`, the one behind the last."""
    return first + (last - first) * part // count


@register_jitable
def phases(first, last, group_count, spread):
    """In how many phases groups run, so that iterations of different groups of a phase are more
    than `spread` apart: phase p runs the groups p, p + phases, ...
    """
    shortest = (last - first) // group_count
    return min(group_count, 1 + (spread + shortest - 1) // shortest)


@chosen_by_types
def add_share(part, args):  # noqa: ARG001
    """Add to one of `count` ranges of rows of an array what the shadows of all groups have there;
    `args` is (count, array, shadows).

    Element by element: an assignment to a slice would compile the text of its error message.
    """
    if args[1].ndim == 0:
        return _add_elements
    loops = over_elements("total[{index}] += each[{index}]", "total", args[1].ndim, " " * 8)
    rows = loops.replace("range(total.shape[0])", "range(first, last)", 1)
    source = f"""def of_rows(part, args):
    count, total, parts = args
    first = start_of(part, 0, total.shape[0], count)
    last = start_of(part + 1, 0, total.shape[0], count)
    for each in parts:
{rows}"""
    return function_from(source, "of_rows", by_name(start_of), module=__name__)


def _add_elements(part, args):
    """`add_share` for arrays of one element, which the first range has."""
    _, total, parts = args
    if part == 0:
        for each in parts:
            total[()] += each[()]


@chosen_by_types
def no_derivative(x):
    """The derivative zero with respect to the numbers in `x`, None in place of all else."""
    texts, numbers = TupleTexts(), dict[str, Any]()

    def zero(leaf: LeafText) -> str:
        if not is_number(leaf.numba_type):
            return "None"
        name = f"_Number{len(numbers)}"
        numbers[name] = leaf.numba_type
        return f"{name}(0)"

    source = f"def zeros(x): return {texts.rebuilt(x, zero)}"
    return function_from(source, "zeros", {**texts.classes, **numbers}, module=__name__)


@chosen_by_types
def plus(total, found):  # noqa: ARG001
    """The sum of two such derivatives."""
    texts = TupleTexts()

    def item(leaf: LeafText) -> str:
        return f"{leaf.text} + found{leaf.path}" if is_number(leaf.numba_type) else "None"

    source = f"def added(total, found): return {texts.rebuilt(total, item, 'total')}"
    return function_from(source, "added", texts.classes, module=__name__)


@register_jitable
def total_of(zero, parts):
    """The sum of the derivatives of all groups, in their order."""
    for part in parts:
        zero = plus(zero, part)
    return zero


@chosen_by_types
def which_meet(arrays):
    """For each array of a tuple, whether it shares memory with another one. Of more than two, each
    is a row of a table, so that code grows with the number of arrays, not of pairs.
    """
    if len(arrays) == 2:
        return _both_if_they_meet
    rows = (f"_span_of(arrays[{k}])" for k, _ in enumerate(arrays))
    source = f"def f(arrays): return _which_overlap(_np.array({tuple_of(rows)}))"
    names = {"_np": np, **by_name(span_of, which_overlap, prefix="_")}
    return function_from(source, "f", names, module=__name__)


def _both_if_they_meet(arrays):
    meet = overlap(arrays[0], arrays[1])
    return meet, meet


@chosen_by_types
def scratch(x):
    """An array like `x`, whose values do not matter."""
    return (lambda x: make_zero(x)) if x.layout == "A" else (lambda x: np.empty_like(x))


@chosen_by_types
def start_with(partials, chunk):  # noqa: ARG001
    """The value that the reduction of a chunk starts with."""
    if partials.ndim == 1:
        return lambda partials, chunk: partials[chunk]
    return lambda partials, chunk: partials[chunk].copy()


@chosen_by_types
def sum_into(x, partials):  # noqa: ARG001
    """The sum of x and the partials; an array is added to in place."""
    if isinstance(x, types.Array):

        def of_arrays(x, partials):
            for k in range(len(partials)):
                x += partials[k]
            return x

        return of_arrays

    return sum_of


@register_jitable
def sum_of(x, partials):
    """The sum of x and the partials; an array stays as it is, as in `a = a + e`."""
    for k in range(len(partials)):
        x = x + partials[k]
    return x


@register_jitable
def product_of(x, partials):
    """The product of x and the partials."""
    for part in partials:
        x = x * part
    return x


@register_jitable
def largest_of(x, partials):
    """The maximum of x and the partials."""
    for part in partials:
        x = max(x, part)
    return x


@register_jitable
def smallest_of(x, partials):
    """The minimum of x and the partials."""
    for part in partials:
        x = min(x, part)
    return x


_FOLDS: dict[str, Any] = {"+": sum_of, "*": product_of, "max": largest_of, "min": smallest_of}


def fold_of(reduction: Reduction) -> Any:
    """The function of x and the partials that reduces them all."""
    if reduction.operation == "+" and reduction.in_place:
        return sum_into
    return _FOLDS[reduction.operation]


def new_partials(operation: str, k: int, reduced: types.Type, where: tuple[str, str, str]) -> str:
    """Source of the array with an entry per chunk for the reduction of `starts[k]`, of the type
    `_dtype0` for the first one.

    Raises `NotYetSupported` for what is reduced otherwise than in Numba.
    """
    dtype = f"_dtype{k}"
    if isinstance(reduced, types.Number | types.Boolean):
        fill = {"+": "0", "*": "1"}.get(operation, f"starts[{k}]")
        return f"_np.full(count, {fill}, {dtype})"
    if isinstance(reduced, types.Array) and operation == "+":
        shape = "".join(f", starts[{k}].shape[{axis}]" for axis in range(reduced.ndim))
        return f"_np.zeros((count{shape}), {dtype})"
    raise NotYetSupported(
        f"a prange loop reduces {type_name(reduced)} by `{operation}`",
        where=[where],
        why="numbers are added, multiplied, or compared by max and min; arrays are added",
        instead=["an array with an entry per iteration, which is reduced after the loop"],
    )
