"""The activities of the arguments and the result of a marked call, from the activity analysis.

Both modes choose rules by them; forward mode turns Active into Duplicated.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from activerules.errors import RuleError
from activerules.ir.analysis.activity import reachable_from_argument
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.nodes import RuleTape, SavedStruct
from activerules.ir.analysis.returns import fails_with
from activerules.ir.derivatives.rulecall import (
    ActivityName,
    CallArgument,
    CallInfo,
    ForwardRuleCode,
    ForwardRuleRequest,
    RuleCode,
    RuleRequest,
)
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.llvm.refusal import refusal
from activerules.ir.plan.facts import Facts
from activerules.ir.plan.request import Request


@dataclass(frozen=True)
class CallActivities:
    """One activity per argument, and that of the result."""

    arguments: tuple[ActivityName, ...]
    result: ActivityName


@dataclass(frozen=True, eq=False)
class RuledCall:
    """A marked call that a rule serves, in either mode.

    caught   whether the calling function may continue after the call has failed
    site     the position of the call, for error messages
    """

    call: Instruction
    info: CallInfo
    request: RuleRequest | ForwardRuleRequest
    caught: bool
    site: str | None

    def duplicated(self) -> list[Value]:
        """The operands of all Duplicated arguments, in order."""
        pairs = zip(self.info.arguments, self.request.activities, strict=True)
        operands = (k for a, how in pairs if how == "duplicated" for k in a.operands)
        return [self.call.operands[k] for k in operands]


@dataclass(frozen=True, eq=False)
class RuleUse(RuledCall):
    """A call that a pair of augmented primal and reverse serves."""

    code: RuleCode
    tape: RuleTape | None
    result: SavedStruct | None
    result_shadow: SavedStruct | None

    def active(self) -> list[Value]:
        """The operands whose derivative the reverse returns, in order."""
        pairs = zip(self.info.arguments, self.request.activities, strict=True)
        return [x for a, how in pairs if how == "active" for x in a.floats(self.call)]


@dataclass(frozen=True, eq=False)
class ForwardRuleUse(RuledCall):
    """A call that a forward rule serves."""

    code: ForwardRuleCode


def ruled(
    call: Instruction, info: CallInfo, request: RuleRequest | ForwardRuleRequest, facts: Facts
) -> RuledCall:
    """A marked call for which a rule was requested."""
    caught = is_caught(call, facts)
    return RuledCall(call, info, request, caught, _site_of(call, info, facts.request))


def is_caught(call: Instruction, facts: Facts) -> bool:
    """Whether the function may continue after a call has failed."""
    return not fails_with(call, facts.returns)


def may_leave_traces(call: Instruction, info: CallInfo, how: CallActivities, facts: Facts) -> bool:
    """Whether the function may continue after the call has failed, and has written active data."""
    return any(
        a.written and activity == "duplicated"
        for a, activity in zip(info.arguments, how.arguments, strict=True)
    ) and is_caught(call, facts)


def activities_of(call: Instruction, info: CallInfo, facts: Facts) -> CallActivities | None:
    """The activities of a call; None if it needs no rule: it passes and returns nothing active, and
    no data passes other than by the arguments.

    An inactive function needs one where a shadow of zeros has to be made for its result.
    """
    result = _of_result(call, info, facts)
    if info.inactive:
        for argument in info.arguments:
            _refuse_lost_write(call, argument, facts)
        passed: tuple[ActivityName, ...] = ("const",) * len(info.arguments)
        return CallActivities(passed, result) if result == "duplicated" else None
    arguments: tuple[ActivityName, ...] = tuple(
        _of_argument(call, a, facts) for a in info.arguments
    )
    writes_active = any(
        (a.written or a.shadow_written) and how == "duplicated"
        for a, how in zip(info.arguments, arguments, strict=True)
    )
    passive = all(how == "const" for how in arguments) and result != "duplicated"
    if not info.passes_data and (passive or (result == "const" and not writes_active)):
        return None
    return CallActivities(arguments, result)


@contextmanager
def choosing_for(call: Instruction) -> Generator[None, None, None]:
    """Add the call to errors of the rule system that the body of the `with` statement raises."""
    try:
        yield
    except RuleError as error:
        error.instruction = call
        raise


def _of_argument(call: Instruction, argument: CallArgument, facts: Facts) -> ActivityName:
    match argument.kind:
        case "value" if any(map(facts.activity.is_active, argument.floats(call))):
            return "active"
        case "memory" if facts.activity.has_shadow(call.operands[argument.pointer]):
            return "duplicated"
        case "object" if any(
            facts.activity.has_shadow(call.operands[k]) for k in argument.pointers
        ):
            return "duplicated"
        case "const" if argument.declared_inactive:
            _refuse_lost_write(call, argument, facts)
        case "const":
            _refuse_hidden_activity(call, argument, facts)
        case _:
            pass
    return "const"


def _refuse_lost_write(call: Instruction, argument: CallArgument, facts: Facts) -> None:
    """Refuse an inactive call that may overwrite active memory: cotangents would be lost."""
    if not argument.written:
        return
    if any(facts.activity.has_shadow(call.operands[k]) for k in argument.memory_operands):
        raise refusal(
            call,
            f"an inactive function may write into active memory: its argument {argument.name}",
            "the derivative with respect to what was there before would be wrong",
            ["pass a copy: x.copy()", "give the function a rule that zeroes the shadow"],
        )


def _refuse_hidden_activity(call: Instruction, argument: CallArgument, facts: Facts) -> None:
    """Refuse active data in an argument that rules treat as constant: its derivative would be lost.

    Such arguments are lists of Python, tuples with objects, and floats viewed as integers.
    """
    for k in argument.operands:
        operand = call.operands[k]
        if operand.type.is_pointer:
            hidden = facts.activity.has_shadow(operand) or _is_of_varied_floats(operand, facts)
        else:
            hidden = facts.activity.is_active(operand)
        if hidden:
            raise refusal(
                call,
                f"argument {argument.name} of a function with a rule holds active data, and is "
                f"{argument.opaque or 'taken for integers'}, which rules do not take yet",
                "rules take numbers, arrays of numbers, tuples of both, records, instances, typed "
                "lists and dictionaries; the derivative with respect to others would be lost",
                [
                    "pass the floats and arrays one by one",
                    "declare the argument inactive: ar.inactive(f, args=(…))",
                ],
            )


def _is_of_varied_floats(pointer: Value, facts: Facts) -> bool:
    """Whether memory that the function allocates has varied floats in it, as a view of integers
    on an array of floats has.
    """
    return any(
        o.is_local and facts.types.holds_float(o)
        for o in facts.memory.objects(pointer) & facts.activity.varied_memory
    )


def refuse_without_keys(
    call: Instruction, info: CallInfo, how: CallActivities, facts: Facts
) -> None:
    """Refuse to pass a rule a dictionary that the function creates. In a reverse sweep its shadow
    mirrors only the memory of the values; only dictionaries of the user's call have shadows with
    keys.
    """
    for argument, activity in zip(info.arguments, how.arguments, strict=True):
        if activity != "duplicated" or not argument.keyed:
            continue
        reached = reachable_from_argument(call, argument, facts.memory)
        if facts.request.callee or any(o.is_local for o in reached):
            raise refusal(
                call,
                f"argument {argument.name} of a function with a rule is, or holds, a dictionary "
                "that the differentiated function makes, or gets from one that calls it",
                "the shadow of such a dictionary has no keys, by which the rule would look there",
                [
                    "make the dictionary before, and pass it: Duplicated(d, make_zero(d))",
                    "pass its arrays and numbers one by one",
                ],
            )


def _of_result(call: Instruction, info: CallInfo, facts: Facts) -> ActivityName:
    if info.result_kind == "value":
        return "active" if facts.activity.has_shadow(call.operands[0]) else "const"
    if info.result_kind == "memory":
        fresh = MemoryObject("result", call)
        is_active = fresh in facts.activity.active_memory or (
            bool(info.result_floats) and facts.activity.has_shadow(call.operands[0])
        )
        return "duplicated" if is_active else "const"
    return "const"


def _site_of(call: Instruction, info: CallInfo, request: Request) -> str | None:
    """File, line and function of a marked call, one per line; None if unknown or not needed."""
    position = request.locator.position(call)
    return None if position is None else "\n".join((*position, info.name))
