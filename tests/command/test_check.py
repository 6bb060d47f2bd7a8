"""`python -m activerules check`: a report of comparisons; errors that say what is wrong."""

import re
from pathlib import Path

import pytest

from activerules.command.main import main

HERE = Path(__file__).parent
FILE = str(HERE / "programs.py")


def check(capsys, name, *arguments):
    status = main(["check", f"{FILE}:{name}", *arguments])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_a_right_gradient(capsys):
    status, out, _ = check(capsys, "decay", "float64[::1]", "float64", "int64", "--points", "2")
    assert status == 0
    assert out.startswith("decay(x, rate, n)   ")
    assert out.count("agrees") == 8 + 1
    assert "the gradient agrees with finite differences: 8 comparisons" in out


def test_values_and_constants(capsys):
    status, out, _ = check(capsys, "decay", "Const(np.ones(4))", "0.5", "4", "--points", "1")
    assert status == 0
    assert "rate" in out
    assert "point 1   x" not in out


def test_kinds_of_arguments(capsys):
    kinds = ["Tuple((float64, float32))", "float64[::1, :]", "float64[:]", "int64[::1]"]
    status, out, _ = check(capsys, "of_many_kinds", *kinds, "complex128", "--points", "1")
    assert status == 0
    assert [out.count(f"point 1   {name} ") for name in ("pair", "columns", "which")] == [2, 2, 0]


def test_types_of_constants_and_truth_values(capsys):
    kinds = ["float64[::1]", "Const[boolean[::1]]", "boolean"]
    status, out, _ = check(capsys, "of_chosen", *kinds, "--points", "1")
    assert status == 0
    assert out.count("point 1   x ") == 2


def test_a_wrong_gradient_has_status_1(capsys):
    status, out, _ = check(capsys, "uses_wrong_rule", "float64", "float64", "--points", "1")
    assert status == 1
    assert out.count("DIFFERS") == out.count("agrees") == 2
    assert "THE GRADIENT IS WRONG\nat x = np.float64(" in out


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["plain", "float64"], "NotCompilable: `plain` is not an @njit function"),
        (["constant", "float64"], "CommandError: `constant` is not a function but float"),
        (["nothing", "float64"], "CommandError: .* has no function `nothing`"),
        (["an_array", "float64[::1]"], r"NotAFloatReturn: an_array returns float64\[::1\]"),
        (["an_integer", "float64"], "NotAFloatReturn: an_integer returns nothing that has a deriv"),
        (["untyped", "float64"], "NotCompilable: Numba cannot compile untyped"),
        (["below_one", "float64"], "CommandError: below_one raises ValueError .*: too small"),
        (["kept_by_index", "float64[::1]", "int64"], "CommandError: .* raises IndexError where"),
        (["decay", "float64[::1]"], "ArityError: the arguments are not those of decay"),
        (["decay", "float", "1.0", "2"], "CommandError: `float` is neither a type nor a value"),
        (["decay", "Const", "1.0", "2"], "CommandError: Const does not say of which type"),
        (["decay", "none", "1.0", "2"], "no random value is made for the type none"),
        (["decay", "Const(np.ones(2))", "Const(1.0)", "2"], "there is nothing to compare"),
        (["jumps", "1.0"], "finite differences do not resolve the derivative with respect to `x`"),
    ],
)
def test_what_cannot_be_checked_has_status_2(capsys, arguments, error):
    status, _, err = check(capsys, *arguments)
    assert status == 2
    assert re.search(error, err), err


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "import no_such_module_here",
            "ModuleNotFoundError: No module named 'no_such",
        ),
        ("x = 1 / 0", "ZeroDivisionError: division by zero"),
        ("def f(:", "SyntaxError: invalid syntax"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
    ],
)
def test_a_module_that_cannot_be_imported(capsys, tmp_path, text, error):
    module = tmp_path / "broken_module.py"
    module.write_text(text)
    assert main(["check", f"{module}:f", "float64"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"CommandError: {module} cannot be imported: {error}")
    assert f"at the line   {text}   {module}:1" in err


def test_a_module_with_an_error_of_this_package(capsys, tmp_path):
    module = tmp_path / "module_with_wrong_rule.py"
    module.write_text("from activerules.chainrules import rrule\nrrule(len)\n")
    assert main(["check", f"{module}:f", "float64"]) == 2
    assert capsys.readouterr().err.startswith("ArityError: rrule of len: ")


def test_counts_are_counts(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["check", f"{FILE}:decay", "--size", "-1"])
    assert ended.value.code == 2
    assert "'-1' is not a number of 0 or more" in capsys.readouterr().err
