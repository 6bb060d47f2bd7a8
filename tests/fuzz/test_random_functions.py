"""Gradients of random programs against finite differences, and reverse mode against forward mode;
with many programs, Jacobians by both modes, Hessians and arguments that overlap, too.

`make fuzz` runs 6,800 of them at random seeds; the ordinary tests the same 27 each time. A failure
prints the program, shrunk; it is to be kept as a small case in `tests/programs` or `tests/ir`.
"""

import math
import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, seed, settings
from hypothesis import strategies as st

import activerules as ar
from activerules.errors import RuleCheckError
from activerules.testing.gradient import check_gradient
from activerules.testing.numeric import rand_tangent
from fuzz.arguments import ArgumentWriter, check_arguments
from fuzz.containers import ContainerWriter
from fuzz.expressions import ARGUMENTS as SHAPES_OF_EXPRESSIONS
from fuzz.expressions import ExpressionWriter
from fuzz.generator import ProgramWriter
from fuzz.nests import NestWriter
from fuzz.replacing import ReplacingWriter, check_replacing
from fuzz.ruled import RuledWriter
from fuzz.writer import programs_of

# Numba says of some programs how they would be faster.
pytestmark = pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPerformanceWarning")

EXAMPLES = int(os.environ.get("FUZZ_PROGRAMS", "12"))
FIXED = "FUZZ_PROGRAMS" not in os.environ
SHARDS = 3 if FIXED else 80
NESTED = 2 if FIXED else 32  # shards of programs of loops over matrices
RULED = 1 if FIXED else 32  # shards of programs that call functions with rules
CONTAINERS = 1 if FIXED else 32  # shards of programs of lists, dictionaries, records and objects
ARGUMENTS = 1 if FIXED else 32  # shards of programs whose arguments are containers
REPLACING = 1 if FIXED else 32  # shards of programs that replace arrays in their arguments
EXPRESSIONS = 1 if FIXED else 32  # shards of programs of array expressions
SIZE = 4
LARGEST = 8 if FIXED else 18
LARGEST_NEST = 4 if FIXED else 8


def compiled(text: str, name: str = "program"):
    return namespace_of(text)[name]


def namespace_of(text: str) -> dict:
    namespace: dict = {}
    exec(compile(text, "<random program>", "exec"), namespace)
    return namespace


def point(seed: int) -> tuple:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=2)
    a, b = rng.normal(size=(2, SIZE))
    return float(x), float(y), a, b, rng.normal(size=(SIZE, 3)), 3


def vectors(seed: int) -> tuple:
    rng = np.random.default_rng(seed)
    s, t = map(float, rng.normal(size=2))
    return s, t, *rng.normal(size=(2, SIZE)), 2


def matrices(shape: tuple[int, int], seed: int) -> tuple:
    rng = np.random.default_rng(seed)
    rows, columns = shape
    return rng.normal(size=columns), rng.normal(size=rows), *rng.normal(size=(2, rows, columns))


def arrays(seed: int) -> tuple:
    """Arrays for an `ExpressionWriter`, of any layout."""
    rng = np.random.default_rng(seed)
    found = []
    for shape in SHAPES_OF_EXPRESSIONS.values():
        pairs, kind = rng.normal(size=(*shape, 2)), rng.integers(4)
        x = pairs[..., 0]
        found.append(np.asfortranarray(x) if kind == 0 else x if kind == 1 else x.copy())
    return float(rng.normal()), *found


ACTIVITIES = st.tuples(
    *(st.sampled_from((ar.Active, ar.Active, ar.Const)) for _ in range(2)),
    *(st.sampled_from((ar.Duplicated, ar.Duplicated, ar.Const)) for _ in range(3)),
    st.just(ar.Const),
)
ACTIVITIES_OF_ARRAYS = st.tuples(
    *(st.sampled_from((ar.Duplicated, ar.Duplicated, ar.Const)) for _ in range(3)),
    st.just(ar.Duplicated),
)
ACTIVITIES_OF_VECTORS = st.tuples(
    *(st.sampled_from((ar.Active, ar.Active, ar.Const)) for _ in range(2)),
    *(st.sampled_from((ar.Duplicated, ar.Duplicated, ar.Const)) for _ in range(2)),
    st.just(ar.Const),
)
ACTIVITIES_OF_EXPRESSIONS = st.tuples(
    st.sampled_from((ar.Active, ar.Const)),
    *(st.sampled_from((ar.Duplicated, ar.Duplicated, ar.Const)) for _ in SHAPES_OF_EXPRESSIONS),
)
SHAPES = st.tuples(st.integers(0, 7), st.sampled_from((1, 2, 3, 5, 8, 17)))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_gradient_of_random_programs(shard: int):
    run_or_start("test_gradient_of_random_programs", run_shard, shard)


