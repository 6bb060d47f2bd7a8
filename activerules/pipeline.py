"""From a Python function and an activity signature to the LLVM IR of its gradient.

The whole flow on one screen:

    capture -> normalise -> parse -> plan (all analyses) -> derive -> verify

Every stage is timed; `ACTIVERULES_DUMP=<stage>` (or `all`) prints what a stage gives.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from numba import types

from activerules.errors import ActiveMemoryInConst, ActiverulesError, MixedActivity
from activerules.ir.analysis.memory import MemoryObject
from activerules.ir.derive.assemble import assemble, generate, verified
from activerules.ir.derive.gradient import uses_tape
from activerules.ir.derive.layout import Layout, make_layout
from activerules.ir.derive.plan import Plan, make_plan
from activerules.ir.derive.request import Parameter, Request, ReturnKind
from activerules.ir.derive.split import memory_size
from activerules.ir.explain import render_plan
from activerules.ir.location import Locator
from activerules.ir.model import Function, Instruction, Module
from activerules.ir.normalise import normalise
from activerules.ir.parser import parse_module
from activerules.ir.printer import print_function, print_module
from activerules.ir.rulecall import ActivityName
from activerules.numba_ext.abi import float_elements
from activerules.numba_ext.capture import Captured, as_dispatcher, capture
from activerules.numba_ext.checks import require_float_return
from activerules.numba_ext.gradient import Gradient
from activerules.numba_ext.rulecompile import NumbaRuleCompiler
from activerules.rules import library  # noqa: F401  defines the rules that come with it
from activerules.rules.registry import RULES

T = TypeVar("T")
_STEM = "activerules.derivative"
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_POINTER_ROLES = frozenset({"meminfo", "parent", "data"})


@dataclass
class Stages:
    """Names and seconds of the stages of one compile, in order."""

    seconds: dict[str, float] = field(default_factory=dict)

    def __call__(self, name: str, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run one stage, time it, and print what it gives if that was asked for."""
        start = time.perf_counter()
        result = function(*args, **kwargs)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        if os.environ.get("ACTIVERULES_DUMP") in {name, "all"}:
            print(f"==== {name} ====\n{_readable(result)}", file=sys.stderr)
        return result


def _readable(result: object) -> str:
    match result:
        case Plan():
            return render_plan(result, make_layout(result))
        case Module():
            return print_module(result)
        case Captured():
            return result.text
        case [[*functions], _, Layout()]:
            return "\n".join(map(print_function, functions))
        case _:
            return str(result)


@dataclass(frozen=True, eq=False)
class Derivation:
    """A gradient and how it came about, for `explain`."""

    gradient: Gradient
    captured: Captured
    module: Module
    plan: Plan
    layout: Layout
    stages: Stages


_compiled: weakref.WeakKeyDictionary[Any, dict[Any, Gradient]] = weakref.WeakKeyDictionary()


def compile_gradient(
    function: Any,
    argtypes: tuple[types.Type, ...],
    activities: tuple[ActivityName, ...],
    return_activity: ActivityName | None,
    *,
    split: bool = False,
) -> Gradient:
    """The gradient of `function` for these argument types and activities.

    It is compiled once per rule epoch; with `split` as two functions, see `Gradient`.

    Raises what capture, the analyses and the rule compiler raise: see `activerules.errors`.
    """
    dispatcher = as_dispatcher(function)
    known = _compiled.setdefault(dispatcher, {})
    key = (argtypes, activities, return_activity, split, RULES.epoch)
    if key not in known:
        derivation = derive(dispatcher, argtypes, activities, return_activity, split=split)
        known[key] = derivation.gradient
    return known[key]


def derive(
    function: Any,
    argtypes: tuple[types.Type, ...],
    activities: tuple[ActivityName, ...],
    return_activity: ActivityName | None,
    *,
    split: bool = False,
) -> Derivation:
    """As `compile_gradient`, anew, with everything that was found out on the way."""
    dispatcher = as_dispatcher(function)
    stage = Stages()
    captured = stage("capture", capture, dispatcher, argtypes, rules=RULES)
    if return_activity == "active" and not split:
        require_float_return(dispatcher, captured.signature.return_type)
    text = stage("normalise", normalise, captured.text, captured.symbol)
    module = stage("parse", parse_module, text)
    rules = NumbaRuleCompiler(captured.marked, RULES)
    try:
        plan, careful, scratch = stage(
            "plan", _planned, captured, module, activities, return_activity, rules, split
        )
        functions, declarations, layout = stage("derive", generate, plan)
        memory = memory_size(layout, uses_tape(functions))
        suffix = ".split" if split else ".gradient"
        conservative = suffix if _overlap_matters(plan) else None
        if careful is not None:
            more, added, other = stage("derive", generate, careful)
            memory = max(memory, memory_size(other, uses_tape(more)))
            functions, declarations = functions + more, declarations | added
            conservative = ".conservative" + suffix
    except ActiverulesError as error:
        _locate(error, module)
        raise
    text = stage("assemble", assemble, module, functions, declarations, whole=False)
    stage("verify", verified, text)
    name = f"activerules.{_plain(captured.name)}.{hashlib.sha256(text.encode()).hexdigest()[:20]}"
    gradient = Gradient(
        symbol=name + suffix,
        conservative_symbol=name + conservative if conservative else None,
        text=text.replace(_STEM, name),
        result_type=captured.signature.return_type,
        return_activity=_seeded(captured, return_activity),
        parameters=tuple(p.activity for p in plan.request.parameters),
        scratch=tuple(k in scratch for k in range(len(activities))),
        written=tuple(_is_written(plan, k) for k in range(len(activities))),
        libraries=tuple(rules.libraries),
        environments=captured.environments,
        memory=memory if split else 0,
    )
    return Derivation(gradient, captured, module, plan, layout, stage)


