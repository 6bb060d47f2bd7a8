"""Goldens: small programs, one construct each, with the plan of their gradient; and each gradient
is executed.

A file is a case as in `tests/ir/cases`, followed by the plan as `; `-comments. `pytest --update-
golden` rewrites the plans; then read the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from activerules.ir.foreign.explain import explain
from tests.ir.harness import check_gradient
from tests.ir.test_differentiate_cases import read_case

FILES = sorted(Path(__file__).parent.glob("*.ll"))
MARK = "; ==== plan ====\n"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path: Path, request: pytest.FixtureRequest) -> None:
    case = read_case(path)
    source, _, expected = path.read_text().partition(MARK)
    plan = explain(source, case.function, case.activities)
    rendered = "".join(f"; {line}".rstrip() + "\n" for line in plan.splitlines())
    if request.config.getoption("--update-golden"):
        path.write_text(f"{source.rstrip()}\n\n{MARK}{rendered}")
    else:
        assert rendered == expected, "run pytest --update-golden and read the difference"
    check_gradient(source, case.function, case.activities, case.arguments)
