"""Which part of an array an iteration accesses, from subscripts."""

import ast

import pytest

from activerules.parallel_loops.accesses import Access, access_of


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("s = a[i]", Access(0, 0, 0)),
        ("s = a[i + 1] - a[i - 2]", Access(0, -2, 1)),
        ("s = a[1 + i]", Access(0, 1, 1)),
        ("s = a[k, i, 3:] + a[i, i, k]", Access(1, 0, 0)),
        ("s = a[i, j] + a[j, i]", Access()),
        ("s = a[i][j] * len(a) * a.shape[0]", Access(0, 0, 0)),
        ("s = a[..., i] + a[i]", Access()),
        ("s = a[np.newaxis, i] + a[j, i]", Access()),
        ("s = a[newaxis, i] + a[j, i]", Access()),
        ("s = a[None, i] + a[j, i]", Access()),
        ("s = a[2 * i]", Access()),
        ("s = a[i] + a[-i]", Access()),
        ("s = a[i] + g(a)", Access()),
        ("s = a[i] + a.sum()", Access()),
        ("s = a[i]; b = a", Access()),
        ("s = len(a)", Access()),
    ],
)
def test_a1_the_axis_and_the_distances_of_all_accesses(body, expected):
    assert access_of("a", ast.parse(body).body, "i") == expected


@pytest.mark.parametrize(
    ("body", "written", "never_read"),
    [
        ("a[p[i]] = 1.0", True, True),
        ("a[p[i]] += 1.0", True, False),
        ("a[p[i]] = 1.0; s = a[0]", False, False),
        ("a[p[i]][1] = 1.0", False, False),
        ("a[p[i]] = a[p[i]]", False, False),
    ],
)
def test_a2_written_wherever_it_is_accessed(body, written, never_read):
    found = access_of("a", ast.parse(body).body, "i")
    assert (found.axis, found.written, found.never_read) == (None, written, never_read)
    assert found.is_disjoint == written
