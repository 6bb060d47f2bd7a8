"""Every error is made of fields, and `render` is the one place where they become text."""

import inspect
import pickle

import pytest

from activerules import errors

CLASSES = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, errors.ActiverulesError)
]


def spline_error():
    error = errors.NoRuleForActivity(
        "no reverse rule for spline(Const[float64[:]], Active[float64]) -> Active[float64]",
        where=[("while differentiating", "loss(Active[float64])", "examples/beam.py:31")],
        why="`s` depends on an argument marked Active.",
        instead=["add a rule:\n@reverse(spline)", 'inactive(spline, args="s")'],
        reproduce="python -m activerules explain examples/beam.py:loss",
    )
    error.add_where("at the call", "w = spline(knots, s)", "examples/beam.py:34")
    return error


def test_the_whole_text():
    assert str(spline_error()) == (
        "no reverse rule for spline(Const[float64[:]], Active[float64]) -> Active[float64]\n"
        "\n"
        "  while differentiating   loss(Active[float64])   examples/beam.py:31\n"
        "  at the call             w = spline(knots, s)    examples/beam.py:34\n"
        "\n"
        "  Why     `s` depends on an argument marked Active.\n"
        "  Either  add a rule:\n"
        "          @reverse(spline)\n"
        '  Or      inactive(spline, args="s")\n'
        "\n"
        "  Reproduce  python -m activerules explain examples/beam.py:loss\n"
        "  Help       python -m activerules help NoRuleForActivity"
    )


def test_a_long_entry_moves_no_other_place():
    error = errors.UnsupportedIR("no", where=[("while", "f(x)", "a.py:1"), ("at", 99 * "%", "b:2")])
    lines = str(error).splitlines()
    assert lines[2].index("a.py:1") < 20
    assert lines[3].endswith("%   b:2")


def test_empty_fields_leave_no_trace():
    expected = "used twice\n\n  Help  python -m activerules help TapeError"
    assert str(errors.TapeError("used twice")) == expected


def test_one_alternative_is_neither_either_nor_or():
    assert "  Instead  write it so" in str(errors.UnsupportedIR("no", instead=["write it so"]))
    assert "  Instead  write it so" in str(errors.UnsupportedIR("no", instead="write it so"))


@pytest.mark.parametrize("cls", CLASSES)
def test_every_class_has_a_help_page_and_takes_one_constant(cls):
    assert cls.__doc__
    assert str(cls("what happened")).splitlines()[0] == "what happened"


def test_fields_survive_pickling():
    error = spline_error()
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [
        (errors.ArityError, TypeError),
        (errors.ShadowMismatch, ValueError),
        (errors.UnknownOption, AttributeError),
        (errors.NotYetSupported, NotImplementedError),
        (errors.UnsupportedVersion, ImportError),
        (errors.RuleCheckError, AssertionError),
    ],
)
def test_classes_are_also_what_python_calls_them(cls, builtin):
    with pytest.raises(builtin, match="what"):
        raise cls("what")
