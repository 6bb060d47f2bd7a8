"""The compiled forms of the functions in `rules.closures.delivery`, which converted rules call.

The types of the annotation and of the cotangent select the code: a symbolic zero for an array
leaves none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba.core import types
from numba.extending import overload, register_jitable

from activerules.annotations.activity import Active, Const, Duplicated, MixedDuplicated
from activerules.annotations.containers import like_tuple
from activerules.annotations.structural import names_of
from activerules.annotations.tangents import NoTangent, ZeroTangent, conjugate
from activerules.annotations.trees import index_of_key, keys_of, origin_of
from activerules.annotations.values import make_zero
from activerules.errors import RuleReturnError
from activerules.numba_ext.calls import overloads  # noqa: F401  accumulate and make_zero
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.types import (
    AnnotationType,
    is_zero_type,
    marker_class,
)
from activerules.numba_ext.rules.checks import copied, overlap
from activerules.numba_ext.tangents.dataless import StructuralTangentType, refuse_type
from activerules.numba_ext.tangents.projection import number_projection
from activerules.rules.closures.delivery import (
    by_argument,
    combined,
    contracted,
    copy_for_tape,
    cotangent,
    deliver,
    fresh,
    kept,
    pushed,
    result_shadow,
    scaled,
    separate,
    tangent,
    wrong_partials,
    wrong_rows,
)
from activerules.rules.pattern import type_name
from activerules.rules.protocol import accumulate
from activerules.rules.written import function_from, item_by_item
from activerules.values.kinds import items_of
from activerules.values.layout import have_equal_names


@overload(cotangent)
def _cotangent(dret):
    if dret.kind is Const:
        zero = ZeroTangent()
        return lambda dret: zero
    if dret.kind is Active:
        return lambda dret: dret.val
    return lambda dret: dret.dval


@overload(deliver)
def _deliver(x, x_bar):
    if x.kind is Const:
        return lambda x, x_bar: None
    refuse_type(x_bar)
    if x.kind is Active:
        return _returned(x, x_bar)
    if is_zero_type(x_bar) and x.kind is Duplicated:
        return lambda x, x_bar: None
    if isinstance(x.val, types.BaseTuple):
        give = _delivered(x.val, x_bar)
        if x.kind is MixedDuplicated:
            return lambda x, x_bar: give(x.val, x.dval, x_bar)

        def added_to_items(x, x_bar):
            give(x.val, x.dval, x_bar)

        return added_to_items
    _require_array(x.val, x_bar)
    return lambda x, x_bar: accumulate(x, x_bar)


def _returned(x: AnnotationType, x_bar: Any) -> Any:
    """Return the implementation of `deliver` for an Active argument."""
    project = _projected(x.val, x_bar)
    return lambda x, x_bar: project(x.val, x_bar)


def _projected(ty: Any, tangent: Any) -> Any:
    """Return a compiled `(x, tangent) -> tangent` that converts a tangent to the type of x: numbers
    and tuples of them, with None for integers.
    """
    refuse_type(tangent)
    if isinstance(ty, types.BaseTuple):
        return _projected_tuple(ty, tangent)
    if not isinstance(ty, types.Float | types.Complex):
        return register_jitable(lambda x, tangent: None)
    if is_zero_type(tangent):
        return register_jitable(lambda x, tangent: make_zero(x))
    project = number_projection(ty, tangent)
    if project is None:
        raise RuleReturnError(
            f"a rule gives {type_name(tangent)} as the tangent or cotangent of {type_name(ty)}",
            why="that of a number is a number",
        )
    return project


def _projected_tuple(ty: Any, tangent: Any) -> Any:
    """Like `_projected`, item by item, as the items have different types."""
    given = (entry for _, entry in _tangents_of_items(ty, tangent))
    return _item_by_item(ty, tangent, [*map(_projected, items_of(ty), given)])


def _item_by_item(ty: Any, tangent: Any, functions: Sequence[Any]) -> Any:
    """Return a compiled `(x, tangent) -> tangent` for tuples, with a function for each item."""
    texts = [text for text, _ in _tangents_of_items(ty, tangent)]
    items = "".join(f"call{i}(x[{i}], {text}), " for i, text in enumerate(texts))
    named = isinstance(ty, types.BaseNamedTuple)
    scope: dict[str, Any] = {"made": getattr(ty, "instance_class", None), "entry": _entry}
    scope |= {f"call{i}": function for i, function in enumerate(functions)}
    source = f"def by_item(x, tangent):\n return {'made' if named else ''}({items})"
    return register_jitable(function_from(source, "by_item", scope, module=__name__))


def _tangents_of_items(ty: Any, tangent: Any) -> list[tuple[str, Any]]:
    """The expressions of the tangents of a tuple's items, with their types."""
    count = len(items_of(ty))
    if is_zero_type(tangent):
        return [("None", types.none)] * count
    kind: Any = getattr(ty, "instance_class", tuple)
    if keys_of(kind) and getattr(tangent, "instance_class", tuple) is not kind:
        return _tangents_by_key(ty, kind, tangent)
    is_tuple = isinstance(tangent, types.BaseTuple) and len(tangent) == count
    if is_tuple and have_equal_names(ty, tangent):
        return [(f"tangent[{i}]", entry) for i, entry in enumerate(items_of(tangent))]
    if isinstance(tangent, StructuralTangentType) and tangent.primal in (kind, origin_of(kind)):
        keys: Any = names_of(tangent.primal) or range(count)
        fields = [(i, tangent.fields.get(key)) for i, key in enumerate(keys)]
        if tangent.fields.keys() <= set(keys):
            return [("None", types.none) if t is None else (f"tangent[{i}]", t) for i, t in fields]
    raise RuleReturnError(
        f"a rule gives {type_name(tangent)} as the tangent or cotangent of {type_name(ty)}",
        why=f"it has {count} entries, one for each item or field",
        instead=["a tuple of them in this order, with NoTangent() for what is constant"],
    )


