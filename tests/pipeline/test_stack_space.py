"""`with_stack_space` is a call like any other, also for what fails in it and for threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from activerules.pipeline.stack_space import with_stack_space


def depth(n, step=1):
    if n < 0:
        raise ValueError(n)
    return 0 if n == 0 else step + depth(n - 1, step)


def test_a_call_with_stack_space_is_an_ordinary_call():
    assert with_stack_space(depth, 500, step=2) == 1000
    assert with_stack_space(with_stack_space, depth, 300) == 300
    assert with_stack_space(lambda function: function, function="any name") == "any name"
    with pytest.raises(ValueError, match="-1"):
        with_stack_space(depth, -1)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda n: with_stack_space(depth, n), [10, 20, 30])) == [10, 20, 30]
