"""Patterns: the arguments a parameter of a rule admits, and which of two rules is more specific.

A pattern is a tuple of alternatives, each an annotation class with an optional type. Numba's types
are compared by attributes that all of them have (`dtype`, `ndim`, `layout`), so that rules can be
defined and tested without importing Numba.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import reduce
from typing import Any

import numpy as np

from activerules.annotations.activity import BY_NAME, Annotation, Narrowed, alternatives

Pattern = tuple[Narrowed, ...]


class Order(Enum):
    """How the sets of calls that two patterns, types or signatures admit are related."""

    NARROWER = "narrower"
    EQUAL = "equal"
    WIDER = "wider"
    NEITHER = "neither"

    def then(self, other: Order) -> Order:
        """Combine the orders of two parameters: if they disagree, there is none."""
        if self is Order.EQUAL or self is other:
            return other
        return self if other is Order.EQUAL else Order.NEITHER

    @classmethod
    def of_inclusions(cls, in_other: bool, holds_other: bool) -> Order:
        """The order of two sets, by whether each includes the other."""
        if in_other:
            return cls.EQUAL if holds_other else cls.NARROWER
        return cls.WIDER if holds_other else cls.NEITHER


def pattern_of(annotation: object) -> Pattern:
    """The alternatives of an annotation as written, with Numba's types.

    Raises `TypeError` for what is no annotation, or has no type in brackets.
    """
    return tuple(Narrowed(a.kind, canonical_type(a.type)) for a in alternatives(annotation))


def pattern_key(pattern: Pattern) -> frozenset[tuple[type[Annotation], Any]]:
    """A key that is equal for patterns with the same alternatives in any order."""
    return frozenset((alternative.kind, alternative.type) for alternative in pattern)


def canonical_type(written: Any) -> Any:
    """Numba's type for a type as written: `float`, `np.float64`, `np.ndarray`, a jitclass; types of
    Numba, and classes of them, as they are.

    Raises `TypeError` for anything else.
    """
    if _is_scalar_class(written):
        from numba import from_dtype

        return from_dtype(np.dtype(written))
    if written is np.ndarray:
        from numba import types

        return types.Array
    instances = getattr(getattr(written, "class_type", None), "instance_type", None)
    if instances is not None:
        return instances
    if written is not None and not _is_of_numba(written):
        raise TypeError(f"{written!r} is not a type of Numba")
    return written


def _is_of_numba(written: Any) -> bool:
    """Whether this is a type of Numba, or a class of them; known without Numba."""
    kind = written if isinstance(written, type) else type(written)
    return any((c.__module__, c.__name__) == _NUMBA_TYPE for c in kind.__mro__)


_NUMBA_TYPE = ("numba.core.types.abstract", "Type")


def _is_scalar_class(written: Any) -> bool:
    return isinstance(written, type) and issubclass(written, (np.generic, int, float, complex))


def admits(constraint: Any, ty: Any) -> bool:
    """Whether `constraint` admits every value that `ty` admits.

    Both are None (any type), a class of Numba types, or a Numba type. An array type of layout A
    admits every layout; whether an array is read-only does not matter to a rule.
    """
    if constraint is None or ty is None:
        return constraint is None
    if isinstance(constraint, type):
        return issubclass(ty if isinstance(ty, type) else type(ty), constraint)
    if isinstance(ty, type):
        return False
    if _is_array(constraint) and _is_array(ty):
        same = constraint.dtype == ty.dtype and constraint.ndim == ty.ndim
        contiguous = ("C", "F") if ty.ndim == 1 else ()  # one layout: a column of an F-array has F
        return same and (
            constraint.layout in ("A", ty.layout)
            or (constraint.layout in contiguous and ty.layout in contiguous)
        )
    return constraint == ty


def is_discrete(ty: Any) -> bool:
    """Whether this is a type of integers or truth values, or a class of such types."""
    kind = ty if isinstance(ty, type) else type(ty)
    return any(c.__name__ in ("Integer", "Boolean") for c in kind.__mro__)


def _is_array(ty: Any) -> bool:
    return hasattr(ty, "layout") and hasattr(ty, "ndim")


def type_order(first: Any, second: Any) -> Order:
    """The order of two type constraints."""
    return Order.of_inclusions(admits(second, first), admits(first, second))


def activity_order(first: Pattern, second: Pattern) -> Order:
    """The order of two patterns by the activities they admit."""
    first_kinds, second_kinds = ({a.kind for a in pattern} for pattern in (first, second))
    return Order.of_inclusions(first_kinds <= second_kinds, first_kinds >= second_kinds)


def matching(pattern: Pattern, kind: type[Annotation], ty: Any) -> Narrowed | None:
    """The narrowest alternative that admits an activity and a type, or None."""
    best = None
    for alternative in pattern:
        fits = alternative.kind is kind and admits(alternative.type, ty)
        if fits and (best is None or admits(best.type, alternative.type)):
            best = alternative
    return best


def is_tie(first: Sequence[Pattern], second: Sequence[Pattern]) -> bool:
    """Whether some call fits both signatures, and neither is more specific for it."""
    return bool(_orders_of_calls(first, second) & {Order.EQUAL, Order.NEITHER})


def is_preferred(first: Sequence[Pattern], second: Sequence[Pattern]) -> bool:
    """Whether some call fits both signatures, and the first is more specific for all of them."""
    return _orders_of_calls(first, second) == {Order.NARROWER}


def _orders_of_calls(first: Sequence[Pattern], second: Sequence[Pattern]) -> set[Order]:
    """The orders of two signatures for the calls that fit both; empty if none does."""
    if len(first) != len(second):
        return set()
    orders = {Order.EQUAL}
    for mine, theirs in zip(first, second, strict=True):
        here = _overlap_orders(mine, theirs)
        orders = {order.then(next_order) for order in orders for next_order in here}
    if Order.EQUAL in orders:
        orders = orders - {Order.EQUAL} | {signature_activity_order(first, second)}
    return orders


def _overlap_orders(mine: Pattern, theirs: Pattern) -> set[Order]:
    """The orders of the types of overlapping alternatives; empty if the patterns are disjoint."""
    orders = {type_order(a.type, b.type) for a in mine for b in theirs if a.kind is b.kind}
    return orders - {Order.NEITHER}


def signature_activity_order(first: Sequence[Pattern], second: Sequence[Pattern]) -> Order:
    """The order of two signatures by their activities alone."""
    return combined(activity_order(a, b) for a, b in zip(first, second, strict=True))


def combined(orders: Iterable[Order]) -> Order:
    """The order of two signatures, from those of their parameters."""
    return reduce(Order.then, orders, Order.EQUAL)


def meet(first: Sequence[Pattern], second: Sequence[Pattern]) -> tuple[Pattern, ...]:
    """The patterns of the calls that both signatures admit, argument by argument."""
    return tuple(
        tuple(
            a if admits(b.type, a.type) else b
            for a in mine
            for b in theirs
            if a.kind is b.kind and type_order(a.type, b.type) is not Order.NEITHER
        )
        for mine, theirs in zip(first, second, strict=True)
    )


def covers(signature: Sequence[Pattern], region: Sequence[Pattern]) -> bool:
    """Whether a signature admits every call that `region` admits."""
    return len(signature) == len(region) and all(
        matching(pattern, part.kind, part.type) is not None
        for pattern, parts in zip(signature, region, strict=True)
        for part in parts
    )


# Python's names by Numba's
_PLAIN_NAMES = {"none": "None", "unicode_type": "str", "Array": "np.ndarray"}


def type_name(ty: Any) -> str:
    """A type as it is written in a signature: `float64[:, ::1]`, `(float64, None)`, `str`."""
    if isinstance(ty, type):  # a class of types
        return _PLAIN_NAMES.get(ty.__name__, ty.__name__)
    if _is_array(ty):
        axes = [":"] * ty.ndim
        if ty.layout in ("C", "F") and axes:
            axes[-1 if ty.layout == "C" else 0] = "::1"
        return f"{type_name(ty.dtype)}[{', '.join(axes)}]"
    # a package's literals may be the types of their own values
    if (plain := getattr(ty, "literal_type", ty)) is not ty and plain != ty:
        return type_name(plain)
    if type(ty).__name__ == "LiteralStrKeyDict":  # whose class is hidden
        return "dict"
    if hasattr(ty, "instance_class"):  # a named tuple, or an instance of a class
        return ty.instance_class.__name__
    if hasattr(ty, "class_type"):  # an instance of a jitclass
        return ty.class_type.class_name
    if isinstance(getattr(ty, "types", None), tuple):
        items = [type_name(item) for item in ty.types]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if hasattr(ty, "type") and type(ty).__name__ == "Optional":
        return f"{type_name(ty.type)} | None"
    name = str(ty)
    return _container_name(ty) or _PLAIN_NAMES.get(name, name)


def _container_name(ty: Any) -> str:
    """The name of the type of a list, a set, a dictionary or an annotation; "" for all others."""
    kind = type(ty).__name__
    if kind == "AnnotationType":
        return f"{ty.kind.__name__}[{type_name(ty.val)}]"
    if kind in ("List", "Set"):  # of Python
        return f"{kind.lower()}[{type_name(ty.dtype)}]"
    if kind == "ListType":  # of numba.typed
        return f"ListType[{type_name(ty.item_type)}]"
    if kind == "DictType":
        return f"DictType[{type_name(ty.key_type)}, {type_name(ty.value_type)}]"
    return ""


def show(pattern: Pattern) -> str:
    """A pattern as it is written in the signature of a rule."""
    groups: dict[Any, list[type[Annotation]]] = {}
    for alternative in pattern:
        groups.setdefault(alternative.type, []).append(alternative.kind)
    parts: list[str] = []
    for wanted, kinds in groups.items():
        is_any = {*kinds} >= {*BY_NAME.values()}  # no reverse rule is asked for a batch
        names = ["Annotation"] if is_any else [kind.__name__ for kind in kinds]
        bracket = "" if wanted is None else f"[{type_name(wanted)}]"
        parts += [name + bracket for name in names]
    return " | ".join(parts)
