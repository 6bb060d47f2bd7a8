"""A rule, chosen and compiled for one marked call: its arguments, its halves, its tape.

Needs       nothing from the engine; `pair_rules` makes instances of these classes
Gives       `Served`, `RuleArgument`, `CompiledRule`, `Symbols`; the layout of the stored tape
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from numba.core import types

from activerules.annotations.activity import (
    Active,
    Annotation,
    BatchDuplicated,
    BatchDuplicatedNoNeed,
    Const,
)
from activerules.ir.derivatives.rulecall import ActivityName, ForwardRuleRequest, RuleRequest
from activerules.numba_ext.codegen.types import AnnotationType
from activerules.numba_ext.codegen.unlinked import cpu_context
from activerules.numba_ext.target.marked_calls import MarkedCall
from activerules.rules.rule import ForwardRule, RulePair
from activerules.values.kinds import items_of, shadow_type

Rule = TypeVar("Rule", RulePair, ForwardRule)
Request = TypeVar("Request", RuleRequest, ForwardRuleRequest)


@dataclass(frozen=True)
class Served(Generic[Rule, Request]):
    """A marked call, and the rule that was chosen for it.

    written   which arguments the function itself may write into
    inactive  which were declared inactive
    noalias   whether its result is promised to be new memory
    """

    marked: MarkedCall
    rule: Rule
    request: Request
    written: tuple[bool, ...]
    inactive: tuple[bool, ...]
    noalias: bool


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
    keep        a function of both, called before the rule runs
    check       a function of the first and of what `keep` returned, called after it
    """

    indices: tuple[int, int]
    keep: Any
    check: Any


@dataclass(frozen=True)
class ObjectCheck:
    """The check of an object that is passed to a rule (O1 and O2 of `objects`).

    index       the position of the argument
    unchanged   a function from `objects.unchanged`: called for the object and its shadow after a
                rule ran, and for the object when the reverse begins
    """

    index: int
    unchanged: Any


@dataclass(frozen=True)
class SavedArgument:
    """An argument that the reverse reads and that may be overwritten before it runs.

    index      the position of the argument
    after      whether it is copied after the augmented primal has run, which may write into it
    copy       compile result of `copy_of`
    restored   a function from the copy and the argument to what the reverse gets: a further copy if
               the function writes into the argument, since a reverse may run the function again; or
               one with the shadow's layout. None: the reverse gets the copy
    """

    index: int
    copy: Any
    restored: Any
    after: bool

    @property
    def copy_type(self) -> types.Type:
        """The type of the copy."""
        return self.copy.signature.return_type


@dataclass(frozen=True)
class RuleChecks:
    """What is checked when a function of a rule has run.

    apart, alike  functions that check a returned array (see `checks`), if they are needed
    shared        of arguments that the function may write into, against the others
    objects       of the arguments that are objects
    failures      of arguments with derivatives that the function may have written into, if it
                  failed and the program goes on: their positions, and the message
    """

    apart: Any = None
    alike: Any = None
    shared: tuple[SharedCheck, ...] = ()
    objects: tuple[ObjectCheck, ...] = ()
    failures: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class CalledFunction:
    """What the engine calls for a marked call: a function of a rule, or the function itself.

    arguments     as the engine sees them: each part of a tuple with arrays is one
    parameters    as the rule sees them
    checks        of what it writes and returns
    """

    marked: MarkedCall
    arguments: tuple[RuleArgument, ...]
    parameters: tuple[RuleParameter, ...]
    checks: RuleChecks

    def has_active(self, parameter: RuleParameter) -> bool:
        """Whether a part of a parameter is Active at the call."""
        return any(self.arguments[i].activity == "active" for i in parameter.parts)


