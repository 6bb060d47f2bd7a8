"""Scratch shadows: shadows of zeros for Const arguments that are mixed with active memory.

After `x = x0`, a loop that assigns new arrays to `x` makes it Const memory first and active memory
later. A shadow of zeros, dropped after the call, lets the first be treated like the second. With a
shadow, the layout of a list or object is declared, so that floats and integers in it can be told
apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from numba import types

from activerules.errors import (
    ActiveMemoryInConst,
    ActiverulesError,
    FloatBitsInInteger,
    MixedActivity,
    NotYetSupported,
)
from activerules.numba_ext.replaced.fallbacks import with_fallbacks
from activerules.numba_ext.target.capture import Captured
from activerules.pipeline.requests import argument_of
from activerules.values.layout import ValueActivity, layout_of

T = TypeVar("T")
_UNSHADOWED = (MixedActivity, ActiveMemoryInConst, FloatBitsInInteger, NotYetSupported)


def with_scratch(
    captured: Captured,
    activities: tuple[ValueActivity, ...],
    make: Callable[[tuple[ValueActivity, ...]], T],
) -> tuple[T, frozenset[int]]:
    """The result of `make` for the activities, and the Const arguments that need a scratch shadow.

    Raises what `make` raises if no scratch shadow helps.
    """

    def attempt(scratch: frozenset[int]) -> tuple[T, frozenset[int]]:
        shadowed: tuple[ValueActivity, ...] = tuple(
            "duplicated" if k in scratch else activity for k, activity in enumerate(activities)
        )
        try:
            return make(shadowed), scratch
        except ActiverulesError as error:
            if scratch:
                given = f"active data may be in {named(scratch)}, which therefore gets a shadow"
                error.why = "; ".join(filter(None, (error.why, given)))
            raise

    def named(arguments: frozenset[int]) -> str:
        return ", ".join(f"`{captured.argument_names[k]}`" for k in sorted(arguments))

    def with_more(
        scratch: frozenset[int], error: ActiverulesError
    ) -> tuple[frozenset[int], str] | None:
        mixed = {k for k in map(argument_of, error.groups) if k is not None}
        constant = {k for k, a in enumerate(activities) if a == "const"} - scratch
        if isinstance(error, FloatBitsInInteger):
            mixed = {k for k in constant if not _is_array(captured, k)}
        if isinstance(error, NotYetSupported):  # `derive_or_copy` uses the other groups
            mixed &= constant
            error.groups = tuple(g for g in error.groups if argument_of(g) not in mixed)
        more = {k for k in mixed if _has_floats(captured.arguments[k].numba_type)}
        if more <= scratch:
            error.instead = _advice(captured, sorted(mixed - more), error) or error.instead
            return None
        return scratch | more, f"a scratch shadow for {named(frozenset(more - scratch))}"

    return with_fallbacks(attempt, frozenset(), on=_UNSHADOWED, fallback=with_more)


def _is_array(captured: Captured, number: int) -> bool:
    return isinstance(captured.arguments[number].numba_type, types.Array)


def _advice(captured: Captured, numbers: Sequence[int], error: ActiverulesError) -> list[str]:
    """What to pass, or to return, in place of arguments that can have no shadow; empty if nothing
    is known.
    """
    names, types_of = captured.argument_names, [a.numba_type for a in captured.arguments]
    arrays = [names[k] for k in numbers if _is_array(captured, k)]
    lists = [names[k] for k in numbers if isinstance(types_of[k], types.List)]
    advice = [f"numba.typed.List({name})" for name in lists]
    if isinstance(error, ActiveMemoryInConst):
        return [f"{name}.copy()" for name in arrays] + advice
    if arrays:
        copies = ", ".join(f"{name} = {name}.copy()" for name in arrays)
        advice.append(f"copies made in the function, which have shadows: {copies}")
    return advice + [f"{name}.astype(np.float64), if no item is an index" for name in arrays]


def _has_floats(ty: types.Type) -> bool:
    """Whether there are floats in memory that a value refers to, all of it known."""
    node = layout_of(ty)
    return node.unknown_path is None and node.carried.by_reference
