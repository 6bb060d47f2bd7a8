"""Definition, specificity, ties, lowering and refusals of the registry; no rule is compiled."""

import operator
import os
import subprocess
import sys
import threading
from enum import Enum
from types import ModuleType

import numpy as np
import pytest
from numba import float64, int64, njit, types
from numba.experimental import jitclass

import activerules as ar
from activerules import errors
from activerules.annotations.activity import (
    Active,
    Annotation,
    BatchDuplicated,
    Const,
    Duplicated,
)
from activerules.annotations.signature import Forward, Reverse
from activerules.rules import define
from activerules.rules.define import augmented_primal, forward, has_rule, inactive, reverse
from activerules.rules.fingerprint import of_values as digest_of_values
from activerules.rules.registry import RULES, Registry


@jitclass([("stiffness", float64)])
class Spring:
    """A class of compiled code."""

    def __init__(self, stiffness):
        self.stiffness = stiffness


def fresh():
    """A function nobody has rules for."""

    def spline(x, n):
        return x

    return spline


def define_pair(function, ret, *arguments, **options):
    """Define both halves for the given annotations; returns the two functions."""
    x, n = (*arguments, Const)[:2]

    def aug(config, ret: ret, x: x, n: n):
        pass

    def rev(config, dret: ret, tape, x: x, n: n):
        pass

    return augmented_primal(function, **options)(aug), reverse(function, **options)(rev)


def found(function, kinds=("active", "const"), result="active", types_=(float64, int64)):
    return RULES.find(function, (*types_, float64), (*kinds, result))


def test_a_pair_is_found_by_its_annotations():
    f = fresh()
    aug, rev = define_pair(f, Active, Active, Const)
    pair = found(f)
    assert (pair.augmented, pair.reverse) == (aug, rev)
    assert pair.arguments == (Active, Const)
    assert pair.result is Active
    assert pair.lowering == ("as is", "as is")
    assert pair.location.startswith(__file__)


def test_rules_need_no_function_of_python():
    for function in (operator.matmul, np.linalg.svd, njit(fresh())):
        assert RULES.carries_rule(function) == bool(RULES.rules_for(function))
    f = fresh()
    define_pair(njit(f), Active, Active)
    assert RULES.carries_rule(f)
    assert RULES.carries_rule(njit(f))


QUESTIONS = {
    "carries_rule": lambda r, f: r.carries_rule(f),
    "carries_forward_rule": lambda r, f: r.carries_rule(njit(f), "forward"),
    "treatment": lambda r, f: r.treatment(f, ["x"], [float64]),
    "is_opted_out": lambda r, f: r.is_opted_out(f, [float64]),
    "is_inactive": lambda r, f: r.is_inactive(f),
    "inactive_arguments": lambda r, f: r.inactive_arguments(f, ["x"]),
    "is_noalias": lambda r, f: r.is_noalias(f),
    "data_paths": lambda r, f: r.data_paths(f),
    "is_of_user": lambda r, f: r.is_of_user(f),
    "rules_for": lambda r, f: r.rules_for(f),
    "lacks_forward": lambda r, f: r.lacks("forward", f),
    "lacks_reverse": lambda r, f: r.lacks("reverse", f),
    "trusts_body_in_reverse": lambda r, f: r.trusts_body_in_reverse(f),
    "find_forward": lambda r, f: r.find_forward(f, [float64] * 2, [Duplicated] * 2),
}
CHANGES = {
    "declare_inactive": lambda r, f: r.declare_inactive(f, None),
    "inactive arguments": lambda r, f: r.declare_inactive(f, ["x"]),
    "refuse": lambda r, f: r.refuse(f, "no"),
    "promise_noalias": lambda r, f: r.promise_noalias(f),
    "opt_out": lambda r, f: r.opt_out(f, None),
    "trust_body": lambda r, f: r.trust_body("forward", f),
}


