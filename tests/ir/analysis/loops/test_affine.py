"""Contradictions of inequalities, against all points of a small box."""

from __future__ import annotations

import itertools
import random

import pytest

from activerules.ir.analysis.loops.affine import Poly, infeasible, project

ATOMS = ("x", "y", "z")
BOX = range(-4, 5)


def random_poly(rng: random.Random, size: int = 3) -> Poly:
    p = Poly.number(rng.randrange(-4, 5))
    for _ in range(rng.randrange(1, size + 1)):
        term = Poly.number(rng.choice([-2, -1, -1, 1, 1, 2]))
        for _ in range(rng.choice([1, 1, 1, 2])):
            term = term * Poly.atom(rng.choice(ATOMS))
        p = p + term
    return p


def value(p: Poly, point: dict[str, int]) -> int:
    total = 0
    for monomial, c in p.terms.items():
        for atom in monomial:
            c *= point[atom]
        total += c
    return total


def points() -> list[dict[str, int]]:
    return [dict(zip(ATOMS, p, strict=True)) for p in itertools.product(BOX, repeat=3)]


@pytest.mark.parametrize("seed", range(4))
def test_a1_infeasible_systems_have_no_solution(seed: int) -> None:
    rng = random.Random(seed)
    box = points()
    proved = 0
    for _ in range(150):
        nonnegative = [random_poly(rng) for _ in range(rng.randrange(1, 6))]
        zero = [random_poly(rng) for _ in range(rng.randrange(0, 3))]
        if infeasible(nonnegative, zero):
            proved += 1
            assert not any(
                all(value(p, point) >= 0 for p in nonnegative)
                and all(value(p, point) == 0 for p in zero)
                for point in box
            )
    assert proved > 10


def test_a2_numbers_beyond_64_bits_do_not_wrap_around() -> None:
    x, y = Poly.atom("x"), Poly.atom("y")
    large = [x - 2**64, y * -1 + 2**65]
    assert infeasible(large, [y - x * 4]), "modulo 2^64, zero would do"
    assert not infeasible([x - 2**64, y * -1 + 2**66], [y - x * 4])


def test_linear_systems_are_decided() -> None:
    x, y = Poly.atom("x"), Poly.atom("y")
    assert infeasible([x - y - 1, y - x])
    assert infeasible([x * 2 - 5, x * -1 + 2])
    assert infeasible([], [x * 2 - y * 4 - 1])
    assert infeasible([y - 1], [x, x * y + Poly.number(1)])
    assert not infeasible([x - y, y - x])


@pytest.mark.parametrize("seed", range(3))
def test_projection_keeps_every_solution(seed: int) -> None:
    rng = random.Random(seed)
    box = points()
    for _ in range(60):
        nonnegative = [random_poly(rng) for _ in range(rng.randrange(1, 5))]
        left = project(nonnegative, lambda m: "x" in m)
        solutions = [q for q in box if all(value(p, q) >= 0 for p in nonnegative)]
        if left is None:
            assert not solutions
            continue
        assert all("x" not in p.atoms for p in left)
        assert all(value(p, q) >= 0 for p in left for q in solutions)


def test_arithmetic() -> None:
    rng = random.Random(7)
    for _ in range(200):
        p, q = random_poly(rng), random_poly(rng)
        point = {atom: rng.randrange(-5, 6) for atom in ATOMS}
        x, y = value(p, point), value(q, point)
        assert value(p + q, point) == x + y
        assert value(p - q, point) == x - y
        assert value(p * q, point) == x * y
        assert value(p * 3 - 2, point) == x * 3 - 2
        assert value(p.substitute("x", q), point) == value(p, {**point, "x": y})
