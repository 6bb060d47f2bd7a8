"""Calls through tables of functions become calls by name: arrays of functions, virtual tables.

Needs       a module the analyses can read; the name of the function to differentiate
Gives       `call_by_name(module, function)`: the module, changed in place, in which a call through
            a pointer that can only have come out of constant globals, or of memory that only such
            pointers were stored in, compares the pointer with the functions it may be
            (`devirtualise`); whether there was one
Invariants  I1  a pointer from memory of a caller, from unknown code, or made from an integer may be
                any function: such a call stays as it is
            I2  a call cannot go to a function with another signature; a call without a possible
                target is never executed (Rust's virtual tables have null for types without a
                destructor)
"""

from __future__ import annotations

from dataclasses import dataclass

from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.memory.addresses import address_of
from activerules.ir.analysis.memory.callee import Groups, Summary
from activerules.ir.analysis.memory.declared import FromCaller
from activerules.ir.analysis.memory.facts import MemoryFacts, analyse_memory
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.memory.points_to import FromModule, Tables
from activerules.ir.derivatives.table import is_inactive_math, is_pure_call
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.model import Function, GlobalRef, Instruction, Module, Value
from activerules.ir.llvm.types import VOID
from activerules.ir.llvm.verbatim import is_constant, names_in, value_of_global
from activerules.ir.normal.devirtualise import MOST_CALLEES, fits, split_call
from activerules.ir.normal.effects import effect_of

_CALLS = EngineCalls(None)
_NEVER = "llvm.trap"


def call_by_name(module: Module, function: str) -> bool:
    """Replace calls through constant tables in all code that a function reaches.

    Returns whether there was one.
    """
    tables = _tables(module)
    changed = False
    done: set[str] = set()
    todo = [function]
    while todo:
        name = todo.pop()
        callee = module.functions.get(name)
        if name in done or callee is None or callee.is_declaration:
            continue
        done.add(name)
        changed |= _resolve(callee, module, tables)
        todo += callee.mentioned()
    return changed


def _tables(module: Module) -> Tables:
    """Per constant of the module, what pointers in it point to."""
    return {
        MemoryObject("global", name): frozenset(
            MemoryObject("global", mentioned) for mentioned in names_in(value_of_global(line))
        )
        for name, line in module.globals.items()
        if is_constant(line)
    }


def _resolve(function: Function, module: Module, tables: Tables) -> bool:
    """Rewrite the calls with known targets, once the assumptions on other calls are verified."""
    instructions = function.instructions()
    calls = {i for i in instructions if i.opcode == "call" and isinstance(i.callee, Instruction)}
    assumed = {call for call in calls if not call.type.is_pointer}
    targets: dict[Instruction, list[str]] = {}
    while calls:
        memory = _memory(function, module, tables, assumed)
        targets = {call: _targets(call, memory, module) for call in calls}
        wrong = {
            call
            for call in assumed
            if not targets[call] or not all(_is_harmless(n, module, set()) for n in targets[call])
        }
        if not wrong:
            break
        assumed -= wrong
    for call, names in targets.items():
        if names == [_NEVER]:
            _forbid(call, module)
        elif names:
            split_call(function, call, names)
    return any(targets.values())


def _targets(call: Instruction, memory: MemoryFacts, module: Module) -> list[str]:
    """The functions that a call may go to; none if it may also go elsewhere (I1)."""
    assert call.callee is not None
    objects = memory.objects(call.callee)
    if not objects or any(o.kind != "global" for o in objects):
        return []
    names = sorted(str(o.key) for o in objects)
    names = [name for name in names if fits(call, module.functions.get(name))]
    if not names and call.type is VOID:
        return [_NEVER]
    return names if len(names) <= MOST_CALLEES else []


def _forbid(call: Instruction, module: Module) -> None:
    """Replace a call by code that ends the program."""
    module.functions.setdefault(_NEVER, Function(_NEVER, VOID, []))
    call.callee, call.operands = GlobalRef(_NEVER), []
    call.attributes = {k: v for k, v in call.attributes.items() if k == "location"}


def _is_harmless(name: str, module: Module, seen: set[str]) -> bool:
    """Whether a function neither stores pointers in memory its caller can see, nor copies bytes."""
    function = module.functions.get(name)
    if name in seen:
        return True
    seen.add(name)
    if function is None or function.is_declaration:
        effect = effect_of(name)
        return (
            is_pure_call(name)
            or is_inactive_math(name)
            or (effect is not None and not effect.writes)
        )
    return all(
        _is_harmless(i.callee_name or "", module, seen)
        if i.opcode == "call"
        else i.opcode != "store" or i.operands[0].type.is_float or _is_own(i.operands[1])
        for i in function.instructions()
    )


def _is_own(pointer: Value) -> bool:
    base = address_of(pointer, {}).base
    return isinstance(base, Instruction) and base.opcode == "alloca"


@dataclass(frozen=True)
class _Assumed:
    """What calls do to memory, where some are assumed to have no effect; a `Summaries`."""

    calls: set[Instruction]

    def is_derived(self, call: Instruction) -> bool:
        return call in self.calls

    def summary(self, call: Instruction, groups: Groups, apart: bool) -> Summary:
        return Summary()


def _memory(
    function: Function, module: Module, tables: Tables, assumed: set[Instruction]
) -> MemoryFacts:
    flow = control_flow(function)
    return analyse_memory(
        function,
        flow,
        live=flow.order,
        caller=FromCaller(group_of=lambda a: a),
        module=FromModule(module.types, _CALLS, _Assumed(assumed), tables),
    )
