"""Reasons: the decisions of a plan, explained in words.

Needs       a finished Plan and one of its nodes
Gives       `describe`: the node in words; `why_kept`: why the tape keeps it; `why_served`: why a
            marked call needs no rule; `origin`: the instruction that gives its source line
Invariants  R1  nothing is decided here: every sentence follows from the plan and its analyses

A node is described in terms of the primal ("the result of exp"), never by the name of a register;
printers find its source line by `origin`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.nodes import (
    CalleeFrame,
    Entries,
    LeavingIteration,
    Link,
    Node,
    Primal,
    RuleTape,
    SavedStruct,
    Shadow,
    Taken,
)
from activerules.ir.derivatives.table import cost, function_of, is_pure_call
from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.llvm.names import plain_name
from activerules.ir.normal.effects import effect_of
from activerules.ir.plan.forward_plan import ForwardPlan
from activerules.ir.plan.plan import Plan

NameOf = Callable[[MemoryObject], str]

_NOUNS = {
    "fadd": "a sum",
    "fsub": "a difference",
    "fmul": "a product",
    "fdiv": "a quotient",
    "fneg": "a negated value",
    "frem": "a remainder",
    "add": "an integer sum",
    "sub": "an integer difference",
    "mul": "an integer product",
    "select": "a value chosen by a condition",
    "icmp": "the outcome of a comparison",
    "fcmp": "the outcome of a comparison",
    "getelementptr": "an address",
    "sitofp": "an integer as a float",
    "uitofp": "an integer as a float",
    "fptrunc": "a value in another precision",
    "fpext": "a value in another precision",
}
_VARIABLE = re.compile(r"([A-Za-z_]\w*)(?:\.\d+)+(?:\.(?:ph|lcssa))?[\d.]*$")


@dataclass(frozen=True, eq=False)
class Reason:
    """Why a node is kept. `culprit`: the instruction that prevents its recomputation."""

    text: str
    culprit: Instruction | None = None


def name_of_memory(memory: MemoryObject) -> str:
    """A name for a region of memory, without knowledge of the front end."""
    match memory.kind:
        case "argument":
            return str(memory.key)
        case "global":
            return f"the global {getattr(memory.key, 'name', memory.key)}"
        case "loaded":
            return "memory that an argument points to"
        case _:
            return {"alloca": "local memory", "allocation": "a new array"}.get(
                memory.kind, "the result of a call"
            )


def describe(node: Node, plan: Plan, name_of: NameOf = name_of_memory) -> str:
    """A description of a node in terms of the primal."""
    match node:
        case Primal(value):
            return _describe_value(value, plan, name_of)
        case Shadow(value):
            return f"an address in the shadow of {_memory_at(value, plan, name_of)}"
        case LeavingIteration():
            return "how often the loop ran"
        case Taken():
            return "which branch was taken"
        case RuleTape(call):
            return f"the tape of the rule for {_call_name(call, plan)}"
        case SavedStruct(call, shadow):
            return f"the {'shadow of the ' * shadow}result of {_call_name(call, plan)}"
        case CalleeFrame(call):
            return f"where {_call_name(call, plan)} left its frame"
        case Link():
            return "where the rows of an inner loop are"
        case Entries(_, load):
            return f"a copy of values of {_memory_at(load.operands[0], plan, name_of)}"


_WHY_KEPT: dict[type, str] = {
    Shadow: "the address depends on which branches were taken",
    LeavingIteration: "it is not known when the loop begins",
    Taken: "the reverse sweep must know from which block the join was reached",
    RuleTape: "the reverse of the rule takes it",
    SavedStruct: "the reverse of the rule reads it",
    CalleeFrame: "the reverse of the called function works on it",
    Link: "the reverse sweep finds the rows by it",
    Entries: "a loop reads them several times, and the memory is overwritten",
}


def why_kept(node: Node, plan: Plan) -> Reason:
    """Why the tape keeps a node instead of the reverse sweep computing it again."""
    match node:
        case Primal(Instruction() as value):
            return _why_value(value, plan)
        case Shadow(Instruction(opcode="load") as load):
            return _why_load(load, plan)
        case Shadow(Instruction(opcode="call")):
            return Reason("the shadow is allocated along with the memory")
        case _:
            return Reason(_WHY_KEPT.get(type(node), "it cannot be computed again"))


def why_served(call: Instruction, plan: Plan | ForwardPlan) -> str:
    """Why a marked call needed no rule; `""` if a rule serves it."""
    info = plan.calls.marked(call)
    if call in plan.rules or info is None:
        return ""
    return "declared inactive" if info.inactive else "nothing active goes in and comes out"


def origin(node: Node) -> Instruction | None:
    """The instruction that gives a node its source line; None if there is none."""
    match node:
        case Primal(value) | Shadow(value):
            return value if isinstance(value, Instruction) else None
        case RuleTape(call) | SavedStruct(call) | CalleeFrame(call):
            return call
        case Entries(_, load):
            return load
        case LeavingIteration(loop) | Link(loop):
            return loop_branch(loop)
        case Taken(block):
            return block.terminator


def loop_branch(loop: Loop) -> Instruction:
    """The branch that decides whether a loop continues; it has the loop's source line."""
    leaving = [inside for inside, _ in loop.exit_edges()]
    for block in (loop.latch, loop.header):
        if block is not None and block in leaving:
            return block.terminator
    return (leaving[0] if leaving else loop.header).terminator


