"""`p["w"]` in compiled code, for a parameter that is a dictionary in Python.

In compiled code the dictionary is a named tuple, of a class made by `annotations.trees`, and keys
are literals. Operations that would iterate over values there, but over keys in Python, are refused.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any

from numba.core import types
from numba.extending import overload

from activerules.annotations.trees import index_of_key, keys_of, origin_of
from activerules.errors import NotCompilable, NotYetSupported


@overload(operator.getitem, prefer_literal=True)
def _item_by_key(p, key):
    if not (isinstance(p, types.BaseNamedTuple) and isinstance(key, types.StringLiteral)):
        return None
    index = index_of_key(_class_of(p), key.literal_value)
    return None if index is None else lambda p, key: p[index]


def _class_of(ty: Any) -> Any:
    return ty.instance_class


def refuse_of_keys(function: Any, args: Any) -> None:
    """Raise `NotYetSupported` for operations on the keys of a parameter that is a dictionary, and
    `NotCompilable` for a key that it does not have.
    """
    operation = getattr(function, "typing_key", function)
    if operation is operator.getitem:
        _require_key(*args)
    name = _READERS.get(operation)
    if name is None:
        return
    for ty in args:
        if isinstance(ty, types.BaseNamedTuple) and keys_of(_class_of(ty)):
            raise NotYetSupported(
                f"{name} of a parameter that is a dictionary",
                why=_VALUES_ONLY,
                instead=_INSTEAD,
            )


def _require_key(ty: Any, key: Any) -> None:
    keys = keys_of(_class_of(ty)) if isinstance(ty, types.BaseNamedTuple) else ()
    if not keys or isinstance(key, types.Integer):
        return
    if not isinstance(key, types.StringLiteral):
        raise NotYetSupported(
            "a key of a parameter that is a dictionary, known only when the program runs",
            why=_VALUES_ONLY,
            instead=_INSTEAD,
        )
    if key.literal_value not in keys:
        raise NotCompilable(
            f"a parameter that is a dictionary has no key {key.literal_value!r}",
            instead=[f"one of its keys: {', '.join(map(repr, keys))}"],
        )


def advice_on(argtypes: Iterable[Any]) -> list[str]:
    """What compiled code knows of parameters that are dictionaries or objects of dataclasses, if
    there are any: Numba alone compiles no function that takes them.
    """
    kinds = {kind for ty in argtypes for kind in _kinds_in(ty)}
    return [_OF_DICTIONARIES] * (True in kinds) + [_OF_DATACLASSES] * (False in kinds)


def _kinds_in(ty: Any) -> Iterator[bool]:
    """For each such parameter in a type, whether it is a dictionary."""
    if isinstance(ty, types.BaseNamedTuple) and (origin := origin_of(_class_of(ty))) is not None:
        yield isinstance(origin, tuple)
    items: Any = ty
    for item in items if isinstance(ty, types.BaseTuple) else ():
        yield from _kinds_in(item)


_OF_DICTIONARIES = (
    'of a dictionary, p["key"] to read one value: it has no methods there, and is not assigned to'
)
_OF_DATACLASSES = (
    "of a dataclass, p.field to read one field: it has no methods there, and is not assigned to"
)
_VALUES_ONLY = "in compiled code it has values only, each read by a key that is a literal"
_INSTEAD = ('p["key"] for each key', "a numba.typed.Dict, whose keys compiled code has")
_READERS: dict[Any, str] = {
    operator.contains: "`in`",
    operator.eq: "`==`",
    operator.ne: "`!=`",
    "getiter": "a loop",
    sum: "`sum`",
    list: "`list`",
    tuple: "`tuple`",
    sorted: "`sorted`",
}
