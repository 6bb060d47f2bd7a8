"""Types of values that a derivative cannot be taken with respect to, or that its runs would share.

Gives       `refuse_kind`, `refuse_generators`: they raise for them, and say what to write instead
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numba.core import types

from activerules.errors import ActivityError, NotYetSupported
from activerules.numba_ext.codegen.types import AnnotationType, refused_annotation
from activerules.rules.pattern import type_name
from activerules.values.kinds import leaves_of
from activerules.values.layout import layout_of


def refuse_kind(name: str, ty: Any) -> None:
    """Refuse a derivative with respect to an annotation, where plain values are given, to an
    optional value, or to memory that is no NumPy array: a `memoryview`, an `array.array`, or an
    array of another library that Numba can access.
    """
    if isinstance(ty, AnnotationType):
        raise refused_annotation(name, ty)
    if isinstance(ty, types.Optional) and layout_of(ty).numbers.any:
        raise NotYetSupported(
            f"`{name}` may be None: it is {type_name(ty)}",
            why="whether a value that may be None has a derivative is known only when it runs",
            instead=[
                "an array without items, or of zeros, in place of None, and a flag beside it",
                "two derivatives in the two branches of an `if`: of the function with a value, "
                "and of one without it",
            ],
        )
    if isinstance(ty, types.Buffer) and not isinstance(ty, types.Array):
        raise ActivityError(
            f"`{name}` is not an array of NumPy (to Numba it is {ty})",
            why="what is added to, or returned, is an array of NumPy",
            instead=[f"np.asarray({name})"],
        )


def refuse_generators(args: Iterable[Any]) -> None:
    """Raise `NotYetSupported` if an argument of a function that runs several times is a NumPy
    generator, or a tuple or object with one.
    """
    if any(isinstance(x, types.NumPyRandomGeneratorType) for ty in args for x in leaves_of(ty)):
        raise NotYetSupported(
            "a function that draws random numbers from an argument, and runs several times",
            why="each run would draw other numbers",
            instead=["numbers that are drawn before, and passed as an argument"],
        )