# --- values ---


def _describe_value(value: Value, plan: Plan, name_of: NameOf) -> str:
    if not isinstance(value, Instruction):
        return "an argument"
    match value.opcode:
        case "phi":
            variable = _VARIABLE.match(value.name or "")
            name = f"`{variable[1]}`" if variable else "a value"
            how = "at the start of an iteration" if _is_carried(value, plan) else "after a branch"
            return f"{name} {how}"
        case "load":
            return f"a value of {_memory_at(value.operands[0], plan, name_of)}"
        case "call" if _gives_memory(value):
            return f"the address of {_memory_at(value, plan, name_of)}"
        case "call":
            return f"the result of {_call_name(value, plan)}"
        case opcode:
            return _NOUNS.get(opcode, "an intermediate value")


def _why_value(value: Instruction, plan: Plan) -> Reason:
    match value.opcode:
        case "phi":
            if _is_carried(value, plan):
                return Reason("it is carried from one iteration to the next")
            return Reason("it depends on which branches were taken")
        case "load":
            return _why_load(value, plan)
        case "call":
            return _why_call(value, plan)
        case _:
            return Reason("keeping it costs less than computing it again")


def _why_load(load: Instruction, plan: Plan) -> Reason:
    culprit = plan.overwriters.get(load)
    if culprit is None:
        return Reason("keeping it costs less than reading it again")
    return Reason("the memory it was read from is overwritten", culprit)


def _why_call(call: Instruction, plan: Plan) -> Reason:
    name = call.callee_name or ""
    effect = effect_of(name)
    if _gives_memory(call):
        return Reason("the memory is allocated once")
    if not is_pure_call(name) and not (effect is not None and effect.pure):
        return Reason("the call is not repeated: it may have effects")
    if cost(call) is None:
        return Reason(f"{_call_name(call, plan)} is expensive to compute again")
    return Reason("keeping it costs less than computing it again")


def _gives_memory(call: Instruction) -> bool:
    """Whether a call allocates memory, or finds the data of an array."""
    effect = effect_of(call.callee_name)
    return effect is not None and (effect.allocates is not None or effect.gives_data)


def _is_carried(phi: Instruction, plan: Plan) -> bool:
    loop = plan.flow.loop_of(phi.parent) if phi.parent is not None else None
    return loop is not None and phi.parent is loop.header


def _call_name(call: Instruction, plan: Plan) -> str:
    info = plan.calls.marked(call)
    name = call.callee_name or "a function pointer"
    return info.name if info is not None else function_of(name) or plain_name(name)


def _memory_at(pointer: Value, plan: Plan, name_of: NameOf) -> str:
    names = sorted({name_of(o) for o in plan.memory.objects(pointer)})
    return " or ".join(names) or "unknown memory"