@pytest.mark.parametrize("shard", range(NESTED))
def test_gradient_of_random_loops_over_matrices(shard: int):
    run_or_start("test_gradient_of_random_loops_over_matrices", run_nests, shard)


@pytest.mark.parametrize("shard", range(RULED))
def test_gradient_of_random_calls_of_functions_with_rules(shard: int):
    run_or_start("test_gradient_of_random_calls_of_functions_with_rules", run_ruled, shard)


@pytest.mark.parametrize("shard", range(CONTAINERS))
def test_gradient_of_random_programs_of_containers(shard: int):
    run_or_start("test_gradient_of_random_programs_of_containers", run_containers, shard)


@pytest.mark.parametrize("shard", range(ARGUMENTS))
def test_derivatives_by_containers_of_random_programs(shard: int):
    run_or_start("test_derivatives_by_containers_of_random_programs", run_arguments, shard)


@pytest.mark.parametrize("shard", range(REPLACING))
def test_derivatives_of_random_programs_that_replace_arrays(shard: int):
    run_or_start("test_derivatives_of_random_programs_that_replace_arrays", run_replacing, shard)


@pytest.mark.parametrize("shard", range(EXPRESSIONS))
def test_gradient_of_random_array_expressions(shard: int):
    run_or_start("test_gradient_of_random_array_expressions", run_expressions, shard)


def run_or_start(name: str, run: Callable[[int], None], shard: int) -> None:
    """Run the programs of a shard here, or, if there are many, in a process of its own."""
    if FIXED or "FUZZ_SHARD" in os.environ:
        run(shard)
    else:
        run_in_its_own_process(name, shard)


def run_in_its_own_process(name: str, shard: int) -> None:
    """What is compiled is never freed: 25 programs, with Jacobians and Hessians, take 2 GB."""
    test = f"{__file__}::{name}[{shard}]"
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", test], env=env | {"FUZZ_SHARD": str(shard)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr


def run_shard(shard: int) -> None:
    def run(text: str, activities: tuple, at: int) -> None:
        note(f"{[a.__name__ for a in activities]} at point({at})")
        check(text, point(at), activities, at, both_modes=shard % 5 == 0 or not FIXED)

    run_examples(
        shard, EXAMPLES // SHARDS, run, programs_of(ProgramWriter, LARGEST), ACTIVITIES, SEEDS
    )


def run_nests(shard: int) -> None:
    def run(text: str, activities: tuple, shape: tuple[int, int], at: int) -> None:
        note(f"{[a.__name__ for a in activities]} at matrices({shape}, {at})")
        check(text, matrices(shape, at), activities, at, both_modes=True)
        if math.prod(shape) and not FIXED:
            check_overlapping_arguments(text, shape, at)

    count = 2 if FIXED else EXAMPLES // SHARDS
    run_examples(
        shard,
        count,
        run,
        programs_of(NestWriter, LARGEST_NEST),
        ACTIVITIES_OF_ARRAYS,
        SHAPES,
        SEEDS,
    )


def run_ruled(shard: int) -> None:
    def run(text: str, activities: tuple, at: int) -> None:
        note(f"{[a.__name__ for a in activities]} at vectors({at})")
        check(text, vectors(at), activities, at, both_modes=True)

    count = 3 if FIXED else EXAMPLES // SHARDS
    run_examples(shard, count, run, programs_of(RuledWriter, LARGEST), ACTIVITIES_OF_VECTORS, SEEDS)


def run_containers(shard: int) -> None:
    def run(text: str, activities: tuple, at: int) -> None:
        note(f"{[a.__name__ for a in activities]} at vectors({at})")
        check(text, vectors(at), activities, at, both_modes=True)

    strategy = programs_of(ContainerWriter, LARGEST)
    run_unless_refused(shard, run, strategy, ACTIVITIES_OF_VECTORS, SEEDS)


