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
from activerules.numba_ext.calls import call_arguments, checks
from activerules.numba_ext.calls.emitter import is_batched
from activerules.numba_ext.calls.intrinsics import return_activity
from activerules.numba_ext.calls.nested_forms import (
    REWRITTEN,
    NestedCall,
    NestedHalf,
    ReadCall,
    require_float_primal,
    returned_by,
    use_nested,
)
from activerules.numba_ext.codegen.protocols import TypingContext
from activerules.values.kinds import is_number


def rewrite(typing_context: TypingContext, call: NestedCall | NestedHalf) -> Any:
    """The compiled function that replaces a call and takes the same arguments.

    Raises what reading the call raises, and `NotYetSupported` if the value is asked for and is not
    one float.
    """
    if isinstance(call, NestedHalf):
        return (recording if call.half == "augmented" else playing)(typing_context, call)
    if is_batched(call.argtypes):
        return call_per_lane(typing_context, call)
    if call.mode.options & REWRITTEN:
        return call_without_options(typing_context, call)
    return call_of(_read_call(typing_context, call))


def _read_call(typing_context: TypingContext, call: NestedCall) -> ReadCall:
    names = call_arguments.parameter_names(call.dispatcher, len(call.argtypes))
    if call.gradient is not None:
        arguments = checks.read_gradient_arguments(names, call.argtypes, call.gradient.argnums)
        return ReadCall(call, arguments, True, call.gradient.with_value)
    checks.require_marked(call.dispatcher, call.mode, names, call.argtypes)
    arguments = checks.read_arguments(names, call.argtypes)
    result_type = returned_by(typing_context, call.dispatcher, arguments)
    wanted = return_activity(call.marker)
    if call.mode.returns_primal:
        require_float_primal(call.dispatcher.py_func.__name__, result_type)
    seeded = wanted == "active" or (wanted is None and is_number(result_type))
    return ReadCall(call, arguments, seeded, call.mode.returns_primal)


use_nested(rewrite, nested_vjp_stub)
