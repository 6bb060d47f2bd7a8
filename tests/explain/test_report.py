"""Reports: each fact of a derivative stands at the line of source it is about."""

import importlib
import io
import os
import pickle
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from numba import float64, int64, njit, typeof

import activerules as ar
from explain import functions
from explain.functions import line_of

VECTOR, MATRIX = float64[::1], float64[:, ::1]


@pytest.fixture(scope="module")
def decay():
    return ar.explain(functions.decay, ar.Duplicated[VECTOR], ar.Active[float64], int64)


@pytest.fixture(scope="module")
def halving():
    return ar.explain(functions.halving, ar.Active[float64])


@pytest.fixture(scope="module")
def linear():
    return ar.explain(functions.linear, ar.Const[MATRIX], ar.Duplicated[VECTOR])


def at(records, comment):
    return [r for r in records if r.location.line == line_of(comment)]


def test_types_and_values_ask_the_same(decay):
    x = np.ones(2)
    same = ar.explain(functions.decay, ar.Duplicated(x, x * 0), ar.Active(1.0), 2)
    assert (same.signature, same.cached) == (decay.signature, decay.cached)


def test_signature(decay):
    assert decay.function == "decay"
    arguments = "x: Duplicated[float64[::1]], w: Active[float64], n: Const[int64]"
    assert decay.signature == f"({arguments}) -> Active"


@pytest.mark.parametrize("comment", ["expensive", "overwritten", "in the callee"])
def test_active_lines(decay, comment):
    (line,) = at(decay.lines, comment)
    assert line.is_active


@pytest.mark.parametrize("comment", ["the loop", "inactive"])
def test_inactive_lines(decay, comment):
    (line,) = at(decay.lines, comment)
    assert not line.is_active
    assert line.location.text.endswith(f"# {comment}")


def test_lines_hold_the_whole_function_in_order(decay):
    texts = [line.location.text.strip() for line in decay.lines]
    assert texts.index("@njit") < texts.index("def decay(x, w, n):") < texts.index("return s + t")


def test_a_store_that_is_undone_is_counted(decay):
    (line,) = at(decay.lines, "overwritten")
    assert line.writes == 1


def test_expensive_result_is_kept(decay):
    (kept,) = [k for k in at(decay.cached, "expensive") if "exp" in k.what]
    assert (kept.bytes, kept.loop.line) == (8, line_of("the loop"))
    assert kept.reason == "exp is expensive to compute again"


def test_overwritten_value_is_kept_and_says_where(decay):
    (kept,) = [k for k in decay.cached if k.what == "a value of `x`"]
    assert kept.reason.endswith(f"overwritten at line {line_of('overwritten')}")


def test_every_kept_value_has_a_location():
    """LLVM gives no line to the place where the returns of a function meet."""
    report = ar.explain(functions.choose, ar.Active[float64], int64)
    assert any(k.what == "which branch was taken" for k in report.cached)
    assert all(k.location.line for k in report.cached)


def test_addresses_of_arrays_have_no_names_of_numba():
    kept = ar.explain(functions.weighted, ar.Duplicated[VECTOR], ar.Duplicated[VECTOR]).cached
    (address,) = (k for k in kept if k.what.startswith("the address of the array made at line"))
    assert address.reason == "the memory is allocated once"
    assert not any("NRT" in k.what + k.reason for k in kept)


def test_lines_of_callees_come_last(decay):
    (line,) = [line for line in decay.lines if line.called]
    assert line.location.line == line_of("in the callee")
    assert line is decay.lines[-1]


def test_known_length(decay):
    (loop,) = decay.loops
    assert (loop.location.line, loop.known, loop.undone) == (line_of("the loop"), True, True)
    assert loop.row_bytes == sum(k.bytes for k in decay.cached if k.loop is not None)


def test_unknown_length_is_kept(halving):
    (loop,) = halving.loops
    assert (loop.location.line, loop.known) == (line_of("unknown length"), False)
    (kept,) = [k for k in halving.cached if k.what == "how often the loop ran"]
    assert kept.loop is None


def test_rule_with_its_activities(linear):
    (call,) = at(linear.rules, "with a rule")
    assert call.name == "operator.matmul"
    assert call.activities == ("Const", "Duplicated")
    assert "linalg.py" in call.rule


def test_call_without_active_data_needs_no_rule(linear):
    (call,) = at(linear.rules, "no rule needed")
    assert call.rule is None
    assert call.reason == "nothing active goes in and comes out"


def test_rule_makes_the_line_active(linear):
    (line,) = at(linear.lines, "with a rule")
    assert line.is_active


def test_overlap_version():
    report = ar.explain(functions.two_arrays, ar.Duplicated[VECTOR], ar.Duplicated[VECTOR])
    assert report.overlap.startswith("is checked at every call")


def test_stages_have_times(decay):
    assert {"capture", "plan", "derive"} <= set(decay.stages)
    assert all(seconds >= 0 for seconds in decay.stages.values())


