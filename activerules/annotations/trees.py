"""Parameters in dictionaries and dataclasses, which compiled code takes as named tuples.

`flattened` replaces each dictionary with fixed keys, and each object of a dataclass, by a named
tuple, from which compiled code reads `p["w"]` and `p.w`. `restored` is the inverse: it turns the
gradient that compiled code returns back into a dictionary or an object of the class.

The name of a named tuple's class encodes its keys or its dataclass, so that the module attribute of
that name gives the class in another process, too: code that is stored on disk refers to it.
"""

from __future__ import annotations

import json
import sys
from collections import namedtuple
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from keyword import iskeyword
from typing import Any

import numpy as np

from activerules.annotations.activity import Annotation
from activerules.annotations.containers import is_array, is_dict, is_list, is_tuple, like_tuple
from activerules.errors import ActivityError

NUMBERS = frozenset({int, float, complex, bool, np.float64, np.float32, np.int64, type(None), str})
"""Types of values without memory that another value could share. Compiled code takes them, and
arrays, as they are; they are tested for first, as a call of a gradient takes less than a
microsecond.
"""
LEAVES = NUMBERS | {np.ndarray}
"""These types, and that of arrays."""
NATIVE = "x.astype(x.dtype.newbyteorder('='))"
"""An array whose bytes are in the other order, converted."""


def are_flat(values: Collection[Any]) -> bool:
    """Whether `flattened` returns each of the values as it is. Then `restored` returns what a
    derivative returns for them as it is, too. An object of a dataclass is not flat.
    """
    return LEAVES.issuperset(map(type, values)) or all(map(_is_flat, values))


def _is_flat(x: object) -> bool:
    kind = type(x)
    if kind in NUMBERS:
        return True
    if is_tuple(x):
        return (kind is tuple or _is_flat_class(kind)) and all(map(_is_flat, x))
    if is_list(x):
        # a compiled function takes one class of items
        return not (x and isinstance(x[0], np.ndarray | tuple)) or all(map(_is_flat, x))
    return _is_flat_class(kind) and (not is_array(x) or x.dtype.isnative)


@cache
def _is_flat_class(kind: Any) -> bool:
    is_never_flat = dict in kind.__mro__ or _is_masked(kind)
    return not (is_never_flat or is_dataclass(kind) or hasattr(kind, _ORIGIN))


def _is_masked(kind: Any) -> bool:
    """Whether a class is one of masked arrays; NumPy loads them at the first mention, which takes
    20 ms.
    """
    # without the class while another thread is importing the module
    masked: Any = getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())
    return issubclass(kind, masked)


def flattened(x: Any) -> Any:
    """The value with each dictionary and object of a dataclass replaced by a named tuple.

    Raises `ActivityError` for keys that are not strings, for lists in such a value, for masked
    arrays, and for arrays of another byte order in a tuple or list.
    """
    if _is_flat(x):
        return x
    if is_dict(x):
        kind = _class_of_keys(_sorted_keys(tuple(x)))
        return _named(kind, [x[name] for name in getattr(kind, _ORIGIN)])
    if is_dataclass(x) and not isinstance(x, type | Annotation):
        return _named(_class_of_dataclass(type(x)), [getattr(x, name) for name in _names(type(x))])
    if is_list(x):
        for item in x:
            flattened(item)
    if is_tuple(x):
        items = [flattened(item) for item in x]
        return x if _same(items, x) else like_tuple(type(x), items)
    # Numba refuses these two at the first call only, and later takes them for other arrays
    if is_array(x) and not x.dtype.isnative:
        raise ActivityError(
            f"an argument holds an array of dtype {x.dtype}, for which Numba has no type",
            why="its bytes are in the other order",
            instead=[NATIVE],
        )
    if _is_masked(type(x)):
        raise ActivityError(
            "an argument is a masked array, for which Numba has no type",
            instead=["x.filled(0.0), and the mask as an argument of its own"],
        )
    return x


