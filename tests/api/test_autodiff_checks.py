"""What `autodiff` refuses, and which version it runs, with a derivative that is written by hand.

The stand-in for the pipeline returns LLVM IR for the gradient of a dot product; its conservative
version is told apart by a factor of a hundred, and lengths of seven are out of memory.
"""

import re

import numpy as np
import pytest
from numba import njit
from numba import types as numba_types

import activerules as ar
from activerules.annotations.activity import KINDS
from activerules.ir.tape.runtime import OUT_OF_MEMORY
from activerules.numba_ext.calls import intrinsics
from activerules.numba_ext.target.derivative import CompiledDerivative, Versions
from activerules.pipeline.compile_derivative import compile_derivative

FIELDS = ("meminfo", "parent", "items", "size", "data", "shape", "stride")
POINTERS = ("meminfo", "parent", "data")


def parameters_of(name, activity):
    written = []
    for field in FIELDS:
        written.append(f"{'ptr' if field in POINTERS else 'i64'} %{name}.{field}")
        if activity == "duplicated" and field in POINTERS:
            written.append(f"ptr %{name}.{field}.shadow")
    return ", ".join(written)


def adjoint(x, y, factor):
    """IR that adds `factor * y[i]` to the shadow of x[i]."""
    return f"""
      %{x}.offset = mul i64 %i, %{x}.stride
      %{x}.bar.at = getelementptr i8, ptr %{x}.data.shadow, i64 %{x}.offset
      %{y}.other = mul i64 %i, %{y}.stride
      %{y}.at = getelementptr i8, ptr %{y}.data, i64 %{y}.other
      %{y}.value = load double, ptr %{y}.at
      %{x}.term = fmul double %{y}.value, {factor}
      %{x}.old = load double, ptr %{x}.bar.at
      %{x}.new = fadd double %{x}.old, %{x}.term
      store double %{x}.new, ptr %{x}.bar.at"""


def gradient_of_dot(symbol, activities, factor):
    pairs = zip("xy", "yx", activities, strict=True)
    body = "".join(adjoint(x, y, factor) for x, y, a in pairs if a == "duplicated")
    arrays = ", ".join(map(parameters_of, "xy", activities))
    return f"""
    define i32 @{symbol}(ptr %ret, ptr %ret.shadow, ptr %excinfo, {arrays}, ptr %d, ptr %stats) {{
    entry:
      %too.long = icmp eq i64 %x.shape, 7
      br i1 %too.long, label %out.of.memory, label %start
    out.of.memory:
      ret i32 {OUT_OF_MEMORY}
    start:
      %some = icmp sgt i64 %x.shape, 0
      br i1 %some, label %loop, label %done
    loop:
      %i = phi i64 [0, %start], [%next, %loop]{body}
      %next = add i64 %i, 1
      %more = icmp slt i64 %next, %x.shape
      br i1 %more, label %loop, label %done
    done:
      store double 5.0, ptr %ret
      ret i32 0
    }}"""


def by_hand(function, spec):
    activities = spec.activities
    name = f"{function.py_func.__name__}.{'.'.join(activities)}"
    per_field = [(a if f in POINTERS else "const") for a in activities for f in FIELDS]
    fast = gradient_of_dot(name + ".gradient", activities, "1.0")
    careful = gradient_of_dot(name + ".conservative", activities, "100.0")
    writes = function is writes_first
    return CompiledDerivative(
        Versions(
            name + ".gradient", name + ".conservative" if function is not no_overlap else None
        ),
        text=fast + careful,
        function=function.py_func.__name__,
        result_type=numba_types.float64,
        return_activity="active",
        parameters=("duplicated", "const", *per_field),
        written=(writes or function is no_overlap, False),
        scratch=(False, False),
    )


@njit
def reads_only(x, y):
    return 0.0


@njit
def writes_first(x, y):
    return 0.0


@njit
def no_overlap(x, y):
    return 0.0


@pytest.fixture(autouse=True)
def _by_hand():
    intrinsics.use_compiler(by_hand)
    yield
    intrinsics.use_compiler(compile_derivative)


@pytest.fixture
def x():
    return np.arange(3.0)


