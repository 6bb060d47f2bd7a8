"""Every file of `cases/`: one idiom of some front end, whose gradient agrees with finite
differences, or which is refused.

A case begins with comments: what it is about; `arguments`, with the activity of each; and what
is expected; `inlined: gradient` for a call that has no derivative, when its code has one. Memory is
filled with the numbers listed, or random ones; `same as k` is the very memory of argument k, with
the same shadow.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from activerules import errors
from activerules.ir.foreign.differentiate import differentiate
from tests.ir.harness import Active, Const, Duplicated, check_gradient

module = sys.modules[differentiate.__module__]
FILES = sorted((Path(__file__).parent / "cases").glob("*.ll"))
REFUSED = [path for path in FILES if "\n; expect: refused " in path.read_text()]
COMPUTED = [p for p in FILES if p not in REFUSED or "\n; inlined: gradient" in p.read_text()]
DTYPES = {"double": "f8", "float": "f4", "i64": "i8", "i32": "i4"}
ACTIVITIES = {"Active": Active, "Const": Const, "Duplicated": Duplicated}


@dataclass(frozen=True)
class Case:
    """A file, read."""

    text: str
    function: str
    activities: list[type]
    arguments: list[Any]
    refused: type[Exception] | None
    inlined: bool


def read_case(path: Path) -> Case:
    """Raises `KeyError` for a header that lacks a line."""
    text = path.read_text()
    header = dict(re.findall(r"^; (arguments|expect|function|inlined): (.*)$", text, re.MULTILINE))
    rng = np.random.default_rng(len(text))
    activities, arguments = [], []
    for one in header["arguments"].split(", "):
        activity, value = one.split(" ", 1)
        activities.append(ACTIVITIES[activity])
        arguments.append(_argument(value, arguments, rng))
    kind = header["expect"].removeprefix("refused ")
    refused = getattr(errors, kind) if header["expect"].startswith("refused") else None
    inlined = header.get("inlined") == "gradient"
    return Case(text, header.get("function", "f"), activities, arguments, refused, inlined)


def _argument(value: str, before: list[Any], rng: np.random.Generator) -> Any:
    if value.startswith("same as "):
        return before[int(value.removeprefix("same as "))]
    memory = re.fullmatch(r"(double|float|i64|i32)\[(\d+)\](.*)", value)
    if memory:
        numbers = [float(one) for one in memory[3].split()]
        drawn = numbers if numbers else rng.normal(size=int(memory[2]))
        assert len(drawn) == int(memory[2])
        return np.array(drawn).astype(DTYPES[memory[1]])
    kind, number = value.split(" ")
    return float(number) if kind in {"double", "float"} else int(number)


@pytest.mark.parametrize("path", COMPUTED, ids=lambda path: path.stem)
@pytest.mark.parametrize("opt", [0, 2])
def test_case(path: Path, opt: int) -> None:
    case = read_case(path)
    check_gradient(case.text, case.function, case.activities, case.arguments, opt=opt)


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_refusal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = read_case(path)
    assert case.refused is not None
    if case.inlined:
        monkeypatch.setattr(module, "_MAY_BE_INLINED", ())
    with pytest.raises(case.refused) as caught:
        differentiate(case.text, case.function, case.activities)
    assert "bug of activerules" not in str(caught.value)
