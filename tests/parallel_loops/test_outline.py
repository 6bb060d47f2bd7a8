"""The loops of a function, found in its source, and compiled one by one."""

import linecache

import numpy as np
import pytest
from numba import njit, prange

import activerules as ar
from activerules.parallel_loops.outline import loops_of, with_calls


def two_loops(x, out, scale=2.0):
    """The documentation."""
    n = len(x)
    if n > 0:
        for i in prange(n):
            out[i] = scale * x[i]
    total = 0.0
    for _ in range(2):
        for k in prange(1, n):
            total += out[k] - out[k - 1]
    return total


def test_o2_iterations_have_the_lines_of_the_loop():
    _, (first, second) = loops_of(two_loops)
    start = two_loops.__code__.co_firstlineno
    assert first.location == f"{__file__}:{start + 4}"
    assert second.location == f"{__file__}:{start + 8}"
    assert {line for *_, line in second.iterations.__code__.co_lines()} <= {start + 8, start + 9}
    out = np.zeros(4)
    assert first.names.inputs == ("out", "scale", "x")
    first.iterations(1, 3, out, 3.0, np.ones(4))
    np.testing.assert_array_equal(out, [0.0, 3.0, 3.0, 0.0])
    assert second.iterations(1, 4, 1.0, np.array([0.0, 1.0, 3.0, 7.0])) == (8.0,)


def test_o2_the_function_calls_what_is_given_in_place_of_loops():
    tree, loops = loops_of(two_loops)
    calls = [(loop, loop.iterations) for loop in loops]
    replaced = with_calls(two_loops, tree, calls)
    assert (replaced.__name__, replaced.__doc__) == ("two_loops", "The documentation.")
    assert replaced.__defaults__ == (2.0,)
    x = np.array([1.0, 4.0, 9.0])
    assert replaced(x, np.zeros(3)) == 2 * (2.0 * 8.0)


def made(scale):
    def f(x):
        total = 0.0
        for i in prange(len(x)):
            total += scale * x[i]
        return total

    return f


def test_o2_variables_of_enclosing_functions_are_those_of_the_function():
    for scale in (2.0, 3.0):
        _, (loop,) = loops_of(made(scale))
        assert loop.iterations(0, 2, 0.0, np.ones(2)) == (2 * scale,)


SOURCE = """\
from numba import prange

def f(x):
    total = 0.0
    for i in prange(len(x)):
        total += 2.0 * x[i]
    return total
"""


@pytest.mark.parametrize("change", [("2.0", "3.0"), ("+=", "-="), ("x[i]", "x[0]")])
def test_o1_a_source_that_has_changed_is_refused(tmp_path, change):
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    names = {}
    exec(compile(SOURCE, str(path), "exec"), names)
    loops_of(names["f"])
    path.write_text(SOURCE.replace(*change))
    linecache.clearcache()
    with pytest.raises(ar.NotYetSupported, match="the source of f is another one now"):
        loops_of(names["f"])


def test_o1_a_function_without_source_is_refused():
    names = {}
    exec(SOURCE, names)
    with pytest.raises(ar.NotYetSupported, match="the source of f is not known"):
        ar.parallel(names["f"])


@njit
def without_loop(x):
    return x


def with_a_step(x):
    for i in prange(0, len(x), 2):
        x[i] = 0.0


def test_what_is_no_parallel_loop_is_refused_at_its_line():
    with pytest.raises(ar.NotYetSupported, match="without_loop has no prange loop"):
        ar.parallel(without_loop)
    with pytest.raises(ar.NotYetSupported, match="another step than 1") as refused:
        ar.parallel(with_a_step)
    line = with_a_step.__code__.co_firstlineno + 1
    assert ("the loop", "with_a_step", f"{__file__}:{line}") in refused.value.where
