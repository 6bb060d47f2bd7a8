"""Rules compiled to the engine's convention: values, references, facts, and what is refused."""

import math

import numba
import numpy as np
import pytest
from numba import float64
from numba.core.runtime.nrt import rtsys

import activerules as ar
from activerules.errors import (
    IncompleteRule,
    NoRuleForActivity,
    NotCompilable,
    NotYetSupported,
    RuleReturnError,
    TapeMismatch,
)
from activerules.ir.derivatives.rulecall import RuleRequest
from activerules.numba_ext.codegen.machine_code import MachineCode
from activerules.numba_ext.rules.rule_compiler import NumbaRuleCompiler
from activerules.numba_ext.target.capture import capture
from activerules.rules.registry import RULES
from activerules.testing.numeric import directional_derivative, rand_tangent

VECTOR = float64[::1]


def pair(function, augmented, reverse):
    """Register a rule pair."""
    ar.augmented_primal(function)(augmented)
    ar.reverse(function)(reverse)


def compiler_of(program, *argtypes):
    captured = capture(program, argtypes, rules=RULES)
    (symbol,) = captured.marked
    return NumbaRuleCompiler(captured.marked, RULES), symbol


def choose(program, argtypes, activities, result, overwritten=None):
    """Compile the rule of the one marked call in `program`."""
    compiler, symbol = compiler_of(program, *argtypes)
    overwritten = overwritten or (False,) * len(activities)
    return compiler.choose(symbol, RuleRequest(activities, result, overwritten))


# --- what the engine is told ---


@numba.njit
def scaled(a, x, n=2):
    return a * (x * n)


def scaled_augmented(config, ret: ar.Duplicated, a: ar.Duplicated, x: ar.Active, n: ar.Const):
    y = a.val * (x.val * n.val)
    kept = a.val.copy() if config.overwritten[0] else a.val
    return ar.AugmentedReturn(y, np.zeros_like(y), kept)


def scaled_reverse(config, dret: ar.Duplicated, tape, a: ar.Duplicated, x: ar.Active, n: ar.Const):
    ar.accumulate(a, dret.dval * (x.val * n.val))
    return None, np.dot(tape, dret.dval) * n.val, None


pair(scaled, scaled_augmented, scaled_reverse)


@numba.njit
def sum_scaled(a, x):
    return scaled(a, x).sum()


def test_call_info():
    compiler, symbol = compiler_of(sum_scaled, VECTOR, float64)
    info = compiler.call_info(symbol)
    a, x, n = info.arguments
    assert [argument.kind for argument in info.arguments] == ["memory", "value", "const"]
    assert (a.operands, a.data_operand) == (tuple(range(2, 9)), 6)
    assert (x.operands, n.operands) == ((9,), ())
    assert (info.result_kind, info.result_size, info.result_meminfos) == ("memory", 56, (0,))
    assert info.location.startswith(__file__)
    assert not info.inactive
    with pytest.raises(KeyError):
        compiler.call_info("activerules.rule.nothing")


@pytest.mark.parametrize(("overwritten", "size"), [(False, 56), (True, 56)])
def test_code_of_a_rule_has_tape_size_and_drop(overwritten, size):
    activities = ("duplicated", "active", "const")
    argtypes = (VECTOR, float64)
    code = choose(sum_scaled, argtypes, activities, "duplicated", (overwritten, False, False))
    assert (code.tape_size, code.tape_alignment) == (size, 8)
    assert code.drop is not None
    assert "test_rule_compiler.py" in code.description


def _defined(library):
    """The names of the functions in the code of a rule."""
    if isinstance(library, MachineCode):
        return library.symbols
    return [function.name for function in library.get_defined_functions()]


def test_r1_compiled_once_per_request_and_its_libraries_define_it():
    compiler, symbol = compiler_of(sum_scaled, VECTOR, float64)
    request = RuleRequest(("duplicated", "active", "const"), "duplicated", (False,) * 3)
    code = compiler.choose(symbol, request)
    assert compiler.choose(symbol, request) is code
    wanted = {code.augmented, code.reverse, code.drop, compiler.call_info(symbol).primal_symbol}
    libraries = compiler.libraries(" ".join(wanted))
    assert wanted <= {name for library in libraries for name in _defined(library)}
    (unused,) = set(libraries) - set(compiler.libraries(""))
    defined = {f.name for f in unused.get_defined_functions()}
    assert compiler.call_info(symbol).primal_symbol in defined


