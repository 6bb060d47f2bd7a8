"""Functions that are compiled only to be linked into others."""

import pytest
from numba import njit, objmode, types
from numba.core.errors import TypingError

from activerules.numba_ext.codegen.unlinked import compile_to_link, linked_form, to_link

FLOAT = (types.float64,)


def ill_typed(x):
    return x.nothing_of_this_name


def test_u1_errors_are_numbas():
    with pytest.raises(TypingError) as expected:
        njit(ill_typed).compile(FLOAT)
    with pytest.raises(TypingError) as raised:
        compile_to_link(to_link(ill_typed), FLOAT)
    assert str(raised.value) == str(expected.value)


def test_u2_a_dispatcher_compiles_once_per_tuple_of_types():
    dispatcher = to_link(lambda x: x + 1)
    first = compile_to_link(dispatcher, FLOAT)
    assert compile_to_link(dispatcher, FLOAT) is first
    assert compile_to_link(dispatcher, (types.int64,)) is not first
    assert len(dispatcher.overloads) == 2


def through_python(x):
    with objmode(y="float64"):
        y = 2.0 * x
    return y


def test_u3_a_function_with_a_block_in_python_has_an_entry_point():
    dispatcher = to_link(through_python)
    compile_to_link(dispatcher, FLOAT)
    assert dispatcher(3.0) == 6.0


def test_the_linked_form_of_a_dispatcher_is_for_compiled_callers():
    doubled = njit(lambda x: 2 * x)
    linked = linked_form(doubled)
    assert njit(lambda x: linked(x) + 1)(3.0) == 7.0
    assert not doubled.overloads
    assert doubled(3) == 6  # makes machine code
    assert njit(lambda x: linked(x) + 1)(3) == 7
    assert linked.overloads[types.int64,] is doubled.overloads[types.int64,]
    declared = njit("float64(float64)")(lambda x: x / 2)
    assert linked_form(declared) is declared