def test_epoch_grows_where_somebody_asked_for_the_function():
    """What was compiled without asking does not depend on it, and is not compiled again."""
    for ask in QUESTIONS.values():
        for change in CHANGES.values():
            registry, f, g = Registry(), fresh(), fresh()
            change(registry, f)
            ask(registry, g)
            change(registry, f)
            assert registry.epoch == 0
            change(registry, g)
            assert registry.epoch == 1
            change(registry, g)  # nobody asked under the rules that it has now
            assert registry.epoch == 1
    registry.declare_inactive_type(types.Float)
    assert registry.epoch == 2


def test_each_half_of_a_rule_is_a_change():
    f = fresh()
    for _ in range(2):
        before = RULES.epoch
        assert not RULES.is_inactive(f)
        define_pair(f, Active, Active)
        assert RULES.epoch > before
        assert RULES.rules_for(f)


def test_annotations_in_strings_see_local_names():
    f, mine = fresh(), Active

    @augmented_primal(f)
    def _(config, ret: "mine", x: "mine[float64]", n):
        return mine

    assert has_rule(f, Active, Const)
    assert not has_rule(f, Const, Const)


class TestSpecificity:
    def test_types_before_activities(self):
        f = fresh()
        define_pair(f, Duplicated, Duplicated)
        any_layout = define_pair(f, Duplicated, Duplicated[float64[:]])[1]
        widened = Duplicated[float64[::1]] | Const[float64[::1]]
        contiguous = define_pair(f, Duplicated, widened)[1]
        kinds = ("duplicated", "const")
        assert found(f, kinds, "duplicated", (float64[::1], int64)).reverse is contiguous
        strided = types.Array(float64, 1, "A")
        assert found(f, kinds, "duplicated", (strided, int64)).reverse is any_layout
        assert found(f, kinds, "duplicated", (float64[:, :], int64)).arguments[0] is Duplicated

    def test_then_activities(self):
        f = fresh()
        anything = define_pair(f, Active, Annotation)[1]
        either = define_pair(f, Active, Active | Const)[1]
        only = define_pair(f, Active, Active)[1]
        assert found(f).reverse is only
        assert found(f, ("const", "const")).reverse is either
        kinds = ("duplicated", "const")
        assert found(f, kinds, "active", (float64[::1], int64)).reverse is anything

    def test_numpy_and_python_types_in_brackets(self):
        f = fresh()
        rev = define_pair(f, Active, Active[float])[1]
        define_pair(f, Active, Active[np.float32])
        assert found(f).reverse is rev

    def test_classes_whose_values_numba_knows_in_brackets(self):
        f = fresh()
        of_arrays = define_pair(f, Active, Duplicated[np.ndarray])[1]
        of_springs = define_pair(f, Active, Duplicated[Spring])[1]
        kinds = ("duplicated", "const")
        spring = Spring.class_type.instance_type
        assert found(f, kinds, types_=(spring, int64)).reverse is of_springs
        assert found(f, kinds, types_=(float64[:, :], int64)).reverse is of_arrays
        written = list(map(str, RULES.rules_for(f)))
        assert written[0] == "spline(x: Duplicated[np.ndarray], n: Const) -> Active"
        assert written[1] == "spline(x: Duplicated[Spring], n: Const) -> Active"

    def test_annotation_of_arrays_is_what_arrays_are_passed_as(self):
        f = fresh()
        rev = define_pair(f, Active, Annotation[np.ndarray])[1]
        for kind in ("duplicated", "const"):
            assert found(f, (kind, "const"), types_=(float64[::1], int64)).reverse is rev

    def test_a_class_of_numba_types_is_wider_than_a_type(self):
        f = fresh()
        define_pair(f, Active, Active[types.Float])
        exact = define_pair(f, Active, Active[float64])[1]
        assert found(f).reverse is exact
        assert found(f, types_=(types.float32, int64)).arguments == (Active, Const)