def test_rules_have_a_time_of_their_own(linear):
    assert linear.stages["rules"] > 0.0
    assert linear.stages["plan"] >= 0.0


def test_array_expressions_are_on_their_lines():
    report = ar.explain(functions.expressions, ar.Duplicated[VECTOR], int64)
    assert not [line for line in report.lines if line.called]
    (first,), (second,) = (at(report.lines, c) for c in ("an array expression", "another one"))
    assert first.is_active
    assert second.is_active


def test_equal_rows_are_one(decay):
    (kept,) = [k for k in decay.cached if k.what == "the result of exp"]
    report = replace(decay, cached=(kept,) * 27, rules=(), loops=decay.loops * 3)
    assert str(report).count("the result of exp, 27 times") == 1
    assert str(report).count("the result of exp") == 1
    assert str(report).count("depth 1, 3 times") == 1
    assert "the result of exp, 27 times" in report._repr_html_()


def test_text_names_every_section(linear):
    text = str(linear)
    for part in ("linear(A: Const", "activity", "loops", "kept on the tape", "calls with rules",
                 "computed again", "overlap", "stages"):  # fmt: skip
        assert part in text


def test_what_was_tried_in_place_of_what_was_refused():
    array = float64[::1]
    report = ar.explain(functions.starts_from, ar.Const[array], ar.Duplicated[array], int64)
    ((tried, refused),) = report.fallbacks
    assert tried == "a scratch shadow for `x0`"
    assert refused
    assert "refused at first, then done differently" in str(report)
    assert tried in str(report)


def test_report_can_be_kept(decay):
    assert pickle.loads(pickle.dumps(decay)) == decay


