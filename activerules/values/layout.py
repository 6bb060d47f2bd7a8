"""The tree of a Numba type: the parts that a value of this type has.

Needs       a Numba type; nothing of compilers, sizes or LLVM
Gives       `layout_of`: its tree, whose nodes tell where numbers are and which activity a value can
            have; `map_type`: the type with every leaf's type replaced; `shadow_of_leaf`: the type
            of a leaf's shadow; `fold`: a fold over tuples and leaves; `pairs`: two types in step
Invariants  L1  a tree is finite: a type that refers to itself is `Opaque` where it does so
            L2  what is not known to hold no numbers is `Opaque` (or `Number` of an unknown width)
            L3  numbers in a value itself are Active, numbers in memory it refers to Duplicated:
                every question about activity is answered by these two flags (`Numbers`)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from typing import Any, Literal, TypeVar

from numba import types

from activerules.annotations.trees import keys_of

T = TypeVar("T")
Step = int | str
EACH = "[…]"
"""The step from a list to its items, from a dictionary to its values."""
Path = tuple[Step, ...]
ValueActivity = Literal["const", "active", "duplicated", "mixed"]
"""Mixed: a tuple with numbers, whose derivatives are returned, and arrays, which have shadows."""


@dataclass(frozen=True)
class Numbers:
    """Where floats and complex numbers are, as seen from a value.

    by_value      in the value itself: a derivative with respect to them is a value
    by_reference  in memory that the value points to: a derivative is added to a shadow
    unknown       there may be some in parts whose layout is unknown
    """

    by_value: bool = False
    by_reference: bool = False
    unknown: bool = False

    def __or__(self, other: Numbers) -> Numbers:
        return Numbers(
            self.by_value or other.by_value,
            self.by_reference or other.by_reference,
            self.unknown or other.unknown,
        )

    def behind(self) -> Numbers:
        """The same numbers, seen through a reference to the value."""
        return Numbers(False, self.by_value or self.by_reference, self.unknown)

    @property
    def any(self) -> bool:
        """Whether there are, or may be, numbers."""
        return self.by_value or self.by_reference or self.unknown

    @property
    def activity(self) -> ValueActivity:
        """The activity of a value in which everything that can be active is."""
        if self.by_reference:
            return "mixed" if self.by_value else "duplicated"
        return "active" if self.by_value else "const"


_NOTHING = Numbers()


def _union(numbers: Iterable[Numbers]) -> Numbers:
    return reduce(operator.or_, numbers, _NOTHING)


@dataclass(frozen=True)
class Node:
    """A value of one Numba type."""

    numba_type: Any

    @property
    def children(self) -> tuple[tuple[Step, Node], ...]:
        """The parts of the value and what it refers to, by index, field name or `EACH`."""
        return ()

    @cached_property
    def numbers(self) -> Numbers:
        """Where the value has floats and complex numbers."""
        return _NOTHING

    @property
    def known(self) -> bool:
        """Whether the positions of its own floats are known, apart from those of its children."""
        return True

    @property
    def is_refused(self) -> bool:
        """Whether it cannot be differentiated with respect to: as an argument it is constant."""
        return False

    @cached_property
    def carried(self) -> Numbers:
        """The numbers with respect to which an argument of this type can have a derivative."""
        return _NOTHING if self.is_refused else self.numbers

    @property
    def activity(self) -> ValueActivity:
        """The activity of an argument of this type in which everything that can be active is."""
        return self.carried.activity

    @property
    def has_shadow(self) -> bool:
        """Whether it is memory that holds numbers: its derivative is added to a shadow."""
        return not self.is_tuple and self.carried.by_reference

    @property
    def is_tuple(self) -> bool:
        """Whether it is a tuple, which is passed by value, item by item."""
        return False

    @property
    def is_container(self) -> bool:
        """Whether it holds pointers that a callee can change."""
        return False

    @cached_property
    def leaf_paths(self) -> tuple[tuple[Path, Node], ...]:
        """The parts that are passed by value: itself, or the leaves of a tuple's items; by path."""
        return (((), self),)

    @property
    def leaves(self) -> tuple[Node, ...]:
        """The parts that are passed by value, without their paths."""
        return tuple(leaf for _, leaf in self.leaf_paths)

    @cached_property
    def unknown_path(self) -> Path | None:
        """The path to the first opaque part, or to a number of unknown width."""
        if not self.known:
            return ()
        for step, child in self.children:
            if child.unknown_path is not None:
                return (step, *child.unknown_path)
        return None

    @cached_property
    def holds_floats(self) -> bool:
        """Whether it holds, or refers to, floats of a known width."""
        return any(child.holds_floats for _, child in self.children)

    @cached_property
    def has_keys(self) -> bool:
        """Whether it is a dictionary, or leads to one."""
        return any(child.has_keys for _, child in self.children)

    @property
    def is_plain(self) -> bool:
        """Whether it consists of integers, strings and the like only, as dictionary keys do."""
        return all(isinstance(leaf, Plain) and leaf.known for leaf in self.leaves)


