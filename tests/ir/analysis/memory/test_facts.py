"""Memory facts against what random programs do: every access is traced while the program runs.

M1: an address lies in one of the pointer's objects. M2: pointers that held one address share an
object, or theirs may overlap. M3: what is said not to be overwritten after a load is not. M4, of
marked calls, is compared with their effect instead.
"""

from __future__ import annotations

import ctypes
import random
from dataclasses import dataclass

import llvmlite.binding as llvm
import numpy as np
import pytest

from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.model import Constant, Function, GlobalRef, Instruction, Module, Value
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.llvm.types import I32, I64, PTR, VOID, size_of
from activerules.ir.normal import normal_form
from activerules.ir.normal.effects import CallEffect
from activerules.ir.text.normalise import canonical, exposed, normalise
from tests.ir.harness import compile_text
from tests.ir.memory_of import memory_of
from tests.ir.random_programs import LENGTH, Generator, TooLong, evaluate, lower, make_inputs

TRACE = "activerules_test_trace"


class MarksRule(EngineCalls):
    """Every call of `rule` is a marked call with this effect."""

    def __init__(self, effect: CallEffect) -> None:
        super().__init__(None)
        self.effect = effect

    def marked_effect(self, call: Instruction) -> CallEffect | None:
        return self.effect if call.callee_name == "rule" else None


@dataclass(frozen=True)
class Event:
    """One access: instruction number, address, bytes, and the pointer's number in `pointers`."""

    number: int
    address: int
    size: int

    def overlaps(self, other: Event) -> bool:
        return (
            self.address < other.address + other.size and other.address < self.address + self.size
        )


@dataclass(frozen=True)
class Traced:
    """A program, its facts and what happened when it ran."""

    facts: MemoryFacts
    accesses: list[Instruction]
    events: list[Event]
    ranges: dict[MemoryObject, list[tuple[int, int]]]


def _is_traced(i: Instruction) -> bool:
    name = i.callee_name or ""
    return (
        i.opcode in {"load", "store", "alloca"} or name == "malloc" or name.startswith("llvm.mem")
    )


def _access(i: Instruction) -> tuple[Value, Value]:
    """The pointer an instruction acts on, and how many bytes."""
    match i.opcode:
        case "load":
            return i.operands[0], Constant(I64, str(size_of(i.type)))
        case "store":
            return i.operands[1], Constant(I64, str(size_of(i.operands[0].type)))
        case "alloca":
            return i, Constant(I64, str(size_of(i.attributes["allocated"])))
    return (i, i.operands[0]) if i.callee_name == "malloc" else (i.operands[0], i.operands[2])


def _instrument(module: Module, function: Function) -> str:
    """Text of the module with a call of the tracer behind every access."""
    number = 0
    for block in function.blocks:
        made = []
        for i in block.instructions:
            made.append(i)
            if _is_traced(i):
                pointer, size = _access(i)
                call = [Constant(I32, str(number)), pointer, size]
                made.append(
                    Instruction("call", VOID, call, callee=GlobalRef(TRACE, PTR), parent=block)
                )
                number += 1
        block.instructions = made
    function.suffix = ""
    return print_module(module) + f"\ndeclare void @{TRACE}(i32, ptr, i64)\n"


def _traced(number: int) -> Traced:
    rng = random.Random(number)
    same = rng.random() < 0.3
    while True:
        program = Generator(rng).program(14)
        inputs = make_inputs(rng.randrange(1 << 30), same=same)
        try:
            evaluate(program, inputs)
        except (TooLong, OverflowError):
            continue
        break
    text = normalise(exposed(canonical(lower(program, "" if same else "noalias "))), "f")
    module = parse_module(text)
    function = module.functions["f"]
    normal_form.tidy(function)
    flow = control_flow(function)
    facts = memory_of(module, function, flow)
    accesses = [i for i in function.instructions() if _is_traced(i)]
    events: list[Event] = []
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_uint64, ctypes.c_int64)
    tracer = prototype(lambda n, address, size: events.append(Event(n, address, size)))
    llvm.add_symbol(TRACE, ctypes.cast(tracer, ctypes.c_void_p).value)
    compiled = compile_text(_instrument(module, function), None)
    a = inputs.a.copy()
    b = a if same else inputs.b.copy()
    index = np.array(inputs.index)
    addresses = [array.ctypes.data for array in (a, b, index)]
    compiled.function("f")(*addresses, inputs.n, inputs.x, inputs.y)
    ranges: dict[MemoryObject, list[tuple[int, int]]] = {}
    for argument, address in zip(function.arguments, addresses, strict=False):
        (o,) = facts.objects(argument)
        ranges[o] = [(address, address + 8 * LENGTH)]
    for event in events:
        i = accesses[event.number]
        if i.opcode == "alloca" or i.callee_name == "malloc":
            (o,) = facts.objects(i)
            ranges.setdefault(o, []).append((event.address, event.address + event.size))
    return Traced(facts, accesses, events, ranges)


