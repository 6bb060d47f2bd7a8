"""What `rules_for` returns: a line per rule, a table in notebooks, and rules that pickle."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from activerules.annotations.activity import Active, Const
from activerules.rules import inactive  # noqa: F401  the package is loaded by its first rule
from activerules.rules.define import augmented_primal, reverse, rules_for
from activerules.rules.protocol import AugmentedReturn


def spline(x, k):
    return x**k


@augmented_primal(spline)
def _(config, ret: Active, x: Active, k: Const):
    return AugmentedReturn(spline(x.val, k.val), None, None)


@reverse(spline)
def _(config, dret: Active, tape, x: Active, k: Const):
    return (dret.val,)


def test_prints_a_line_per_rule():
    written = "spline(x: Active, k: Const) -> Active"
    (rule,) = found = rules_for(spline)
    assert str(found) == f"{written}   augmented_primal, reverse   {rule.location}"
    assert repr(found) == f"(<{written}: augmented_primal, reverse at {rule.location}>,)"
    assert str(rules_for(len)) == "no rules"


def test_a_notebook_shows_a_table_of_escaped_text():
    html = rules_for(spline)._repr_html_()
    assert '<td style="text-align: left">spline(x: Active, k: Const) -&gt; Active</td>' in html
    assert html.count("<tr>") == html.count("</tr>") == 2
    assert rules_for(len)._repr_html_() == "<p>no rules</p>"


@pytest.mark.parametrize("function", [spline, np.linalg.solve, np.dot])
def test_rules_pickle_by_reference(function):
    again = pickle.loads(pickle.dumps(rules_for(function)))
    assert again
    assert all(one is other for one, other in zip(again, rules_for(function), strict=True))


def test_a_rule_of_the_library_is_found_in_another_process():
    stored = pickle.dumps(rules_for(np.linalg.inv))
    program = f"import pickle; print(pickle.loads({stored!r}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == str(rules_for(np.linalg.inv)), done.stderr


def test_a_rule_that_is_not_there_is_an_error():
    stored = pickle.dumps(rules_for(spline)).replace(b"k: Const", b"k: Comst")
    with pytest.raises(pickle.UnpicklingError, match="there is no rule spline"):
        pickle.loads(stored)