@dataclass(frozen=True)
class Number(Node):
    """A float or complex number."""

    @cached_property
    def numbers(self) -> Numbers:
        """By value: a derivative with respect to a number is a value."""
        return Numbers(by_value=True)

    @property
    def known(self) -> bool:
        """Whether the engine has derivatives of this width."""
        return self.numba_type in FLOATS

    @cached_property
    def holds_floats(self) -> bool:
        """Whether the engine has derivatives of this width."""
        return self.known


@dataclass(frozen=True)
class Plain(Node):
    """A value without floats: integers, strings, None, functions, random generators, …

    inline      whether it can be stored in memory, as part of another value
    changeable  whether it has a state that callees can change
    """

    inline: bool = True
    changeable: bool = False

    @property
    def known(self) -> bool:
        """Whether it can be stored in memory, as part of another value."""
        return self.inline

    @property
    def is_container(self) -> bool:
        """Whether it has a state that callees can change."""
        return self.changeable


@dataclass(frozen=True)
class Struct(Node):
    """Several values side by side.

    kind    tuple: passed by value. record: a pointer to memory owned by another object, or an
            element of an array. jitclass, structref: a reference to reference-counted memory
    """

    kind: Literal["tuple", "record", "jitclass", "structref"]
    fields: tuple[tuple[Step, Node], ...]

    @property
    def children(self) -> tuple[tuple[Step, Node], ...]:
        """The fields."""
        return self.fields

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers of the fields: by value in a tuple, otherwise by reference."""
        numbers = _union(child.numbers for _, child in self.fields)
        return numbers if self.is_tuple else numbers.behind()

    @cached_property
    def carried(self) -> Numbers:
        """For a tuple, what its items carry."""
        if self.is_tuple:
            return _union(child.carried for _, child in self.fields)
        return super().carried

    @property
    def is_refused(self) -> bool:
        """Whether it is a record with a field of unknown layout, or an instance in which no float
        has a known offset.
        """
        if self.kind == "record":
            return self.unknown_path is not None
        return not self.is_tuple and not self.holds_floats

    @cached_property
    def holds_floats(self) -> bool:
        """Whether its fields do; in a record with a field of unknown layout no offset is known."""
        if self.kind == "record" and self.unknown_path is not None:
            return False
        return super().holds_floats

    @property
    def is_tuple(self) -> bool:
        """Whether it is a tuple."""
        return self.kind == "tuple"

    @property
    def is_container(self) -> bool:
        """Whether it holds pointers: it is an instance, or a tuple with one."""
        if self.is_tuple:
            return any(child.is_container for _, child in self.fields)
        return self.kind != "record"

    @cached_property
    def leaf_paths(self) -> tuple[tuple[Path, Node], ...]:
        """For a tuple, the leaves of its items."""
        if not self.is_tuple:
            return (((), self),)
        return tuple(
            ((step, *path), leaf) for step, child in self.fields for path, leaf in child.leaf_paths
        )


@dataclass(frozen=True)
class Array(Node):
    """An array, or an array field of a record."""

    element: Node

    @property
    def children(self) -> tuple[tuple[Step, Node], ...]:
        """The element type, for all elements."""
        return ((EACH, self.element),)

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers of its elements, by reference."""
        return self.element.numbers.behind()

    @property
    def is_refused(self) -> bool:
        """Whether its elements are records of a kind that is refused."""
        return self.element.is_refused

    @cached_property
    def unknown_path(self) -> Path | None:
        """The path within an element: elements have no names in messages."""
        return self.element.unknown_path


