"""The structure of the results of a function of partial derivatives, as far as its code tells.

Needs       a plain Python function, and which of its parameters are numbers
Gives       `returned`: per `return`, a tuple of what is known of the entries, or None
Invariants  Q1  a value reported as a number is one, and a tuple has the reported number of entries;
                an entry that the code does not determine is None

An abstract interpretation of the bytecode, in one pass from the first instruction to the last. The
entries of a tuple are on the stack right before it is built, on every path.
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
from activerules.rules.fingerprint import captured

NUMBER = "a number"


@dataclass(frozen=True)
class _KnownValue:
    """A value known from the function's globals and closure: a module, a function."""

    value: Any


def returned(function: Any, numbers: Collection[str]) -> Iterator[tuple[Any, ...] | None]:
    """For each `return`, a tuple with NUMBER, a tuple or None for each entry; or None if it is not
    known to return a tuple.
    """
    stack = _EvaluationStack(function.__globals__ | captured(function), numbers)
    for instruction in dis.get_instructions(function):
        if instruction.opname in ("RETURN_VALUE", "RETURN_CONST"):
            is_constant = instruction.opname == "RETURN_CONST"
            value = _constant(instruction.argval) if is_constant else stack.pop()
            yield value if isinstance(value, tuple) else (value,) if value == NUMBER else None
        else:
            stack.run(instruction)


class _EvaluationStack:
    """The stack of Python's interpreter, as far as it is known."""

    def __init__(self, outer: dict[str, Any], numbers: Collection[str]) -> None:
        self._outer = outer
        self._numbers = numbers
        self._values: list[Any] = []

    def pop(self) -> Any:
        """Remove the top, and return what is known of it."""
        return self._values.pop() if self._values else None

    def run(self, instruction: dis.Instruction) -> None:
        """Apply the effect of an instruction; its result is unknown by default."""
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
        """Push a literal."""
        self._values.append(_constant(instruction.argval))

    def variable(self, instruction: dis.Instruction, effect: int) -> None:
        """Push a local variable; only parameters that are numbers are known."""
        names = instruction.argval
        for name in names if isinstance(names, tuple) else (names,):
            self._values.append(NUMBER if name in self._numbers else None)

    def outside(self, instruction: dis.Instruction, effect: int) -> None:
        """Push a global variable, or one of an enclosing function."""
        name = instruction.argval
        value = self._outer.get(name)
        self._values += [NUMBER if isinstance(value, float) else _KnownValue(value)] * effect

    def attribute(self, instruction: dis.Instruction, effect: int) -> None:
        """Replace a module by its attribute."""
        owner = self.pop()
        known = None
        if isinstance(owner, _KnownValue) and isinstance(owner.value, ModuleType):
            known = _KnownValue(getattr(owner.value, instruction.argval, None))
        self._values += [known] * (effect + 1)

    def tuple_of(self, instruction: dis.Instruction, effect: int) -> None:
        """Build a tuple of the entries on top."""
        entries = [self.pop() for _ in range(instruction.arg or 0)]
        self._values.append(tuple(reversed(entries)))

    def sign(self, instruction: dis.Instruction, effect: int) -> None:
        """Apply a sign to a number."""
        self.pop()
        self._values.append(NUMBER)

    def operation(self, instruction: dis.Instruction, effect: int) -> None:
        """Apply an operator: `2 * t` and `t + u` may be tuples."""
        operands = [self.pop(), self.pop()]
        known = operands.count(NUMBER)
        is_number = known == 2 or (known == 1 and None in operands and instruction.argrepr != "*")
        self._values.append(NUMBER if is_number else None)

    def call(self, instruction: dis.Instruction, effect: int) -> None:
        """Call a function; below its arguments are the callee and a null, in either order."""
        for _ in range(instruction.arg or 0):
            self.pop()
        callees = [each for each in (self.pop(), self.pop()) if isinstance(each, _KnownValue)]
        self._values.append(NUMBER if any(_gives_number(each.value) for each in callees) else None)

    def jump(self, instruction: dis.Instruction, effect: int) -> None:
        """Jump, with a condition on top or without one."""
        for _ in range(-effect):
            self.pop()

    def empty(self, instruction: dis.Instruction, effect: int) -> None:
        """Push the null beside a callee."""
        self._values.append(None)

    def nothing(self, instruction: dis.Instruction, effect: int) -> None:
        """Leave the stack as it is."""


_MAKERS: dict[str, Callable[[_EvaluationStack, dis.Instruction, int], None]] = {
    "LOAD_CONST": _EvaluationStack.constant,
    "LOAD_SMALL_INT": _EvaluationStack.constant,
    "LOAD_FAST": _EvaluationStack.variable,
    "LOAD_FAST_BORROW": _EvaluationStack.variable,
    "LOAD_FAST_LOAD_FAST": _EvaluationStack.variable,
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": _EvaluationStack.variable,
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
    "NOT_TAKEN": _EvaluationStack.nothing,
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
