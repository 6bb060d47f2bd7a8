"""The signature of a function for a number of arguments."""

from numba import njit

from activerules.numba_ext.codegen.arity import of_count


@njit
def f(args_1, x, args_0, *args):
    return x


def test_v1_names_are_distinct():
    names = list(of_count(f, 6).parameters)
    assert names == ["args_1", "x", "args_0", "args_2", "args_3", "args_4"]