def _tangents_by_key(ty: Any, kind: type, tangent: Any) -> list[tuple[str, Any]]:
    """Like `_tangents_of_items`, for a dictionary: a tuple would need an order of its keys."""
    count = len(items_of(ty))
    if isinstance(tangent, types.DictType) and tangent.key_type == types.unicode_type:
        texts = [f"entry(tangent, {key!r}, {count})" for key in keys_of(kind)]
        return [(text, tangent.value_type) for text in texts]
    if isinstance(tangent, types.LiteralStrKeyDict):
        given = {key.literal_value: t for key, t in tangent.literal_value.items()}
    elif isinstance(tangent, StructuralTangentType) and tangent.primal is dict:
        given = tangent.fields
    else:
        given = {"": None}
    found = {index_of_key(kind, key): key for key in given}
    if None in found:
        raise RuleReturnError(
            f"a rule gives {type_name(tangent)} as the tangent or cotangent of {type_name(ty)}",
            why="that of a dictionary has entries for its keys",
            instead=["{key: ...}, a dictionary as it is written, or a Tangent[dict](key=...)"],
        )
    named = [found.get(i) for i in range(count)]
    return [("None", types.none) if k is None else (f"tangent[{k!r}]", given[k]) for k in named]


@register_jitable
def _entry(tangent, key, count):
    """The entry of a dictionary with the keys of another one."""
    if len(tangent) != count or key not in tangent:
        raise RuleReturnError("a cotangent does not have the keys of its dictionary")
    return tangent[key]


def _delivered(ty: Any, x_bar: Any) -> Any:
    """Return a compiled `(x, dval, x_bar) -> entry` that adds the arrays of a cotangent to `dval`,
    and returns the derivatives of the numbers.
    """
    if isinstance(ty, types.BaseTuple):
        entries = _tangents_of_items(ty, x_bar)
        scope = {f"give{i}": _delivered(items_of(ty)[i], t) for i, (_, t) in enumerate(entries)}
        scope["entry"] = _entry
        items = "".join(
            f"give{i}(x[{i}], dval[{i}], {text}), " for i, (text, _) in enumerate(entries)
        )
        source = f"def give(x, dval, tangent):\n return ({items})"
        return register_jitable(function_from(source, "give", scope, module=__name__))
    if not isinstance(ty, types.Array) or is_zero_type(x_bar):
        project = _projected(ty, x_bar)
        return register_jitable(lambda x, dval, x_bar: project(x, x_bar))
    _require_array(ty, x_bar)
    return register_jitable(lambda x, dval, x_bar: accumulate(Duplicated(x, dval), x_bar))


