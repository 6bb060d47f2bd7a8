"""`np.array([[a, b], [c, d]])`: no lists in the captured module, Numba's dtype and values."""

import numba
import numpy as np
import pytest
from numba import float64, njit

import activerules as ar
from activerules.numba_ext.target.capture import capture
from activerules.rules.written import function_from
from activerules.testing.gradient import check_gradient
from numba_ext.target.rule_views import NOTHING

# Each takes two floats; the names say what is special.
LITERALS = {
    "floats": lambda x, y: np.array([[x, y], [y, x * y]]),
    "ints among floats": lambda x, y: np.array([[x, 1], [0, y]]),
    "ints": lambda x, y: np.array([[1, 2], [3, 4]]),
    "equal ints": lambda x, y: np.array([[1, 1], [1, 1]]),
    "bools": lambda x, y: np.array([[True, x > y], [False, True]]),
    "bools among ints": lambda x, y: np.array([[True, 1], [2, False]]),
    "bools among floats": lambda x, y: np.array([[True, x], [y, False]]),
    "complex": lambda x, y: np.array([[1j, x], [y, 2j]]),
    "constant row": lambda x, y: np.array([[1.0, 2.0, 3.0], [x, y, x * y]]),
    "one row": lambda x, y: np.array([[x, y, 1.0]]),
    "one column": lambda x, y: np.array([[x], [y], [1.0]]),
    "three levels": lambda x, y: np.array([[[x, 1.0], [y, x]], [[0.0, y], [x, 2.0]]]),
    "rows that are tuples": lambda x, y: np.array([(x, y), (y, x)]),
    "dtype of ints": lambda x, y: np.array([[1, 2], [3, 4]], dtype=np.float64),
    "one level": lambda x, y: np.array([x, 1, y], dtype=np.float64),
    "asarray": lambda x, y: np.asarray([[x, y], [1.0, 2.0]]),
    "asarray, one level": lambda x, y: np.asarray([x, 1, y]),
    "asarray, dtype": lambda x, y: np.asarray([[x, y], [1.0, 2.0]], dtype=np.float64),
}


SINGLE = {
    "floats": lambda x, y: np.array([[x, y], [y, x * y]]),
    "ints among floats": lambda x, y: np.array([[x, 1], [0, y]]),
    "small ints among floats": lambda x, y: np.array([[x, np.int16(1)], [np.int8(0), y]]),
    "double among single": lambda x, y: np.array([[x, 1.0], [1.0, y]]),
    "dtype": lambda x, y: np.array([[x, 0.5], [y, 0.5]], dtype=np.float32),
}


@pytest.mark.parametrize(("literals", "real"), [(LITERALS, np.float64), (SINGLE, np.float32)])
def test_l2_array_literals_are_those_of_numba(literals, real):
    arguments = (numba.from_dtype(np.dtype(real)),) * 2
    compiled = [njit(literal) for literal in literals.values()]
    for name, literal in zip(literals, compiled, strict=True):
        captured = capture(literal, arguments, rules=NOTHING)
        literal.compile(arguments)
        assert captured.signature.return_type == literal.nopython_signatures[-1].return_type, name
        assert "varsize" not in captured.text, name

    @njit
    def weighed(array, x):
        total = x * x
        for i, entry in enumerate(array.flat):
            total += (i + 1) * (entry * entry).real * x
        return total + array.size * len(array)

    terms = [f"{k + 1} * weighed(literal{k}(x, y), x)" for k in range(len(compiled))]
    scope = {"weighed": weighed, **{f"literal{k}": made for k, made in enumerate(compiled)}}
    source = f"def program(x, y): return {' + '.join(terms)}"
    program = njit(function_from(source, "program", scope, module=__name__))
    check_gradient(program, (real(1.3), real(-0.7)))


def test_from_numpy_import_and_keyword():
    from numpy import array, asarray

    @njit
    def program(x):
        return array([[x, 1], [2, x]]).sum() * asarray(a=[[x, x]])[0, 1]

    check_gradient(program, (0.4,))