@pytest.fixture(scope="module", params=range(40))
def traced(request: pytest.FixtureRequest) -> Traced:
    return _traced(request.param)


def test_m1_addresses_lie_in_the_objects(traced: Traced) -> None:
    for event in traced.events:
        pointer, _ = _access(traced.accesses[event.number])
        places = [r for o in traced.facts.objects(pointer) for r in traced.ranges.get(o, [])]
        assert event.size == 0 or any(
            low <= event.address and event.address + event.size <= high for low, high in places
        )


def test_m2_pointers_with_one_address_may_overlap(traced: Traced) -> None:
    facts = traced.facts
    by_address: dict[int, set[Value]] = {}
    for event in traced.events:
        by_address.setdefault(event.address, set()).add(_access(traced.accesses[event.number])[0])
    for pointers in by_address.values():
        for p in pointers:
            for q in pointers:
                assert facts.may_alias(p, None, q, None)


def test_m3_memory_that_is_not_overwritten_keeps_its_value(traced: Traced) -> None:
    facts = traced.facts
    stands = {
        number: not facts.changes.overwritten(i, i.operands[0], size_of(i.type))
        for number, i in enumerate(traced.accesses)
        if i.opcode == "load"
    }
    for k, event in enumerate(traced.events):
        if stands.get(event.number):
            assert not any(
                later.overlaps(event)
                for later in traced.events[k + 1 :]
                if traced.accesses[later.number].opcode != "load"
                and later.size
                and not _makes_memory(traced.accesses[later.number])
            )


CALL = """
declare i32 @rule(ptr, ptr, ptr)

define void @f(ptr %a) {
  %result = alloca ptr
  %error = alloca ptr
  %list = alloca ptr
  store ptr %a, ptr %list
  %status = call i32 @rule(ptr %result, ptr %error, ptr %list)
  ret void
}
"""


@pytest.mark.parametrize(
    ("effect", "stores_into"),
    [
        (CallEffect(reads=(2,), writes=(0, 1)), "result error"),
        (CallEffect(reads=(2,), writes=(0, 1, 2)), "result error list a"),
        (CallEffect(writes=(0, 1, 2), follows=(2,), replaces_pointers=False), "result error"),
        (CallEffect(writes=(0, 1, 2), follows=(2,), replaces_pointers=True), None),
        (CallEffect(reads=(2,), writes=(0, 1), hands_out=True), None),
    ],
    ids=["reads", "writes", "writes the items", "replaces the items", "returns what it was given"],
)
def test_m4_marked_calls_store_pointers_only_where_they_write(
    effect: CallEffect, stores_into: str | None
) -> None:
    """None: the call may keep the pointers it was given, so nothing is said."""
    module = parse_module(CALL)
    function = module.functions["f"]
    flow = control_flow(function)
    facts = memory_of(module, function, flow, calls=MarksRule(effect))
    pointers: dict[str, Value] = {i.name: i for i in function.instructions() if i.name}
    pointers["a"] = function.arguments[0]
    memory = {o for name in (stores_into or "").split() for o in facts.objects(pointers[name])}
    found = facts.readers.get(pointers["status"])
    if stores_into is None:
        assert found is None
    else:  # besides, what the call returns, and what is loaded from the caller's memory
        assert {o for o in found or () if o.kind in {"alloca", "argument"}} == memory


def _makes_memory(i: Instruction) -> bool:
    return i.opcode == "alloca" or i.callee_name == "malloc"