class TestTies:
    def test_registry_r1_the_second_rule_is_refused_with_both_signatures(self):
        f = fresh()
        define_pair(f, Active, Active | Const, Const)
        epoch = RULES.epoch
        with pytest.raises(errors.AmbiguousRule) as caught:
            define_pair(f, Active, Active | Duplicated, Const)
        text = str(caught.value)
        assert "spline(x: Active | Const, n: Const) -> Active" in text
        assert "spline(x: Active | Duplicated, n: Const) -> Active" in text
        assert RULES.epoch == epoch
        assert len(RULES.rules_for(f)) == 1

    def test_a_rule_for_more_than_both_admit_does_not_settle_it(self):
        f = fresh()
        define_pair(f, Active, Annotation, Annotation)
        define_pair(f, Active, Active, Active | Const)
        with pytest.raises(errors.AmbiguousRule, match="neither is more specific"):
            define_pair(f, Active, Active | Const, Active)

    def test_a_rule_for_the_common_part_settles_it(self):
        f = fresh()
        define_pair(f, Active, Active, Active)
        define_pair(f, Active, Active, Active | Const)
        define_pair(f, Active, Active | Const, Active)
        assert found(f, ("active", "active"), types_=(float64, float64)).arguments == (Active,) * 2

    def test_the_same_signature_again_replaces(self):
        f = fresh()
        define_pair(f, Active, Active | Const)
        again = define_pair(f, Active, Const | Active)
        assert found(f).reverse is again[1]
        assert len(RULES.rules_for(f)) == 1

    def test_another_module_needs_replace(self):
        f = fresh()
        define_pair(f, Active, Active)
        code = "def _(config, ret: Active, x: Active, n: Const): return None"
        elsewhere = {"__name__": "elsewhere", "Active": Active, "Const": Const}
        exec(code, elsewhere)
        with pytest.raises(errors.AmbiguousRule, match="another module"):
            augmented_primal(f)(elsewhere["_"])
        augmented_primal(f, replace=True)(elsewhere["_"])
        (rule,) = RULES.rules_for(f)
        assert rule.halves["augmented_primal"].function is elsewhere["_"]


class TestLowering:
    def test_const_where_a_rule_wants_active(self):
        f = fresh()
        define_pair(f, Active, Active, Active)
        pair = found(f, ("active", "const"), types_=(float64, float64))
        assert pair.lowering == ("as is", "drop result")
        assert pair.arguments == (Active, Active)

    def test_const_where_a_rule_wants_duplicated(self):
        f = fresh()
        define_pair(f, Duplicated, Duplicated, Duplicated)
        arrays = (float64[::1], float64[::1])
        pair = found(f, ("const", "duplicated"), "duplicated", arrays)
        assert pair.lowering == ("scratch shadow", "as is")

    def test_registry_r3_choose_c1_a_rule_that_fits_as_it_is_comes_first(self):
        f = fresh()
        define_pair(f, Active, Active[float64])
        exact = define_pair(f, Active, Const)
        assert found(f, ("const", "const")).reverse is exact[1]

    def test_a_const_result_gets_a_zero_cotangent(self):
        f = fresh()
        define_pair(f, Active, Active)
        assert found(f, result="const").result_lowering == "zero cotangent"

    def test_an_integer_is_never_lowered(self):
        f = fresh()
        define_pair(f, Active, Active, Active)
        with pytest.raises(errors.NoRuleForActivity, match="`n` is Const"):
            found(f)


