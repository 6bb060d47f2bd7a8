"""`make_zero` and `tree_add` of values that are opaque to Python (jitclass instances, StructRefs,
typed lists and dictionaries of numbers), and `tree_add` inside `@njit`.
"""

from __future__ import annotations

from typing import Any

from numba import njit
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload

from activerules.annotations.values import ADDED, make_zero, tree_add, use_compiled
from activerules.numba_ext.codegen.protocols import Emit, emitting
from activerules.rules.written import item_by_item
from activerules.values.kinds import is_collection, is_instance
from activerules.values.layout import Number, has_items_of, layout_of, shadow_of_leaf
from activerules.values.shadows import sum_of_shadows, zero_shadow


@overload(make_zero)
def _make_zero(x):
    is_filled = is_instance(x) or is_collection(x)
    return (lambda x: _zero_instance(x)) if is_filled else None  # pyright: ignore[reportCallIssue]


@intrinsic
def _zero_instance(typing_context, x):
    """A new object of the same class, with zeros for its floats and everything else unchanged."""

    def emit(em: Emit, args: Any) -> Any:
        if not layout_of(x).has_shadow:
            em.context.nrt.incref(em.builder, x, args[0])
        return zero_shadow(em, x, args[0])

    return x(x), emitting(emit)


@overload(tree_add)
def _tree_add(x, y):
    node, other = layout_of(x), layout_of(y)
    if has_items_of(node, other):
        # written out, since each item may have its own type
        names = {"tree_add": tree_add}
        return item_by_item(x, "x, y", "tree_add(x[{i}], y[{i}])", names, module=__name__)
    if isinstance(node, Number) and x == y:
        return lambda x, y: x + y
    if not node.numbers.any and x == y:
        return lambda x, y: x
    if not _are_alike(x, y):
        raise TypingError(f"tree_add takes two values of one structure, not {x} and {y}")
    if not node.has_shadow or isinstance(x, types.Record):
        raise TypingError(f"tree_add takes no {x}: a new one has no derivative, or no owner")
    return lambda x, y: _sum_of(x, y)  # pyright: ignore[reportCallIssue]


def _are_alike(x: Any, y: Any) -> bool:
    """Whether two types are equal, except perhaps for the layout of arrays."""
    if isinstance(x, types.Array) and isinstance(y, types.Array):
        return (x.dtype, x.ndim) == (y.dtype, y.ndim)
    return x == y


@intrinsic
def _sum_of(typing_context, x, y):
    """The sum of two values, in a new array, object, list or dictionary."""
    emit = emitting(lambda em, args: sum_of_shadows(em, (x, y), (args[0], args[1]), ADDED))
    return shadow_of_leaf(layout_of(x))(x, y), emit


@njit
def _zero_of(x):
    return make_zero(x)


@njit
def _sum_of_two(x, y):
    return tree_add(x, y)


use_compiled(make_zero=_zero_of, tree_add=_sum_of_two)
