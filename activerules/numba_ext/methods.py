"""Methods that are given functions: `rows.sort(key=f)`.

Numba keeps one type of a bound method for each type of object, and with it the typing context that
asked for it first. Where that is the CPU's, it types a call for this target, too, and compiles the
implementation of the method to know what it returns. With a twin as an argument it would compile a
call of that, which the CPU does not know. So the method is typed with the functions of the user; it
is compiled for this target, with their twins, where the call is lowered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import types


def typed_with_originals(
    resolve: Callable[..., Any], method: Any, args: tuple[Any, ...], kws: dict[str, Any]
) -> Any:
    """The signature that `resolve` finds for a call of a method; it has the twins themselves."""
    twins: dict[Any, Any] = {}

    def original(found: Any) -> Any:
        plain = getattr(getattr(found, "dispatcher", None), "original", None)
        if plain is None:
            return found
        ordinary = types.Dispatcher(plain)
        twins[ordinary] = found
        return ordinary

    plain_args = tuple(map(original, args))
    found = resolve(method, plain_args, {name: original(ty) for name, ty in kws.items()})
    if found is None or not twins:
        return found
    return found.replace(args=tuple(twins.get(ty, ty) for ty in found.args))