def run_arguments(shard: int) -> None:
    def run(text: str, at: int) -> None:
        note(f"check_arguments(…, {at})")
        try:
            check_arguments(namespace_of(text), at)
        except (ar.RuleArgumentsOverlap, ar.ShadowMismatch):
            # One row is in two arguments of a rule, twice in a list that a checkpointed function
            # takes, or in two arguments of a program that only reads.
            assume(False)

    run_unless_refused(shard, run, programs_of(ArgumentWriter, LARGEST), SEEDS)


def run_replacing(shard: int) -> None:
    def run(text: str, at: int) -> None:
        note(f"check_replacing(…, {at})")
        check_replacing(namespace_of(text), at)

    run_unless_refused(shard, run, programs_of(ReplacingWriter, LARGEST), SEEDS)


def run_expressions(shard: int) -> None:
    def run(text: str, activities: tuple, at: int) -> None:
        note(f"{[a.__name__ for a in activities]} at arrays({at})")
        check(text, arrays(at), activities, at, both_modes=True)

    count = 2 if FIXED else EXAMPLES // SHARDS
    strategy = programs_of(ExpressionWriter, LARGEST)
    run_examples(shard, count, run, strategy, ACTIVITIES_OF_EXPRESSIONS, SEEDS)


def run_unless_refused(
    shard: int, check_one: Callable[..., None], *strategies: st.SearchStrategy
) -> None:
    tried, refused = 0, []

    def run(text: str, *drawn: object) -> None:
        nonlocal tried
        tried += 1
        try:
            check_one(text, *drawn)
        except REFUSED as error:
            refused.append(f"{type(error).__name__}: {error}\n{text}")
            assume(False)

    run_examples(shard, 2 if FIXED else EXAMPLES // SHARDS, run, *strategies)
    assert len(refused) <= 1 + tried // 10, "\n".join(refused)


# Objects that are replaced in loops, one array twice in a list that a checkpointed function takes,
# an array of an object that is replaced after a rule took the object: one program in forty.
REFUSED = (
    ar.FloatBitsInInteger, ar.MixedActivity, ar.NotYetSupported, ar.ShadowMismatch,
    ar.UnsupportedIR,
)  # fmt: skip


SEEDS = st.integers(0, 999)


def run_examples(
    shard: int, count: int, run: Callable[..., None], *strategies: st.SearchStrategy
) -> None:
    """Call `run` with that many draws of the strategies, the text of a program first."""

    @settings(
        max_examples=max(count, 1), deadline=None, database=None,
        suppress_health_check=list(HealthCheck), print_blob=True, derandomize=False,
    )  # fmt: skip
    @given(st.tuples(*strategies))
    def run_noted(drawn: tuple) -> None:
        note(drawn[0])
        run(*drawn)

    (seed(shard)(run_noted) if FIXED else run_noted)()


def check(text: str, args: tuple, activities: tuple, at: int, both_modes: bool) -> None:
    program = compiled(text)
    try:
        if any(isinstance(x, float) or x.size for x in args[:3]):
            check_gradient(program, args, activities, trials=1, seed=at)
        if both_modes:
            check_modes_agree(program, args, activities, np.random.default_rng(at))
            if not FIXED or at % 5 == 0:
                check_jacobians_agree(text, args, at)
    except (ar.ActiveMemoryInConst, ar.RuleArgumentsOverlap):
        # The program keeps active values in an array that is Const, or writes into an argument of a
        # rule that overlaps another one: that is what it must say.
        assume(False)
    except RuleCheckError as error:
        # A branch right at the point, say: there is nothing to compare with.
        assume("do not resolve" not in str(error))
        raise


def check_modes_agree(program, args: tuple, activities: tuple, rng: np.random.Generator) -> None:
    """One derivative along a direction, once as a tangent, once as a product with the gradient."""
    directions = tuple(
        None if activity is ar.Const else rand_tangent(x, rng)
        for x, activity in zip(args, activities, strict=True)
    )
    _, forward = ar.jvp(program, copied(args), copied(directions))
    shadows = [ar.make_zero(x) if isinstance(x, np.ndarray) else None for x in args]
    annotated = [
        activity(x, shadow) if activity is ar.Duplicated else activity(x)
        for activity, x, shadow in zip(activities, copied(args), shadows, strict=True)
    ]
    derivatives, _ = ar.autodiff(ar.ReverseWithPrimal, program, ar.Active, *annotated)
    terms = [
        float(np.sum((shadow if derivative is None else derivative) * direction))
        for shadow, derivative, direction in zip(shadows, derivatives, directions, strict=True)
        if direction is not None
    ]
    scale = sum(map(abs, terms)) + abs(forward or 0.0)
    assert abs(math.fsum(terms) - (forward or 0.0)) <= 1e-10 * max(scale, 1.0)


def check_overlapping_arguments(text: str, shape: tuple[int, int], at: int) -> None:
    """Both modes where all arguments are parts of one array, as their shadows are of another."""
    program, (rows, columns), size = compiled(text), shape, math.prod(shape)
    shift = (0, 1, columns)[at % 3]
    rng = np.random.default_rng(at)
    z, z_bar, z_dot = rng.normal(size=(3, size + columns + rows % 2))

    def duplicated(z: np.ndarray, shadow: np.ndarray) -> list:
        m, m_shadow = (x[:size].reshape(shape) for x in (z, shadow))
        q, q_shadow = (x[shift : shift + size].reshape(shape) for x in (z, shadow))
        ends = [ar.Duplicated(z[k], shadow[k]) for k in (slice(columns), slice(-rows, None))]
        return [*ends, ar.Duplicated(m, m_shadow), ar.Duplicated(q, q_shadow)]

    z_pulled, z_pushed = z_bar.copy(), z_dot.copy()
    try:
        ar.autodiff(ar.Reverse, program, ar.Active, *duplicated(z.copy(), z_pulled))
    except ar.ShadowMismatch as error:
        if "one array is the shadow of two arguments" not in str(error):
            raise
        return  # nothing is written: then each argument is to have a shadow of its own
    tangent = ar.autodiff(ar.Forward, program, ar.Duplicated, *duplicated(z.copy(), z_pushed))
    scale = np.sum(np.abs(z_pulled * z_dot)) + np.sum(np.abs(z_bar * z_pushed))
    assert abs(z_pulled @ z_dot - tangent - z_bar @ z_pushed) <= 1e-10 * max(scale, 1.0)


def check_jacobians_agree(text: str, args: tuple, at: int) -> None:
    """With respect to one array: the Jacobian of value and arrays afterwards, or of an array that
    was passed and is returned, once by columns, once by several sweeps over one tape, and by
    calls of a pullback, of which none may change the next; the Hessian against its transpose.
    """
    parameters = text.split("def program(")[1].split(")")[0]
    result = RESULTS[at // 5 % len(RESULTS)]
    vector = compiled(text + VECTOR.format(parameters=parameters, result=result), "vector")
    arrays = [k for k, x in enumerate(args) if isinstance(x, np.ndarray) and x.size]
    if not arrays:
        return
    k = arrays[at % len(arrays)]
    by_columns, by_rows = (mode(vector, argnums=k)(*args) for mode in (ar.jacfwd, ar.jacrev))
    size = max(1.0, np.max(np.abs(by_columns)))
    np.testing.assert_allclose(by_rows, by_columns, rtol=1e-9, atol=1e-9 * size)
    out, pullback = ar.vjp(vector, *copied(args))
    cotangent = np.random.default_rng(at).normal(size=out.shape)
    bar = pullback(cotangent)[k]
    pullback(out)
    np.testing.assert_array_equal(pullback(cotangent)[k], bar)
    atol = 1e-9 * size * np.sum(np.abs(cotangent))
    np.testing.assert_allclose(bar, np.tensordot(cotangent, by_rows, 1), rtol=1e-9, atol=atol)
    n = args[k].size
    program = compiled(text)
    hessian = ar.hessian(program, argnums=k)(*copied(args)).reshape(n, n)
    size = max(1.0, np.max(np.abs(hessian)))
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-8, atol=1e-8 * size)


VECTOR = """

@njit
def vector({parameters}):
    value = program({parameters})
    {result}
"""
RESULTS = (
    "return np.concatenate((np.array([value]), np.sin(a), b))",
    "a[0] = a[0] + math.sin(value); return a",
)


def copied(values: tuple) -> tuple:
    """Copies of arrays have their strides, as shadows must: `x.copy()` would be C-contiguous."""
    return tuple(copy_of(x) if isinstance(x, np.ndarray) else x for x in values)


def copy_of(x: np.ndarray) -> np.ndarray:
    fresh = ar.make_zero(x)
    fresh[...] = x
    return fresh
