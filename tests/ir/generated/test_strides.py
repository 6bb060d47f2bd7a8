"""Subscripts along axes that may have length one become products that LLVM vectorises."""

import itertools

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.ir.generated.strides import scale_subscripts
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.llvm.verify import verified
from activerules.ir.normal.short_axes import ROW, SHORT_AXIS
from tests.ir.harness import compile_text

LOOP = """
define double @f(ptr %a, i64 %n, i1 %longer) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %head ]
  %k = select i1 %longer, i64 %i, i64 0
  %m = select i1 %longer, i64 0, i64 %i
  %p = getelementptr double, ptr %a, i64 %k
  %q = getelementptr double, ptr %p, i64 %m
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %end, label %head
end:
  %x = load double, ptr %q
  ret double %x
}
"""


def test_s1_marked_subscripts_are_products_of_the_same_value():
    module = parse_module(LOOP)
    function = module.functions["f"]
    marked = [i for i in function.instructions() if i.opcode == "select"]
    for i in marked:
        i.attributes[SHORT_AXIS] = ROW
    declarations = {}
    scale_subscripts([function], declarations)
    assert [i.opcode for i in marked] == ["mul", "mul"]
    assert [i.operands[0].name for i in marked] == ["i", "i"]
    text = verified("\n".join([print_module(module), *declarations.values(), ""]))
    before, after = (compile_text(one).function("f") for one in (LOOP, text))
    row = np.arange(5.0)
    for longer, n in itertools.product((0, 1), range(1, 6)):
        assert after(row.ctypes.data, n, longer) == before(row.ctypes.data, n, longer) == n - 1


def test_s2_other_subscripts_stay():
    module = parse_module(LOOP)
    before, declarations = print_module(module), {}
    scale_subscripts([module.functions["f"]], declarations)
    assert print_module(module) == before
    assert not declarations


@njit
def combined(x, y, steps):
    """Arrays that may have length one along any axis, in a loop that overwrites the result."""
    out = x * y
    for _ in range(steps):
        out = np.sin(out) + x * y - y
    return np.sum(out**2)


SHAPES = list(itertools.product([(1, 1), (1, 6), (5, 1), (5, 6)], repeat=2))


@pytest.fixture(scope="module")
def gradient():
    return ar.grad(combined, argnums=(0, 1))


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_gradients_of_broadcast_arrays(shapes, gradient):
    rng = np.random.default_rng(3)
    x, y = (rng.normal(size=shape) for shape in shapes)
    for k, found in enumerate(gradient(x, y, 2)):
        expected = ar.testing.gradient_fd(combined, (x, y, 2), k)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


def test_second_derivatives_of_broadcast_arrays():
    rng = np.random.default_rng(4)
    x, y, v = rng.normal(size=(1, 4)), rng.normal(size=(3, 1)), rng.normal(size=(1, 4))
    found = ar.hvp(combined)(x, v, y, 1)
    first, h = ar.grad(combined), 1e-5
    expected = (first(x + h * v, y, 1) - first(x - h * v, y, 1)) / (2 * h)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
