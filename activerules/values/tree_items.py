"""`p["w"]` in compiled code, of a parameter that is a dictionary in Python.

There it is a named tuple of a class that `annotations.trees` made; a key is a literal. What would
see the values of that tuple where Python sees the keys of the dictionary is refused.
"""

from __future__ import annotations

import operator
from typing import Any

from numba.core import types
from numba.extending import overload

from activerules.annotations.trees import index_of_key, is_of_keys
from activerules.errors import NotYetSupported


@overload(operator.getitem, prefer_literal=True)
def _item_by_key(p, key):
    if not (isinstance(p, types.BaseNamedTuple) and isinstance(key, types.StringLiteral)):
        return None
    index = index_of_key(_class_of(p), key.literal_value)
    return None if index is None else lambda p, key: p[index]


def _class_of(found: Any) -> Any:
    return found.instance_class


def refuse_of_keys(function: Any, args: Any) -> None:
    """Raise `NotYetSupported` for what reads the keys of a parameter that is a dictionary."""
    name = _READERS.get(getattr(function, "typing_key", function))
    if name is None:
        return
    for found in args:
        if isinstance(found, types.BaseNamedTuple) and is_of_keys(_class_of(found)):
            raise NotYetSupported(
                f"{name} of a parameter that is a dictionary",
                why="compiled code knows its values, by keys that stand in its text",
                instead=['p["key"] for each key', "a dataclass with a field that says it"],
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
