"""What the body of a `prange` loop reads, assigns and reduces, from its source alone."""

import ast
import textwrap

import pytest

from activerules.parallel_loops.names import Names, NotParallel, Reduction, read_names


def names_of(source: str) -> Names:
    """The names of the first loop over `prange` in a function."""
    function = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(function, ast.FunctionDef)
    loop = next(
        node
        for node in ast.walk(function)
        if isinstance(node, ast.For) and ast.unparse(node.iter).startswith("prange")
    )
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not is_read(n)}
    return read_names(function, loop, stored | {each.arg for each in function.args.args})


def is_read(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def test_inputs_are_variables_of_the_function_in_the_order_they_are_read():
    found = names_of("""
        def f(x, out, w):
            c = len(w)
            for i in prange(len(x)):
                t = sqrt(x[i]) * c
                out[i] = t + TABLE[0]
    """)
    assert found == Names("i", ("x", "c", "out"), ())


@pytest.mark.parametrize(
    ("update", "operation"),
    [
        ("s += x[i]", "+"),
        ("s -= x[i]", "+"),
        ("s = s + x[i]", "+"),
        ("s = x[i] + s", "+"),
        ("s = s - x[i]", "+"),
        ("s *= x[i]", "*"),
        ("s = s * x[i]", "*"),
        ("s = max(s, x[i])", "max"),
        ("s = min(x[i], s)", "min"),
    ],
)
def test_reductions_are_updates_by_one_operation(update, operation):
    found = names_of(f"""
        def f(x):
            s = 0.0
            for i in prange(len(x)):
                if x[i] > 0.0:
                    {update}
            return s
    """)
    in_place = not update.startswith("s = ")
    assert found == Names("i", ("x",), (Reduction("s", operation, in_place),))


REFUSED = {
    "s += s * x[i]": "read before",
    "s += 1.0; s *= 2.0": "read before",
    "s = x[i] - s": "read before",
    "s += 1.0; x[i] = s": "read before",
    "s = x[i]": "read after it",
    "s = max(s, x[i], 1.0)": "read before",
    "return x": "`return`",
    "g = lambda y: y": "`lambda`",
    "break": "`break`",
    "i = 3": "assigned in the loop",
}


@pytest.mark.parametrize("body", REFUSED)
def test_n1_n2_what_passes_between_iterations_or_out_of_the_loop_is_refused(body):
    with pytest.raises(NotParallel, match=REFUSED[body]) as refused:
        names_of(f"""
            def f(x):
                s = 0.0
                for i in prange(len(x)):
                    {body}
                return s
        """)
    assert refused.value.line


@pytest.mark.parametrize(
    "body",
    [
        "if x[i] > 0:\n    t = 1.0\nelse:\n    t = 2.0\nx[i] = t",
        "if x[i] > 0:\n    continue\nelse:\n    t = 2.0\nx[i] = t",
        "for j in range(3):\n    t = x[j]\n    if t > 2.0:\n        break\n    x[i] = t",
        "t = 0.0\nwhile t < x[i]:\n    t = t + 1.0\nx[i] = t",
        "t, u = x[i], x[i]\nx[i] = t * u",
        "x[i] = sum([t * t for t in range(3)])",
        "try:\n    t = 1.0\nexcept Exception:\n    t = 2.0\nx[i] = t",
    ],
)
def test_n1_what_an_iteration_assigns_before_it_reads_belongs_to_it(body):
    found = names_of(
        "def f(x):\n    t = 5.0\n    for i in prange(3):\n"
        + textwrap.indent(body, " " * 8)
        + "\n    t = 6.0\n    return t"
    )
    assert found == Names("i", ("x",), ())


@pytest.mark.parametrize(
    "body",
    [
        "if x[i] > 0:\n    t = 1.0\nx[i] = t",
        "for j in range(3):\n    t = x[j]\nx[i] = t",
        "while x[i] > 0:\n    t = 1.0\nx[i] = t",
        "try:\n    t = 1.0\nexcept Exception:\n    x[i] = 1.0\nx[i] = t",
    ],
)
def test_n1_what_an_iteration_may_have_from_before_the_loop_is_refused(body):
    source = "def f(x):\n    t = 5.0\n    for i in prange(3):\n" + textwrap.indent(body, " " * 8)
    with pytest.raises(NotParallel, match="`t` may be read before"):
        names_of(source)


def test_n2_a_read_in_the_next_run_of_an_outer_loop_is_a_read_after_the_loop():
    with pytest.raises(NotParallel, match="`t` is assigned in the loop, and read after it"):
        names_of("""
            def f(x):
                t = 0.0
                for step in range(3):
                    x[0] = t
                    for i in prange(len(x)):
                        t = x[i]
                        x[i] = t * t
        """)
