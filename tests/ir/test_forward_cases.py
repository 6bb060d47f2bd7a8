"""The files of `cases/` in forward mode: tangents agree with finite differences, or it is refused.

What the reverse sweep refuses because it would have to undo it may well have a tangent.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from activerules.errors import ActiverulesError
from tests.ir.forward_harness import check_forward
from tests.ir.test_differentiate_cases import FILES, read_case

WIDTHS = (1, 2, 3, 4, 8)
UNDONE_ONLY = {
    "copy_beside_integers",
    "memcpy_chain",
    "memcpy_only",
    "memcpy_pointers_noinline",
    "pointer_over_float",
}


@pytest.mark.parametrize("number", range(len(FILES)), ids=lambda k: FILES[k].stem)
def test_case(number: int) -> None:
    path: Path = FILES[number]
    case = read_case(path)
    width, opt = WIDTHS[number % 5], (0, 2)[number % 2]
    if case.refused is None or case.inlined or path.stem in UNDONE_ONLY:
        check_forward(
            case.text, case.function, case.activities, case.arguments, width=width, opt=opt
        )
        return
    with pytest.raises(case.refused) as caught:
        check_forward(case.text, case.function, case.activities, case.arguments, width=width)
    assert isinstance(caught.value, ActiverulesError)
    assert "bug of activerules" not in str(caught.value)