def _require_array(ty: Any, x_bar: Any) -> None:
    if getattr(ty, "ndim", None) == 0 and isinstance(x_bar, types.Number):
        return  # as arithmetic of such arrays gives
    if not isinstance(ty, types.Array):
        raise RuleReturnError(
            f"a rule gives {type_name(x_bar)} as the cotangent of {type_name(ty)}",
            why="an rrule has no derivatives with respect to objects, records, lists and the like",
            instead=["a pair, whose reverse adds to the fields of `x.dval`"],
        )
    if not isinstance(x_bar, types.Array) or x_bar.ndim != ty.ndim:
        raise RuleReturnError(
            f"a rule gives {type_name(x_bar)} as the cotangent of {type_name(ty)}",
            why="a cotangent has the shape of its primal; broadcasting hides a missing sum",
        )


@overload(result_shadow)
def _result_shadow(ret, result):
    if marker_class(ret) not in (Duplicated, MixedDuplicated):
        return lambda ret, result: None
    return lambda ret, result: make_zero(result)


@overload(copy_for_tape)
def _copy_for_tape(value):
    if isinstance(value, types.BaseTuple):
        names = {"copy_for_tape": copy_for_tape}
        return item_by_item(value, "value", "copy_for_tape(value[{i}])", names, module=__name__)
    return (lambda value: copied(value)) if isinstance(value, types.Array) else lambda value: value


@overload(kept)
def _kept(value, result, overwritten):
    if isinstance(value, types.BaseTuple):
        parameters, item = "value, result, overwritten", "kept(value[{i}], result, overwritten)"
        return item_by_item(value, parameters, item, {"kept": kept}, module=__name__)
    if not isinstance(value, types.Array):
        return lambda value, result, overwritten: value
    if not isinstance(result, types.Array):

        def keep(value, result, overwritten):
            if overwritten:
                return copy_for_tape(value)
            return value

        return keep

    def keep_apart(value, result, overwritten):
        if overwritten or _meets(value, result):
            return copy_for_tape(value)
        return value

    return keep_apart


def _has_arrays(ty: Any) -> bool:
    if isinstance(ty, types.BaseTuple):
        return any(map(_has_arrays, items_of(ty)))
    return isinstance(ty, types.Array)


@chosen_by_types
def _meets(a, b):
    """Whether an array shares memory with another one, or with one in a tuple."""
    if isinstance(b, types.Array):
        return lambda a, b: overlap(a, b)
    holding = [i for i, item in enumerate(items_of(b)) if _has_arrays(item)]
    tests = " or ".join(f"meets(a, b[{i}])" for i in holding)
    source = f"def meets_one(a, b):\n return {tests}"
    return function_from(source, "meets_one", {"meets": _meets}, module=__name__)


@overload(by_argument)
def _by_argument(slopes, x):
    entries = items_of(slopes) if isinstance(slopes, types.BaseTuple) else (slopes,)
    is_row = [isinstance(entry, types.BaseTuple) for entry in entries]
    for row in entries if any(is_row) else (types.Tuple(entries),):
        count = len(row) if isinstance(row, types.BaseTuple) else 1
        if not isinstance(row, types.BaseTuple) or count != len(x):
            raise wrong_partials(count, len(x))
    if isinstance(slopes, types.BaseTuple):
        return lambda slopes, x: slopes
    return lambda slopes, x: (slopes,)


