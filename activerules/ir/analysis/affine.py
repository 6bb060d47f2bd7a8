"""Polynomials with integer coefficients, and proofs that inequalities between them cannot hold.

Gives       Poly: a polynomial in atoms (anything hashable)
            infeasible(nonnegative, zero): whether no integers satisfy `p >= 0` for every p of the
            first and `p == 0` for every p of the second
            project(nonnegative, away): what is left to hold once some atoms are eliminated
Invariants  A1  `infeasible` is True only if it is so; False says nothing
            A2  the atoms stand for integers of any size: nothing wraps around
Source      Fourier-Motzkin elimination with the integer tightening of the Omega test: Pugh (1991),
            The Omega test, sec. 2

Products of atoms count as atoms of their own, but an equality that tells what an atom is, is used
inside products, too.
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
    def is_constant(self) -> bool:
        """Whether it mentions no atom."""
        return not self.terms or (len(self.terms) == 1 and () in self.terms)

    @property
    def atoms(self) -> set[Atom]:
        """All atoms it mentions."""
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
        """The polynomial with other atoms."""
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
    """The products in `p` of atoms of which it is known that they are not negative."""
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
    return _eliminate(remaining, lambda _: True) is None


def project(nonnegative: Iterable[Poly], away: Callable[[Monomial], bool]) -> list[Poly] | None:
    """What follows for the other monomials once those that are `away` are eliminated.

    None if the constraints contradict each other.
    """
    rows = _eliminate(list(nonnegative), away)
    return None if rows is None else [Poly(row) for row in rows if not any(map(away, row))]


_Row = dict[Monomial, int]


def _without_equalities(nonnegative: list[Poly], zero: list[Poly]) -> list[Poly] | None:
    """The inequalities with the equalities used up; None if these contradict each other."""
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
            # nothing to substitute: as two inequalities
            nonnegative += [equality, equality * -1]
            continue
        atom, value = known
        zero = [p.substitute(atom, value) for p in zero]
        nonnegative = [p.substitute(atom, value) for p in nonnegative]
    return nonnegative


def _solved(equality: Poly) -> tuple[Atom, Poly] | None:
    """An atom, and what it is by the equality."""
    for monomial, c in equality.terms.items():
        if len(monomial) == 1 and abs(c) == 1:
            (atom,) = monomial
            rest = Poly({m: d for m, d in equality.terms.items() if m != monomial})
            if atom not in rest.atoms:
                return atom, rest * -c
    return None


def _eliminate(nonnegative: list[Poly], away: Callable[[Monomial], bool]) -> list[_Row] | None:
    """Fourier-Motzkin elimination of the monomials that are `away`; None for a contradiction.

    Given up where there are too many inequalities: those that are left are true all the same.
    """
    rows = _tightened(p.terms for p in nonnegative)
    while rows is not None:
        candidates = {m for row in rows for m in row if m and away(m)}
        if not candidates or len(rows) > _MOST_INEQUALITIES:
            return rows
        rows = _without(min(candidates, key=lambda m: _growth(m, rows or [])), rows)
    return None


def _growth(monomial: Monomial, rows: list[_Row]) -> int:
    up = sum(row.get(monomial, 0) > 0 for row in rows)
    down = sum(row.get(monomial, 0) < 0 for row in rows)
    return up * down - up - down


def _without(monomial: Monomial, rows: list[_Row]) -> list[_Row] | None:
    up = [row for row in rows if row.get(monomial, 0) > 0]
    down = [row for row in rows if row.get(monomial, 0) < 0]
    new = [row for row in rows if not row.get(monomial, 0)]
    for low in up:
        for high in down:
            a, b = low[monomial], -high[monomial]
            joined = Counter({m: c * b for m, c in low.items()})
            for m, c in high.items():
                joined[m] += c * a
            new.append(joined)
    return _tightened(new)


def _tightened(rows: Iterable[_Row]) -> list[_Row] | None:
    """Rows divided by what their coefficients share, the strictest of each kind.

    None for a contradiction.
    """
    best: dict[frozenset[tuple[Monomial, int]], int] = {}
    for row in rows:
        g = gcd(*(c for m, c in row.items() if m))
        constant = row.get((), 0)
        if g == 0:
            if constant < 0:
                return None
            continue
        key = frozenset((m, c // g) for m, c in row.items() if m and c)
        constant //= g
        best[key] = min(best.get(key, constant), constant)
    for key, constant in best.items():
        opposite = best.get(frozenset((m, -c) for m, c in key))
        if opposite is not None and constant + opposite < 0:
            return None
    return [dict(key) | ({(): constant} if constant else {}) for key, constant in best.items()]