@dataclass(frozen=True)
class CompiledRule(CalledFunction):
    """A rule pair, type-checked and compiled.

    The small functions that the wrapper calls besides the halves are compiled when it is built.

    result        the annotation of `dret`
    result_activity   at the call
    augmented     compile result of (config, ret, *annotations) -> AugmentedReturn
    reverse       compile result of (config, dret, tape, *annotations)
    derivatives   for each parameter with a part that is Active at the call, in order: the index of
                  its derivative in the return value of `reverse` (None: all of that)
    saved         the arguments of which the tape has copies
    detachers     functions that protect a leaf of the tape from being overwritten: the type of the
                  leaf, the position of an argument (or `tapes.of_result` of a leaf of the result),
                  and the function
    copied        the types of arrays and lists of the tape that the reverse gets copies of
    zero_result   whether the result is Const, and `dret` has a zero in its place
    keeps_value   whether the tape has a copy of the result, which the reverse reads in `dret`
    new_shadow    compile result of the function that makes more shadows of the result from the
                  first, if the rule promises that one run serves all
    """

    result: AnnotationType
    result_activity: ActivityName
    augmented: Any
    reverse: Any
    derivatives: tuple[int | None, ...]
    saved: tuple[SavedArgument, ...]
    detachers: tuple[tuple[types.Type, int, Any], ...]
    copied: tuple[types.Type, ...]
    zero_result: bool
    keeps_value: bool
    new_shadow: Any

    @property
    def augmented_types(self) -> tuple[types.Type, ...]:
        """Types of the primal, the shadow and the tape that the augmented primal returns."""
        return items_of(self.augmented.signature.return_type)

    @property
    def carries_result(self) -> bool:
        """Whether the result is stored with the tape."""
        return self.result_activity == "const" and self.marked.result_type != types.none

    @property
    def stored_type(self) -> types.Type:
        """The type of the stored tape: the rule's own tape, then the result if `carries_result`,
        the saved arguments, the identities of objects, and the copy of the result if `keeps_value`.
        """
        tape = self.augmented_types[2]
        result = self.result.fields if self.carries_result else ()
        saved = [argument.copy_type for argument in self.saved]
        values = (self.marked.result_type,) * self.keeps_value
        stored = (*result, *saved, *(types.intp for _ in self.checks.objects), *values)
        return types.Tuple((tape, *stored)) if stored else tape

    @property
    def returned(self) -> tuple[RuleParameter, ...]:
        """The parameters whose derivatives the reverse returns and the call needs."""
        return tuple(filter(self.has_active, self.parameters))


@dataclass(frozen=True)
class Symbols:
    """Names of the functions to build."""

    augmented: str
    reverse: str
    drop: str
    new_shadow: str

    @classmethod
    def beginning(cls, stem: str) -> Symbols:
        """The names that begin with `stem`."""
        parts = ("augmented", "reverse", "drop", "new_shadow")
        return cls(*(f"{stem}.{part}" for part in parts))


def shadow_arrays(arguments: Sequence[RuleArgument]) -> types.Tuple:
    """The type of a tuple of all shadows that are arrays."""
    shadows = (ty for a in arguments for ty in a.annotation.fields[1:])
    return types.Tuple([ty for ty in shadows if isinstance(ty, types.Array)])


def one_shadow(annotation: AnnotationType) -> types.Type:
    """The type of the shadow in an annotation; of a batch, that of one lane."""
    shadow = annotation.dval
    assert shadow is not None, f"{annotation} has no shadow"
    is_batch = annotation.kind in (BatchDuplicated, BatchDuplicatedNoNeed)
    return items_of(shadow)[0] if is_batch else shadow


def annotation_type(kind: type[Annotation], ty: types.Type, width: int = 1) -> AnnotationType:
    """The annotation type for a value type; the shadow has the same type, but is writable."""
    if kind in (Const, Active):
        return AnnotationType(kind, ty)
    shadow = shadow_type(ty)
    if kind in (BatchDuplicated, BatchDuplicatedNoNeed):
        return AnnotationType(kind, ty, types.UniTuple(shadow, width))
    return AnnotationType(kind, ty, shadow)


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
