"""Walks over values: whatever a value is made of, each float in it is visited once, and nothing
else is written. One value has a part of every kind; plain Python says what is to be there.
"""

import numpy as np
import pytest
from numba import complex64, float64, int64, njit, types
from numba.experimental import jitclass
from numba.extending import intrinsic
from numba.typed import Dict, List

from activerules.values import shadows

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
        def codegen(context, builder, typed, args):
            change(context, builder, x, *args[: len(names)])
            return context.get_dummy_value()

        return types.none(x, y), codegen

    return emitted


clear = changing(shadows.clear_shadow, "shadow")
give = changing(shadows.give, "fixed", "other")
add = changing(shadows.add, "fixed", "other")


@intrinsic
def copied(typing_context, x):
    def codegen(context, builder, typed, args):
        made = shadows.copy_of_shadow(context, builder, x, args[0])
        shadows.own_constants(context, builder, x, made)
        return made

    return x(x), codegen


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
def test_every_float_is_visited_once_and_nothing_else_is_written(which, unfreed):
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


def test_a_dictionary_of_other_keys_is_left_alone():
    """Where its values belong nobody knows: it has no items for the walk."""
    x, y = of(A), of(B)
    y[2]["c"] = y[2].pop("a")
    with pytest.raises(MemoryError, match="keys of a dictionary"):
        run(2, x, y)
    assert [number for number, _ in y[2].values()] == [B[18], B[17]]