def _planned(
    captured: Captured,
    module: Module,
    activities: tuple[ActivityName, ...],
    return_activity: ActivityName | None,
    rules: NumbaRuleCompiler,
    split: bool,
) -> tuple[Plan, Plan | None, set[int]]:
    """The plan, that for arguments which overlap if it is another one, and the Const arrays that
    need a scratch shadow.

    `x = x0` before a loop that goes on with new arrays leaves one variable that is Const memory
    first and active memory later. A shadow of zeros, forgotten after the call, makes the first like
    the second.
    """
    scratch: set[int] = set()
    while True:
        shadowed: tuple[ActivityName, ...] = tuple(
            "duplicated" if k in scratch else activity for k, activity in enumerate(activities)
        )
        request = _request(captured, module, shadowed, return_activity, rules)
        request = replace(request, split=split)
        try:
            plan = make_plan(request)
            careful = _careful(plan)
            if careful is None and _overlap_matters(plan):
                plan = replace(plan, request=replace(request, separate=False))
            return plan, careful, scratch
        except (MixedActivity, ActiveMemoryInConst) as error:
            more = {k for k in error.groups if isinstance(k, int) and _holds_floats(captured, k)}
            more -= scratch
            if not more:
                raise
            scratch |= more


def _careful(plan: Plan) -> Plan | None:
    """The plan that takes no arguments for disjoint, if overlap can matter and changes it."""
    if not _overlap_matters(plan):
        return None
    request = replace(plan.request, disjoint=False, separate=False, name=_STEM + ".conservative")
    careful = make_plan(request)
    return careful if _keeps(careful) != _keeps(plan) else None


def _holds_floats(captured: Captured, number: int) -> bool:
    return float_elements(captured.arguments[number].numba_type) is not None


def _keeps(plan: Plan) -> tuple[object, ...]:
    """What tells two plans of one function apart: the tape, and what the rules are told."""
    return plan.cache.kept, plan.retained, [use.request for use in plan.rules.values()]


def _seeded(captured: Captured, return_activity: ActivityName | None) -> ActivityName:
    """The activity of the return; by default Active for a float."""
    if return_activity is None:
        return "active" if isinstance(captured.signature.return_type, types.Float) else "const"
    return return_activity


def _request(
    captured: Captured,
    module: Module,
    activities: tuple[ActivityName, ...],
    return_activity: ActivityName | None,
    rules: NumbaRuleCompiler,
) -> Request:
    function: Function = module.functions[captured.symbol]
    retptr, excinfo, *rest = function.arguments
    seeded = _seeded(captured, return_activity) != "const"
    parameters = [
        Parameter(
            retptr, "duplicated" if seeded else "const", "return", private=True, written_only=True
        ),
        Parameter(excinfo, "const", "exception", private=True),
    ]
    left_out: tuple[ActivityName, ...] = ("const",) * (len(captured.arguments) - len(activities))
    for number, (argument, activity) in enumerate(
        zip(captured.arguments, activities + left_out, strict=True)
    ):
        floats = float_elements(argument.numba_type)
        for slot, index in zip(argument.slots, argument.parameters, strict=True):
            how = _slot_activity(slot.role, activity)
            parameters.append(
                Parameter(
                    rest[index - 2], how, number, floats=floats if slot.role == "data" else None
                )
            )
    returns: ReturnKind = "status"
    return Request(
        module, function, _STEM, tuple(parameters), returns, rules,
        separate=True, tape_limit=_tape_limit(),
        display_name=captured.name, location=captured.location,
    )  # fmt: skip


def _slot_activity(role: str, activity: ActivityName) -> ActivityName:
    """The activity of one LLVM parameter of an argument."""
    if activity == "active" and role == "float":
        return "active"
    if activity == "duplicated" and role in _POINTER_ROLES:
        return "duplicated"
    return "const"


def _tape_limit() -> int:
    """Three quarters of the machine's memory, or of what this process may have of it.

    A tape that would need more is refused before the machine starts to swap, or ends the process.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if _CGROUP_LIMIT.exists() and (text := _CGROUP_LIMIT.read_text().strip()).isdigit():
        memory = min(memory, int(text))
    return memory // 4 * 3


def _argument_object(plan: Plan, number: int) -> MemoryObject | None:
    return next(
        (p.memory for p in plan.request.parameters if p.group == number),
        None,
    )


def _is_written(plan: Plan, number: int) -> bool:
    """Whether the primal may write into the memory of an argument."""
    target = _argument_object(plan, number)
    return any(
        write.everything
        or any(target in plan.memory.objects(pointer) for pointer in write.pointers)
        for write in plan.memory.writes
    )


def _overlap_matters(plan: Plan) -> bool:
    """Whether there are two arrays, one of them written: only then can overlap change a result."""
    groups = {
        p.group
        for p in plan.request.parameters
        if isinstance(p.group, int) and p.argument.type.is_pointer
    }
    return len(groups) > 1 and any(_is_written(plan, k) for k in groups)


def _locate(error: ActiverulesError, module: Module) -> None:
    """Put the place in the source to the instruction the error is about."""
    if isinstance(error.instruction, Instruction):
        place = Locator(module).of(error.instruction)
        error.where = [
            (label, text, place or at) if label == "at the instruction" else (label, text, at)
            for label, text, at in error.where
        ]


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name)


__all__ = ["Derivation", "Stages", "compile_gradient", "derive"]
