"""The files of `cases/` with several cotangents in one reverse sweep."""

from __future__ import annotations

import pytest

from tests.ir.lanes_harness import check_lanes
from tests.ir.test_differentiate_cases import FILES, read_case

CASES = [path for path in FILES if read_case(path).refused is None]


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda k: CASES[k].stem)
def test_case(number: int) -> None:
    case = read_case(CASES[number])
    width, opt = (2, 3, 4)[number % 3], (0, 2)[number % 2]
    check_lanes(case.text, case.function, case.activities, case.arguments, width, opt)