@dataclass(frozen=True)
class Items(Node):
    """A list, dictionary or set: a reference to memory of items whose number may change.

    is_typed  whether it is a typed list or dictionary, not a reflected list or set
    key       the type of the keys of a dictionary
    """

    is_typed: bool
    item: Node
    key: Node | None = None

    @property
    def children(self) -> tuple[tuple[Step, Node], ...]:
        """The item type, for all items; in a dictionary, that of the values."""
        return ((EACH, self.item),)

    @property
    def known(self) -> bool:
        """Whether it is a typed list, or a typed dictionary whose keys hold no numbers."""
        return self.is_typed and (self.key is None or self.key.is_plain)

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers of its items and keys, by reference."""
        numbers = self.item.numbers if self.key is None else self.item.numbers | self.key.numbers
        return numbers.behind()

    @cached_property
    def has_keys(self) -> bool:
        """Whether it is a dictionary, or leads to one."""
        return self.key is not None or super().has_keys

    @cached_property
    def holds_floats(self) -> bool:
        """Whether it is a typed container whose items do."""
        return self.is_typed and self.item.holds_floats

    @property
    def is_refused(self) -> bool:
        """Whether anything in it is unknown."""
        return self.unknown_path is not None

    @property
    def is_container(self) -> bool:
        """True: items can be replaced."""
        return True


@dataclass(frozen=True)
class _Unplaced(Node):
    """A value in which no float has a known position."""

    @property
    def known(self) -> bool:
        """False, by definition."""
        return False

    @property
    def is_refused(self) -> bool:
        """True: an argument of such a type cannot be differentiated with respect to."""
        return True

    @property
    def is_container(self) -> bool:
        """True, to be on the safe side."""
        return True

    @cached_property
    def holds_floats(self) -> bool:
        """False: no float has a known position."""
        return False


@dataclass(frozen=True)
class Optional(_Unplaced):
    """A value or None: differentiable as a result, not as an argument."""

    item: Node

    @property
    def children(self) -> tuple[tuple[Step, Node], ...]:
        """The value, if it is not None."""
        return (("?", self.item),)

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers of the value."""
        return self.item.numbers


@dataclass(frozen=True)
class Opaque(_Unplaced):
    """A value whose layout is unknown: of a foreign type, or of a type that refers to itself."""

    @cached_property
    def numbers(self) -> Numbers:
        """Unknown: there may be some."""
        return Numbers(unknown=True)


FLOATS = (types.float64, types.float32, types.complex128, types.complex64)
"""The numbers that the engine has derivatives of."""
CONSTANT = (
    types.Integer,
    types.Boolean,
    types.NoneType,
    types.UnicodeType,
    types.EnumMember,
    types.SliceType,
    types.Callable,
    types.NPDatetime,
    types.NPTimedelta,
)
"""Types that hold no floats, and need no shadow."""
_CHARACTERS = (types.CharSeq, types.UnicodeCharSeq)
# these hold no numbers either, but cannot be stored in memory
_DETACHED = (
    types.Bytes, types.Omitted, types.Literal, types.DTypeSpec, types.Module, types.EllipsisType,
    types.RangeType,
)  # fmt: skip
_CHANGEABLE = (
    types.NumPyRandomGeneratorType, types.NumPyRandomBitGeneratorType, types.FunctionType,
)  # fmt: skip


@cache
def layout_of(ty: Any) -> Node:
    """The tree of a type. It is cached, and keeps the type alive: Numba identifies classes by their
    id, which may be reused once a class is gone.
    """
    for known, make in _TABLE:
        if isinstance(ty, known):
            return make(ty)
    return Opaque(ty)


def _struct(ty: Any, kind: Any, fields: Iterable[tuple[Step, Any]]) -> Node:
    return Struct(ty, kind, tuple((name, layout_of(field)) for name, field in fields))


def _record(ty: Any) -> Node:
    return _struct(ty, "record", ((name, field.type) for name, field in ty.fields.items()))


def _dictionary(ty: Any) -> Node:
    return Items(ty, True, layout_of(ty.value_type), layout_of(ty.key_type))