def restored(x: Any) -> Any:
    """The inverse of `flattened`: named tuples become dictionaries and objects again."""
    if not is_tuple(x) or _is_flat(x):
        return x
    items = [restored(item) for item in x]
    origin = origin_of(type(x))
    if origin is None:
        return x if _same(items, x) else like_tuple(type(x), items)
    if is_tuple(origin):
        return dict(zip(origin, items, strict=True))
    # The class is not called: it may check or change its fields, which are a gradient here.
    instance = object.__new__(origin)
    for name, item in zip(_names(origin), items, strict=True):
        object.__setattr__(instance, name, item)
    return instance


def index_of_key(kind: type, key: str) -> int | None:
    """The position of a key's value in a named tuple of the class `kind`; None if it has no such
    key, or is another class.
    """
    keys = keys_of(kind)
    return keys.index(key) if key in keys else None


def origin_of(kind: type) -> Any:
    """What a named tuple of the class `kind` stands for: the keys of a dictionary, or a dataclass;
    None if it is a named tuple of the user's.
    """
    return getattr(kind, _ORIGIN, None)


def keys_of(kind: type) -> tuple[str, ...]:
    """The keys of the dictionary that a named tuple of the class `kind` stands for; () if none."""
    origin = origin_of(kind)
    return origin if is_tuple(origin) else ()


_ORIGIN = "_origin"


def _same(items: Iterable[Any], old: Iterable[Any]) -> bool:
    return all(new is before for new, before in zip(items, old, strict=True))


def _named(kind: Any, values: Sequence[Any]) -> Any:
    if are_flat(values) and not any(map(is_list, values)):
        return kind(*values)
    for name, value in zip(_names_in(kind), values, strict=True):
        if is_list(value):
            raise ActivityError(
                f"{name!r} of a parameter is a list",
                why="compiled code takes dictionaries and dataclasses of numbers, arrays and "
                "tuples of these, and of such dictionaries and dataclasses",
                instead=["a tuple, or an array"],
            )
    return kind(*map(flattened, values))


def _names_in(kind: Any) -> Sequence[str]:
    """The keys, or the names of the fields, that a named tuple stands for."""
    origin: Any = getattr(kind, _ORIGIN)
    return origin if is_tuple(origin) else _names(origin)


@cache
def _names(origin: type) -> tuple[str, ...]:
    """The names of the fields of a dataclass."""
    return tuple(field.name for field in fields(origin))


@cache
def _sorted_keys(keys: tuple[Any, ...]) -> tuple[str, ...]:
    for key in keys:
        if not isinstance(key, str):
            raise ActivityError(
                f"a dictionary has the key {key!r}, which is not a string",
                why="the keys of parameters are fixed when a derivative is compiled",
                instead=["strings", "a tuple", "a numba.typed.Dict, whose keys are not fixed"],
            )
    return tuple(sorted(keys))


@cache
def _class_of_keys(keys: tuple[str, ...]) -> Any:
    return _new_class("dict", keys, keys, f"dict_{_coded(keys)}")


@cache
def _class_of_dataclass(origin: type) -> Any:
    names = _names(origin)
    path = origin.__module__, origin.__qualname__
    return _new_class(origin.__name__, names, origin, f"dataclass_{_coded(path)}")


def _new_class(name: str, names: Sequence[str], origin: Any, path: str) -> Any:
    readable = [
        each if _is_field(each) else _free(f"key{k}", names) for k, each in enumerate(names)
    ]
    make: Callable[..., Any] = namedtuple
    cls = make(name, readable)
    cls.__module__, cls.__qualname__ = __name__, path
    setattr(cls, _ORIGIN, origin)
    return cls


def _is_field(name: str) -> bool:
    taken = name.startswith("_") or iskeyword(name)
    return name.isidentifier() and not taken


def _free(name: str, taken: Sequence[str]) -> str:
    return _free(f"{name}_", taken) if name in taken else name


def _coded(parts: Iterable[str]) -> str:
    return json.dumps(list(parts)).encode().hex()


def __getattr__(name: str) -> Any:
    """The class of a named tuple, by its name; for code that another process stored on disk."""
    kind, _, code = name.partition("_")
    if kind not in ("dict", "dataclass") or not code:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    parts = json.loads(bytes.fromhex(code))
    if kind == "dict":
        return _class_of_keys(tuple(parts))
    named: Any = sys.modules.get(parts[0]) or import_module(parts[0])
    for part in parts[1].split("."):
        named = getattr(named, part)
    return _class_of_dataclass(named)
