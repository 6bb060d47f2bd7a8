"""One answer to "which activity can a value of this type have", and whom it binds.

The table has every kind of type that programs pass around; each function that asks about activity
is asked about all of it.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pytest
from numba import complex64, complex128, float32, float64, int64, njit, typeof, types
from numba.experimental import jitclass, structref

from activerules.annotations.activity import BY_NAME
from activerules.numba_ext.rules import results
from activerules.rules import choose
from activerules.values import kinds, layout
from activerules.values.layout import fold, layout_of, pairs, show, show_in


class Colour(IntEnum):
    RED = 1


class Point(NamedTuple):
    x: float
    n: int


@structref.register
class Pair(types.StructRef):
    pass


@jitclass([("w", float64[:]), ("n", int64)])
class Weights:
    def __init__(self, w):
        self.w = w
        self.n = 0


weights = Weights.class_type.instance_type


@jitclass([("inner", weights), ("places", types.UniTuple(types.ListType(weights), 2))])
class Nest:
    def __init__(self, inner, places):
        self.inner = inner
        self.places = places


@jitclass([("n", int64), ("k", int64[:])])
class Counts:
    def __init__(self, k):
        self.n = 0
        self.k = k


@jitclass([("n", int64), ("x", types.Optional(float64))])
class Perhaps:
    def __init__(self):
        self.n = 0
        self.x = None


@njit
def function(x):
    return x


def of_records(**named):
    return typeof(np.zeros(1, np.dtype(list(named.items()))))


mixed_records = of_records(a="f8", k="i8")
plain_records = of_records(k="i8", text="U3")
nested_records = of_records(v=("f8", 3), inner=np.dtype([("z", "c8")]))
unknown_records = of_records(a="f8", half="f2")
nest = Nest.class_type.instance_type
counts = Counts.class_type.instance_type
perhaps = Perhaps.class_type.instance_type
List, Dict, Optional, Tuple = types.ListType, types.DictType, types.Optional, types.Tuple
UniTuple, text = types.UniTuple, types.unicode_type

# type, activity as an argument, whether there may be numbers anywhere, whether it is a container,
# the first part of which nothing is known
TABLE = [
    (float64, "active", True, False, None),
    (float32, "active", True, False, None),
    (types.float16, "active", True, False, ""),
    (complex128, "active", True, False, None),
    (complex64, "active", True, False, None),
    (int64, "const", False, False, None),
    (types.boolean, "const", False, False, None),
    (types.none, "const", False, False, None),
    (text, "const", False, False, None),
    (types.Bytes(types.uint8, 1, "C"), "const", False, False, ""),
    (typeof(Colour.RED), "const", False, False, None),
    (types.slice2_type, "const", False, False, None),
    (types.NPDatetime("D"), "const", False, False, None),
    (types.literal(3), "const", False, False, None),
    (types.Omitted(2.0), "const", False, False, ""),
    (types.RangeType(int64), "const", False, False, ""),
    (typeof(function), "const", False, False, None),
    (types.FunctionType(float64(float64)), "const", False, True, ""),
    (typeof(np.random.default_rng()), "const", False, True, ""),
    (float64[:], "duplicated", True, False, None),
    (complex64[:, ::1], "duplicated", True, False, None),
    (int64[:], "const", False, False, None),
    (types.boolean[:], "const", False, False, None),
    (typeof(np.array(["a"])), "const", False, False, None),
    (mixed_records, "duplicated", True, False, None),
    (mixed_records.dtype, "duplicated", True, False, None),
    (nested_records, "duplicated", True, False, None),
    (plain_records, "const", False, False, None),
    (plain_records.dtype, "const", False, False, None),
    (unknown_records, "const", True, False, ".half"),
    (UniTuple(float64, 2), "active", True, False, None),
    (typeof(Point(1.0, 2)), "active", True, False, None),
    (Tuple([float64, float64[:]]), "mixed", True, False, None),
    (Tuple([float64[:], int64]), "duplicated", True, False, None),
    (Tuple([int64[:], float64]), "active", True, False, None),
    (Tuple([int64, UniTuple(text, 2)]), "const", False, False, None),
    (Tuple([weights, float64]), "mixed", True, True, None),
    (Tuple([Optional(float64), float64]), "active", True, True, "[0]"),
    (Tuple([]), "const", False, False, None),
    (weights, "duplicated", True, True, None),
    (nest, "duplicated", True, True, None),
    (counts, "const", False, True, None),
    (perhaps, "const", True, True, ".x"),
    (Pair([("x", float64), ("w", float64[:])]), "duplicated", True, True, None),
    (Pair([("n", int64)]), "const", False, True, None),
    (List(float64), "duplicated", True, True, None),
    (List(weights), "duplicated", True, True, None),
    (List(int64), "const", False, True, None),
    (List(perhaps), "const", True, True, "[…].x"),
    (Dict(text, float64), "duplicated", True, True, None),
    (Dict(UniTuple(int64, 2), float64[:]), "duplicated", True, True, None),
    (Dict(text, int64), "const", False, True, None),
    (Dict(float64, float64), "const", True, True, ""),
    (Optional(float64), "const", True, True, ""),
    (Optional(int64), "const", False, True, ""),
    (types.List(float64, reflected=True), "const", True, True, ""),
    (types.List(int64, reflected=True), "const", False, True, ""),
    (types.Set(float64), "const", True, True, ""),
    (types.voidptr, "const", True, True, ""),
    (types.LiteralList((float64, int64)), "const", True, True, ""),
    (types.deferred_type(), "const", True, True, ""),
]


@pytest.mark.parametrize(("found", "activity", "numbers", "container", "unknown"), TABLE)
def test_l3_one_answer(found, activity, numbers, container, unknown):
    tree = layout_of(found)
    path = tree.unknown_path
    assert tree.activity == activity
    assert tree.numbers.any is numbers
    assert tree.is_container is container
    assert (None if path is None else show(path)) == unknown


link_type = types.deferred_type()


@jitclass([("x", float64), ("next", types.Optional(link_type))])
class Link:
    def __init__(self, x):
        self.x = x


link_type.define(Link.class_type.instance_type)


def depth(node):
    return 1 + max((depth(child) for _, child in node.children), default=0)


def test_l1_a_type_that_refers_to_itself_has_a_finite_tree():
    tree = layout_of(Link.class_type.instance_type)
    assert depth(tree) == 3
    assert isinstance(dict(tree.children)["next"].item, layout.Opaque)


def test_l2_what_is_not_known_to_hold_no_numbers_has_no_known_layout():
    class Foreign(types.Type):
        pass

    for unknown in (Foreign("foreign"), types.voidptr, types.float16):
        for ty in (unknown, UniTuple(unknown, 2), Optional(unknown)):
            assert layout_of(ty).numbers.any
            assert layout_of(ty).unknown_path is not None
            assert not layout_of(ty).holds_floats


@pytest.mark.parametrize("found", [row[0] for row in TABLE])
def test_whoever_asks_gets_it(found):
    tree = layout_of(found)
    assert choose.RuleQuery("f", (found,), ()).lowered(found) is BY_NAME[tree.activity]
    # what rules and memory take is part of it, never more
    assert results.argument_kind(found) == "const" or tree.activity != "const"
    assert results.result_kind(found) in ("const", "none") or tree.activity != "const"
    assert tree.activity == "const" or found == types.float16 or tree.holds_floats
    assert tree.unknown_path is None or not tree.has_shadow
    assert kinds.gradient_type(found) != types.none or tree.activity == "const"


def test_leaves_have_paths_and_tuples_are_made_again_of_them():
    found = Tuple([float64, Tuple([]), typeof(Point(1.0, 2))])
    tree = layout_of(found)
    paths = [path for path, _ in tree.leaf_paths]
    assert [show(path) for path in paths] == ["[0]", "[2][0]", "[2][1]"]
    assert [show_in(found, path) for path in paths] == ["[0]", "[2].x", "[2].n"]
    texts = iter("abc")
    made = fold(tree, lambda leaf: next(texts), lambda node, items: f"({', '.join(items)})")
    assert made == "(a, (), (b, c))"


def test_two_types_in_step_open_what_may_be_none():
    shadow = Tuple([Optional(float64[:]), int64])
    for other, inside in [(Tuple([float64[::1], int64]), True), (UniTuple(types.none, 2), False)]:
        both = pairs(layout_of(shadow), layout_of(other))
        found = [(one.numba_type, two.numba_type) for _, one, two in both]
        opened = [(float64[:], float64[::1])] * inside
        assert found == [(shadow, other), (shadow[0], other[0]), *opened, (int64, other[1])]
