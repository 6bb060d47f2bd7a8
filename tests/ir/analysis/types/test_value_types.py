"""Value types against what random programs do: an interpreter tracks where floats really are.

V1: an integer outside `float_bits` was never bits of a float. V2: memory in which a float was found
`holds_float`, or nothing is known of it but that it is copied. V3: an integer loaded from where a
float was is in `float_bits`.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.memory.declared import Declared
from activerules.ir.analysis.summaries import ModuleSummaries
from activerules.ir.analysis.types.value_types import ValueTypes, analyse_value_types
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.model import Function, Instruction, Module
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.types import DOUBLE
from activerules.ir.normal import normal_form
from activerules.ir.text.normalise import canonical, exposed, normalise
from tests.ir.bits_interpreter import CELL, BitsInterpreter, Unsupported
from tests.ir.harness import compile_text
from tests.ir.memory_of import memory_of
from tests.ir.program_idioms import make
from tests.ir.program_language import Node
from tests.ir.random_programs import LENGTH, Generator, lower, make_inputs

PER_TEST = 6


def _types(module: Module, function: Function) -> ValueTypes:
    """The caller says what it knows: `a` and `b` hold doubles."""
    normal_form.tidy(function)
    flow, calls = control_flow(function), EngineCalls(None)
    memory = memory_of(module, function, flow, private=lambda a: False)
    declared = {
        o: Declared.array_of(DOUBLE)
        for a in function.arguments
        if a.name in {"a", "b"}
        for o in memory.objects(a)
    }
    pointers = [a for a in function.arguments if a.type.is_pointer]
    summaries = ModuleSummaries(module, calls, pointers)
    return analyse_value_types(function, memory, declared, lambda: summaries.shapes(function))


def _run(function: Function, seed: int) -> BitsInterpreter | None:
    """None for a program the interpreter does not know, or that runs too long."""
    inputs = make_inputs(seed)
    interpreter = BitsInterpreter(function)
    for name, numbers in (("a", inputs.a), ("b", inputs.b), ("index", inputs.index)):
        for k, number in enumerate(numbers.tolist()):
            interpreter.memory[name, CELL * k] = number
            if name != "index":
                interpreter.float_cells.add((name, CELL * k))
    pointers = [(name, 0) for name in ("a", "b", "index")]
    try:
        done = interpreter.run([*pointers, inputs.n, float(inputs.x), float(inputs.y)])
    except (Unsupported, OverflowError, ValueError):
        return None
    return interpreter if done else None


def _with_copies(generator: Generator) -> Node:
    """A program that copies doubles as integers, one way or another."""
    body, result = generator.program(generator.rng.choice([8, 12]))
    for _ in range(3):
        copies = [make("icopy", generator) for _ in range(2)]
        chosen = ("if", generator.condition(0), copies[:1], copies[1:])
        body.insert(generator.rng.randrange(2), generator.rng.choice([copies[0], chosen]))
    return body, result


def _programs(number: int):
    rng = random.Random(number)
    found = 0
    while found < PER_TEST:
        text = lower(_with_copies(Generator(rng, idioms=True)), idioms=True)
        module = parse_module(normalise(exposed(canonical(text)), "f"))
        function = module.functions["f"]
        interpreter = _run(function, rng.randrange(1 << 30))
        if interpreter is not None:
            found += 1
            yield function, interpreter, _types(module, function)


def _is_sign(i: Instruction) -> bool:
    return i.opcode in {"lshr", "ashr"}


@pytest.mark.parametrize("number", range(5))
def test_v1_v3_bits_of_floats_are_known(number: int) -> None:
    for _, interpreter, types in _programs(number):
        unknown = {i for i in interpreter.bits - types.float_bits if not _is_sign(i)}
        assert not unknown


@pytest.mark.parametrize("number", range(3))
def test_v2_float_memory_is_known(number: int) -> None:
    for function, interpreter, types in _programs(100 + number):
        bases = {a.name: o for a in function.arguments for o in types.memory.objects(a)}
        for base, _ in interpreter.float_cells:
            if isinstance(base, Instruction):
                objects = types.memory.objects(base)
            elif isinstance(base, tuple):
                objects = types.memory.objects(base[0])
            else:
                objects = {bases[base]}
            assert any(types.holds_float(p) for o in objects for p in types.memory.copied_with(o))


def test_the_interpreter_agrees_with_machine_code() -> None:
    """What it says of bits is worth nothing if its numbers are wrong."""
    rng = random.Random(7)
    compared = 0
    while compared < 5:
        text = lower(Generator(rng, idioms=True).program(10), idioms=True)
        function = parse_module(normalise(exposed(canonical(text)), "f")).functions["f"]
        seed = rng.randrange(1 << 30)
        interpreter = _run(function, seed)
        if interpreter is None:
            continue
        inputs = make_inputs(seed)
        a, b, index = inputs.a.copy(), inputs.b.copy(), inputs.index.copy()
        addresses = [array.ctypes.data for array in (a, b, index)]
        compile_text(text, None).function("f")(*addresses, inputs.n, inputs.x, inputs.y)
        cells = [interpreter.memory["a", CELL * k] for k in range(LENGTH)]
        left = [interpreter.as_type(DOUBLE, cell) for cell in cells]
        np.testing.assert_allclose(np.array(left), a, rtol=1e-12)
        compared += 1
