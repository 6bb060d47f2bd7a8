"""How iterations are divided, and who may share a shadow."""

import itertools

import pytest

from activerules.parallel_loops import schedule

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
