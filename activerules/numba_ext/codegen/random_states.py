"""The states that random numbers are drawn from.

Gives       `random_states`, `set_random_states`, by which several runs of a function draw the same
            numbers, from Python and in compiled code
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit  # pyright: ignore[reportPrivateImportUsage]
from numba.core import types
from numba.core.typing.templates import signature
from numba.cpython.randomimpl import get_state_ptr, rnd_state_t
from numba.extending import intrinsic

from activerules.numba_ext.codegen.protocols import Builder, Context, TypingContext


@njit
def random_states():
    """What the functions of `np.random` and `random` draw from in this thread: a copy, as bytes."""
    return np.stack((_bytes_of(_state_of_numpy()), _bytes_of(_state_of_python())))


@njit
def set_random_states(states):
    """Let what is drawn from now on in this thread begin at what `random_states` returned."""
    _bytes_of(_state_of_numpy())[:] = states[0]
    _bytes_of(_state_of_python())[:] = states[1]


@njit
def _bytes_of(state):
    return carray(state, _size_of_state(), np.uint8)


def _address(name: str) -> Any:
    """The function that returns the address of one of Numba's states."""

    @intrinsic
    def address(typing_context: TypingContext):
        def codegen(context: Context, builder: Builder, *_):
            state = get_state_ptr(context, builder, name)
            return builder.bitcast(state, context.get_value_type(types.voidptr))

        return signature(types.voidptr), codegen

    return address


_state_of_numpy, _state_of_python = _address("np"), _address("py")


def _size(typing_context: TypingContext):
    def codegen(context: Context, *_):
        return context.get_constant(types.intp, context.get_abi_sizeof(rnd_state_t))

    return signature(types.intp), codegen


_size_of_state: Any = intrinsic(_size)