@pytest.fixture
def y():
    return np.full(3, 2.0)


def test_shadows_are_added_to(x, y):
    dx, dy = np.ones(3), np.zeros(3)
    arguments = ar.Duplicated(x, dx), ar.Duplicated(y, dy)
    assert ar.autodiff(ar.ReverseWithPrimal, reads_only, *arguments) == ((None, None), 5.0)
    assert dx.tolist() == [3.0, 3.0, 3.0]
    assert dy.tolist() == x.tolist()


def test_gradients_are_new_arrays(x, y):
    gradients = ar.grad(reads_only, (0, 1))(x, y)
    assert [g.tolist() for g in gradients] == [y.tolist(), x.tolist()]
    value, gradient = ar.value_and_grad(reads_only, -1)(x[::-2], y[::2])
    assert value == 5.0
    assert gradient.tolist() == x[::-2].tolist()


def read_only(array):
    array.flags.writeable = False
    return array


class TestShadows:
    @pytest.mark.parametrize(
        ("shadow", "message"),
        [
            (np.zeros(4), r"has a different shape: \(4,\), and its value has \(3,\)"),
            (np.zeros(6)[::2], r"has different strides: \(16,\), and its value has \(8,\)"),
            (np.zeros(3)[::-1], "has different strides"),
            (np.zeros(3, np.float32), r"is float32\[::1\], and `x` is float64"),
            (np.zeros((3, 1)), "is float64"),
            (read_only(np.zeros(3)), "is read-only"),
            (1.0, "is float64, and `x` is float64"),
        ],
    )
    def test_memory_k1_that_do_not_fit(self, x, y, shadow, message):
        with pytest.raises(ar.ShadowMismatch, match=f"the shadow of `x` {message}") as caught:
            ar.autodiff(ar.Reverse, reads_only, ar.Duplicated(x, shadow), y)
        assert re.search(rf"reads_only\(x.* {__file__}:\d+\n", str(caught.value))
        assert "  make_zero(x)\n" in str(caught.value)

    def test_the_stride_of_an_axis_of_one_is_free(self, y):
        one, shadow = np.ones(1), np.zeros(2)[::2]
        ar.autodiff(ar.Reverse, reads_only, ar.Duplicated(one, shadow), y)
        assert shadow[0] == 2.0

    def test_memory_k2_that_are_their_own_primal(self, x, y):
        with pytest.raises(ar.ShadowMismatch, match="overlaps its primal"):
            ar.autodiff(ar.Reverse, reads_only, ar.Duplicated(x, x), y)

    def test_memory_k2_that_overlap_another_argument(self, x):
        memory = np.zeros(5)
        with pytest.raises(ar.ShadowMismatch, match="the shadow of `x` overlaps `y`"):
            ar.autodiff(ar.Reverse, reads_only, ar.Duplicated(x, memory[:3]), memory[2:])

    def test_extents_x1_the_first_check_that_fails_is_the_one_reported(self, y):
        """Of shapes, strides and overlap with the primal and with another argument."""
        memory = np.zeros(8)
        x = memory[:3]
        for shadow, other, fault in (
            (memory[1:8:2], y, "has a different shape"),
            (memory[1:6:2], y, "has different strides"),
            (memory[1:4], memory[2:5], "overlaps its primal"),
            (memory[3:6], memory[2:5], "overlaps `y`"),
        ):
            with pytest.raises(ar.ShadowMismatch, match=fault):
                ar.autodiff(ar.Reverse, reads_only, ar.Duplicated(x, shadow), other)

    def test_inside_njit_too(self, x, y):
        @njit
        def caller(x, dx, y):
            ar.autodiff(ar.Reverse, reads_only, ar.Duplicated(x, dx), y)
            return dx[0]

        assert caller(x, np.zeros(3), y) == 2.0
        with pytest.raises(ar.ShadowMismatch, match="overlaps its primal"):
            caller(x, x, y)
        with pytest.raises(ar.ShadowMismatch, match="is float32"):
            caller(x, np.zeros(3, np.float32), y)


