"""`python -m activerules explain`."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from numba import float64

from activerules.command.main import main
from activerules.command.reading import read_annotation
from activerules.errors import ShadowMismatch
from explain.functions import line_of

FILE = str(Path(__file__).parents[1] / "explain" / "functions.py")


def test_prints_the_report_of_a_file(capsys):
    assert main(["explain", f"{FILE}:halving", "Active[float64]"]) == 0
    assert f"line {line_of('unknown length')}" in capsys.readouterr().out


def test_finds_a_module(capsys):
    assert main(["explain", "explain.functions:squared", "Active[float64]"]) == 0
    assert capsys.readouterr().out.startswith("squared(v: Active[float64]) -> Active")


def test_writes_html(tmp_path):
    target = tmp_path / "report.html"
    assert main(["explain", f"{FILE}:squared", "Active[float64]", "--html", str(target)]) == 0
    written = target.read_text(encoding="utf-8")
    assert written.startswith("<!doctype html>")
    assert "<title>squared: how its derivative comes about</title>" in written
    assert not re.search(r"<script|<link|src=|href=|@import|url\(", written)  # self-contained


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py:f"], "there is no file nowhere.py"),
        (["no_such_module:f"], "there is no module no_such_module"),
        ([f"{FILE}:nothing"], "has no function `nothing`"),
        (["halving"], "`halving` names no function"),
        ([f"{FILE}:halving", "Activ[float64]"], "`Activ[float64]` is not an annotation"),
        ([f"{FILE}:halving"], "ArityError: halving cannot be called with 0 arguments"),
        ([f"{FILE}:two_arrays", "Active[float64[::1]]", "int64"], "`x` is marked Active"),
    ],
)
def test_our_errors_end_with_status_2(capsys, arguments, message):
    assert main(["explain", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_type_alone_is_const():
    assert read_annotation("float64[:, ::1]") == float64[:, ::1]


def test_prints_the_page_that_an_error_names(capsys):
    command = str(ShadowMismatch("it does not fit")).split("python -m activerules ")[1]
    assert main(command.split()) == 0
    text = capsys.readouterr().out
    assert text.startswith("ShadowMismatch: a subclass of ActiverulesError, ValueError\n")
    assert inspect.getdoc(ShadowMismatch) in text
    assert main([]) == 2
    assert "compare a gradient" in capsys.readouterr().err
    assert main(["help", "ShadowMissmatch"]) == 2
    assert "Either  python -m activerules help ShadowMismatch" in capsys.readouterr().err


def test_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "activerules", "explain", "nowhere.py:f"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("CommandError: there is no file nowhere.py")


@pytest.mark.parametrize("path", ["missing/report.html", "."])
def test_a_report_that_cannot_be_written_leaves_nothing(capsys, tmp_path, path):
    asked = ["explain", f"{FILE}:squared", "Active[float64]", "--html", str(tmp_path / path)]
    assert main(asked) == 2
    assert "cannot be written: " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