class TestRefusals:
    def test_registry_r2_choose_c2_no_rule_says_what_there_is_and_what_to_paste(self):
        f = fresh()
        define_pair(f, Active, Const, Const)
        with pytest.raises(errors.NoRuleForActivity) as caught:
            found(f)
        text = str(caught.value)
        assert text.startswith(
            "no reverse rule for spline(Active[float64], Const[int64]) -> Active[float64]"
        )
        assert "spline(x: Const, n: Const) -> Active" in text
        assert "`x` is Active[float64] here, and no rule admits that" in text
        assert "def _(config, dret: Active, tape, x: Active, n: Const): ..." in text
        assert "smoothly on `x`:\n          inactive(spline, args=(0,))" in text

    def test_the_argument_that_no_rule_covers_is_the_one_to_declare(self):
        f = fresh()
        define_pair(f, Active, Duplicated, Const)  # of a Const array the shadow is thrown away
        with pytest.raises(errors.NoRuleForActivity) as caught:
            found(f, ("const", "active"), types_=(float64[::1], float64))
        text = str(caught.value)
        assert "smoothly on `n`:\n          inactive(spline, args=(1,))" in text
        assert "`x` is Const" not in text

    def test_a_reverse_rule_of_a_batch_is_refused(self):
        with pytest.raises(errors.RuleDefinitionError, match="one shadow at a time"):
            define_pair(fresh(), Duplicated, BatchDuplicated)

    def test_a_rule_needs_no_module(self):
        f = fresh()

        def _(config, ret: Active, x: Active, n: Const): ...

        _.__module__ = None
        augmented_primal(f)(_)
        (rule,) = RULES.rules_for(f)
        assert not rule.of_library

    @pytest.mark.parametrize("half", ["augmented_primal", "reverse"])
    def test_registry_r2_half_a_pair_is_incomplete_at_the_call(self, half):
        f = fresh()
        if half == "reverse":

            @reverse(f)
            def _(config, dret: Active, tape, x: Active, n: Const): ...
        else:

            @augmented_primal(f)
            def _(config, ret: Active, x: Active, n: Const): ...

        with pytest.raises(errors.IncompleteRule, match=f"has a rule with {half}, but without"):
            found(f)

    def test_functions_that_are_not_written_as_rules(self):
        with pytest.raises(errors.RuleDefinitionError, match="is not a function of"):
            reverse(fresh())(lambda config: None)
        with pytest.raises(errors.RuleDefinitionError, match="is not an annotation"):

            @augmented_primal(fresh())
            def _(config, ret: Active, x: float): ...

        with pytest.raises(errors.RuleDefinitionError, match="takes a function"):
            reverse("spline")

    def test_a_forward_rule_does_not_keep_a_call_for_reverse(self):
        f = fresh()

        @forward(f)
        def _(config, ret: Duplicated, x: Duplicated, n: Const): ...

        assert not RULES.carries_rule(f)
        assert define.rules_for(f)


def in_module(module, which, function, **options):
    """A half for numbers of `fresh`, as if it were defined in a module."""

    def aug(config, ret: Active, x: Active, n: Const):
        pass

    def rev(config, dret: Active, tape, x: Active, n: Const):
        pass

    decorate, half = (augmented_primal, aug) if which == "augmented" else (reverse, rev)
    half.__module__ = module
    return decorate(function, **options)(half)


class TestHalvesThatWereNotWrittenForEachOther:
    def test_consistent_f1_halves_of_two_packages(self):
        f = fresh()
        in_module("springs.rules", "augmented", f)
        with pytest.raises(errors.AmbiguousRule, match="from different packages") as caught:
            in_module("dampers", "reverse", f)
        assert "in module springs.rules" in str(caught.value)
        pair = in_module("springs.more", "reverse", f)
        assert found(f).reverse is pair

    def test_replacing_one_half_of_another_package_ends_the_other(self):
        f = fresh()
        in_module("springs", "augmented", f)
        in_module("springs", "reverse", f)
        new = in_module("dampers", "reverse", f, replace=True)
        with pytest.raises(errors.IncompleteRule):
            found(f)
        in_module("dampers", "augmented", f)
        assert found(f).reverse is new

    def test_consistent_f2_parameters_in_another_order(self):
        def product(x, y):
            return x * y

        @augmented_primal(product)
        def _(config, ret: Active, x: Active, y: Active):
            pass

        def swapped(config, dret: Active, tape, y: Active, x: Active):
            pass

        with pytest.raises(
            errors.RuleDefinitionError, match=r"`y` is one argument of product in .* and another"
        ):
            reverse(product, saves="y")(swapped)
        assert "reverse" not in RULES.rules_for(product)[0].halves

        @reverse(product)
        def _(config, dret: Active, tape, _: Active, y: Active):
            pass

        reverse(product, replace=True)(swapped)
        assert list(RULES.rules_for(product)[0].halves) == ["reverse"]

    def test_parameters_in_another_order_than_the_function(self):
        def swapped(config, ret: Duplicated, n: Duplicated, x: Duplicated):
            pass

        with pytest.raises(errors.RuleDefinitionError, match=r"in the order of spline\(x, n\)"):
            forward(njit(fresh()))(swapped)


