"""Integers of the primal as polynomials, and the inequalities that hold where a block runs.

Needs       ControlFlow in normal form; the parameters that are lengths (never negative)
Gives       Integers: `poly(value)`, `exact(value)`, `facts(block)`, `address(pointer)`
Invariants  I1  `poly(value)` is congruent to the value modulo 2^64
            I2  `exact(value)` is equal to the value, as a signed number
            I3  whenever a block runs, its `facts` are not negative
            I4  the atoms of a polynomial are values, as most recently computed, and loops, which
                stand for the number (from 0) of the current iteration

A value that is not a sum, difference or product of others is an atom. The counter of a loop is
bounded by the tests on which the loop goes on: in every iteration but the first, the test of the
iteration before has held; for the first, the bound must follow from what holds on entry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from activerules.ir.analysis.loops.affine import Atom, Monomial, Poly, infeasible, products_of
from activerules.ir.analysis.loops.trip_counts import NEGATED, Induction, inductions_of
from activerules.ir.llvm.cfg import ControlFlow, Loop
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import Argument, Block, Constant, Instruction, Value
from activerules.ir.llvm.types import I1, I64, ArrayType, NamedTypes, size_of

_LARGEST = (1 << 63) - 1
_MOST_FACTS = 40
_CHOICES = {
    f"llvm.{kind}{which}.i64": (sign, kind == "u")
    for kind in "su"
    for which, sign in (("max", 1), ("min", -1))
}
"""Intrinsics that return the larger (1) or the smaller (-1) of two integers, and whether these are
unsigned.
"""
_CHOSEN_IF = {
    f"llvm.{kind}{which}.i64": f"{kind}{less_or_greater}e"
    for kind in "su"
    for which, less_or_greater in (("max", "g"), ("min", "l"))
}
"""How the first operand compares with the second where these intrinsics return it."""
_DIFFERENCE_OR_ZERO = "llvm.usub.sat.i64"
_ARITHMETIC = frozenset(("add", "sub", "mul", "shl", "or"))


@dataclass(frozen=True)
class SymbolicAddress:
    """A pointer as a base and a number of bytes from there (modulo 2^64)."""

    base: Value
    offset: Poly


class Integers:
    """The answers for one function, computed on demand and memoised; see the module docstring."""

    def __init__(
        self, flow: ControlFlow, named_types: NamedTypes, lengths: Collection[Argument] = ()
    ) -> None:
        self.flow, self.named_types = flow, named_types
        self.lengths = frozenset(lengths)
        self._inductions: dict[Value, tuple[Loop, Induction]] = {
            phi: (loop, induction)
            for loop in flow.loops
            for phi, induction in inductions_of(loop).items()
        }
        self._polys: dict[Value, Poly] = {}
        self._exact: dict[Value, Poly] = {}
        self._facts: dict[Block, list[Poly]] = {}

    # --- values ---

    def poly(self, value: Value) -> Poly:
        """The value modulo 2^64 (I1)."""
        if value not in self._polys:
            self._polys[value] = Poly.atom(value)
            self._polys[value] = self._structure(value, self.poly) or Poly.atom(value)
        return self._polys[value]

    def exact(self, value: Value) -> Poly:
        """The value itself (I2); an atom where its computation might have wrapped around."""
        if value not in self._exact:
            self._exact[value] = Poly.atom(value)
            structure = self._structure(value, self.exact)
            if structure is not None and self._is_exact(value, structure):
                self._exact[value] = structure
        return self._exact[value]

    def _structure(self, value: Value, of: Callable[[Value], Poly]) -> Poly | None:
        """The value from the polynomials of its operands; None if it is an atom."""
        number = integer_of(value)
        if number is not None:
            return Poly.number(number)
        if not isinstance(value, Instruction) or value.type != I64:
            return None
        if value in self._inductions:
            loop, induction = self._inductions[value]
            step = of(induction.step) * (-1 if induction.negative else 1)
            return of(induction.start) + step * Poly.atom(loop)
        if value.opcode == "phi":
            return self._same_on_all_edges(value, of)
        if value.opcode in _ARITHMETIC:
            return _combine(value, *map(of, value.operands))
        return None

    def _is_exact(self, value: Value, structure: Poly) -> bool:
        if not isinstance(value, Instruction) or value.opcode == "phi":
            if value not in self._inductions:
                return True
            if "nsw" in self._inductions[value][1].next.flags:
                return True
        elif "nsw" in value.flags or value.opcode == "or":
            return True
        assert isinstance(value, Instruction)
        return self._in_range(structure, value.owner)

    def _in_range(self, p: Poly, block: Block) -> bool:
        """Whether `p` is a signed number of 64 bits whenever `block` runs."""
        facts = self.facts(block)
        atoms = {a for poly in (p, *facts) for a in poly.atoms if not isinstance(a, Loop)}
        for atom in atoms:
            facts = [*facts, Poly.atom(atom) + (_LARGEST + 1), Poly.atom(atom) * -1 + _LARGEST]
        too_large, too_small = p - (_LARGEST + 1), p * -1 - (_LARGEST + 2)
        return infeasible([*facts, too_large]) and infeasible([*facts, too_small])

    def _same_on_all_edges(self, phi: Instruction, of: Callable[[Value], Poly]) -> Poly | None:
        """The value of a phi whose operands are equal under the facts on their edges."""
        block = phi.owner
        loop = self.flow.loop_of(block)
        if loop is not None and loop.header is block:
            return self._previous_value(phi, loop, of)
        choices = [of(v) for v in phi.operands]
        for candidate in sorted(choices, key=lambda p: -len(p.terms)):
            if self._out_of_scope(candidate, block):
                continue
            if all(
                self._equal_on_edge(candidate, choice, source, block)
                for choice, source in zip(choices, phi.blocks, strict=True)
            ):
                return candidate
        return None

    def _previous_value(
        self, phi: Instruction, loop: Loop, of: Callable[[Value], Poly]
    ) -> Poly | None:
        """The value of a phi that carries a value from the previous iteration, if its initial value
        is what that value would be in iteration -1.
        """
        incoming = dict(zip(phi.blocks, phi.operands, strict=True))
        if loop.latch not in incoming or loop.preheader not in incoming:
            return None
        value, first = of(incoming[loop.latch]), of(incoming[loop.preheader])
        if not self._depends_only_on(value, loop):
            return None
        if (value.substitute(loop, Poly.number(-1)) - first).terms:
            return None
        return value.substitute(loop, Poly.atom(loop) - 1)

    def _equal_on_edge(self, p: Poly, q: Poly, source: Block, target: Block) -> bool:
        difference = p - q
        if not difference.terms:
            return True
        return infeasible_either(difference, *self._edge(source, target))

    # --- addresses ---

    def address(self, pointer: Value) -> SymbolicAddress | None:
        """The address of a pointer; None if its distance from the base is not known."""
        offset = Poly.number(0)
        while isinstance(pointer, Instruction):
            if pointer.opcode == "getelementptr":
                step = self._bytes(pointer)
                if step is None:
                    return None
                offset, pointer = offset + step, pointer.operands[0]
            elif pointer in self._inductions:
                loop, induction = self._inductions[pointer]
                step = self._bytes(induction.next)
                if step is None:
                    return None
                offset, pointer = offset + step * Poly.atom(loop), induction.start
            else:
                break
        return SymbolicAddress(pointer, offset)

    def _bytes(self, gep: Instruction) -> Poly | None:
        """The number of bytes that a getelementptr adds, or None if it is not a polynomial."""
        t = gep.attributes["source"]
        total = Poly.number(0)
        for k, index in enumerate(gep.operands[1:]):
            if k:
                if not isinstance(t, ArrayType):
                    return None
                t = t.element
            if index.type != I64 and integer_of(index) is None:
                return None
            total += self.poly(index) * size_of(t, self.named_types)
        return total

    # --- facts ---

    def outcome(self, comparison: Instruction, where: Collection[Poly] = ()) -> bool | None:
        """The outcome of a comparison, if it is the same whenever it runs and the polynomials in
        `where` are not negative; else None. Of a maximum or minimum: whether it is equal to the
        first operand (True) or to the second (False).
        """
        predicate = (
            comparison.attributes.get("predicate") or _CHOSEN_IF[comparison.callee_name or ""]
        )
        if comparison.operands[0].type != I64:
            return None
        x, y = map(self.exact, comparison.operands)
        known = [*self.facts(comparison.owner), *where]

        def never(p: Poly) -> bool:
            return infeasible([*known, p, *products_of(known, p)])

        if predicate in {"eq", "ne"}:
            if never(x - y - 1) and never(y - x - 1):
                return predicate == "eq"
            apart = infeasible([*known, *products_of(known, x - y)], [x - y])
            return predicate == "ne" if apart else None
        unsigned = predicate[0] == "u" and "samesign" not in comparison.flags
        if unsigned and not (never(x * -1 - 1) and never(y * -1 - 1)):
            return None
        less, or_equal = predicate[1] == "l", predicate[2] == "e"
        excess = x - y if less else y - x
        if never(excess if not or_equal else excess - 1):
            return True
        # where operands are equal, a choice is either of them
        or_equal = or_equal and comparison.opcode == "icmp"
        return False if never(excess * -1 if or_equal else excess * -1 - 1) else None

    def facts(self, block: Block) -> list[Poly]:
        """Polynomials that are not negative whenever the block runs (I3)."""
        if block not in self._facts:
            self._facts[block] = []
            dominator = self.flow.idom[block]
            if dominator is None:
                self._facts[block] = [Poly.atom(a) for a in self.lengths]
                return self._facts[block]
            known = list(self.facts(dominator))
            if self.flow.predecessors[block] == [dominator]:
                known, equal = self._edge(dominator, block)
                known = known + equal + [p * -1 for p in equal]
            known = [p for p in known if not self._out_of_scope(p, block)]
            self._facts[block] = _strictest(known)[-_MOST_FACTS:]
            loop = self.flow.loop_of(block)
            if loop is not None and loop.header is block:
                self._bound(loop)
        return self._facts[block]

    def _out_of_scope(self, p: Poly, block: Block) -> bool:
        """Whether a polynomial mentions a loop that `block` is not in, or a value of one."""
        return any(
            block not in loop.blocks for atom in p.atoms if (loop := self.loop_of(atom)) is not None
        )

    def loop_of(self, atom: Atom) -> Loop | None:
        """The innermost loop in which an atom varies."""
        if isinstance(atom, Loop):
            return atom
        return self.flow.loop_of(atom.owner) if isinstance(atom, Instruction) else None

    def _edge(self, source: Block, target: Block) -> tuple[list[Poly], list[Poly]]:
        """The polynomials that are not negative, and that are zero, when control takes an edge."""
        known = list(self.facts(source))
        equal: list[Poly] = []
        branch = source.terminator
        if branch.opcode == "br" and len(set(branch.blocks)) == 2:
            for condition, holds in _conditions(branch.operands[0], branch.blocks[0] is target):
                new, zero = self._implied(condition, holds, known)
                known += new + self._choices(new + zero, known + new)
                equal += zero
        return known, equal

    def _implied(
        self, comparison: Instruction, holds: bool, known: list[Poly]
    ) -> tuple[list[Poly], list[Poly]]:
        """What a comparison implies: polynomials that are not negative, and that are zero.

        `known` are polynomials that are not negative where the comparison holds.
        """
        predicate = comparison.attributes["predicate"]
        predicate = predicate if holds else NEGATED[predicate]
        if comparison.operands[0].type != I64:
            return [], []
        x, y = map(self.exact, comparison.operands)
        if predicate[0] == "u" and not self._is_signed(comparison, x, y):
            return [], []
        if predicate == "eq":
            return [], [x - y]
        if predicate == "ne":
            # a difference that is neither zero nor negative is positive
            known = known + self._choices([x, y], known)
            for difference in (x - y, y - x):
                if infeasible([*known, difference * -1 - 1]):
                    return [difference - 1], []
            return [], []
        claim = {"lt": y - x - 1, "le": y - x, "gt": x - y - 1, "ge": x - y}[predicate[1:]]
        return [claim], []

    def _is_signed(self, comparison: Instruction, x: Poly, y: Poly) -> bool:
        """Whether an unsigned comparison has the outcome of a signed one: no side is negative."""
        if "samesign" in comparison.flags:
            return True
        facts = self.facts(comparison.owner)
        return all(infeasible([*facts, p * -1 - 1]) for p in (x, y))

    def _choices(self, new: list[Poly], known: list[Poly]) -> list[Poly]:
        """What is known of each atom in `new` that is a choice of two numbers or a quotient."""
        facts: list[Poly] = []
        for atom in {a for p in new for a in p.atoms}:
            if isinstance(atom, Instruction):
                facts += self._of_choice(atom, known) if atom.opcode == "call" else []
                facts += self._of_quotient(atom, known)
        return facts

    def _of_choice(self, call: Instruction, known: list[Poly]) -> list[Poly]:
        """What is known of a maximum, a minimum, or a difference that is at least 0."""
        name = call.callee_name or ""
        if name not in _CHOICES and name != _DIFFERENCE_OR_ZERO:
            return []
        chosen, (x, y) = Poly.atom(call), map(self.exact, call.operands)
        negative = [p for p in (x, y) if not infeasible([*known, p * -1 - 1])]
        sign, unsigned = _CHOICES.get(name, (1, True))
        if unsigned and negative:
            return []
        facts = [] if negative else [chosen]
        if name == _DIFFERENCE_OR_ZERO:
            facts.append(x - chosen)
            x, y = x - y, Poly.number(0)
        facts += [(chosen - x) * sign, (chosen - y) * sign]
        if infeasible([*known, *facts, (y - x) * sign - 1]):
            facts.append((x - chosen) * sign)
        elif infeasible([*known, *facts, (x - y) * sign - 1]):
            facts.append((y - chosen) * sign)
        return facts

    def _of_quotient(self, i: Instruction, known: list[Poly]) -> list[Poly]:
        """What is known of a quotient by a positive literal, and of a number that is 0 or 1."""
        value = Poly.atom(i)
        if i.opcode == "zext" and i.operands[0].type == I1:
            return [value, value * -1 + 1]
        divisor = _divisor(i)
        if divisor is None:
            return []
        x = self.exact(i.operands[0])
        if not infeasible([*known, x * -1 - 1]):
            return []
        rest = x - value * divisor
        return [value, rest, rest * -1 + (divisor - 1)]

    def _bound(self, loop: Loop) -> None:
        """Add the bounds of the loop's counter to the facts of its header."""
        header = loop.header
        before = list(self._facts[header])
        counter = Poly.atom(loop)
        memos: tuple[dict[Any, Any], ...] = (self._facts, self._exact)
        known_before = [set(memo) for memo in memos]
        self._facts[header] = [*before, counter]
        for test in self._going_on(loop, before):
            first = test.substitute(loop, Poly.number(-1))
            choices = self._choices([first], before)
            if infeasible([*before, *choices, first * -1 - 1]):
                bound = test.substitute(loop, counter - 1)
                self._facts[header] += [bound, *choices]
        # what was derived without the bounds is derived again, with them
        for memo, kept in zip(memos, known_before, strict=True):
            stale: list[Any] = [k for k in memo if k not in kept and k is not header]
            for key in stale:
                del memo[key]

    def while_going_on(self, loop: Loop) -> list[Poly]:
        """Polynomials that are not negative in every iteration of a loop but the last."""
        return list(self._going_on(loop, self.facts(loop.header)))

    def _going_on(self, loop: Loop, before: list[Poly]) -> Iterator[Poly]:
        """Polynomials that are not negative in every iteration but the last."""
        for block in sorted(loop.blocks, key=lambda b: self.flow.position[b]):
            branch = block.terminator
            if branch.opcode != "br" or len(set(branch.blocks)) != 2:
                continue
            stay = [target for target in branch.blocks if target in loop.blocks]
            if len(stay) != 1 or loop.latch is None or not self.flow.dominates(block, loop.latch):
                continue
            if self.flow.loop_of(block) is not loop:
                continue
            for condition, holds in _conditions(branch.operands[0], branch.blocks[0] is stay[0]):
                for test in self._tests(condition, holds, loop, before):
                    if self._depends_only_on(test, loop):
                        yield test

    def _tests(
        self, comparison: Instruction, holds: bool, loop: Loop, before: list[Poly]
    ) -> list[Poly]:
        predicate = comparison.attributes["predicate"]
        predicate = predicate if holds else NEGATED[predicate]
        if predicate != "ne" or comparison.operands[0].type != I64:
            return self._implied(comparison, holds, before)[0]
        # a counter with steps of one cannot jump over the bound
        x, y = map(self.poly, comparison.operands)
        difference = x - y
        if abs(difference.coefficient(loop)) != 1 or any(
            loop in monomial for monomial in difference.terms if len(monomial) > 1
        ):
            return []
        return [difference * -difference.coefficient(loop) - 1]

    def _depends_only_on(self, test: Poly, loop: Loop) -> bool:
        """Whether all atoms but the loop's counter are the same in all its iterations."""
        return all(
            atom is loop
            or (inner := self.loop_of(atom)) is None
            or (loop is not inner and loop.header in inner.blocks)
            for atom in test.atoms
        )


