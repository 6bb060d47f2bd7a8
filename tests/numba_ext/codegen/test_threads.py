"""Calls in Numba's threads."""

import pickle

import numpy as np
import pytest
from numba import njit, objmode

from activerules.numba_ext.codegen import threads as threads_module
from activerules.numba_ext.codegen.numba_versions import RELOADS
from activerules.numba_ext.codegen.on_disk import parts_of
from activerules.numba_ext.codegen.threads import LOST, in_threads, thread_count


@njit
def put(k, args):
    out, scale, names = args
    out[k] += scale * k + len(names)


@njit
def all_of(first, step, count, out, scale):
    in_threads(put, first, step, count, (out, scale, ["a", "b"]))


@pytest.mark.parametrize(("first", "step", "count"), [(0, 1, 9), (1, 3, 3), (5, 2, 0)])
def test_the_function_is_called_once_for_each_number(threads, first, step, count):
    out, expected = np.zeros(9), np.zeros(9)
    for k in range(first, first + step * count, step):
        expected[k] = 0.5 * k + 2.0
    all_of(first, step, count, out, 0.5)
    np.testing.assert_array_equal(out, expected)


@njit
def refuse(k, args):
    (out,) = args
    if out[k] < 0.0:
        raise ValueError("negative", k)
    out[k] = 1.0


@njit
def raises(out):
    in_threads(refuse, 0, 1, len(out), (out,))
    out[0] = 2.0


@njit
def catches(out):
    try:
        raises(out)
    except Exception:
        return True
    return False


@pytest.mark.parametrize("negative", [(3,), (2, 7), (0, 1, 2, 3, 4, 5, 6, 7, 8)])
def test_t1_the_exception_of_the_first_number_that_raised_one(threads, negative):
    out = np.zeros(9)
    out[[*negative]] = -1.0
    with pytest.raises(ValueError, match="negative") as raised:
        raises(out)
    assert raised.value.args == ("negative", negative[0])
    ended = np.ones(9)
    ended[[*negative]] = -1.0
    np.testing.assert_array_equal(out, ended)  # the other calls ended, and nothing came after
    assert catches(out)
    assert not catches(np.zeros(9))


@njit
def refuse_all(k, args):
    raise ValueError("negative")


@njit
def refuse_four():
    in_threads(refuse_all, 0, 1, 4, (0.0,))


def test_nothing_of_ours_is_leaked_where_an_exception_is_raised(threads, unfreed):
    def run():
        with pytest.raises(ValueError, match="negative"):
            refuse_four()

    assert unfreed(run) == 0


def no_number(args):
    int(str(args))


@njit
def in_python(k, args):
    with objmode():
        no_number(args)


@njit
def raises_in_python():
    in_threads(in_python, 0, 1, 4, (0.0,))


def test_t1_an_exception_of_the_interpreter_stays_in_its_thread(threads):
    with pytest.raises(RuntimeError, match=LOST):
        raises_in_python()


@njit
def count():
    return thread_count()


@pytest.mark.skipif(not RELOADS, reason="Numba 0.62 has no such parts, and caches no such code")
@pytest.mark.parametrize(("function", "args"), [(count, ()), (all_of, (0, 1, 2, np.zeros(2), 0.5))])
def test_t2_code_on_disk_would_start_the_threads(function, args):
    """`test_on_disk` has processes that load such code."""
    function(*args)
    (compiled,) = (each for each in function.overloads.values())
    assert [each.__module__ for each in parts_of(compiled.library)].count(threads_module.__name__)
    assert all(pickle.loads(pickle.dumps(each)) is each for each in parts_of(compiled.library))


def test_the_number_of_threads(threads):
    assert count() == threads