class TestInactiveAndARule:
    def test_consistent_f3_the_later_of_a_rule_and_inactive_wins(self):
        f = fresh()
        define_pair(f, Active, Active)
        inactive(f)
        assert RULES.is_inactive(f)
        define_pair(f, Active, Active)
        assert not RULES.is_inactive(f)
        assert found(f)

    def test_a_rule_for_what_the_library_declares(self):
        f = fresh()
        RULES.declare_inactive(f, None, "activerules.rules.library.inactive")
        define_pair(f, Active, Active)
        assert not RULES.is_inactive(f)

    def test_consistent_f3_packages_do_not_silence_each_other(self):
        f = fresh()
        in_module("springs", "augmented", f)
        with pytest.raises(errors.AmbiguousRule, match="has rules, which `inactive` in module"):
            inactive(f)
        assert not RULES.is_inactive(f)
        inactive(f, replace=True)
        with pytest.raises(errors.AmbiguousRule, match="is declared inactive in module"):
            in_module("springs", "reverse", f)
        assert RULES.is_inactive(f)
        in_module("springs", "reverse", f, replace=True)
        assert not RULES.is_inactive(f)


def test_inactive_functions_and_arguments():
    f, g = fresh(), fresh()
    assert inactive(f) is f
    assert RULES.is_inactive(f)
    assert RULES.carries_rule(f)
    inactive(g, args="n")
    assert RULES.carries_rule(g)
    define_pair(g, Active, Active)
    inactive(g, args=("n", 0))
    assert RULES.inactive_arguments(g, ("x", "n")) == {0, 1}
    assert not RULES.is_inactive(g)