class TestOverlap:
    """Arguments `a[:5]` and `a[2:7]`, with shadows that overlap likewise or not."""

    @pytest.fixture
    def a(self):
        return np.arange(10.0)

    def run(self, function, first, second):
        ar.autodiff(ar.Reverse, function, first, second)

    def test_of_what_is_only_read_is_free(self, a):
        dx, dy = np.zeros(5), np.zeros(5)
        self.run(reads_only, ar.Duplicated(a[:5], dx), ar.Duplicated(a[2:7], dy))
        assert dx.tolist() == [2.0, 3.0, 4.0, 5.0, 6.0]
        self.run(reads_only, ar.Duplicated(a[:5], dx), a[2:7])

    def test_memory_k3_k4_with_shadows_that_overlap_likewise_runs_conservatively(self, a):
        da = np.zeros(10)
        self.run(writes_first, ar.Duplicated(a[:5], da[:5]), ar.Duplicated(a[2:7], da[2:7]))
        assert da[0] == 200.0

    def test_memory_k3_with_shadows_apart_is_refused(self, a):
        with pytest.raises(ar.ShadowMismatch, match="`x` and `y` overlap, but their shadows"):
            self.run(
                writes_first,
                ar.Duplicated(a[:5], np.zeros(5)),
                ar.Duplicated(a[2:7], np.zeros(5)),
            )

    def test_memory_k3_with_a_constant_is_refused(self, a):
        with pytest.raises(ar.ShadowMismatch, match="`x` and `y` overlap, one is written"):
            self.run(writes_first, ar.Duplicated(a[:5], np.zeros(5)), a[2:7])

    def test_memory_k4_of_shadows_alone_is_refused(self, a):
        da = np.zeros(10)
        with pytest.raises(ar.ShadowMismatch, match="the shadows of `x` and `y` overlap"):
            self.run(reads_only, ar.Duplicated(a[:5], da[:5]), ar.Duplicated(a[5:], da[2:7]))

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (slice(0, 5), slice(5, 10)),
            (slice(4, None, -1), slice(5, 10)),
            (slice(None, 4, -1), slice(4, None, -1)),
            (slice(0, 0), slice(0, 10)),
        ],
    )
    def test_touching_is_not_overlapping(self, a, first, second):
        x, y = a[first], a[second]
        dx = ar.make_zero(x)
        self.run(writes_first, ar.Duplicated(x, dx), ar.Duplicated(y, ar.make_zero(y)))
        assert dx.tolist() == y[: len(x)].tolist()

    def test_is_refused_where_there_is_no_conservative_version(self, a):
        da = np.zeros(10)
        with pytest.raises(ar.ShadowMismatch, match="the shadow of two arguments"):
            self.run(no_overlap, ar.Duplicated(a[:5], da[:5]), ar.Duplicated(a[2:7], da[2:7]))


@njit
def scaled(x, y):
    return y * x[0]


