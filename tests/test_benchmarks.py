"""The hand-written gradients are right, stages are timed, the tables of figures are written."""

import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest

from activerules.testing import gradient_fd
from benchmarks import (
    compile_arrays,
    handwritten,
    higher_order,
    linear_algebra,
    parallel_loops,
    small_jacobians,
    speed_table,
    vector_functions,
)
from benchmarks.array_programs import Program, programs
from benchmarks.stage_times import NAMES
from programs import learning, reductions

ROOT = Path(__file__).parents[1]
RESULTS = json.loads((ROOT / "benchmarks/results.json").read_text())
RNG = np.random.default_rng(0)
COMPARED = [
    (reductions.log_sum_exp, handwritten.log_sum_exp, (RNG.normal(size=6),), ()),
    (
        learning.logistic_regression,
        handwritten.logistic_regression,
        (RNG.normal(size=(5, 3)), RNG.normal(size=3), np.array([0.0, 1.0, 1.0, 0.0, 1.0])),
        ("labels",),
    ),
    (
        learning.gmm_log_likelihood,
        handwritten.gmm_log_likelihood,
        (
            RNG.normal(size=3),
            RNG.normal(size=(3, 2)),
            RNG.normal(size=(3, 2)),
            RNG.normal(size=(5, 2)),
        ),
        (),
    ),
]


@pytest.mark.parametrize(("primal", "by_hand", "args", "const"), COMPARED)
def test_hand_written_gradients(primal, by_hand, args, const):
    names = list(inspect.signature(primal.py_func).parameters)
    shadows = {name: np.ones_like(x) for name, x in zip(names, args, strict=True)}
    flat = []
    for name, x in zip(names, args, strict=True):
        flat += [x] if name in const else [x, shadows[name]]
    assert by_hand(*flat) == pytest.approx(primal(*args), rel=1e-12)
    for i, name in enumerate(names):
        if name not in const:
            np.testing.assert_allclose(
                shadows[name] - 1.0, gradient_fd(primal, args, i), rtol=1e-7, atol=1e-9
            )


def test_the_table_goes_between_its_marks():
    row = {
        "name": "horner",
        "ratio": 2.0,
        "noise": 0.1,
        "milliseconds": 1.0,
        "tape_bytes": 1000,
        "compile_ratio": 1.5,
        "engine_share": 0.1,
    }
    results = {
        "environment": {"numba": "0", "python": "3", "processor": "any"},
        "summary": {"geometric_mean": 2.0, "largest": 2.0},
        "cases": [row],
        "rule_calls": [{"name": "a number", "ratio": 1.1, "noise": 0.05, "nanoseconds": 1.0}],
        "long_function": {"lines": 500, "ratio": 1.5, "noise": 0.05, "primal": 7.0},
        "arrays": {
            "rounds": 5,
            "summary": {
                "geometric_mean": 1.2,
                "largest": 2.0,
                "noise": 0.09,
                "shares": {"LLVM": 0.6, "rest": 0.4},
            },
            "programs": [
                {
                    "name": "waves",
                    "primal": 1.0,
                    "gradient": 2.0,
                    "ratio": 2.0,
                    "noise": 0.1,
                    "stages": {"LLVM": 1.2, "rest": 0.8},
                }
            ],
        },
    }
    page = "before\n<!-- speed table: begin -->\nold\n<!-- speed table: end -->\nafter\n"
    new = speed_table.replace_tables(page, results)
    assert "| horner | 2.00 ± 0.10 | 1.00 | 1,000 |  | 1.5 |" in new
    assert "hand-written: a number 1.10 ± 0.05, +1.0 ns per call." in new
    assert "A function of 500 lines: its gradient compiles in 1.50 ± 0.05 times what" in new
    assert "| program | Numba | value and gradient | / Numba | LLVM | rest |" in new
    assert "| waves | 1.00 | 2.00 | 2.00 ± 0.10 | 1.20 | 0.80 |" in new
    assert "Geometric mean 1.20, largest 2.00. Medians of 5 rounds" in new
    assert "noise at most 9 %; of all seconds: LLVM 60 %, rest 40 %." in new
    assert "old" not in new
    assert speed_table.replace_tables(new, results) == new
    assert new.startswith("before\n")
    assert new.endswith("\nafter\n")
    with pytest.raises(ValueError, match="must have marks of one of the tables speed table"):
        speed_table.replace_tables("nothing", results)
    with pytest.raises(ValueError, match="must hold the lines"):
        speed_table.replace_tables("<!-- speed table: begin -->", results)


@pytest.mark.parametrize(
    ("page", "tables"),
    [
        ("performance.md", ["speed table", "linear algebra", "higher order", "vector functions"]),
        ("howto/fast_gradients.md", ["small Jacobians"]),
        ("howto/parallel.md", ["parallel loops"]),
    ],
)
def test_pages_show_what_was_measured(page, tables):
    text = (ROOT / "docs" / page).read_text()
    for name in tables:
        assert f"<!-- {name}: begin -->" in text
    assert speed_table.replace_tables(text, RESULTS) == text


