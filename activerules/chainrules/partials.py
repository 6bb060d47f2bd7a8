"""What a function of partial derivatives returns, as far as its code says.

Needs       a plain Python function, and which of its parameters are numbers
Gives       `returned`: per `return`, a tuple of what is known of the entries, or None
Invariants  Q1  what is called a number is one, and a tuple has so many entries; where the code does
                not determine an entry, it is None

The bytecode is followed once, from the first instruction to the last, with a stack of what is
known. An entry of a tuple is on it right before the tuple is built, whichever way led there.
"""

from __future__ import annotations

import cmath
import dis
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from activerules.annotations.tangents import AbstractTangent
from activerules.rules.fingerprint import is_filled

NUMBER = "a number"


@dataclass(frozen=True)
class _KnownValue:
    """A value that the code finds where it is defined: a module, a function."""

    value: Any


def returned(function: Any, numbers: Collection[str]) -> Iterator[tuple[Any, ...] | None]:
    """What each `return` gives: a tuple, with NUMBER, a tuple, or None for each entry; or None."""
    outer = dict(function.__globals__)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    outer.update({name: cell.cell_contents for name, cell in cells if is_filled(cell)})
    stack = _EvaluationStack(outer, numbers)
    for instruction in dis.get_instructions(function):
        if instruction.opname in ("RETURN_VALUE", "RETURN_CONST"):
            is_constant = instruction.opname == "RETURN_CONST"
            value = _constant(instruction.argval) if is_constant else stack.pop()
            yield value if isinstance(value, tuple) else (value,) if value == NUMBER else None
        else:
            stack.run(instruction)


class _EvaluationStack:
    """The stack of Python's interpreter, of which the top is known best."""

    def __init__(self, outer: dict[str, Any], numbers: Collection[str]) -> None:
        self._outer = outer
        self._numbers = numbers
        self._values: list[Any] = []

    def pop(self) -> Any:
        """What is known of the top."""
        return self._values.pop() if self._values else None

    def run(self, instruction: dis.Instruction) -> None:
        """Do what an instruction does, as far as anything is known after it."""
        effect = _effect(instruction)
        is_jump = instruction.opname.startswith(("POP_JUMP", "JUMP"))
        make = _EvaluationStack.jump if is_jump else _MAKERS.get(instruction.opname)
        if make is not None:
            make(self, instruction, effect)
            return
        for _ in range(1 + max(-effect, 0)):
            self.pop()
        self._values += [None] * (1 + max(effect, 0))

    def constant(self, instruction: dis.Instruction, effect: int) -> None:
        """Push a literal, which is known."""
        self._values.append(_constant(instruction.argval))

    def variable(self, instruction: dis.Instruction, effect: int) -> None:
        """Local variables, of which the parameters that are numbers are known."""
        names = instruction.argval
        for name in names if isinstance(names, tuple) else (names,):
            self._values.append(NUMBER if name in self._numbers else None)

    def outside(self, instruction: dis.Instruction, effect: int) -> None:
        """A global variable, or one of an enclosing function."""
        name = instruction.argval
        value = self._outer.get(name)
        self._values += [NUMBER if isinstance(value, float) else _KnownValue(value)] * effect

    def attribute(self, instruction: dis.Instruction, effect: int) -> None:
        """What a module has under a name."""
        owner = self.pop()
        known = None
        if isinstance(owner, _KnownValue) and isinstance(owner.value, ModuleType):
            known = _KnownValue(getattr(owner.value, instruction.argval, None))
        self._values += [known] * (effect + 1)

    def tuple_of(self, instruction: dis.Instruction, effect: int) -> None:
        """A tuple of the entries on top."""
        entries = [self.pop() for _ in range(instruction.arg or 0)]
        self._values.append(tuple(reversed(entries)))

    def sign(self, instruction: dis.Instruction, effect: int) -> None:
        """The negative of a number."""
        self.pop()
        self._values.append(NUMBER)

    def operation(self, instruction: dis.Instruction, effect: int) -> None:
        """An operator: `2 * t` and `t + u` may be tuples."""
        operands = [self.pop(), self.pop()]
        known = operands.count(NUMBER)
        is_number = known == 2 or (known == 1 and None in operands and instruction.argrepr != "*")
        self._values.append(NUMBER if is_number else None)

    def call(self, instruction: dis.Instruction, effect: int) -> None:
        """A call; below its arguments are the callee and an empty place, in either order."""
        for _ in range(instruction.arg or 0):
            self.pop()
        callees = [each for each in (self.pop(), self.pop()) if isinstance(each, _KnownValue)]
        self._values.append(NUMBER if any(_gives_number(each.value) for each in callees) else None)

    def jump(self, instruction: dis.Instruction, effect: int) -> None:
        """A jump, by a condition on top or without one."""
        for _ in range(-effect):
            self.pop()

    def empty(self, instruction: dis.Instruction, effect: int) -> None:
        """The empty place beside a callee."""
        self._values.append(None)

    def nothing(self, instruction: dis.Instruction, effect: int) -> None:
        """An instruction that does not change the stack."""


_MAKERS: dict[str, Callable[[_EvaluationStack, dis.Instruction, int], None]] = {
    "LOAD_CONST": _EvaluationStack.constant,
    "LOAD_FAST": _EvaluationStack.variable,
    "LOAD_FAST_LOAD_FAST": _EvaluationStack.variable,
    "LOAD_GLOBAL": _EvaluationStack.outside,
    "LOAD_DEREF": _EvaluationStack.outside,
    "LOAD_ATTR": _EvaluationStack.attribute,
    "LOAD_METHOD": _EvaluationStack.attribute,
    "BUILD_TUPLE": _EvaluationStack.tuple_of,
    "UNARY_NEGATIVE": _EvaluationStack.sign,
    "BINARY_OP": _EvaluationStack.operation,
    "CALL": _EvaluationStack.call,
    "PUSH_NULL": _EvaluationStack.empty,
    "PRECALL": _EvaluationStack.nothing,
    "KW_NAMES": _EvaluationStack.nothing,
    "RESUME": _EvaluationStack.nothing,
    "NOP": _EvaluationStack.nothing,
    "COPY_FREE_VARS": _EvaluationStack.nothing,
}


def _effect(instruction: dis.Instruction) -> int:
    argument = instruction.arg if instruction.opcode >= dis.HAVE_ARGUMENT else None
    return dis.stack_effect(instruction.opcode, argument, jump=False)


def _constant(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_constant, value))
    return NUMBER if isinstance(value, int | float | complex) else None


def _gives_number(callee: Any) -> bool:
    if isinstance(callee, np.ufunc):
        return callee.nout == 1
    if isinstance(callee, type):
        return issubclass(callee, float | complex | AbstractTangent | np.number)
    module = getattr(callee, "__module__", None)
    return callee is abs or (
        module in (math.__name__, cmath.__name__) and callee not in (math.frexp, math.modf)
    )
