"""Walks over values: whatever a value is made of, each float in it is visited once, and nothing
else is written. One value has a part of every kind; plain Python says what is to be there.
"""

from typing import NamedTuple

import numpy as np
import pytest
from numba import complex64, float64, int64, njit, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.experimental import jitclass
from numba.extending import intrinsic
from numba.typed import Dict, List

import activerules as ar
from activerules.numba_ext.codegen.protocols import Emit, doing, emitting
from activerules.values import shadows
from activerules.values.layout import EACH, layout_of
from activerules.values.walk import walk

ROW = np.dtype([("k", np.int8), ("z", np.complex128), ("w", np.float32, (2, 2))])  # not aligned


@jitclass([("n", int64), ("x", float64), ("counts", int64[:])])
class Inner:
    def __init__(self, x):
        self.n = 7
        self.x = x
        self.counts = np.arange(2)


@jitclass(
    [
        ("z", complex64),
        ("pair", types.Tuple([int64, types.Tuple([float64, float64[:, :]])])),
        ("inner", Inner.class_type.instance_type),
        ("items", types.ListType(types.Tuple([types.unicode_type, float64[::1]]))),
    ]
)
class Outer:
    def __init__(self, z, pair, inner, items):
        self.z = z
        self.pair = pair
        self.inner = inner
        self.items = items


def of(numbers, order="ab"):
    """A value with these 21 numbers in it, wherever a number can be."""
    x = iter(numbers)

    def several(*shape):
        return np.array([next(x) for _ in range(np.prod(shape))]).reshape(shape)

    strided = np.zeros((4, 3))[::-2, 1:]
    strided[...] = several(2, 2)
    z, pair, inner = complex(next(x), next(x)), (3, (next(x), strided)), Inner(next(x))
    outer = Outer(z, pair, inner, List([("first", several(1)), ("second", several(2))]))
    rows = np.zeros(1, ROW)
    rows["k"], rows["z"], rows["w"] = 5, complex(next(x), next(x)), several(1, 2, 2)
    values = {key: (next(x), 2) for key in "ab"}
    by_key = Dict()
    for key in order:
        by_key[key] = values[key]
    return outer, rows, by_key, np.asfortranarray(several(1, 2)), "text", np.arange(3)


def read(value):
    """The numbers in such a value, in the order of `of`."""
    outer, rows, by_key, last, _, _ = value
    return np.concatenate(
        [
            outer.pair[1][1].ravel(),
            [outer.z.real, outer.z.imag, outer.pair[1][0], outer.inner.x],
            *(one for _, one in outer.items),
            [rows["z"][0].real, rows["z"][0].imag],
            rows["w"].ravel(),
            [by_key["a"][0], by_key["b"][0]],
            last.ravel(),
        ]
    )


def rest(value):
    """All that is no number, as it has to stay."""
    outer, rows, by_key, _, text, counts = value
    return [
        [outer.pair[0], outer.inner.n, *outer.inner.counts],
        [name for name, _ in outer.items],
        [int(rows["k"][0]), sorted(by_key), [k for _, k in by_key.values()]],
        [text, *counts],
    ]


def changing(change, *names):
    """A compiled function of two values, from one of `shadows`; or of one, where it takes one."""

    @intrinsic
    def emitted(typing_context, x, y):
        return types.none(x, y), doing(lambda em, args: change(em, x, *args[: len(names)]))

    return emitted


clear = changing(shadows.clear_shadow, "shadow")
give = changing(shadows.give, "fixed", "other")
add = changing(shadows.add, "fixed", "other")


@intrinsic
def copied(typing_context, x):
    def emit(em, args):
        made = shadows.copy_of_shadow(em, x, args[0])
        shadows.own_constants(em, x, made)
        return made

    return x(x), emitting(emit)


@njit
def run(which, x, y):
    if which == 0:
        clear(x, y)
    elif which == 1:
        give(x, y)
    elif which == 2:
        add(x, y)
    return copied(x)