class Balance(HTMLParser):
    """Counts open tags."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_is_balanced_and_escaped(halving):
    html = halving._repr_html_()
    parser = Balance()
    parser.feed(html)
    assert not parser.open
    assert "while x &gt; 1.0" in html


def test_error_says_how_to_ask_again():
    with pytest.raises(ar.NotAFloatReturn) as caught:
        ar.explain(functions.two_arrays, ar.Duplicated[VECTOR], VECTOR, return_activity=ar.Active)
    assert caught.value.reproduce.endswith(
        'functions.py:two_arrays "Duplicated[float64[::1]]" "Const[float64[::1]]" --return Active'
    )


def test_errors_of_derivatives_say_how_to_ask_again():
    x = np.ones(2)
    with pytest.raises(ar.NotAFloatReturn) as caught:
        ar.autodiff(ar.Reverse, functions.two_arrays, ar.Active, ar.Duplicated(x, 0.0 * x), x)
    assert caught.value.reproduce.endswith(
        'functions.py:two_arrays "Duplicated[float64[::1]]" "Const[float64[::1]]" --return Active'
    )
    command = caught.value.reproduce.replace("python", sys.executable, 1)
    here = {**os.environ, "PYTHONPATH": str(Path(ar.__file__).parents[1])}
    run = subprocess.run(shlex.split(command), env=here, capture_output=True, text=True)
    assert run.stderr.startswith("NotAFloatReturn: two_arrays returns")
    with pytest.raises(ar.NotAFloatReturn) as caught:
        ar.grad(lambda x: 2.0 * x)(x)
    assert not caught.value.reproduce


def test_a_file_in_a_folder_with_a_space_is_one_word_of_the_command(tmp_path, monkeypatch):
    folder = tmp_path / "my models"
    folder.mkdir()
    file = folder / "spaced_model.py"
    file.write_text("import numba\n\n\n@numba.njit\ndef twice(x):\n    return 2.0 * x\n")
    monkeypatch.syspath_prepend(folder)
    twice = importlib.import_module("spaced_model").twice
    with pytest.raises(ar.NotAFloatReturn) as caught:
        ar.grad(twice)(np.ones(2))
    assert shlex.split(caught.value.reproduce)[4] == f"{file}:twice"


@pytest.mark.parametrize("options", [{}, {"return_activity": ar.Duplicated}])
def test_arrays_that_are_returned_carry_derivatives(options):
    report = ar.explain(functions.products, ar.Duplicated[VECTOR], ar.Active[float64], **options)
    assert report.signature.endswith("-> Duplicated")
    (line,) = at(report.lines, "each a result")
    assert line.values > 0


def test_arrays_that_are_returned_beside_those_written_are_those_of_split_mode():
    arguments = ar.Duplicated[VECTOR], ar.Active[float64]
    (line,) = at(ar.explain(functions.scaled_and_returned, *arguments).lines, "returned")
    assert line.values == 0
    split = ar.explain(functions.scaled_and_returned, *arguments, mode=ar.ReverseSplitNoPrimal)
    (line,) = at(split.lines, "returned")
    assert line.values > 0


def test_results_do_not_carry_derivatives_of_constants():
    report = ar.explain(functions.products, ar.Const[VECTOR], float64)
    assert report.signature.endswith("-> Const")


def test_the_activity_of_the_result_may_come_first(halving):
    assert (
        ar.explain(functions.halving, ar.Active, ar.Active[float64]).signature == halving.signature
    )
    const = ar.explain(functions.halving, ar.Const, ar.Active[float64])
    assert const.signature.endswith("-> Const")


def test_annotation_without_type_is_refused():
    with pytest.raises(ar.ActivityError, match="`x` is marked Active without a type"):
        ar.explain(functions.halving, ar.Active)


@pytest.mark.parametrize("written", [float, np.float64])
def test_annotation_with_a_type_as_rules_write_it(halving, written):
    same = ar.explain(functions.halving, ar.Active[written])
    assert same.signature == halving.signature


def test_annotation_with_a_class_of_types_is_refused():
    with pytest.raises(ar.ActivityError, match="`x` is marked Duplicated without a type"):
        ar.explain(functions.halving, ar.Duplicated[np.ndarray])


def test_a_value_without_numba_type_is_refused():
    with pytest.raises(ar.ActivityError, match="`x` has no Numba type: object"):
        ar.explain(functions.halving, ar.Const(object()))


def test_a_line_says_what_it_leaves_on_the_tape_and_what_it_costs(decay):
    (line,) = at(decay.lines, "expensive")
    assert line.tape == sum(k.bytes for k in decay.cached if k.location == line.location) > 0
    assert line.depth == 1
    (inactive,) = at(decay.lines, "inactive")
    assert (inactive.tape, inactive.depth) == (0, 0)
    assert line.work > 20 > inactive.work  # exp, next to an operation


def test_the_source_is_a_heat_map(decay):
    rows = {
        int(number): row
        for row in decay._repr_html_().split("<tr")
        if (number := row.partition('<td class="number">')[2].partition("<")[0]).isdigit()
    }
    heat = {
        comment: re.findall(r"--heat: ([0-9.]+)", rows[line_of(comment)])
        for comment in ("expensive", "inactive")
    }
    assert [float(x) > 0.3 for x in heat["expensive"]] == [True, True]  # tape and work
    assert heat["inactive"] == [] or float(heat["inactive"][0]) < float(heat["expensive"][1])
    assert rows[line_of("expensive")].startswith(' class="active"')
    assert rows[line_of("inactive")].startswith(' class="idle"')


def test_stages_are_a_bar(decay):
    html = decay._repr_html_()
    bar = html.partition('<div class="bar">')[2].partition("</div>")[0]
    assert bar.count("<i ") == len(decay.stages)
    assert f'title="plan {1e3 * decay.stages["plan"]:.1f} ms"' in bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_colours_and_nothing_else_does(decay, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    decay.show(terminal)
    coloured = terminal.getvalue()
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == str(decay) + "\n"


def test_what_is_no_terminal_gets_plain_text(decay):
    file = io.StringIO()
    decay.show(file)
    assert file.getvalue() == str(decay) + "\n"
    assert repr(decay) == str(decay)


@pytest.mark.parametrize("with_value", [False, True])
@pytest.mark.parametrize(("argnums", "marked"), [(0, {0}), ("w", {1}), ((0, 1), {0, 1}), (-1, {2})])
def test_gradient_is_explained_as_its_function(with_value, argnums, marked):
    """Arguments that are not annotated are those of the gradient."""

    @njit
    def total(x, w, p):
        return np.sum(np.sin(w * x)) * p[0] + np.sum(p[1])

    gradient = (ar.value_and_grad if with_value else ar.grad)(total, argnums)
    values = (np.ones(3), 2.0, (1.5, np.ones(2)))
    plain = [VECTOR, float64, typeof(values[2])]
    kinds = [ar.Duplicated, ar.Active, ar.MixedDuplicated]
    annotated = [kinds[k][t] if k in marked else t for k, t in enumerate(plain)]
    expected = ar.explain(total, *annotated)
    for arguments in (values, plain):
        report = ar.explain(gradient, *arguments)
        assert (report.function, report.signature) == ("total", expected.signature)
        assert report.lines == expected.lines


def test_gradient_of_a_dictionary_is_explained():
    @njit
    def total(p):
        return p.a * np.sum(p.b)

    report = ar.explain(ar.grad(total), {"a": 2.0, "b": np.ones(2)})
    assert "MixedDuplicated" in report.signature


def test_second_derivative_is_explained():
    """With annotations, the gradient itself is the function that is differentiated."""
    report = ar.explain(ar.grad(functions.halving), ar.Active[float64])
    assert report.function == "grad_halving"


def test_gradient_with_respect_to_an_integer_is_refused():
    with pytest.raises(ar.ActivityError, match="int64"):
        ar.explain(ar.grad(functions.choose, argnums=1), float64, int64)


def test_a_report_says_that_nothing_is_active():
    text = str(ar.explain(functions.halving, float64))
    assert "no line carries derivatives" in text
    assert "Active(x)" in text
    assert "no line carries" not in str(ar.explain(functions.halving, ar.Active[float64]))
