"""`p["w"]` in compiled code, for a parameter that is a dictionary in Python.

In compiled code the dictionary is a named tuple, of a class made by `annotations.trees`, and keys
are literals. Operations that would iterate over values there, but over keys in Python, are refused.
"""

from __future__ import annotations

import operator
from typing import Any

from numba.core import types
from numba.extending import overload

from activerules.annotations.trees import index_of_key, keys_of
from activerules.errors import NotYetSupported


@overload(operator.getitem, prefer_literal=True)
def _item_by_key(p, key):
    if not (isinstance(p, types.BaseNamedTuple) and isinstance(key, types.StringLiteral)):
        return None
    index = index_of_key(_class_of(p), key.literal_value)
    return None if index is None else lambda p, key: p[index]


def _class_of(ty: Any) -> Any:
    return ty.instance_class


def refuse_of_keys(function: Any, args: Any) -> None:
    """Raise `NotYetSupported` for operations on the keys of a parameter that is a dictionary."""
    name = _READERS.get(getattr(function, "typing_key", function))
    if name is None:
        return
    for ty in args:
        if isinstance(ty, types.BaseNamedTuple) and keys_of(_class_of(ty)):
            raise NotYetSupported(
                f"{name} of a parameter that is a dictionary",
                why="in compiled code it has values only, each read by a key that is a literal",
                instead=[
                    'p["key"] for each key',
                    "a numba.typed.Dict, whose keys compiled code has",
                ],
            )


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