def test_a_result_that_no_rule_can_serve_yet():
    @numba.njit
    def two_precisions(x):
        return np.full(2, np.float32(x)), np.full(2, x)

    @numba.njit
    def program(x):
        s, row = two_precisions(x)
        return s[0] * row[0]

    pair(two_precisions, good_augmented, good_reverse)
    compiler, symbol = compiler_of(program, float64)
    with pytest.raises(NotYetSupported, match="two_precisions"):
        compiler.call_info(symbol)


# --- values, through the whole engine ---


def check(program, *args):
    """The gradient of a float along random directions, against finite differences."""
    _, gradients = ar.value_and_grad(program, argnums=tuple(range(len(args))))(*args)
    rng = np.random.default_rng(7)
    for _ in range(3):
        tangents = tuple(rand_tangent(x, rng) for x in args)
        expected, error = directional_derivative(program, args, tangents)
        found = sum(np.sum(g * t) for g, t in zip(gradients, tangents, strict=True))
        assert abs(found - expected) <= 10 * error + 1e-9 * abs(expected)


def test_array_and_float_arguments():
    check(sum_scaled, np.array([1.0, -2.0, 0.5]), 1.7)


def test_overwritten_arguments():
    @numba.njit
    def program(a, x):
        b = a.copy()
        y = scaled(b, x)
        b[:] = 0.0
        return np.dot(y, y)

    check(program, np.array([1.0, -2.0, 0.5]), 1.7)


def test_wrap_w2_const_where_the_rule_wants_more():
    # In `first` the rule gets a shadow to throw away for `a`; in `second` the derivative of `x` is
    # dropped.
    @numba.njit
    def first(x):
        return scaled(np.ones(3), x).sum()

    @numba.njit
    def second(a):
        return scaled(a, 3.0).sum()

    check(first, 1.5)
    check(second, np.array([1.0, 2.0]))


@numba.njit
def product_with_constants(matrix, b):
    return matrix @ b


def product_augmented(config, ret: ar.Duplicated, matrix: ar.Duplicated, b: ar.Const):
    y = matrix.val @ b.val
    return ar.AugmentedReturn(y, np.zeros_like(y), b.val.copy())


def product_reverse(config, dret: ar.Duplicated, b_was, matrix: ar.Duplicated, b: ar.Const):
    ar.accumulate(matrix, np.outer(dret.dval, b_was))


pair(product_with_constants, product_augmented, product_reverse)


def test_an_array_made_of_constants_is_constant_beside_an_active_matrix():
    """The function is seen to write into neither: BLAS writes into memory that it allocates."""

    @numba.njit
    def program(matrix, b):
        return product_with_constants(matrix, np.sin(b)).sum()

    b = np.array([0.5, 1.0])
    gradient = ar.grad(program)(np.ones((2, 2)), b)
    np.testing.assert_allclose(gradient, [np.sin(b), np.sin(b)])


@numba.njit
def bounded(a, x):
    if x > 2.0:
        raise ValueError("too large")
    return (a * x).sum()


@ar.augmented_primal(bounded)
def _(config, ret: ar.Active, a: ar.Duplicated, x: ar.Active):
    return ar.AugmentedReturn(bounded(a.val, x.val), None, None)


@ar.reverse(bounded, saves=("a", "x"))
def _(config, dret: ar.Active, tape, a: ar.Duplicated, x: ar.Active):
    ar.accumulate(a, dret.val * x.val * np.ones_like(a.val))
    return None, dret.val * a.val.sum()


@numba.njit
def bounded_ones(x):
    return bounded(np.ones(3), x)