@overload(contracted, prefer_literal=True)
def _contracted(slopes, i, bar):
    if not isinstance(i, types.IntegerLiteral):
        return None
    k = i.literal_value
    several = isinstance(items_of(slopes)[0], types.BaseTuple)
    outputs = len(bar) if isinstance(bar, types.BaseTuple) else 1
    if outputs != (len(slopes) if several else 1):
        raise wrong_rows(len(slopes) if several else 1, outputs)
    if not several:
        return lambda slopes, i, bar: scaled(conjugate(slopes[k]), bar)
    terms = (f"scaled(conjugate(slopes[{row}][{k}]), bar[{row}])" for row in range(len(slopes)))
    source = f"def contract(slopes, i, bar):\n return {' + '.join(terms)}"
    scope = {"conjugate": conjugate, "scaled": scaled}
    return function_from(source, "contract", scope, module=__name__)


@overload(fresh)
def _fresh(result, x):
    if not isinstance(result, types.Array) or not _has_arrays(x.val):
        return lambda result, x: result

    def checked(result, x):
        if _meets(result, x.val):
            raise RuleReturnError("the result of the rule shares memory with an argument")
        return result

    return checked


# --- forward ---


@overload(tangent)
def _tangent(x):
    if x.kind is not Const:
        return lambda x: x.dval
    zero = _zero_of(x.val)
    return lambda x: zero


def _zero_of(ty: Any) -> Any:
    if isinstance(ty, types.BaseTuple):
        return like_tuple(getattr(ty, "instance_class", tuple), map(_zero_of, items_of(ty)))
    is_smooth = isinstance(getattr(ty, "dtype", ty), types.Float | types.Complex)
    return ZeroTangent() if is_smooth else NoTangent()


@overload(pushed)
def _pushed(y, dy):
    refuse_type(dy)
    is_discrete = isinstance(y, types.Integer | types.Boolean)
    if is_zero_type(dy) or (is_discrete and isinstance(dy, types.Number | types.Boolean)):
        return lambda y, dy: make_zero(y)
    if isinstance(y, types.Number) or (isinstance(y, types.BaseTuple) and _of_numbers(y)):
        project = _projected(y, dy)
        return lambda y, dy: project(y, dy)
    if isinstance(y, types.BaseTuple):
        push = _item_by_item(y, dy, [pushed] * len(y))
        return lambda y, dy: push(y, dy)
    if not isinstance(y, types.Array):
        return lambda y, dy: dy
    if not isinstance(dy, types.Array) or dy.ndim != y.ndim:
        raise RuleReturnError(f"a rule gives {type_name(dy)} as the tangent of {type_name(y)}")

    def in_shape(y, dy):
        if y.shape != dy.shape:
            raise RuleReturnError(
                "the tangent that a rule returns does not have the shape of its result"
            )
        return dy

    return in_shape


def _of_numbers(ty: Any) -> bool:
    if isinstance(ty, types.BaseTuple):
        return all(map(_of_numbers, items_of(ty)))
    return isinstance(ty, types.Float | types.Complex)


@overload(separate)
def _separate(dy, x):
    if isinstance(dy, types.BaseTuple):
        names = {"separate": separate}
        return item_by_item(dy, "dy, x", "separate(dy[{i}], x)", names, module=__name__)
    if not isinstance(dy, types.Array) or not _has_arrays(x.val):
        return lambda dy, x: dy
    if x.kind is Const:

        def apart(dy, x):
            return copy_for_tape(dy) if _meets(dy, x.val) else dy

        return apart

    def apart_from_both(dy, x):
        shared = _meets(dy, x.val) or _meets(dy, x.dval)
        return copy_for_tape(dy) if shared else dy

    return apart_from_both


@overload(combined)
def _combined(slopes, dots):
    if isinstance(items_of(slopes)[0], types.BaseTuple):
        terms = "".join(f"combined(slopes[{row}], dots), " for row in range(len(slopes)))
    else:
        terms = " + ".join(f"scaled(slopes[{i}], dots[{i}])" for i in range(len(slopes)))
    source = f"def combine(slopes, dots):\n return ({terms})"
    scope = {"combined": combined, "scaled": scaled}
    return function_from(source, "combine", scope, module=__name__)


@overload(scaled)
def _scaled(slope, value):
    if not (isinstance(slope, types.Number) and isinstance(value, types.Number)):
        return lambda slope, value: slope * value

    def zero_times_infinite_is_zero(slope, value):
        product = slope * value
        return value if value == 0 and product != product else product

    return zero_times_infinite_is_zero
