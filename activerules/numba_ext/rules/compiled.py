"""A rule as it was chosen and compiled for one marked call: its arguments, its halves, its tape.

Needs       nothing of the engine; `typing` fills these classes in
Gives       `RuleArgument`, `CompiledRule`, `Symbols`; the layout of the tape that is stored
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
    """One argument on its way from the marked call to the rule.

    passed        its type in the call, `value_type` the type the rule sees (that of the default, if
                  it was left out)
    activity      at the call; the rule gets it as `annotation`
    """

    name: str
    passed: types.Type
    value_type: types.Type
    activity: ActivityName
    annotation: AnnotationType

    @property
    def needs_scratch(self) -> bool:
        """The rule wants a shadow where the caller has none."""
        return self.annotation.dval is not None and self.activity != "duplicated"

    @property
    def shadow_type(self) -> types.Type:
        """The type of one shadow; that of an annotation for a batch is a tuple of them."""
        return one_shadow(self.annotation)


@dataclass(frozen=True)
class RuleParameter:
    """What a rule takes for one argument of the function: the annotation of the whole, of whose
    parts each is a `RuleArgument`.
    """

    name: str
    value_type: types.Type
    annotation: AnnotationType
    parts: range
    is_split: bool


@dataclass(frozen=True)
class SharedCheck:
    """The check that nothing is written into what two arguments share.

    indices     the positions of the two
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
    """The checks of an object that a rule is passed (O1 and O2 of `objects`).

    index       the position of the argument
    identity    compile result of `objects.identity_of`
    retain_shadow, release_shadow   compile results of these: called around a rule, with its shadow
    unchanged   compile result of that, of the object and of its shadow after a rule ran, and of the
                object when the reverse begins
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
    arguments         as the engine sees them: of a tuple with arrays each part
    parameters        as the rule sees them
    derivatives       per parameter with a part that is Active at the call, in order: its place in
                      what `reverse` returns (None: all of it)
    zero_makers       compile results of `make_zero`, by the type of the value
    savers            compile results of `copy_of`, by the position of an argument that the reverse
                      reads and that may be overwritten before it runs
    handed            compile results of what makes of such a copy what the reverse is given, by
                      position: of its own where the function writes into the argument, as what
                      runs the function again does; and laid out as the shadow
    apart, alike      compile results of `checks.apart` and `alike`, by types
    detachers         compile results of what keeps a part of the tape as it is, by its type and the
                      position of an argument that may be overwritten, or what `tapes.of_result`
                      gives for a part of the result
    copiers           compile results of `own_leaf`, by the types of the arrays and lists of the
                      tape that the reverse works on a copy of; they take all shadows, too
    shared            of the arguments that the function may write into: the checks against others
    another           compile result of `make_zero`, of a result the rule makes new shadows of
    objects           the checks of the arguments that are objects
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
        """Whether the result travels with the tape."""
        return self.result_activity == "const" and self.marked.result_type != types.none

    @property
    def stored_type(self) -> types.Type:
        """What is stored as the tape: the rule's own, the result where it travels with it, what is
        saved of the arguments, and what tells whether objects are what they were.
        """
        tape = self.augmented_types[2]
        result = self.result.fields if self.carries_result else ()
        saved = [saver.signature.return_type for saver in self.savers.values()]
        more = (*result, *saved, *(types.intp for _ in self.objects))
        return types.Tuple((tape, *more)) if more else tape

    @property
    def returned(self) -> tuple[RuleParameter, ...]:
        """The parameters of which the reverse returns derivatives that the call asks for."""
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
    """The type of a shadow of an annotation, of one lane of a batch."""
    shadow = annotation.dval
    assert shadow is not None, f"{annotation} has no shadow"
    is_batch = annotation.kind in (BatchDuplicated, BatchDuplicatedNoNeed)
    return types_of(shadow)[0] if is_batch else shadow


def annotation_type(kind: type[Annotation], found: types.Type, width: int = 1) -> AnnotationType:
    """The annotation of a value of a type; a shadow has the type of its value, and can be
    written.
    """
    if kind in (Const, Active):
        return AnnotationType(kind, found)
    shadow = shadow_type(found)
    if kind in (BatchDuplicated, BatchDuplicatedNoNeed):
        return AnnotationType(kind, found, types.UniTuple(shadow, width))
    return AnnotationType(kind, found, shadow)


def types_of(tuple_type: Any) -> tuple[types.Type, ...]:
    """Types of the elements of a tuple of any of Numba's kinds."""
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
