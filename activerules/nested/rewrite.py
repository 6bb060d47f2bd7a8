"""Rewriting calls of derivatives in code that is itself differentiated.

    call with             becomes                                         in
    batched arguments     a call per lane                                 batches
    options               a call without them                             options
    lists of numbers      a call with arrays in their place               lists
    none of these         a call of a function with rules                 gradient_rules

Each of the first three contains a call of `autodiff` that is rewritten in turn, until a nested
gradient is left. Its rules are reverse over forward, so that no code with a tape is ever
differentiated: see docs/decisions/0008-nested-derivatives.md. Pullbacks and split halves, which are
values, have functions of their own (`pullbacks`).
"""

from __future__ import annotations

from typing import Any

from activerules.nested.batches import call_per_lane
from activerules.nested.gradient_rules import call_of
from activerules.nested.options import call_without_options
from activerules.nested.pullbacks import nested_vjp_stub, playing, recording
from activerules.nested.read_calls import read_call
from activerules.numba_ext.calls.emitter import is_batched
from activerules.numba_ext.calls.nested_forms import REWRITTEN, NestedCall, NestedHalf, use_nested
from activerules.numba_ext.codegen.protocols import TypingContext


def rewrite(typing_context: TypingContext, call: NestedCall | NestedHalf) -> Any:
    """The compiled function that replaces a call and takes the same arguments.

    Raises what reading the call raises.
    """
    if isinstance(call, NestedHalf):
        return (recording if call.half == "augmented" else playing)(typing_context, call)
    if is_batched(call.argtypes):
        return call_per_lane(typing_context, call)
    if call.mode.options & REWRITTEN:
        return call_without_options(typing_context, call)
    return call_of(read_call(typing_context, call))


use_nested(rewrite, nested_vjp_stub)
