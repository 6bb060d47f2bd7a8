"""Functions that are compiled only to be linked into others."""

import pytest
from numba import njit, objmode, types
from numba.core.errors import TypingError

from activerules.numba_ext.codegen.unlinked import compile_to_link, to_link

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
