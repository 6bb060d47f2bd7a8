"""Rules of users win over those of the library, for functions, operators and methods of arrays."""

import math
import operator

import numpy as np
import pytest
from numba import float64, njit, types

import activerules as ar
from activerules.chainrules import frule, rrule, scalar_rule
from activerules.errors import RuleDefinitionError
from activerules.rules.library.linalg import Matrix as Matrices
from activerules.rules.library.linalg import MatrixResult
from activerules.rules.registry import RULES

Active, Const, Duplicated = ar.Active, ar.Const, ar.Duplicated
Matrix, Vector = float64[:, ::1], float64[::1]

pytestmark = pytest.mark.usefixtures("rules_of_this_test")


def define_product(function, slope, annotation=Duplicated, **options):
    """A rule of a product that can be told from all others by `slope`."""

    @ar.augmented_primal(function, **options)
    def _(config, ret: Duplicated, a: annotation, b: annotation):
        y = function(a.val, b.val)
        return ar.AugmentedReturn(y, np.zeros_like(y), None)

    @ar.reverse(function, **options)
    def _(config, dret: Duplicated, tape, a: annotation, b: annotation):
        ar.accumulate(a, slope * dret.dval)

    @ar.forward(function, **options)
    def _(config, ret: Duplicated, a: annotation, b: annotation):
        return function(a.val, b.val), slope * a.dval


def define_sum():
    @ar.augmented_primal(np.sum)
    def _(config, ret: Active, x: Duplicated):
        return ar.AugmentedReturn(np.sum(x.val), None, None)

    @ar.reverse(np.sum)
    def _(config, dret: Active, tape, x: Duplicated):
        ar.accumulate(x, np.full(x.val.shape, 5.0 * dret.val))


def test_a_rule_without_types_wins_in_both_modes_and_the_report_says_so():
    define_product(operator.matmul, 7.0)
    define_sum()

    @njit
    def program(a):
        return (a @ a).sum()

    a = np.array([[2.0, 1.0], [0.0, 3.0]])
    np.testing.assert_array_equal(ar.grad(program)(a), np.full((2, 2), 35.0))
    product, total = ar.explain(program, Duplicated(a, np.zeros_like(a))).rules
    assert product.rule.count("wins over the library's rule") == 1
    assert "linalg.py:" in product.rule.split("wins over")[1]
    assert "wins" not in total.rule
    assert total.location.text.strip() == "return (a @ a).sum()"
    forward = RULES.find_forward(operator.matmul, [Matrix] * 3, ["duplicated"] * 3)
    assert forward.location.startswith(__file__)
    assert "linalg_forward.py:" in forward.lost


def find(kinds=("duplicated", "duplicated"), found=Matrix):
    return RULES.find(np.linalg.solve, [found] * 3, (*kinds, "duplicated"))


def test_a_pair_alone_leaves_forward_mode_to_the_library_and_the_report_says_so():
    @ar.augmented_primal(operator.matmul)
    def _(config, ret: Duplicated, a: Duplicated, b: Duplicated):
        y = a.val @ b.val
        return ar.AugmentedReturn(y, np.zeros_like(y), None)

    @ar.reverse(operator.matmul)
    def pair(config, dret: Duplicated, tape, a: Duplicated, b: Duplicated):
        ar.accumulate(a, 7.0 * dret.dval)

    @njit
    def square(a):
        return a @ a

    a, a_dot = np.array([[2.0, 1.0], [0.0, 3.0]]), np.array([[0.5, 0.0], [1.0, -1.0]])
    np.testing.assert_allclose(ar.jvp(square, (a,), (a_dot,))[1], a @ a_dot + a_dot @ a)
    (product,) = ar.explain(square, Duplicated(a, a_dot), mode=ar.Forward).rules
    line = pair.__code__.co_firstlineno
    assert product.rule.endswith(f"{__file__}:{line}, is for reverse mode alone")
    found = RULES.find(operator.matmul, [Matrix] * 3, ["duplicated"] * 3)
    assert found.beside == ""


def test_registry_r4_choose_c3_a_users_rule_wins_when_lowered_and_leaves_other_types():
    define_product(np.linalg.solve, 7.0, Duplicated[Matrix])
    chosen = find(("duplicated", "const"))
    assert chosen.location.startswith(__file__)
    assert chosen.lowering == ("as is", "scratch shadow")
    other = find(found=types.Array(float64, 2, "F"))
    assert "linalg.py" in other.location
    assert other.lost == ""


def test_the_most_specific_rule_of_users_wins():
    define_product(np.linalg.solve, 7.0, Duplicated[Matrix])
    wide = len(RULES.rules_for(np.linalg.solve))
    define_product(np.linalg.solve, 8.0)
    assert len(RULES.rules_for(np.linalg.solve)) == wide + 2
    types_narrow, types_wide = find(), find(found=types.Array(float64, 2, "F"))
    assert types_narrow.reverse.__closure__ != types_wide.reverse.__closure__
    assert all(rule.location.startswith(__file__) for rule in (types_narrow, types_wide))


def test_a_users_rule_of_the_same_signature_replaces_none_of_the_library():
    (library,) = (r for r in RULES.rules_for(np.linalg.inv) if "reverse" in r.halves)

    @ar.augmented_primal(np.linalg.inv)
    def augmented(config, ret: MatrixResult, A: Matrices):
        return None

    assert library.halves["augmented_primal"].function is not augmented
    assert len(RULES.rules_for(np.linalg.inv)) == 3


def test_an_opt_out_of_a_library_function():
    ar.opt_out(np.linalg.norm, Duplicated)
    assert RULES.treatment(np.linalg.norm, ("x",), [Vector]).reason == "opt_out"


class Scale:
    def times(self, x):
        return 2.0 * x


@pytest.mark.parametrize(
    "declare",
    [
        ar.inactive,
        ar.noalias,
        ar.opt_out,
        ar.augmented_primal,
        ar.reverse,
        ar.forward,
        rrule.register,
        frule.register,
        lambda f: scalar_rule(f, lambda y, x: (x,)),
    ],
)
def test_rules_of_functions_that_compiled_code_never_calls_are_refused(declare):
    from functools import partial

    for wrong in ("x", np, partial(np.sum, axis=0), partial, None):
        with pytest.raises(RuleDefinitionError, match="takes a function"):
            declare(wrong)
    with pytest.raises(RuleDefinitionError, match=r"np\.sum, which is `x\.sum\(\)`"):
        declare(np.ndarray.sum)
    with pytest.raises(RuleDefinitionError, match=r"Scale\.times, as an attribute of the class"):
        declare(Scale().times)


@pytest.mark.parametrize("function", [pow, operator.pow])
def test_pow_is_the_operator(function):
    """`x**y` and `pow(x, y)` are one function, with one rule; `math.pow` is another one."""

    @ar.augmented_primal(function)
    def _(config, ret: Active, x: Active, y: Active):
        return ar.AugmentedReturn(x.val**y.val, None, None)

    @ar.reverse(function)
    def _(config, dret: Active, tape, x: Active, y: Active):
        return 7.0 * dret.val, 0.0

    @njit
    def all_three(x):
        first = x**2.5 + pow(x, 1.5)
        x **= 0.5
        return first + x

    assert ar.grad(all_three)(2.0) == 21.0
    assert ar.rules_for(pow) == ar.rules_for(operator.pow) != ()
    assert ar.grad(njit(lambda x: math.pow(x, 3.0)))(2.0) == pytest.approx(12.0)
