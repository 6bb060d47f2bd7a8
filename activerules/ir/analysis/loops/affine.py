"""Polynomials with integer coefficients, and proofs that systems of inequalities are infeasible.

Gives       Poly: a polynomial in atoms (anything hashable)
            infeasible(nonnegative, zero): whether no integers satisfy `p >= 0` for every p of the
            first and `p == 0` for every p of the second
            project(nonnegative, away): the constraints on the others once some monomials are
            eliminated
Invariants  A1  if `infeasible` is True, there is no solution; False says nothing
            A2  the atoms stand for integers of any size: nothing wraps around
Source      Fourier-Motzkin elimination with the integer tightening of the Omega test: Pugh (1991),
            The Omega test, sec. 2

A product of atoms is treated as an atom of its own; but an equality that determines an atom is
substituted inside products, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from math import gcd

Atom = Hashable
Monomial = tuple[Atom, ...]

_MOST_INEQUALITIES = 160


@dataclass(frozen=True, eq=False)
class Poly:
    """A polynomial: coefficients by monomial, none of them zero. A monomial is sorted by `id`."""

    terms: dict[Monomial, int]

    @staticmethod
    def number(value: int) -> Poly:
        """A constant."""
        return Poly({(): value} if value else {})

    @staticmethod
    def atom(atom: Atom) -> Poly:
        """A single atom."""
        return Poly({(atom,): 1})

    def __add__(self, other: Poly | int) -> Poly:
        other = other if isinstance(other, Poly) else Poly.number(other)
        terms = dict(self.terms)
        for monomial, c in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + c
        return Poly({m: c for m, c in terms.items() if c})

    def __sub__(self, other: Poly | int) -> Poly:
        return self + (other * -1 if isinstance(other, Poly) else -other)

    def __mul__(self, other: Poly | int) -> Poly:
        if isinstance(other, int):
            return Poly({m: c * other for m, c in self.terms.items()} if other else {})
        terms: Counter[Monomial] = Counter()
        for m, c in self.terms.items():
            for n, d in other.terms.items():
                terms[product(m, n)] += c * d
        return Poly({m: c for m, c in terms.items() if c})

    @property
    def constant(self) -> int:
        """The term without atoms."""
        return self.terms.get((), 0)

    @property
    def atoms(self) -> set[Atom]:
        """All atoms that occur in the polynomial."""
        return {atom for monomial in self.terms for atom in monomial}

    def coefficient(self, atom: Atom) -> int:
        """The coefficient of the monomial that is the atom alone."""
        return self.terms.get((atom,), 0)

    def substitute(self, atom: Atom, by: Poly) -> Poly:
        """The polynomial with `by` in place of an atom."""
        result = Poly({m: c for m, c in self.terms.items() if atom not in m})
        for monomial, c in self.terms.items():
            if atom in monomial:
                term = Poly({tuple(a for a in monomial if a is not atom): c})
                for _ in range(sum(a is atom for a in monomial)):
                    term = term * by
                result = result + term
        return result

    def rename(self, name: Callable[[Atom], Atom]) -> Poly:
        """The polynomial with its atoms renamed."""
        terms: Counter[Monomial] = Counter()
        for monomial, c in self.terms.items():
            terms[tuple(sorted(map(name, monomial), key=id))] += c
        return Poly({m: c for m, c in terms.items() if c})


def product(m: Monomial, n: Monomial) -> Monomial:
    """The product of two monomials."""
    return tuple(sorted(m + n, key=id))


def quotient(m: Monomial, n: Monomial) -> Monomial | None:
    """The monomial that `n` has to be multiplied by to give `m`; None if there is none."""
    rest = list(m)
    for atom in n:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def products_of(nonnegative: Iterable[Poly], p: Poly) -> list[Poly]:
    """The products in `p` of atoms that are known not to be negative."""
    atoms = {
        atom
        for known in nonnegative
        if len(known.terms) - (() in known.terms) == 1 and known.constant <= 0
        for atom in known.atoms
        if known.coefficient(atom) > 0
    }
    return [Poly({m: 1}) for m in p.terms if len(m) > 1 and atoms.issuperset(m)]


def infeasible(nonnegative: Iterable[Poly], zero: Iterable[Poly] = ()) -> bool:
    """Whether it can be proved that no integers satisfy the constraints (A1)."""
    remaining = _without_equalities(list(nonnegative), list(zero))
    if remaining is None:
        return True
    system = _System(remaining)
    return not system.eliminate(set(range(len(system.monomials))))


def project(nonnegative: Iterable[Poly], away: Callable[[Monomial], bool]) -> list[Poly] | None:
    """The constraints on the remaining monomials once those that are `away` are eliminated.

    None if the constraints contradict each other.
    """
    system = _System(nonnegative)
    gone = {k for k, monomial in enumerate(system.monomials) if away(monomial)}
    if not system.eliminate(gone):
        return None
    return [
        Poly({system.monomials[k]: c for k, c in row}) + constant
        for row, constant in system.rows.items()
        if gone.isdisjoint(k for k, _ in row)
    ]


def _without_equalities(nonnegative: list[Poly], zero: list[Poly]) -> list[Poly] | None:
    """The inequalities after substituting the equalities; None if these have no solution."""
    while zero:
        equality = zero.pop()
        g = gcd(*(c for m, c in equality.terms.items() if m))
        if g == 0:
            if equality.constant:
                return None
            continue
        if equality.constant % g:
            return None
        equality = Poly({m: c // g for m, c in equality.terms.items()})
        known = _solved(equality)
        if known is None:
            # nothing to substitute: write the equality as two inequalities
            nonnegative += [equality, equality * -1]
            continue
        atom, value = known
        zero = [p.substitute(atom, value) for p in zero]
        nonnegative = [p.substitute(atom, value) for p in nonnegative]
    return nonnegative


def _solved(equality: Poly) -> tuple[Atom, Poly] | None:
    """An atom, and its value by the equality."""
    for monomial, c in equality.terms.items():
        if len(monomial) == 1 and abs(c) == 1:
            (atom,) = monomial
            rest = Poly({m: d for m, d in equality.terms.items() if m != monomial})
            if atom not in rest.atoms:
                return atom, rest * -c
    return None


_Row = tuple[tuple[int, int], ...]


class _System:
    """Inequalities as rows: numbered monomials with their coefficients, and the constant.

    Of rows that differ only in the constant, only the strictest is kept.
    """

    def __init__(self, nonnegative: Iterable[Poly]) -> None:
        numbers: dict[Monomial, int] = {}
        self.rows: dict[_Row, int] = {}
        self.contradiction = False
        for p in nonnegative:
            row = {numbers.setdefault(m, len(numbers)): c for m, c in p.terms.items() if m}
            self._add(row, p.constant)
        self.monomials = list(numbers)

    def eliminate(self, away: set[int]) -> bool:
        """Fourier-Motzkin elimination of some monomials; False for a contradiction.

        It stops early where there are too many inequalities: those that are left still hold.
        """
        while not self.contradiction and len(self.rows) <= _MOST_INEQUALITIES:
            best = self._cheapest(away)
            if best is None:
                break
            self._remove(best)
        return not self.contradiction

    def _cheapest(self, away: set[int]) -> int | None:
        """The monomial whose elimination leaves the fewest rows."""
        up: Counter[int] = Counter()
        down: Counter[int] = Counter()
        for row in self.rows:
            for k, c in row:
                (up if c > 0 else down)[k] += 1
        candidates = (up.keys() | down.keys()) & away
        return min(candidates, key=lambda k: up[k] * down[k] - up[k] - down[k], default=None)

    def _remove(self, k: int) -> None:
        up: list[tuple[dict[int, int], int]] = []
        down: list[tuple[dict[int, int], int]] = []
        remaining: dict[_Row, int] = {}
        for row, constant in self.rows.items():
            c = dict(row).get(k)
            if c is None:
                remaining[row] = constant
            else:
                (up if c > 0 else down).append((dict(row), constant))
        self.rows = remaining
        for low, low_constant in up:
            for high, high_constant in down:
                a, b = low[k], -high[k]
                joined = {m: c * b for m, c in low.items()}
                for m, c in high.items():
                    joined[m] = joined.get(m, 0) + c * a
                self._add(joined, low_constant * b + high_constant * a)

    def _add(self, row: dict[int, int], constant: int) -> None:
        """Add a row, divided by the common divisor of its coefficients."""
        g = gcd(*row.values())
        if g == 0:
            self.contradiction |= constant < 0
            return
        key = tuple(sorted((m, c // g) for m, c in row.items() if c))
        strictest = min(self.rows.get(key, constant // g), constant // g)
        self.rows[key] = strictest
        opposite = self.rows.get(tuple((m, -c) for m, c in key))
        self.contradiction |= opposite is not None and strictest + opposite < 0
