"""Rows of the table of derivatives: a partial per operand, which declares the values it reads.

A `Partial` multiplies a cotangent (or tangent) `g` by the derivative of the result with respect to
its operand; it is linear in `g`, so reverse and forward mode share it. None stands for a derivative
that is zero wherever it exists. `g` may be a vector of tangents (`ir.generate.lanes`); the slope is
computed from values of the primal alone, which are scalars.

Code is emitted only for wanted partials: an operand that is not active costs nothing, needs no
value, and cannot introduce a NaN. The code carries no fast-math flags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from activerules.ir.llvm.builder import Builder
from activerules.ir.llvm.model import GlobalRef, Instruction, Value
from activerules.ir.llvm.types import Type

_OPERANDS = "xyzw"


class RowOperands:
    """The values a row may use: `x`, `y`, `z`, `w`, `r` as far as `needs` declares them.

    `lookup` maps a value of the primal to its copy where the derivative is computed. Reading a
    value that was not declared raises `RuntimeError`.
    """

    __slots__ = ("_lookup", "_needs", "instruction")

    def __init__(
        self,
        instruction: Instruction,
        needs: Sequence[str],
        lookup: Callable[[Value], Value] | None = None,
    ) -> None:
        self.instruction = instruction
        self._needs = frozenset(needs)
        self._lookup = lookup

    def _get(self, name: str, value: Value) -> Value:
        if name not in self._needs:
            raise RuntimeError(f"the row of {self.instruction.opcode} uses {name} undeclared")
        return value if self._lookup is None else self._lookup(value)

    @property
    def x(self) -> Value:
        """Operand 0."""
        return self._get("x", self.instruction.operands[0])

    @property
    def y(self) -> Value:
        """Operand 1."""
        return self._get("y", self.instruction.operands[1])

    @property
    def z(self) -> Value:
        """Operand 2."""
        return self._get("z", self.instruction.operands[2])

    @property
    def w(self) -> Value:
        """Operand 3."""
        return self._get("w", self.instruction.operands[3])

    @property
    def r(self) -> Value:
        """The result."""
        return self._get("r", self.instruction)

    @property
    def type(self) -> Type:
        """The type of the result."""
        return self.instruction.type

    def operand_type(self, k: int) -> Type:
        """The type of operand `k`."""
        return self.instruction.operands[k].type

    @property
    def callee(self) -> str:
        """The name of the function called."""
        assert isinstance(self.instruction.callee, GlobalRef)
        return self.instruction.callee.name


Times = Callable[[Builder, RowOperands, Value], Value]


@dataclass(frozen=True, slots=True)
class Partial:
    """`times(b, i, g)` is g · ∂r/∂operand; `needs` are the values it reads.

    `push` is the same for a tangent, if the types of operand and result differ; `used`, for an
    operation that chooses, emits whether the result depends on this operand.
    """

    needs: tuple[str, ...]
    times: Times
    push: Times | None = None
    used: Callable[[Builder, RowOperands], Value] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """The derivative of one instruction: a partial per operand, None where it is zero."""

    partials: tuple[Partial | None, ...]

    def needs_of(self, wanted: Sequence[bool]) -> tuple[str, ...]:
        """What the partials of the wanted operands read, in the order x, y, z, w, r."""
        read = {n for p, w in zip(self.partials, wanted, strict=True) if p and w for n in p.needs}
        return tuple(n for n in _OPERANDS + "r" if n in read)

    def access(
        self,
        instruction: Instruction,
        wanted: Sequence[bool],
        lookup: Callable[[Value], Value] | None = None,
    ) -> RowOperands:
        """The argument `i` for `adjoint` or `tangent` with these operands."""
        return RowOperands(instruction, self.needs_of(wanted), lookup)

    def adjoint(
        self, b: Builder, i: RowOperands, g: Value, wanted: Sequence[bool]
    ) -> tuple[Value | None, ...]:
        """The terms for the cotangents of the operands; None if not wanted, or zero."""
        return tuple(
            p.times(b, i, g) if p and w else None
            for p, w in zip(self.partials, wanted, strict=True)
        )

    def tangent(
        self,
        b: Builder,
        i: RowOperands,
        tangents: Sequence[Value | None],
        finish: Callable[[int, Value, Value], Value] = lambda k, tangent, term: term,
    ) -> Value | None:
        """The tangent of the result; None, also in `tangents`, stands for zero.

        `finish` maps an operand's number, its tangent and its term to the summand.
        """
        total: Value | None = None
        for k, (p, t) in enumerate(zip(self.partials, tangents, strict=True)):
            if p is not None and t is not None:
                term = finish(k, t, (p.push or p.times)(b, i, t))
                total = term if total is None else b.fadd(total, term)
        return total
