"""`print` of arrays and tuples for the AD target.

Numba prints them by way of a Python object that shares their memory, and what that does is not
visible. Here a function without derivative, compiled as for the CPU, prints them.

Gives       an implementation in `LOWERING`
Invariants  Y1  the text is that of Numba, and comes once per run of the primal
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba import njit
from numba.core import types
from numba.extending import intrinsic

from activerules.numba_ext.codegen.protocols import Builder, Value
from activerules.numba_ext.codegen.unoptimised import LOWERING
from activerules.rules.define import inactive


@intrinsic
def _print_item(typing_context, value):
    """Print a value as `print` does, without the end of the line."""

    def emit(context, builder, sig, args):
        python = context.get_python_api(builder)
        lock = python.gil_ensure()
        item = context.get_function("print_item", types.none(*sig.args))
        item(builder, args)
        python.gil_release(lock)
        return context.get_dummy_value()

    return types.none(value), emit


@inactive
@njit
def print_value(value):
    """Print a value; this has no derivative."""
    _print_item(value)  # pyright: ignore[reportCallIssue]


def _print(context: Any, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
    return context.compile_internal(builder, lambda value: print_value(value), sig, args)


for _kind in (types.Array, types.UniTuple, types.Tuple):
    LOWERING.lower("print_item", _kind)(_print)
