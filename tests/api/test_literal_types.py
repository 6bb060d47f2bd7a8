"""Arguments whose Numba type is a literal of a package: functions choose their code by it."""

import numpy as np
import pytest
from numba import njit, types
from numba.core.imputils import lower_cast
from numba.extending import NativeValue, models, overload, register_model, typeof_impl, unbox

import activerules as ar


class Tag:
    def __init__(self, squared):
        self.squared = squared

    def __hash__(self):
        return hash(self.squared)

    def __eq__(self, other):
        return isinstance(other, Tag) and other.squared == self.squared


class TagType(types.Literal, types.Dummy):
    def __init__(self, squared):
        super(types.Dummy, self).__init__(name=f"Tag({squared})")
        self._literal_init(squared)


types.Literal.ctor_map[Tag] = lambda tag: TagType(tag.squared)
register_model(TagType)(models.OpaqueModel)


@typeof_impl.register(Tag)
def typeof_tag(tag, _context):
    return TagType(tag.squared)


@unbox(TagType)
def unbox_tag(_ty, _tag, c):
    return NativeValue(c.context.get_dummy_value())


@lower_cast(TagType, types.Boolean)
def cast_tag(context, builder, fromty, _toty, _value):
    return context.get_constant(types.boolean, fromty.literal_value)


def power(x, tag):
    raise NotImplementedError


@overload(power, prefer_literal=True)
def power_by_tag(x, tag):
    if isinstance(tag, TagType) and tag.literal_value:
        return lambda x, tag: x**2
    return lambda x, tag: x**3


@njit
def f(x, tag):
    return power(x, tag)


@njit
def of_items(x, items):
    return power(x * items[0], items[1])


@njit
def slope(x, tag):
    return ar.grad(f)(x, tag)


@pytest.mark.parametrize("squared", [True, False])
def test_the_value_of_a_literal_reaches_the_derivative(squared):
    tag, n = Tag(squared), 2 if squared else 3
    first, second = n * 2.0 ** (n - 1), n * (n - 1) * 2.0 ** (n - 2)
    assert ar.value_and_grad(f)(2.0, tag) == (2.0**n, first)
    assert ar.autodiff(ar.Reverse, f, ar.Active(2.0), tag) == (first, None)
    assert ar.autodiff(ar.Forward, f, ar.Duplicated(2.0, 1.0), ar.Const(tag)) == first
    assert ar.jvp(f, (2.0, tag), (1.0, None)) == (2.0**n, first)
    assert ar.vjp(f, 2.0, tag)[1](1.0) == (first, None)
    assert ar.jacobian(f)(2.0, tag) == first
    assert ar.hessian(f)(2.0, tag) == second
    assert ar.hvp(f, 2.0, 1.0, tag) == second
    assert ar.grad(ar.checkpoint(f))(2.0, tag) == first
    assert ar.grad(slope)(2.0, tag) == second


def test_a_literal_in_a_tuple():
    np.testing.assert_allclose(ar.grad(of_items)(2.0, (3.0, Tag(True))), 36.0)
