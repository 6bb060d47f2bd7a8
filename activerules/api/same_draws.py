"""Runs of one function that draw the same random numbers.

A derivative that runs a function more than once belongs to one function only if each run draws what
the first one drew: the reverse sweep of a checkpoint, of a gradient that is differentiated, the
columns of a Jacobian. So the states that `np.random` and `random` draw from are kept before the
first run, and the others begin at them.
"""

from __future__ import annotations

from numba.extending import register_jitable

from activerules.numba_ext.calls.intrinsics import dispatcher_of_type
from activerules.numba_ext.calls.refused_kinds import refuse_generators
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.random_states import random_states, set_random_states
from activerules.numba_ext.codegen.types import runtime_type


@chosen_by_types
def states_if_drawn(function, args):
    """The states from which a function is about to draw, called with the tuple `args`; None if it
    draws nothing. The function is compiled for them.

    Raises `NotYetSupported` (when it is compiled) if one of `args` is a NumPy generator.
    """
    from activerules.numba_ext.target.effects import draws_numbers  # late: imports much

    dispatcher, argtypes = dispatcher_of_type(function), tuple(map(runtime_type, args.types))
    refuse_generators(argtypes)
    if draws_numbers(dispatcher, argtypes):
        return lambda function, args: random_states()
    return lambda function, args: None


@register_jitable
def exchange_states(states):
    """Let what is drawn from now on begin at `states`. Returns the states before; does nothing for
    None.
    """
    if states is None:
        return None
    before = random_states()
    set_random_states(states)
    return before
