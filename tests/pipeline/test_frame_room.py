"""`with_room` is a call like any other, also for what fails in it and for threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from activerules.pipeline.frame_room import with_room


def depth(n, step=1):
    if n < 0:
        raise ValueError(n)
    return 0 if n == 0 else step + depth(n - 1, step)


def test_a_call_with_room_is_a_call():
    assert with_room(depth, 500, step=2) == 1000
    assert with_room(with_room, depth, 300) == 300
    assert with_room(lambda function: function, function="any name") == "any name"
    with pytest.raises(ValueError, match="-1"):
        with_room(depth, -1)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda n: with_room(depth, n), [10, 20, 30])) == [10, 20, 30]
