"""`python -m activerules explain`."""

import subprocess
import sys
from pathlib import Path

import pytest
from numba import float64

from activerules import help as pages
from activerules.errors import ShadowMismatch
from activerules.explain.command import main, read_annotation
from explain.functions import line_of

FILE = str(Path(__file__).with_name("functions.py"))


def test_prints_the_report_of_a_file(capsys):
    assert main(["explain", f"{FILE}:halving", "Active[float64]"]) == 0
    assert f"line {line_of('unknown length')}" in capsys.readouterr().out


def test_finds_a_module(capsys):
    assert main(["explain", "explain.functions:squared", "Active[float64]"]) == 0
    assert capsys.readouterr().out.startswith("squared(v: Active[float64]) -> Active")


def test_writes_html(tmp_path):
    target = tmp_path / "report.html"
    assert main(["explain", f"{FILE}:squared", "Active[float64]", "--html", str(target)]) == 0
    assert target.read_text(encoding="utf-8").startswith("<div>")


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
def test_our_errors_end_with_code_1(capsys, arguments, message):
    assert main(["explain", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_type_alone_is_const():
    assert read_annotation("float64[:, ::1]") == float64[:, ::1]


@pytest.mark.parametrize("run", [main, pages.main])
def test_prints_the_page_that_an_error_names(capsys, run):
    command = str(ShadowMismatch("it does not fit")).split("python -m activerules ")[1]
    assert run(command.split()) == 0
    text = capsys.readouterr().out
    assert text.startswith("ShadowMismatch: a subclass of ActiverulesError, ValueError\n")
    assert "`make_zero(x)` makes a shadow that fits" in text
    assert run(["help", "ShadowMissmatch"]) == 1
    assert "Either  python -m activerules help ShadowMismatch" in capsys.readouterr().err


def test_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "activerules", "explain", "nowhere.py:f"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("ActiverulesError: there is no file nowhere.py")