def test_wrap_w2_a_shadow_to_throw_away_is_released_if_the_rule_raises(unfreed):
    def fails(function):
        with pytest.raises(ValueError, match="too large"):
            function(3.0)

    gradient = ar.grad(bounded_ones)
    assert gradient(1.0) == 3.0
    assert unfreed(lambda: fails(gradient)) <= unfreed(lambda: fails(bounded_ones))


@numba.njit
def normalise(a):
    norm = math.sqrt((a * a).sum())
    a /= norm
    return norm


def normalise_augmented(config, ret: ar.Active, a: ar.Duplicated):
    norm = normalise(a.val)
    return ar.AugmentedReturn(norm, None, (a.val.copy(), norm))


def normalise_reverse(config, dret: ar.Active, tape, a: ar.Duplicated):
    direction, norm = tape
    bar = a.dval.copy()
    a.dval[:] = 0.0
    ar.accumulate(a, (bar - direction * np.dot(direction, bar)) / norm + dret.val * direction)


pair(normalise, normalise_augmented, normalise_reverse)


def test_a_function_that_writes_into_its_argument():
    @numba.njit
    def both(a):
        b = a * 2.0
        norm = normalise(b)
        return b[0] * b[1] + norm

    @numba.njit
    def result_unused(a):
        b = a * 2.0
        normalise(b)
        return b[0] * b[1]

    check(both, np.array([1.0, 2.0, 3.0]))
    check(result_unused, np.array([1.0, 2.0, 3.0]))


@numba.njit
def square_into(out, a):
    for i in range(a.size):
        out[i] = a[i] ** 2


def square_into_augmented(config, ret: ar.Const, out: ar.Duplicated, a: ar.Duplicated):
    square_into(out.val, a.val)
    return ar.AugmentedReturn(None, None, None)


def square_into_reverse(config, dret: ar.Const, tape, out: ar.Duplicated, a: ar.Duplicated):
    ar.accumulate(a, 2.0 * a.val * out.dval)
    out.dval[:] = 0.0


pair(square_into, square_into_augmented, square_into_reverse)


def test_rules_without_result_and_tape():
    @numba.njit
    def program(a):
        out = np.empty_like(a)
        square_into(out, a)
        return out.sum()

    code = choose(program, (VECTOR,), ("duplicated", "duplicated"), "const")
    assert (code.tape_size, code.drop) == (0, None)
    check(program, np.array([1.0, 2.0, 3.0]))


def test_a_function_as_argument():
    @numba.njit
    def root(f, lower, upper, p):
        for _ in range(80):
            middle = 0.5 * (lower + upper)
            if f(middle, p) > 0.0:
                upper = middle
            else:
                lower = middle
        return 0.5 * (lower + upper)

    @numba.njit
    def cubic(x, p):
        return x**3 + x - p

    @ar.augmented_primal(root)
    def _(config, ret: ar.Active, f: ar.Const, lower: ar.Const, upper: ar.Const, p: ar.Active):
        x = root(f.val, lower.val, upper.val, p.val)
        return ar.AugmentedReturn(x, None, x)

    @ar.reverse(root)
    def _(config, dret: ar.Active, x, f: ar.Const, lower: ar.Const, upper: ar.Const, p: ar.Active):
        h = 1e-6
        by_x = (f.val(x + h, p.val) - f.val(x - h, p.val)) / (2 * h)
        by_p = (f.val(x, p.val + h) - f.val(x, p.val - h)) / (2 * h)
        return -by_p / by_x * dret.val

    @numba.njit
    def program(p):
        total = 0.0
        for i in range(3):
            total += root(cubic, 0.0, 5.0, p + i) ** 2
        return total

    value, gradient = ar.value_and_grad(program)(2.0)
    x = [
        next(r.real for r in np.roots([1, 0, 1, -(2.0 + i)]) if abs(r.imag) < 1e-9)
        for i in range(3)
    ]
    np.testing.assert_allclose(value, sum(r**2 for r in x))
    np.testing.assert_allclose(gradient, sum(2 * r / (3 * r**2 + 1) for r in x), rtol=1e-6)


