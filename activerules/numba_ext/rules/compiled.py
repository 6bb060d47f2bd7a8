"""A rule, chosen and compiled for one marked call: its arguments, its halves, its tape.

Needs       nothing from the engine; `typing` makes instances of these classes
Gives       `RuleArgument`, `CompiledRule`, `Symbols`; the layout of the stored tape
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numba.core import types

from activerules.annotations.activity import (
    Active,
    Annotation,
    BatchDuplicated,
    BatchDuplicatedNoNeed,
    Const,
)
from activerules.ir.derivatives.rulecall import ActivityName
from activerules.numba_ext.codegen.types import AnnotationType
from activerules.numba_ext.codegen.unlinked import cpu_context
from activerules.numba_ext.target.marked_calls import MarkedCall
from activerules.values.kinds import shadow_type


@dataclass(frozen=True)
class RuleArgument:
    """One argument of a marked call, and how the rule takes it.

    passed        its type in the call
    value_type    the type that the rule sees; of an omitted argument, that of its default
    activity      at the call
    annotation    the type that the rule takes
    """

    name: str
    passed: types.Type
    value_type: types.Type
    activity: ActivityName
    annotation: AnnotationType

    @property
    def needs_scratch(self) -> bool:
        """Whether the rule takes a shadow and the caller has none."""
        return self.annotation.dval is not None and self.activity != "duplicated"

    @property
    def shadow_type(self) -> types.Type:
        """The type of one shadow; an annotation for a batch has a tuple of them."""
        return one_shadow(self.annotation)


@dataclass(frozen=True)
class RuleParameter:
    """A parameter of a rule: the annotation of one whole argument of the function.

    Each part of the argument is a `RuleArgument`.
    """

    name: str
    value_type: types.Type
    annotation: AnnotationType
    parts: range
    is_split: bool


@dataclass(frozen=True)
class SharedCheck:
    """The check that the rule does not write into memory that two arguments share.

    indices     the positions of the two arguments
    keep        compile result of `checks.kept_if_shared`, which runs before the rule
    check       compile result of `checks.unwritten`, which runs after it
    """

    indices: tuple[int, int]
    keep: Any
    check: Any

    @property
    def libraries(self) -> tuple[Any, Any]:
        """The code libraries that define the functions of the check."""
        return self.keep.library, self.check.library


@dataclass(frozen=True)
class ObjectCheck:
    """The checks of an object that is passed to a rule (O1 and O2 of `objects`).

    index           the position of the argument
    identity        compile result of `objects.identity_of`
    retain_shadow   compile result of `objects.retain_shadow`, called before a rule runs
    release_shadow  compile result of `objects.release_shadow`, called after it
    unchanged       compile result of a function from `objects.unchanged`: called for the object and
                    its shadow after a rule ran, and for the object when the reverse begins
    """

    index: int
    identity: Any
    retain_shadow: Any
    release_shadow: Any
    unchanged: Any

    @property
    def results(self) -> tuple[Any, ...]:
        """The compile results of all functions of the check."""
        return self.identity, self.retain_shadow, self.release_shadow, self.unchanged


@dataclass(frozen=True)
class CompiledRule:
    """A rule pair, type-checked and compiled.

    result            the annotation of `dret`
    result_activity   at the call
    augmented         compile result of (config, ret, *annotations) -> AugmentedReturn
    reverse           compile result of (config, dret, tape, *annotations)
    arguments         as the engine sees them: each part of a tuple with arrays is one
    parameters        as the rule sees them
    derivatives       for each parameter with a part that is Active at the call, in order: the index
                      of its derivative in the return value of `reverse` (None: all of that)
    zero_makers       compile results of `make_zero`, by the type of the value
    savers            compile results of `copy_of`, by the position of an argument that the reverse
                      reads and that may be overwritten before it runs
    handed            compile results of functions from such a copy to the argument that the reverse
                      gets, by position: a further copy if the function writes into the argument,
                      since a reverse may run the function again; or one with the shadow's layout
    apart, alike      compile results of `checks.apart` and `alike`, by types
    detachers         compile results of functions that protect a leaf of the tape from being
                      overwritten; by its type and the position of an argument, or `tapes.of_result`
                      of a leaf of the result
    copiers           compile results of `own_leaf`, by the types of arrays and lists of the tape
                      that the reverse gets copies of; their second argument is all shadows
    shared            checks for arguments that the function may write into, against the others
    another           compile result of `make_zero`, if the rule can have new shadows of its result
    objects           checks of the arguments that are objects
    """

    marked: MarkedCall
    config: types.Type
    return_marker: types.Type
    arguments: tuple[RuleArgument, ...]
    parameters: tuple[RuleParameter, ...]
    result: AnnotationType
    result_activity: ActivityName
    augmented: Any
    reverse: Any
    derivatives: tuple[int | None, ...]
    zero_makers: dict[types.Type, Any]
    savers: dict[int, Any]
    handed: dict[int, Any]
    apart: dict[tuple[types.Type, types.Type], Any]
    alike: dict[tuple[types.Type, types.Type], Any]
    detachers: dict[tuple[types.Type, int], Any]
    copiers: dict[types.Type, Any]
    shared: tuple[SharedCheck, ...]
    another: Any
    objects: tuple[ObjectCheck, ...] = ()

    @property
    def augmented_types(self) -> tuple[types.Type, ...]:
        """Types of the primal, the shadow and the tape that the augmented primal returns."""
        return types_of(self.augmented.signature.return_type)

    @property
    def carries_result(self) -> bool:
        """Whether the result is stored with the tape."""
        return self.result_activity == "const" and self.marked.result_type != types.none

    @property
    def stored_type(self) -> types.Type:
        """The type of the stored tape: the rule's own tape, then the result if `carries_result`,
        the saved arguments, and the identities of objects.
        """
        tape = self.augmented_types[2]
        result = self.result.fields if self.carries_result else ()
        saved = [saver.signature.return_type for saver in self.savers.values()]
        more = (*result, *saved, *(types.intp for _ in self.objects))
        return types.Tuple((tape, *more)) if more else tape

    @property
    def returned(self) -> tuple[RuleParameter, ...]:
        """The parameters whose derivatives the reverse returns and the call needs."""
        return tuple(p for p in self.parameters if has_active(p, self.arguments))


@dataclass(frozen=True)
class Symbols:
    """Names of the functions to build."""

    augmented: str
    reverse: str
    drop: str
    another: str

    @classmethod
    def beginning(cls, stem: str) -> Symbols:
        """The names that begin with `stem`."""
        parts = ("augmented", "reverse", "drop", "another")
        return cls(*(f"{stem}.{part}" for part in parts))


def has_active(parameter: RuleParameter, arguments: Sequence[RuleArgument]) -> bool:
    """Whether a part of a parameter is Active at the call."""
    return any(arguments[i].activity == "active" for i in parameter.parts)


def shadow_arrays(arguments: Sequence[RuleArgument]) -> types.Tuple:
    """The type of a tuple of all shadows that are arrays."""
    shadows = (found for a in arguments for found in a.annotation.fields[1:])
    return types.Tuple([found for found in shadows if isinstance(found, types.Array)])


def one_shadow(annotation: AnnotationType) -> types.Type:
    """The type of the shadow in an annotation; of a batch, that of one lane."""
    shadow = annotation.dval
    assert shadow is not None, f"{annotation} has no shadow"
    is_batch = annotation.kind in (BatchDuplicated, BatchDuplicatedNoNeed)
    return types_of(shadow)[0] if is_batch else shadow


def annotation_type(kind: type[Annotation], found: types.Type, width: int = 1) -> AnnotationType:
    """The annotation type for a value type; the shadow has the same type, but is writable."""
    if kind in (Const, Active):
        return AnnotationType(kind, found)
    shadow = shadow_type(found)
    if kind in (BatchDuplicated, BatchDuplicatedNoNeed):
        return AnnotationType(kind, found, types.UniTuple(shadow, width))
    return AnnotationType(kind, found, shadow)


def types_of(tuple_type: Any) -> tuple[types.Type, ...]:
    """Types of the elements of any of Numba's tuple types."""
    return tuple(tuple_type.types)


def tape_layout(rule: CompiledRule) -> tuple[int, int]:
    """Size and alignment in bytes of the stored tape; (0, 1) if there is nothing to store."""
    if rule.stored_type == types.none:
        return 0, 1
    context = cpu_context()
    stored = context.get_data_type(rule.stored_type)
    return context.get_abi_sizeof(stored), context.get_abi_alignment(stored)


def needs_drop(rule: CompiledRule) -> bool:
    """Whether the stored tape holds references."""
    return cpu_context().data_model_manager.lookup(rule.stored_type).contains_nrt_meminfo()