def test_named_rows_closures_and_reassignment():
    @njit
    def program(x, n):
        def turned(angle):
            return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])

        state = np.array([1.0, x])
        for k in range(n):
            first = [x, k]
            rows = [first, [0.5, 1.0]]
            x = x * 1.1
            state = turned(x) @ np.array(rows) @ state
            rows = [[1.0, x], [x, 2.0]]
            state = np.asarray(rows) @ state
        return state.sum()

    check_gradient(program, (0.3, 3))


def test_array_literals_with_conditional_elements():
    @njit
    def program(x, y):
        a = np.array([[x, 1.0], [y if x > y else x, max(x, y)], [2.0, x and y]])
        return a[0, 0] * a[1, 0] * a[1, 1] + a[2, 1]

    check_gradient(program, (0.3, 1.7))
    check_gradient(program, (1.7, 0.3))


def test_rows_of_different_lengths_are_refused_as_in_numba():
    ragged = njit(lambda x: np.array([[x, x], [x]]))
    rules = capture(ragged, (float64,), rules=NOTHING)
    assert rules.signature.return_type == numba.types.Array(float64, 2, "C")
    with pytest.raises(ValueError, match="incompatible sequence shape"):
        ragged(1.0)
    with pytest.raises(ValueError, match="incompatible sequence shape"):
        check_gradient(njit(lambda x: ragged(x).sum()), (1.0,))


@pytest.mark.parametrize("use", ["len", "append", "shared"])
def test_l1_lists_that_are_used_elsewhere_stay_lists(use):
    def counted(x):
        rows = [[x, 1.0], [2.0, x]]
        return np.array(rows).sum() + len(rows)

    def appended(x):
        row = [x, 1.0]
        rows = [row, [1.0, 2.0, x]]
        row.append(3.0)
        return np.array(rows).sum()

    def shared(x):
        row = [x, 1.0]
        return np.array([row, row]).sum()

    program = njit({"len": counted, "append": appended, "shared": shared}[use])
    text = capture(program, (float64,), rules=NOTHING).text
    assert "varsize" in text


def _long(*items):
    return f"[{', '.join(items[k % len(items)] for k in range(31))}]"


# Of more than 30 items CPython appends one by one.
LONG = {
    "numbers": f"np.array({_long('x * y', 'n', 'x > y', '2 * y')})",
    "many rows": f"np.array({_long('[x, 1]', '[y, x * y]')})",
    "long rows": f"np.asarray([{_long('x', '1')}, {_long('y', 'x * x')}])",
    "conditional items": f"np.array({_long('x', 'y', 'y', 'x', 'y if x > y else 2 * x')})",
    "a list": f"np.ones(2) * {_long('x', 'y')}[n]",
    "a list that grows": f"np.array(grown({_long('x', 'y')}, x))",
}


@pytest.mark.parametrize("name", LONG)
def test_l3_long_displays_are_those_of_numba(name):
    @njit
    def grown(items, x):
        items.append(x * x)
        return items

    scope = {"np": np, "grown": grown}
    source = f"def literal(x, y, n): return {LONG[name]}"
    literal = njit(function_from(source, "literal", scope, module=__name__))
    arguments = (float64, float64, numba.int64)
    captured = capture(literal, arguments, rules=NOTHING)
    literal.compile(arguments)
    assert captured.signature.return_type == literal.nopython_signatures[-1].return_type
    assert ("realloc" in captured.text) == (name in {"conditional items", "a list that grows"})

    @njit
    def program(x, y, n):
        total = 0.0
        for k, entry in enumerate(literal(x, y, n).flat):
            total += (k + 1) * (entry * entry).real * x
        return total

    check_gradient(program, (1.3, -0.7, 3), (ar.Active, ar.Active, ar.Const))


def test_l3_lists_that_the_program_builds_are_left_as_they_are():
    @njit
    def program(x):
        items = []
        try:
            items.append(x)
            if x > 1.0:
                raise ValueError
            items.append(x * x)
        except Exception:
            items.append(3.0 * x)
        return items[0] * items[1] + len(items)

    check_gradient(program, (0.5,))
    check_gradient(program, (1.5,))