def test_what_pages_say_in_words_is_what_was_measured():
    """Several pages say that value and gradient take about twice the time of the function, or two
    or three times; that the option for vector functions makes them several times as fast.
    """
    said = [
        page
        for page in ("README.md", "docs/start.md", "docs/tutorial.md", "docs/performance.md")
        if re.search(r"about \[?twice\s+the\s+time", (ROOT / page).read_text())
    ]
    assert len(said) == 4
    summary = RESULTS["summary"]
    assert 1.5 < summary["geometric_mean"] < 2.25
    assert summary["largest"] < 3.0
    ratios = {row["name"]: row["ratio"] for row in RESULTS["vector_functions"]["programs"]}
    assert set(ratios) == set(vector_functions.PROGRAMS)
    assert min(ratios.values()) < 0.25
    assert max(ratios.values()) < 0.9


@pytest.mark.parametrize("name", vector_functions.PROGRAMS)
def test_options_for_vector_functions_give_the_same_gradients(name):
    """`calls` compares them; the strict one is compared here."""
    function, x = vector_functions.PROGRAMS[name], RNG.normal(size=9)
    found = vector_functions.calls(function, x)["strict"]()
    np.testing.assert_allclose(found, gradient_fd(function, (x,)), rtol=1e-7, atol=1e-9)


def test_gradients_of_linear_algebra_are_checked_and_timed(monkeypatch):
    """Products and chains only: the rules of factorisations have tests of their own."""
    monkeypatch.setattr(linear_algebra, "SIZE", 5)
    monkeypatch.setattr(linear_algebra, "LENGTHS", (40,))
    every = linear_algebra.programs()
    monkeypatch.setattr(linear_algebra, "programs", lambda: [every[0], every[-1]])
    rows = linear_algebra.measure(rounds=2)
    assert [row["name"] for row in rows] == [every[0][0], every[-1][0]]
    assert all(row["milliseconds"] > 0.0 for row in rows)


def test_derivatives_of_higher_order_are_checked_and_timed(monkeypatch):
    monkeypatch.setattr(higher_order, "SIZES", (9,))
    monkeypatch.setattr(higher_order, "LONG", 12)
    monkeypatch.setattr(higher_order, "WIDTHS", (8,))
    name = "polynomial"
    monkeypatch.setattr(higher_order, "SUMS", {name: higher_order.SUMS[name]})
    monkeypatch.setattr(higher_order, "RESULTS", {"tridiagonal": higher_order.diffusion})
    found = [higher_order.measured(row, rounds=2) for row in higher_order.rows()]
    assert [row["name"].split()[0] for row in found] == ["`hvp`", "`hessian`", "8", "sparse"]
    assert all(row["ratio"] > 0.0 for row in found)


def test_a_wrong_derivative_of_higher_order_is_not_timed():
    x, v = RNG.normal(size=(2, 4))
    with pytest.raises(AssertionError):
        higher_order.agrees(higher_order.polynomial, x, v, np.array(0.5))


def test_linear_algebra_on_the_page_is_every_program():
    shown = [row["name"] for row in RESULTS["linear_algebra"]["programs"]]
    assert shown == [name for name, *_ in linear_algebra.programs()]


def test_ways_to_small_jacobians_agree(monkeypatch):
    """`calls` compares them with each other."""
    monkeypatch.setattr(small_jacobians, "ROWS", 3)
    rows = small_jacobians.measure(rounds=2)
    assert [row["says"] for row in rows] == list(small_jacobians.calls())
    assert all(row["nanoseconds"] > 0.0 for row in rows)


def _scaled(x, factor):
    return _doubled(x) * factor


def _doubled(x):
    return 2.0 * x


def test_every_stage_of_a_compile_is_timed():
    """Processor time of a compile is that of its stages: none is missing, none counted twice."""
    program = Program(_scaled, (1.0, 4.0), (0, 1))
    found = []
    call = compile_arrays.prepared_gradient(program)
    row = compile_arrays.clocked(lambda: found.append(call()))
    compile_arrays.check(program, found[0])
    assert all(row[name] > 0.0 for name in NAMES)
    assert row["cpu"] == pytest.approx(sum(row[name] for name in NAMES))


def test_copies_of_array_programs_share_no_dispatcher():
    """What a program calls is compiled with each copy, too; plain functions stay what they are."""
    one, other = compile_arrays.fresh(_scaled), compile_arrays.fresh(_scaled)
    inner = [copy.py_func.__globals__["_doubled"] for copy in (one, other)]
    assert inner[0] is not inner[1]
    assert inner[0].py_func.__code__ is _doubled.__code__
    assert one(1.5, 2.0) == 6.0


def test_a_wrong_gradient_is_not_timed():
    program = Program(_scaled, (1.0, 4.0), (0, 1))
    compile_arrays.check(program, (8.0, (8.0, 2.0)))
    with pytest.raises(AssertionError):
        compile_arrays.check(program, (8.0, (8.0, 2.5)))


def test_ten_array_programs():
    names = [program.name for program in programs()]
    assert len(set(names)) == 10


def test_gradients_of_loops_agree_with_threads_and_without():
    """`timed_calls` compares them."""
    name, function, args = parallel_loops.programs(part=0.005)[4]
    calls = parallel_loops.timed_calls(function, args)
    assert all(call() > 0.0 for call in calls.values()), name
    shown = [row["name"] for row in RESULTS["parallel_loops"]["programs"]]
    assert shown == [name for name, *_ in parallel_loops.programs(part=0.005)]