def test_config_is_known_at_compile_time():
    @numba.njit
    def f(a):
        return a.sum()

    @ar.augmented_primal(f)
    def _(config, ret: ar.Active, a: ar.Duplicated):
        # The branches give tapes of different types: only one of them is compiled.
        if config.overwritten[0]:
            tape = a.val.copy()
        else:
            tape = 2.5
        return ar.AugmentedReturn(f(a.val), None, tape)

    @ar.reverse(f)
    def _(config, dret: ar.Active, tape, a: ar.Duplicated):
        ar.accumulate(a, np.full_like(a.val, dret.val))

    @numba.njit
    def program(a):
        return f(a)

    sizes = [
        choose(program, (VECTOR,), ("duplicated",), "active", (overwritten,)).tape_size
        for overwritten in (False, True)
    ]
    assert sizes == [8, 56]


# --- references ---


def balance(call):
    """Allocations that one more call leaves behind."""
    call()
    before = rtsys.get_allocation_stats()
    for _ in range(3):
        call()
    after = rtsys.get_allocation_stats()
    assert after.mi_alloc > before.mi_alloc
    return (after.mi_alloc - before.mi_alloc) - (after.mi_free - before.mi_free)


@pytest.fixture
def nrt_stats():
    from numba.core.runtime import _nrt_python

    # They stay on: all tests of this process may count.
    _nrt_python.memsys_enable_stats()


@pytest.mark.usefixtures("nrt_stats")
def test_wrap_w1_compiled_rules_leak_nothing():
    @numba.njit
    def program(a, x):
        total = 0.0
        for i in range(4):
            b = a * (i + 1)
            total += scaled(b, x + i).sum() + normalise(b)
        return total + scaled(np.ones(3), x).sum()

    gradient = ar.value_and_grad(program, argnums=(0, 1))
    a = np.array([1.0, 2.0, 3.0])
    check(program, a, 1.5)
    assert balance(lambda: gradient(a, 1.5)) == 0


@numba.njit
def picky(a, x):
    if x < 0.0:
        raise ValueError("picky")
    return a * x


def picky_augmented(config, ret: ar.Duplicated, a: ar.Duplicated, x: ar.Active):
    y = picky(a.val, x.val)
    return ar.AugmentedReturn(y, np.zeros_like(y), a.val.copy())


def picky_reverse(config, dret: ar.Duplicated, tape, a: ar.Duplicated, x: ar.Active):
    if x.val > 100.0:
        raise ArithmeticError("too large to go back", x.val)
    ar.accumulate(a, dret.dval * x.val)
    return None, np.dot(tape, dret.dval)


pair(picky, picky_augmented, picky_reverse)


@numba.njit
def chain(x):
    a = np.ones(3)
    for i in range(3):
        a = picky(a, x - i)
    return a.sum()


@numba.njit
def picky_by_itself(a, x):
    """`picky`, as if it had no rule."""
    if x < 0.0 or x > 100.0:
        raise ValueError("picky")
    return a * x


@numba.njit
def chain_by_itself(x):
    a = np.ones(3)
    for i in range(3):
        a = picky_by_itself(a, x - i)
    return a.sum()


@pytest.mark.usefixtures("nrt_stats")
@pytest.mark.parametrize(("x", "error"), [(1.5, ValueError), (200.0, ArithmeticError)])
def test_wrap_w3_exceptions_of_a_rule_pass_and_lose_what_those_of_the_function_lose(x, error):
    gradient = ar.value_and_grad(chain)

    def call():
        with pytest.raises(error):
            gradient(x)

    def by_itself():
        with pytest.raises(ValueError, match="picky"):
            chain_by_itself(x)

    check(chain, 5.0)
    call()
    assert balance(call) <= balance(by_itself)


# --- what is refused when the pair is compiled ---


def chosen_pair(augmented, reverse, argtypes=(float64,), activities=("active",), result="active"):
    @numba.njit
    def f(x):
        return 2.0 * x

    @numba.njit
    def program(x):
        return f(x)

    pair(f, augmented, reverse)
    return choose(program, argtypes, activities, result)