_TABLE: tuple[tuple[Any, Callable[[Any], Node]], ...] = (
    (types.Float | types.Complex, Number),
    ((*CONSTANT, *_CHARACTERS), Plain),
    # literals in name only: their items are values
    (types.LiteralList | types.LiteralStrKeyDict, Opaque),
    (_DETACHED, lambda ty: Plain(ty, inline=False)),
    (_CHANGEABLE, lambda ty: Plain(ty, inline=False, changeable=True)),
    (types.BaseTuple, lambda ty: _struct(ty, "tuple", enumerate(ty))),
    (types.Record, _record),
    (types.Array, lambda ty: Array(ty, layout_of(ty.dtype))),
    (
        types.ClassInstanceType,
        lambda ty: _struct(ty, "jitclass", ty.class_type.struct.items()),
    ),
    (types.StructRef, lambda ty: _struct(ty, "structref", ty.field_dict.items())),
    (types.ListType, lambda ty: Items(ty, True, layout_of(ty.item_type))),
    (types.DictType, _dictionary),
    (types.List | types.Set, lambda ty: Items(ty, False, layout_of(ty.dtype))),
    (types.Optional, lambda ty: Optional(ty, layout_of(ty.type))),
)


def fold(node: Node, leaf: Callable[[Node], T], make: Callable[[Node, list[T]], T]) -> T:
    """Fold a tree: `make` combines the results for the items of a tuple, `leaf` maps any other
    node; in order.
    """
    if not node.is_tuple:
        return leaf(node)
    return make(node, [fold(child, leaf, make) for _, child in node.children])


def map_type(node: Node, leaf: Callable[[Node], Any], *, named: bool = True) -> Any:
    """The type with every leaf's type replaced; named tuples stay named if `named`."""

    def assembled(node: Node, items: list[Any]) -> Any:
        kind = getattr(node.numba_type, "instance_class", None) if named else None
        return types.BaseTuple.from_types(tuple(items), kind)

    return fold(node, leaf, assembled)


def pairs(node: Node, other: Node, path: Path = ()) -> Iterator[tuple[Path, Node, Node]]:
    """The corresponding parts, by value and with their paths, of two types of one structure, as of
    a result and its cotangent. Optionals are opened in both. Parts are left out where the other
    type is None or a tuple of another length.
    """
    yield path, node, other
    if isinstance(node, Optional):
        if other.numba_type != types.none:
            item = other.item if isinstance(other, Optional) else other
            yield from pairs(node.item, item, path)
    elif has_items_of(node, other):
        for (step, child), (_, other_child) in zip(node.children, other.children, strict=True):
            yield from pairs(child, other_child, (*path, step))


def has_items_of(node: Node, other: Node) -> bool:
    """Whether both are tuples of the same length, and of the same fields if both have names."""
    if not (node.is_tuple and other.is_tuple and len(node.children) == len(other.children)):
        return False
    return have_equal_names(node.numba_type, other.numba_type)


def have_equal_names(ty: Any, other: Any) -> bool:
    """Whether two types of tuples do not have different names for their items: a dictionary has one
    for each key, which a tuple without names would give in an order that nobody wrote; a dataclass
    for each field.
    """
    names, others = (getattr(each, "fields", None) for each in (ty, other))
    if names is None or others is None:
        return not any(keys_of(getattr(each, "instance_class", tuple)) for each in (ty, other))
    return tuple(names) == tuple(others)


def shadow_of_leaf(leaf: Node) -> Any:
    """The type of the shadow of a leaf: its own, with arrays writable."""
    ty = leaf.numba_type
    return ty.copy(readonly=False) if isinstance(leaf, Array) else ty


def show(path: Path) -> str:
    """A path as it is written: `[0].w[…]`."""
    return "".join(
        f"[{step}]" if isinstance(step, int) else step if step == EACH else f".{step}"
        for step in path
    )


def show_in(ty: Any, path: Path) -> str:
    """Like `show`, for items of tuples: items of named tuples are shown by name."""
    text = ""
    for step in path:
        names = getattr(ty, "fields", None)
        text += f".{names[step]}" if names else f"[{step}]"
        ty = ty[step]
    return text