class TestAnnotations:
    @pytest.mark.parametrize(
        ("annotation", "message"),
        [
            (ar.Active(np.ones(3)), r"`x` is marked Active and is float64\[::1\]"),
            (ar.Active(3), "`x` is marked Active and is int64"),
            (ar.Active((1, "a")), r"`x` is marked Active and is \(int64, str\)"),
            (ar.Duplicated(3.0, 0.0), "`x` is marked Duplicated and is float64"),
            (ar.Duplicated(np.arange(3), np.arange(3)), r"`x` is marked Duplicated and is int64"),
        ],
    )
    def test_that_do_not_fit_their_value(self, y, annotation, message):
        with pytest.raises(ar.ActivityError, match=message):
            ar.autodiff(ar.Reverse, reads_only, annotation, y)

    def test_an_active_array_is_told_what_to_write(self, x, y):
        with pytest.raises(ar.ActivityError, match=r"Duplicated\(x, make_zero\(x\)\)"):
            ar.autodiff(ar.Reverse, reads_only, ar.Active(x), y)

    def test_returns_with_a_shadow_are_for_split_mode(self, x, y):
        with pytest.raises(ar.ActivityError, match="autodiff_thunk"):
            ar.autodiff(ar.Reverse, reads_only, ar.Duplicated, ar.Const(x), y)

    def test_the_number_of_arguments(self, x, y):
        with pytest.raises(ar.ArityError, match="missing a required argument: 'y'"):
            ar.autodiff(ar.Reverse, reads_only, x)
        with pytest.raises(ar.ArityError, match="too many positional arguments"):
            ar.autodiff(ar.Reverse, reads_only, x, y, y)
        with pytest.raises(ar.ArityError, match="argnums has 2"):
            ar.grad(reads_only, 2)

    @pytest.mark.parametrize(
        ("argnums", "message"),
        [
            ((0, -2), "names `x` twice"),
            ((), "names no argument"),
            ("z", "has 'z', and reads_only has 2 arguments"),
            (("x", 0), "names `x` twice"),
            (True, "has True, which is neither a number nor a name"),
            (None, "has None, which is neither a number nor a name"),
            ((0, 1.0), "has 1.0, which is neither a number nor a name"),
        ],
    )
    @pytest.mark.parametrize("derivative", [ar.grad, ar.jacfwd, ar.jacrev, ar.hessian])
    def test_argnums_names_each_argument_once(self, derivative, argnums, message):
        with pytest.raises(ar.ArityError, match=message):
            derivative(reads_only, argnums)

    @pytest.mark.parametrize("function", [None, 3, "sin"])
    def test_what_is_not_a_function(self, function):
        with pytest.raises(ar.NotCompilable, match="is not a Python function that Numba compiles"):
            ar.grad(function)

    def test_argnums_may_be_an_integer_of_numpy(self, x, y):
        found = ar.grad(reads_only, np.int64(1))(x, y)
        np.testing.assert_array_equal(found, ar.grad(reads_only, 1)(x, y))

    @pytest.mark.parametrize("point", [2.0, np.ones(3), [1.0, 2.0]])
    @pytest.mark.parametrize("derivative", [ar.grad, ar.value_and_grad, ar.jacrev, ar.hessian])
    def test_what_the_derivative_is_called_with_comes_later(self, derivative, point):
        name = derivative.__name__
        with pytest.raises(ar.ArityError, match=rf"Instead  {name}\(reads_only\)\(x\)"):
            derivative(reads_only, point)

    @pytest.mark.parametrize(
        ("value", "instead"), [(3, "1.0 in place of 1"), (np.arange(3), r"y.astype\(np.float64\)")]
    )
    def test_what_has_no_gradient(self, x, value, instead):
        message = rf"(?s)`y` is int64.*, which has no derivative.*Either +.*{instead}"
        with pytest.raises(ar.ActivityError, match=message):
            ar.grad(reads_only, 1)(x, value)

    @pytest.mark.parametrize("kind", KINDS[2:])
    def test_a_shadow_is_left_out(self, kind, x):
        with pytest.raises(ar.ActivityError, match=rf"Instead  {kind.__name__}\(x, "):
            kind(x)

    def test_a_shadow_is_left_out_in_compiled_code(self, x):
        with pytest.raises(ar.ActivityError, match=r"Instead  Duplicated\(x, make_zero\(x\)\)"):
            njit(lambda x: ar.autodiff(ar.Reverse, scaled, ar.Duplicated(x), 2.0))(x)

    def test_the_mode_comes_first(self, x):
        message = r"Instead  autodiff\(ReverseWithPrimal, scaled, …\)"
        with pytest.raises(ar.ActivityError, match=message):
            ar.autodiff(scaled, ar.ReverseWithPrimal, x, ar.Active(2.0))
        with pytest.raises(ar.ActivityError, match="a function before its mode"):
            njit(lambda x: ar.autodiff(scaled, ar.Reverse, x, ar.Active(2.0)))(x)

    def test_what_is_no_function(self):
        with pytest.raises(ar.NotCompilable):
            ar.autodiff(ar.Reverse, 3, ar.Active(1.0))
        with pytest.raises(ar.ActivityError, match="is a mode"):
            ar.autodiff(reads_only, ar.Active(1.0))


def test_out_of_memory_is_a_memory_error(y):
    shadow = np.zeros(7)
    with pytest.raises(MemoryError):
        ar.autodiff(ar.Reverse, reads_only, ar.Duplicated(np.ones(7), shadow), y)
    assert not shadow.any()