A, B = np.arange(1.0, 22.0), np.arange(21.0) * 8.0 - 40.0
AFTER = [
    ("clear", 0 * A, B),
    ("give", A, A),
    ("add", A, A + B),
    ("nothing", A, B),
]


@pytest.mark.parametrize("which", range(len(AFTER)), ids=[name for name, _, _ in AFTER])
def test_w3_shadows_f1_every_float_is_visited_once_and_nothing_else_is_written(which, unfreed):
    _, first, second = AFTER[which]

    def action():
        x, y = of(A), of(B, order="ba")
        constants = rest(x)
        copy = run(which, x, y)
        np.testing.assert_array_equal(read(x), first)
        np.testing.assert_array_equal(read(y), second)
        np.testing.assert_array_equal(read(copy), first)
        assert rest(x) == rest(y) == constants == rest(of(A))
        assert copy[1]["k"][0] == 0  # new memory is of zeros; an object has its integers
        copy[1]["k"] = 5
        assert rest(copy) == constants
        for one, other in zip(copy[:4], x[:4], strict=True):
            assert one is not other
        copy[0].items[0][1][0] = copy[0].pair[1][1][0, 0] = copy[3][0, 0] = 99.0
        np.testing.assert_array_equal(read(x), first)

    assert unfreed(action) == 0


def test_w2_shadows_f2_a_dictionary_of_other_keys_is_left_alone():
    """Where its values belong nobody knows: it has no items for the walk."""
    x, y = of(A), of(B)
    y[2]["c"] = y[2].pop("a")
    with pytest.raises(MemoryError, match="keys of a dictionary"):
        run(2, x, y)
    assert [number for number, _ in y[2].values()] == [B[18], B[17]]


@intrinsic
def items_visited(typing_context, x, y):
    """How many items a walk over two lists or dictionaries visits."""

    def codegen(context, builder, typed, args):
        count = cgutils.alloca_once_value(builder, cgutils.intp_t(0))
        for visit in walk(Emit(context, builder), layout_of(x), args):
            if visit.path == (EACH,):
                builder.store(builder.add(builder.load(count), cgutils.intp_t(1)), count)
        return builder.load(count)

    return types.intp(x, y), codegen


@njit
def visits(x, y):
    return items_visited(x, y)


def test_w2_lists_of_other_lengths_and_dictionaries_of_other_keys_have_no_items():
    one, two, three = List([1.0]), List([2.0, 3.0]), List([4.0, 5.0])
    assert [visits(two, three), visits(two, one), visits(one, two)] == [2, 0, 0]
    x, y = of(A)[2], of(B)[2]
    assert visits(x, y) == 2
    y["c"] = y.pop("a")
    assert visits(x, y) == 0


@pytest.mark.parametrize("inside_first", [False, True])
def test_w1_a_node_is_visited_before_its_parts_or_after_them(inside_first):
    paths, inside_loops = [], []

    @intrinsic
    def visited(typing_context, x):
        def codegen(context, builder, typed, args):
            start = builder.block
            em = Emit(context, builder)
            for visit in walk(em, layout_of(x), args, inside_first=inside_first):
                paths.append(visit.path)
                inside_loops.append((EACH in visit.path, builder.block is not start))
            return context.get_dummy_value()

        return types.none(x), codegen

    njit(lambda x: visited(x))(of(A))
    at = {path: k for k, path in enumerate(paths)}
    assert len(at) == len(paths) > 20
    assert all((at[path[:-1]] < at[path]) is not inside_first for path in paths if path)
    assert all(is_elsewhere for in_loop, is_elsewhere in inside_loops if in_loop)


@jitclass([("x", float64), ("w", float64[:]), ("inner", Inner.class_type.instance_type)])
class Unset:
    def __init__(self, x):
        self.x = x


def test_w4_a_field_that_is_not_set_is_memory_of_zeros():
    x, y = Unset(2.0), Unset(3.0)
    run(2, x, y)
    assert (x.x, y.x) == (2.0, 5.0)
    run(0, x, y)
    assert (x.x, x.w.size) == (0.0, 0)


