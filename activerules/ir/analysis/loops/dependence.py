"""Dependence: whether two accesses to memory can be at the same address.

Needs       Integers of the function
Gives       Dependence: `met_later(first, others)`, `met_in_loop(first, second, loop)`,
            `met_at_once(first, second)`
            `Assumption`s: inequalities between parameters of the function, to be checked at entry
Invariants  D1  `met_later(i, js)` is None only if, under the assumptions, no `j` that runs after
                `i` accesses a byte that `i` accesses
            D2  `met_in_loop(i, j, loop)` is False only if, without any assumption, `i` and `j`
                access no common byte while the loop runs, whichever runs first
            D3  an assumption is made only if the wanted answer follows from it

An address is base + sum of subscript * stride, where strides are products of values known at entry
(the lengths of the inner axes of an array). Subscripts are compared axis by axis if each stays
within its axis, which is proved from the bounds of the loops or becomes an assumption. Two accesses
meet if there are two iterations, one later than the other, with equal subscripts: a system of
inequalities, which is shown to be infeasible.

Subscript arithmetic is assumed not to wrap around 2^64 between two elements of an array: memory is
not that large.

Source      Maslov (1992), Delinearization: an efficient way to break multiloop dependence
            equations; Grosser, Ramanujam, Pouchet, Sadayappan, Pop (2015), Optimistic
            delinearization of parametrically sized arrays; Pugh (1991), The Omega test
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from activerules.ir.analysis.loops.affine import (
    Atom,
    Monomial,
    Poly,
    infeasible,
    products_of,
    project,
    quotient,
)
from activerules.ir.analysis.loops.integers import Integers, SymbolicAddress
from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.closure import closure
from activerules.ir.llvm.model import Argument, Block, Instruction, Value
from activerules.ir.llvm.types import size_of

_MOST_ASSUMPTIONS = 6
_LARGEST_STEP = 1 << 31


@dataclass(frozen=True, eq=False)
class Assumption:
    """A polynomial in parameters of the function that is assumed not to be negative."""

    poly: Poly

    @property
    def text(self) -> str:
        """The inequality as text: `%n - %m >= 0`."""
        parts = [
            f"{c:+d}" + "".join(f"*{atom.ref}" for atom in m if isinstance(atom, Value))
            for m, c in self.poly.terms.items()
        ]
        return " ".join(sorted(parts)) + " >= 0"


@dataclass(frozen=True)
class _Access:
    """An instruction with the loops around it, outermost first, and where it accesses memory."""

    instruction: Instruction
    loops: tuple[Loop, ...]
    base: Value
    offset: Poly
    size: int


@dataclass(eq=False)
class Dependence:
    """The answers for one function, and the assumptions made for them so far.

    may_assume   whether assumptions are allowed
    """

    integers: Integers
    may_assume: bool = False
    assumptions: list[Assumption] = field(default_factory=list[Assumption])

    def met_later(self, first: Instruction, accesses: Iterable[Instruction]) -> Instruction | None:
        """One of `accesses` that may access memory of `first` after it; None if there is none."""
        new: list[Assumption] = []
        for second in accesses:
            orders = self._orders(first, second)
            if orders is None or not self._apart(*orders, new):
                return second
        together = [*self.assumptions, *new]
        for assumption in list(together):
            remaining = [a.poly for a in together if a is not assumption]
            if infeasible([*remaining, assumption.poly * -1 - 1]):
                together.remove(assumption)
        if len(together) > _MOST_ASSUMPTIONS:
            return first
        self.assumptions[:] = together
        return None

    def met_in_loop(self, first: Instruction, second: Instruction, loop: Loop) -> bool:
        """Whether the two may access the same byte while `loop` runs once."""
        accesses = self._accesses(first, second)
        if accesses is None:
            return True
        allowed, self.may_assume = self.may_assume, False
        depth = accesses[0].loops.index(loop)
        apart = self._apart(*accesses, [_Order(depth, strict=False)], [])
        self.may_assume = allowed
        return not apart

    def met_at_once(self, first: Instruction, second: Instruction) -> bool:
        """Whether the two may access the same byte in one execution of their block."""
        accesses = self._accesses(first, second)
        return accesses is None or not infeasible([], [accesses[0].offset - accesses[1].offset])

    def _accesses(self, first: Instruction, second: Instruction) -> tuple[_Access, _Access] | None:
        x, y = self._access(first), self._access(second)
        if x is None or y is None or x.size != y.size or x.base is not y.base:
            return None
        return (x, y)

    def _access(self, i: Instruction) -> _Access | None:
        """A load or store at a known distance from its base; None for any other instruction."""
        if i.opcode not in {"load", "store"}:
            return None
        t = i.type if i.opcode == "load" else i.operands[0].type
        address: SymbolicAddress | None = self.integers.address(i.operands[-1])
        size = size_of(t, self.integers.named_types)
        if address is None or size == 0:
            return None
        # if all distances are multiples of the size, accesses overlap only at equal subscripts
        if any(c % size or abs(c) >= _LARGEST_STEP for c in address.offset.terms.values()):
            return None
        elements = Poly({m: c // size for m, c in address.offset.terms.items()})
        return _Access(i, self._loops_around(i.owner), address.base, elements, size)

    def _loops_around(self, block: Block) -> tuple[Loop, ...]:
        loop = self.integers.flow.loop_of(block)
        return tuple(reversed(list(loop.ancestors()))) if loop is not None else ()

    # --- which iterations of one come after which of the other ---

    def _orders(
        self, first: Instruction, second: Instruction
    ) -> tuple[_Access, _Access, list[_Order]] | None:
        accesses = self._accesses(first, second)
        if accesses is None:
            return None
        x, y = accesses
        common = sum(a is b for a, b in zip(x.loops, y.loops, strict=False))
        orders = [_Order(depth, strict=True) for depth in range(common)]
        if self._runs_later(first, second, x.loops[common - 1] if common else None):
            orders.append(_Order(common, strict=False))
        return x, y, orders

    def _runs_later(self, first: Instruction, second: Instruction, loop: Loop | None) -> bool:
        """Whether `second` may run after `first` within one iteration of `loop`."""
        a, b = first.owner, second.owner
        if a is b and a.instructions.index(first) < a.instructions.index(second):
            return True

        def following(block: Block) -> Iterable[Block]:
            if loop is None:
                return block.successors
            return (t for t in block.successors if t in loop.blocks and t is not loop.header)

        return b in closure(following(a), following)

    # --- whether they meet ---

    def _apart(self, x: _Access, y: _Access, orders: list[_Order], new: list[Assumption]) -> bool:
        """Whether no iterations in any of the orders access the same element.

        Assumptions that this needs are added to `new`.
        """
        return all(self._apart_in(order, x, y, new) for order in orders)

    def _apart_in(self, order: _Order, x: _Access, y: _Access, new: list[Assumption]) -> bool:
        same = set(x.loops[: order.depth])
        if not self._is_fixed(x.base, same):
            return False
        later = self._renaming(x, y, same)
        facts = self.integers.facts(x.instruction.owner)
        facts = facts + [p.rename(later) for p in self.integers.facts(y.instruction.owner)]
        facts += self._assumed(new)
        if order.strict:
            loop = x.loops[order.depth]
            facts.append(Poly.atom(later(loop)) - Poly.atom(loop) - 1)
        difference = x.offset - y.offset.rename(later)
        facts += products_of(facts, difference)
        if infeasible(facts, [difference]):
            return True
        axes = self._axes(x.offset, y.offset)
        if axes is None or len(axes) < 2:
            return False
        if not self._within_axes(x, axes, new) or not self._within_axes(y, axes, new):
            return False
        zero = [p - q.rename(later) for p, q in zip(*_split(x, y, axes), strict=True)]
        return infeasible(facts, zero)

    def _is_fixed(self, base: Value, same: set[Loop]) -> bool:
        """Whether the base is the same address for both accesses."""
        inner = self.integers.loop_of(base)
        return inner is None or inner in same

    def _renaming(self, x: _Access, y: _Access, same: set[Loop]) -> Callable[[Atom], Atom]:
        """Rename, for `y`, the atoms that vary in loops of which the iterations may differ."""
        renamed: dict[Atom, Atom] = {}

        def later(atom: Atom) -> Atom:
            loop = self.integers.loop_of(atom)
            if loop is None or loop in same:
                return atom
            return renamed.setdefault(atom, _Later(atom))

        return later

    # --- axes ---

    def _axes(self, *offsets: Poly) -> list[Monomial] | None:
        """The strides of the axes, largest first; the last, of single elements, is ()."""
        strides: set[Monomial] = {()}
        for offset in offsets:
            for monomial in offset.terms:
                inside = [a for a in monomial if self.integers.loop_of(a) is not None]
                if inside:
                    strides.add(tuple(a for a in monomial if a not in inside))
        ordered = sorted(strides, key=len, reverse=True)
        for outer, inner in pairwise(ordered):
            if quotient(outer, inner) is None:
                return None
        return ordered

    def _within_axes(self, access: _Access, axes: list[Monomial], new: list[Assumption]) -> bool:
        """Whether each subscript but the outermost stays within its axis, perhaps by assumption."""
        facts = self.integers.facts(access.instruction.owner)
        for k, subscript in enumerate(_subscripts(access.offset, axes)):
            if k == 0:
                continue
            length = quotient(axes[k - 1], axes[k])
            assert length is not None
            for within in (subscript, Poly({length: 1}) - subscript - 1):
                if not self._holds(within, facts, new):
                    return False
        return True

    def _holds(self, wanted: Poly, facts: list[Poly], new: list[Assumption]) -> bool:
        known = facts + self._assumed(new)
        if infeasible([*known, wanted * -1 - 1]):
            return True
        if not self.may_assume:
            return False
        implied = project(
            [*known, wanted * -1 - 1], lambda m: any(not isinstance(a, Argument) for a in m)
        )
        for row in sorted(implied or (), key=lambda p: len(p.terms)):
            # the negation of `wanted` implies the row: assume the opposite of the row
            opposite = row * -1 - 1
            if any(len(m) > 1 for m in opposite.terms) or not (opposite.atoms & wanted.atoms):
                continue
            possible = not infeasible([*known, opposite])
            if possible and infeasible([opposite, *known, wanted * -1 - 1]):
                new.append(Assumption(opposite))
                return True
        return False

    def _assumed(self, new: list[Assumption]) -> list[Poly]:
        return [a.poly for a in (*self.assumptions, *new)] if self.may_assume else []


@dataclass(frozen=True)
class _Order:
    """Two iterations that agree in the outer `depth` loops around both accesses.

    strict: in the next loop, the second is in a later iteration; otherwise the rest is not known.
    """

    depth: int
    strict: bool


@dataclass(frozen=True, eq=False)
class _Later:
    """An atom as it is when the later access runs."""

    atom: Atom


def _subscripts(offset: Poly, axes: Iterable[Monomial]) -> list[Poly]:
    """The subscripts of an offset: each term belongs to the largest stride that divides it."""
    axes = list(axes)
    parts: list[Poly] = [Poly.number(0) for _ in axes]
    for monomial, c in offset.terms.items():
        for k, stride in enumerate(axes):
            rest = quotient(monomial, stride)
            if rest is not None:
                parts[k] += Poly({rest: c})
                break
    return parts


def _split(x: _Access, y: _Access, axes: list[Monomial]) -> tuple[list[Poly], list[Poly]]:
    return _subscripts(x.offset, axes), _subscripts(y.offset, axes)
