"""Activity annotations: what a value contributes to a derivative.

`Const(x)` carries no derivative, `Active(x)` is a float whose derivative is returned, and
`Duplicated(x, dx)` carries a shadow `dx` of the same type, shape and strides, to which the
derivative is added. The classes themselves stand for the activity of a return value and of the
parameters of rules: `Active[float64]` restricts one to a type, `Active | Const` admits either,
`Annotation` admits all of them.

This module depends on nothing but the errors: the types in brackets may be any object.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from activerules.errors import ActivityError


class _Admitting:
    """What can be joined with others by `|`: `Const | Active[float64]`."""

    def __or__(self, other: object) -> AnyOf:
        """Add alternatives on the right."""
        return AnyOf((*alternatives(self), *alternatives(other)))

    def __ror__(self, other: object) -> AnyOf:
        """Add alternatives on the left."""
        return AnyOf((*alternatives(other), *alternatives(self)))


@dataclass(frozen=True, eq=False)
class Narrowed(_Admitting):
    """An annotation class with a type: `Active[float64]`. `type` None admits every type."""

    kind: type[Annotation]
    type: Any = None

    def __call__(self, *fields: Any) -> Annotation:
        """Construct the annotation; the type in brackets only matters for dispatch."""
        return self.kind(*fields)

    def __repr__(self) -> str:
        """Return the form that is written in a signature."""
        return self.kind.__name__ if self.type is None else f"{self.kind.__name__}[{self.type}]"


@dataclass(frozen=True, eq=False)
class AnyOf(_Admitting):
    """Alternatives, one of which must fit: `Active[float64] | Const`."""

    members: tuple[Narrowed, ...]

    def __repr__(self) -> str:
        """Return the form that is written in a signature."""
        return " | ".join(map(repr, self.members))


class Annotation:
    """Base class of the annotations; in a rule's signature it stands for any of them."""

    __slots__: tuple[str, ...] = ()

    def __class_getitem__(cls, item: Any) -> Narrowed:
        """`Active[float64]`: this annotation, for values of one type."""
        return Narrowed(cls, item)

    @property
    def fields(self) -> tuple[Any, ...]:
        """The arguments the annotation was constructed from."""
        return tuple(getattr(self, name) for name in self.__slots__)

    def __repr__(self) -> str:
        """Return the form that constructs it: `Duplicated(x, dx)`."""
        return f"{type(self).__name__}({', '.join(map(repr, self.fields))})"


def _required(form: str) -> Callable[[], Any]:
    """The default of a shadow: leaving it out raises an error that shows the right form."""

    def raise_missing() -> Any:
        kind = form.partition("(")[0]
        raise ActivityError(
            f"{kind} has no shadow: it takes the value and its shadow",
            why="the derivative is added to the shadow; in forward mode the shadow is the tangent",
            instead=[form],
        )

    return raise_missing


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Const(Annotation):
    """A value that carries no derivative; it is not written by derivative code."""

    val: Any


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Active(Annotation):
    """A float, a complex number or a tuple of them, whose derivative is returned (reverse mode)."""

    val: Any


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Duplicated(Annotation):
    """A value and its shadow `dval`: reverse mode adds the derivative to it, in forward mode it is
    the tangent.
    """

    val: Any
    dval: Any = field(default_factory=_required("Duplicated(x, make_zero(x))"))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class DuplicatedNoNeed(Annotation):
    """Like Duplicated, for a value that itself need not be computed."""

    val: Any
    dval: Any = field(default_factory=_required("DuplicatedNoNeed(x, make_zero(x))"))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class BatchDuplicated(Annotation):
    """A value and a tuple of N shadows, for N derivatives in one call."""

    val: Any
    dval: Any = field(default_factory=_required("BatchDuplicated(x, (dx1, dx2))"))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class BatchDuplicatedNoNeed(Annotation):
    """Like BatchDuplicated, for a value that itself need not be computed."""

    val: Any
    dval: Any = field(default_factory=_required("BatchDuplicatedNoNeed(x, (dx1, dx2))"))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class MixedDuplicated(Annotation):
    """A tuple of floats and arrays: derivatives of its arrays are added to `dval`, those of its
    floats are returned.
    """

    val: Any
    dval: Any = field(default_factory=_required("MixedDuplicated(x, make_zero(x))"))


KINDS: tuple[type[Annotation], ...] = (
    Const,
    Active,
    Duplicated,
    DuplicatedNoNeed,
    BatchDuplicated,
    BatchDuplicatedNoNeed,
    MixedDuplicated,
)

RETURNED = (Active, MixedDuplicated)
"""Those whose derivative a rule returns, as a number or the numbers of a tuple."""
SHADOWED = (Duplicated, MixedDuplicated)
"""Those with one shadow, in a rule or a call in reverse mode."""
BATCHED = (BatchDuplicated, BatchDuplicatedNoNeed)

BY_NAME: dict[str, type[Annotation]] = {
    "const": Const,
    "active": Active,
    "duplicated": Duplicated,
    "mixed": MixedDuplicated,
}
"""The activities an analysis speaks of, as the classes users write."""


def annotate(kind: Any, x: Any, shadow: Any = None) -> Annotation:
    """Return an annotation of the class `kind`, with a shadow if the class has one."""
    return kind(x) if kind in (Const, Active) else kind(x, shadow)


def is_annotation_class(item: object) -> TypeGuard[type[Annotation]]:
    """Return whether `item` is an annotation class, such as `Active` (not `Active(1.0)`)."""
    return isinstance(item, type) and issubclass(item, Annotation)


def alternatives(annotation: object) -> Iterator[Narrowed]:
    """Yield the single annotations that the annotation of a parameter admits.

    `Annotation` gives all of them. Raises `TypeError` if it is not an annotation.
    """
    if isinstance(annotation, types.UnionType):
        for member in annotation.__args__:
            yield from alternatives(member)
    elif isinstance(annotation, AnyOf):
        yield from annotation.members
    else:
        is_narrowed = isinstance(annotation, Narrowed)
        kind, wanted = (annotation.kind, annotation.type) if is_narrowed else (annotation, None)
        if not is_annotation_class(kind):
            raise TypeError(f"{annotation!r} is not an annotation like Const, Active, Duplicated")
        for each in KINDS if kind is Annotation else (kind,):
            yield Narrowed(each, wanted)