def _strictest(known: list[Poly]) -> list[Poly]:
    """The strictest of polynomials that differ only in their constants."""
    best: dict[frozenset[tuple[Monomial, int]], Poly] = {}
    for p in known:
        key = frozenset((m, c) for m, c in p.terms.items() if m)
        if key and (key not in best or p.constant < best[key].constant):
            best[key] = p
    return list(best.values())


def infeasible_either(difference: Poly, known: list[Poly], equal: list[Poly]) -> bool:
    """Whether `difference` is zero under what is known."""
    return infeasible([*known, difference - 1], equal) and infeasible(
        [*known, difference * -1 - 1], equal
    )


def is_comparison(i: Instruction) -> bool:
    """Whether an instruction compares two integers: a maximum or minimum does, too."""
    return i.opcode == "icmp" or (i.opcode == "call" and i.callee_name in _CHOSEN_IF)


def _divisor(i: Instruction) -> int | None:
    """The positive literal by which an instruction divides a number that is not negative."""
    number = integer_of(i.operands[1]) if len(i.operands) == 2 else None
    if number is None or number < 1:
        return None
    if i.opcode in {"lshr", "ashr"}:
        return 1 << number if number < 63 else None
    return number if i.opcode in {"udiv", "sdiv"} else None


def _combine(value: Instruction, x: Poly, y: Poly) -> Poly | None:
    match value.opcode:
        case "add":
            return x + y
        case "sub":
            return x - y
        case "mul":
            return x * y
        case "shl" if isinstance(value.operands[1], Constant) and 0 <= y.constant < 32:
            return x * (1 << y.constant)
        case "or" if "disjoint" in value.flags:
            return x + y
        case _:
            return None


def _conditions(condition: Value, holds: bool) -> Iterator[tuple[Instruction, bool]]:
    """The comparisons that must hold, or must not, for a condition to hold (or not)."""
    if not isinstance(condition, Instruction):
        return
    if condition.opcode == "icmp":
        yield condition, holds
    elif (condition.opcode == "and" and holds) or (condition.opcode == "or" and not holds):
        for part in condition.operands:
            yield from _conditions(part, holds)
