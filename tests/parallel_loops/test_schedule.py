"""How iterations are divided, and who may share a shadow."""

import itertools

import numpy as np
import pytest
from numba import njit

from activerules.parallel_loops import schedule
from activerules.parallel_loops.schedule import which_meet

plain = {name: getattr(schedule, name) for name in ("start_of", "phases")}


@pytest.mark.parametrize("spread", range(6))
def test_c1_groups_of_a_phase_are_further_apart_than_their_accesses_reach(spread):
    """By brute force: an iteration i accesses the rows i ... i + spread."""
    for first, length, count in itertools.product((0, 3), range(1, 25), range(1, 9)):
        if count > length:
            continue
        last = first + length
        starts = [plain["start_of"](k, first, last, count) for k in range(count + 1)]
        assert (starts[0], starts[-1]) == (first, last)
        assert starts == sorted(starts)
        rows = [set(range(a, b + spread)) for a, b in itertools.pairwise(starts)]
        phases = plain["phases"](first, last, count, spread)
        assert 1 <= phases <= count
        for one, other in itertools.combinations(range(count), 2):
            if one % phases == other % phases:
                assert rows[one].isdisjoint(rows[other])
        if spread == 0:
            assert phases == 1


@njit
def met(arrays):
    return which_meet(arrays)


def test_which_of_many_arrays_share_memory():
    a = np.zeros((4, 6))
    columns, apart = (a[:, 0], a[:, 1], a[::-1, 3]), (np.zeros(3), a[:0])
    for others, expected in [
        ((a[1:2, 3:4],), [False, False, True]),
        ((a[2:, 4],), [False, False, False]),
        ((a[1],), [True, True, True]),
    ]:
        found = met((*columns, *apart, *others))
        assert found[:3].tolist() == expected
        assert found[3:].tolist() == [False, False, any(expected)]
    assert met((a[0], a[:, 5])) == (True, True)