@njit
def added(x, y):
    return ar.tree_add(x, y)


@pytest.mark.parametrize("call", [ar.tree_add, added])
def test_tree_add_is_a_new_value_with_the_sums(call, unfreed):
    def action():
        x, y = of(A), of(B, order="ba")
        result = call(x, y)
        np.testing.assert_array_equal(read(result), A + B)
        np.testing.assert_array_equal(np.concatenate([read(x), read(y)]), np.concatenate([A, B]))
        result[1]["k"] = 5  # new memory is of zeros; an object has its integers
        assert rest(result) == rest(x) == rest(y)
        assert result[0].pair[1][1].strides == x[0].pair[1][1].strides

    assert unfreed(action) == 0


def test_tree_add_of_records_and_numbers():
    rows = of(A)[1], of(B)[1]
    assert ar.tree_add(rows[0][0], rows[1][0])["z"] == rows[0]["z"][0] + rows[1]["z"][0]
    named = ar.tree_add(Row(1.5, 2), Row(2.0, 3))
    assert (type(named), named) == (Row, (3.5, 2))
    assert ar.tree_add(np.arange(2), np.ones(2, int)).tolist() == [0, 1]


class Row(NamedTuple):
    x: float
    k: int


def other_shape(outer, rows, by_key, *rest):
    outer.pair = (3, (1.0, np.zeros((4, 3))[::-2, :1]))


def other_item(outer, rows, by_key, *rest):
    outer.items[1] = ("second", np.zeros(3))


def other_length(outer, rows, by_key, *rest):
    outer.items.append(("third", np.zeros(2)))


def other_keys(outer, rows, by_key, *rest):
    by_key["c"] = by_key["a"]


DIFFERENCES = [
    (other_shape, r"`x.pair\[1\]\[1\]` has a different shape"),
    (other_item, r"`x.items\[…\]\[1\]` has a different shape"),
    (other_length, r"`x.items` has a different length"),
    (other_keys, "a dictionary has different keys"),
]


@pytest.mark.parametrize(("action", "text"), DIFFERENCES)
def test_shadows_f2_tree_add_names_the_part_that_differs(action, text, unfreed):
    x, y = of(A), of(B)
    action(*y)

    def attempt():
        with pytest.raises(ar.ShadowMismatch, match=text):
            ar.tree_add(x, y)

    assert unfreed(attempt) == 0
    with pytest.raises(ar.ShadowMismatch, match=text):
        added(x, y)


@pytest.mark.parametrize(
    ("x", "y", "text"),
    [
        (1.0, 1, "`x` is float, in the other value int"),
        (1.0, 1j, "`x` is float, in the other value complex"),
        ((1.0, (2.0,)), (1.0, (2.0, 3.0)), r"`x\[1\]` has 1 items, in the other value 2"),
        ((np.ones(2),), (np.ones(3),), r"`x\[0\]` has shape \(2,\), in the other value \(3,\)"),
        (np.ones(2), np.ones(2, np.float32), "`x` is of float64, in the other value float32"),
        (List([1.0]), List([1j]), "`x` is ListType"),
    ],
)
def test_tree_add_of_two_types_is_an_error(x, y, text):
    with pytest.raises(ar.ShadowMismatch, match=text):
        ar.tree_add(x, y)


def test_what_has_no_shadow_of_its_own_is_refused():
    with pytest.raises(ar.ActivityError, match="a list of Python has no shadow"):
        ar.tree_add([1.0], [1.0])

    @njit
    def perhaps(x):
        given = x if x.size else None
        return ar.make_zero(given)

    for call, text in [
        (lambda: added(of(A)[1][0], of(B)[1][0]), "tree_add takes no Record"),
        (lambda: added(1.0, (1.0,)), "two values of one structure"),
        (lambda: perhaps(A), "OptionalType.* has no shadow of its own"),
        (lambda: njit(lambda x: ar.make_zero(x))(of(A)[1][0]), "Record.* has no shadow of its own"),
    ]:
        with pytest.raises(TypingError, match=text):
            call()
