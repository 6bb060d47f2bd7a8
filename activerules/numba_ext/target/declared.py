"""The signatures that a function was declared with, as `@njit("float64(float64)")`.

Needs       a CPU dispatcher, and the types of the arguments of a call
Gives       `declared_signature`; `converts`: whether a call from Python needs conversions
Invariants  D1  the signature is the one that Numba chooses for such a call: arguments are converted
                to it, and the result has its return type
            D2  an argument that is not converted keeps its type: a function, an array of another
                layout

Ignoring the declaration would change the meaning: `h(10**10)` would square an integer where Numba
squares a float. Numba inlines `inline="always"` functions before it types them and ignores their
signatures, so these count as undeclared here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba.core import types
from numba.core.registry import cpu_target
from numba.core.typing.templates import signature

from activerules.numba_ext.codegen.arity import folded
from activerules.numba_ext.target.rule_function import on_cpu


def declared_signature(original: Any, args: Sequence[Any]) -> Any:
    """The signature that a call with arguments of these types is compiled for.

    None if `original` was declared without signatures, or if none of them fits.
    """
    if original is None or original._can_compile:
        return None
    if original.targetoptions.get("inline", "never") != "never":
        return None
    context: Any = cpu_target.typing_context
    argtypes = tuple(map(on_cpu, args))
    cases = original.nopython_signatures
    chosen = context.resolve_overload(original.py_func, cases, argtypes, {})
    if chosen is None:
        return None
    return signature(chosen.return_type, *map(_converted, args, chosen.args))


def converts(original: Any, args: tuple[Any, ...]) -> bool:
    """Whether a call converts arguments of these types; trailing defaults may be left out."""
    _, with_defaults = folded(original, args)
    declared = declared_signature(original, with_defaults)
    return declared is not None and declared.args != tuple(with_defaults)


def _converted(arg: Any, declared: Any) -> Any:
    """The type of an argument after the conversion to a declared type."""
    if isinstance(arg, types.Callable):
        return arg
    if isinstance(arg, types.Array) and isinstance(declared, types.Array):
        return arg if (arg.dtype, arg.ndim) == (declared.dtype, declared.ndim) else declared
    return declared
