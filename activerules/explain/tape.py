"""The bytes that a gradient keeps, counted in a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from activerules.annotations.activity import KINDS, Annotation
from activerules.annotations.signature import Reverse
from activerules.errors import ActivityError
from activerules.numba_ext.calls.error_context import run_compiled
from activerules.numba_ext.calls.intrinsics import counted_tape_bytes
from activerules.numba_ext.codegen.made_once import COMPILED
from activerules.numba_ext.target.dispatchers import dispatcher_of


def tape_bytes(
    function: Callable[..., Any], *annotated: Any, return_activity: type[Annotation] | None = None
) -> int:
    """Run one gradient and return the bytes of its tape and frame.

    Arguments
        function         as for `autodiff`.
        annotated        one annotation per argument; a bare value is Const.
        return_activity  Active or Const; by default Active for a function that returns a float.

    The gradient does run: derivatives are added to the shadows, and the function writes into its
    arguments. Arrays that the function makes itself, and their shadows, are not counted as tape;
    nor are those that the tape of a rule holds, of which it has the addresses and shapes.

    Raises
        what `autodiff` raises.

    >>> tape_bytes(lambda x: x * x, Active(3.0))
    0
    """
    dispatcher = dispatcher_of(function)
    if not any(return_activity is kind for kind in (None, *KINDS)):
        raise ActivityError(
            f"return_activity is {return_activity!r}, which is no activity",
            instead=["Active", "Const"],
        )
    entry = COMPILED.get(
        dispatcher,
        ("tape bytes", return_activity),
        lambda: _counting_call(dispatcher, return_activity),
    )
    return run_compiled(entry, *annotated)


def _counting_call(dispatcher: Any, result: type[Annotation] | None) -> Any:
    if result is None:

        def entry(*args):
            return counted_tape_bytes(Reverse, dispatcher, *args)
    else:

        def entry(*args):
            return counted_tape_bytes(Reverse, dispatcher, result, *args)

    return njit(entry)