def good_augmented(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(2.0 * x.val, None, None)


def good_reverse(config, dret: ar.Active, tape, x: ar.Active):
    return 2.0 * dret.val


def test_reference_pair_is_accepted():
    code = chosen_pair(good_augmented, good_reverse)
    assert (code.tape_size, code.drop) == (0, None)
    assert code.augmented != code.reverse


def not_augmented_return(config, ret: ar.Active, x: ar.Active):
    return 2.0 * x.val


def wrong_primal(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn((x.val, x.val), None, None)


def no_primal(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(None, None, None)


@pytest.mark.parametrize(
    ("augmented", "found"),
    [
        (not_augmented_return, "float64, expected AugmentedReturn"),
        (wrong_primal, r"\(float64, float64\), expected float64 as primal"),
        (no_primal, "None, expected float64 as primal"),
    ],
)
def test_pair_rules_t1_wrong_augmented_return(augmented, found):
    with pytest.raises(RuleReturnError, match=found) as caught:
        chosen_pair(augmented, good_reverse)
    assert augmented.__name__ in str(caught.value)
    assert __file__ in str(caught.value)


def returns_nothing(config, dret: ar.Active, tape, x: ar.Active):
    return None


def returns_too_many(config, dret: ar.Active, tape, x: ar.Active):
    return dret.val, dret.val


def returns_text(config, dret: ar.Active, tape, x: ar.Active):
    return "2"


@pytest.mark.parametrize("reverse", [returns_nothing, returns_too_many, returns_text])
def test_pair_rules_t1_reverse_that_returns_wrong_types_is_refused(reverse):
    with pytest.raises(RuleReturnError, match=r"expected \(float64,\) or float64"):
        chosen_pair(good_augmented, reverse)


def test_a_shadow_is_wanted_for_a_duplicated_result():
    @numba.njit
    def f(x):
        return np.full(3, x)

    @ar.augmented_primal(f)
    def _(config, ret: ar.Duplicated, x: ar.Active):
        return ar.AugmentedReturn(f(x.val), None, None)

    @ar.reverse(f)
    def _(config, dret: ar.Duplicated, tape, x: ar.Active):
        return dret.dval.sum()

    @numba.njit
    def program(x):
        return f(x)[0]

    with pytest.raises(RuleReturnError, match=r"None, expected float64\[::1\]"):
        choose(program, (float64,), ("active",), "duplicated")


def unpacks_the_tape(config, dret: ar.Active, kept, x: ar.Active):
    first, second = kept
    return first * second * dret.val


def annotates_the_tape(config, dret: ar.Active, tape: float64[::1], x: ar.Active):
    return tape[0] * dret.val


def float_tape(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(2.0 * x.val, None, x.val)


@pytest.mark.parametrize("reverse", [unpacks_the_tape, annotates_the_tape])
def test_pair_rules_t1_tape_mismatch(reverse):
    with pytest.raises(TapeMismatch, match="float64"):
        chosen_pair(float_tape, reverse)


def misspells(config, dret: ar.Active, tape, x: ar.Active):
    return 2.0 * dret.value


def test_a_rule_numba_cannot_compile():
    with pytest.raises(NotCompilable, match="rule of f") as caught:
        chosen_pair(good_augmented, misspells)
    assert "misspells" in str(caught.value)


def test_r2_no_rule_for_the_activity_says_where():
    @numba.njit
    def program(a):
        return chain_free(a)

    with pytest.raises(NoRuleForActivity) as caught:
        choose(program, (float64,), ("active",), "active")
    assert ("at the call", "chain_free") in [entry[:2] for entry in caught.value.where]


@numba.njit
def chain_free(x):
    return x


@ar.augmented_primal(chain_free)
def _(config, ret: ar.Duplicated, x: ar.Duplicated):
    return ar.AugmentedReturn(x.val, x.dval, None)


@ar.reverse(chain_free)
def _(config, dret: ar.Duplicated, tape, x: ar.Duplicated):
    return None


def test_pair_without_reverse_is_refused():
    @numba.njit
    def f(x):
        return 2.0 * x

    @numba.njit
    def program(x):
        return f(x)

    ar.reverse(f)(good_reverse)
    with pytest.raises(IncompleteRule):
        choose(program, (float64,), ("active",), "active")
