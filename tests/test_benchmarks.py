"""The hand-written gradients are right, stages are timed, the tables of figures are written."""

import inspect

import numpy as np
import pytest

from activerules.testing import gradient_fd
from benchmarks import compile_arrays, handwritten, speed_table
from benchmarks.array_programs import Program, programs
from benchmarks.stage_times import NAMES
from programs import learning, reductions

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
    page = f"before\n{speed_table.BEGIN}\nold\n{speed_table.END}\nafter\n"
    new = speed_table.replace_table(page, results)
    assert "| horner | 2.00 ± 0.10 | 1.00 | 1,000 |  | 1.5 |" in new
    assert "hand-written: a number 1.10 ± 0.05, +1.0 ns per call." in new
    assert "A function of 500 lines: its gradient compiles in 1.50 ± 0.05 times what" in new
    assert "| program | Numba | value and gradient | / Numba | LLVM | rest |" in new
    assert "| waves | 1.00 | 2.00 | 2.00 ± 0.10 | 1.20 | 0.80 |" in new
    assert "Geometric mean 1.20, largest 2.00. Medians of 5 rounds" in new
    assert "noise at most 9 %; of all seconds: LLVM 60 %, rest 40 %." in new
    assert "old" not in new
    assert speed_table.replace_table(new, results) == new
    assert new.startswith("before\n")
    assert new.endswith("\nafter\n")
    with pytest.raises(ValueError, match="must hold the lines"):
        speed_table.replace_table("nothing", results)


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
