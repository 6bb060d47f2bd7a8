"""Every file of `cases/`: one idiom of some front end, whose gradient agrees with finite
differences, or which is refused.

A case begins with comments: what it is about; `arguments`, with the activity of each; and what
is expected. Memory is filled with the numbers listed, or random ones; `same as k` is the very
memory of argument k, with the same shadow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from activerules import errors
from activerules.ir.differentiate import differentiate
from tests.ir.harness import Active, Const, Duplicated, check_gradient

FILES = sorted((Path(__file__).parent / "cases").glob("*.ll"))
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


def read_case(path: Path) -> Case:
    """Raises `KeyError` for a header that lacks a line."""
    text = path.read_text()
    header = dict(re.findall(r"^; (arguments|expect|function): (.*)$", text, re.MULTILINE))
    rng = np.random.default_rng(len(text))
    activities, arguments = [], []
    for one in header["arguments"].split(", "):
        activity, value = one.split(" ", 1)
        activities.append(ACTIVITIES[activity])
        arguments.append(_argument(value, arguments, rng))
    kind = header["expect"].removeprefix("refused ")
    refused = getattr(errors, kind) if header["expect"].startswith("refused") else None
    return Case(text, header.get("function", "f"), activities, arguments, refused)


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


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("opt", [0, 2])
def test_case(path: Path, opt: int) -> None:
    case = read_case(path)
    if case.refused is None:
        check_gradient(case.text, case.function, case.activities, case.arguments, opt=opt)
        return
    with pytest.raises(case.refused) as caught:
        differentiate(case.text, case.function, case.activities)
    assert "bug of activerules" not in str(caught.value)