def test_registration_from_several_threads():
    functions = [fresh() for _ in range(20)]
    stale = []

    def ask_and_define(f):
        before = RULES.epoch
        RULES.carries_rule(f)
        define_pair(f, Active, Active)
        stale.append(RULES.epoch > before)

    threads = [threading.Thread(target=ask_and_define, args=(f,)) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stale == [True] * 20
    assert all(found(f).arguments == (Active, Const) for f in functions)


FINGERPRINTS = """
import numpy as np
import activerules as ar
from activerules.rules.registry import RULES
before = RULES.fingerprint
import activerules.rules.library
assert RULES.fingerprint == before
import activerules.pipeline.compile_derivative
ar.checkpoint(lambda x: x)
assert RULES.fingerprint == before
ar.noalias(np.linalg.inv)
assert RULES.fingerprint != before
"""


def test_fingerprint_is_the_same_before_library_and_engine_are_loaded():
    done = subprocess.run([sys.executable, "-c", FINGERPRINTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class Level(Enum):
    LOW = 1
    HIGH = 2


def test_fingerprint_is_that_of_what_the_rules_say():
    def registry_of(factor, inactive_name):
        found, f = Registry(), fresh()

        def back(config, dret: Active, tape, x: Active, n: Const):
            return factor

        rule, half = define.define_on(f, "reverse", back)
        found.add(f, "reverse", rule, half, replace=False)
        found.declare_inactive(f, (inactive_name,))
        return found.fingerprint

    assert registry_of(1.0, "n") == registry_of(1.0, "n")

    def of_values(value, attribute):
        module = ModuleType("elsewhere")
        module.inner, module.unread = value, object()
        module.values = ModuleType("elsewhere.values")
        module.values.attribute = attribute
        scope = {"elsewhere": module, "__name__": "somewhere", "np": np}
        code = """
def called(x):
    return np.sum(elsewhere.inner) * x
def reads(x):
    return called(x) if x > 0 else reads(x + 1) * elsewhere.values.attribute
"""
        exec(code, scope)
        return digest_of_values(scope["reads"])

    record, other_record = np.zeros(2, [("weights", "f8", 2000)])
    other_record["weights"][1000] = 1.0  # in the middle, which is not printed
    values = [
        (Reverse, Forward),
        (Reverse, Reverse),
        (1.0, 2.0),
        (1.5, 2.0),
        (1.0, 2),
        (np.ones(2), 2.0),
        (np.zeros(2), 2.0),
        ((1,), "x"),
        (frozenset({1, 2}), {"x": 2.0}),
        (frozenset({1, 3}), {"x": 2.0}),
        (np.float32(2.0), np.dtype("f8")),
        (record, Level.LOW),
        (other_record, Level.LOW),
        (record, Level.HIGH),
        (np.sin, np.frompyfunc(abs, 1, 1)),  # the module of the second is not known
        (np.cos, np.frompyfunc(abs, 1, 1)),
    ]
    assert [of_values(*v) for v in values] == [of_values(*v) for v in values]
    assert len({of_values(*v) for v in values}) == len(values)
    unknown = object()
    assert of_values(unknown, 1.0) == of_values(unknown, 1.0) != of_values(object(), 1.0)
    assert len({registry_of(1.0, "n"), registry_of(2.0, "n"), registry_of(1.0, "x")}) == 3


def test_a_fingerprint_is_of_what_a_function_reads_and_of_no_other_name():
    code = """
def attribute(x): return x.elsewhere
def chain(x): return x * elsewhere.values.used
def alias(x):
    module = elsewhere
    return module.values.used
def by_name(x): return getattr(elsewhere, "values").used
def inside(x): return (lambda y: (lambda z: z * elsewhere.values.used)(y))(x)
"""

    def digests(used, unused):
        values, elsewhere = ModuleType("values"), ModuleType("elsewhere")
        values.used, values.x, elsewhere.used, elsewhere.values = used, unused, unused, values
        scope = {"__name__": __name__, "elsewhere": elsewhere, "used": unused, "values": unused}
        exec(code, scope)
        names = ("attribute", "chain", "inside", "alias", "by_name")
        return {name: digest_of_values(scope[name]) for name in names}

    first, other = digests(1.0, 2.0), digests(7.0, 2.0)
    assert [name for name in first if first[name] == other[name]] == ["attribute"]
    other = digests(1.0, object())  # what no name of is read, and has no digest
    assert [name for name in first if first[name] == other[name]] == [
        "attribute",
        "chain",
        "inside",
    ]


def test_fingerprint_tells_options_and_argnums_of_callees():
    def of_caller(called):
        return digest_of_values(lambda x: called(x, x))

    plain = njit(fresh())
    fast = njit(fastmath=True)(plain.py_func)
    callees = [plain, fast, ar.grad(plain, 0), ar.grad(plain, 1), ar.grad(fast, 1)]
    assert len({of_caller(each) for each in callees}) == len(callees)
    again = [plain, fast, ar.grad(plain, 0), ar.grad(plain, 1), ar.grad(fast, 1)]
    assert [*map(of_caller, again)] == [*map(of_caller, callees)]


def test_fingerprint_where_a_rule_calls_a_cached_gradient(rules_of_this_test):
    function, slope = fresh(), ar.grad(njit(lambda x: x * x), cache=True)

    @reverse(function)
    def back(config, dret: Active, tape, x: Active, n: Const):
        return (slope(x.val),)

    assert RULES.fingerprint == RULES.fingerprint


CHECKPOINTED = """
import numpy as np
import activerules as ar
from numba import njit

@njit(cache=True)
def step(x):
    return np.sin(x) * x

again = ar.checkpoint(step)

@njit(cache=True)
def f(x):
    return np.sum(again(again(x)))

g = ar.value_and_grad(f)
value, slope = g(np.array([0.3, 0.5]))
h = 1e-6
ahead, back = f(np.array([0.3 + h, 0.5])), f(np.array([0.3 - h, 0.5]))
assert abs((ahead - back) / (2 * h) - slope[0]) < 1e-7
print(sum(g.dispatcher.stats.cache_hits.values()))
"""


def test_the_second_start_of_a_function_with_checkpoints_compiles_nothing(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(CHECKPOINTED)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def hits():
        done = subprocess.run(
            [sys.executable, program], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert [hits(), hits()] == [["0"], ["1"]]
