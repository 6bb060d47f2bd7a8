"""`parallel`: a function whose `prange` loops run in threads, and so do their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

from activerules.callables import display_name, python_function, same_function
from activerules.numba_ext.calls.factories import give_factory_form
from activerules.numba_ext.codegen.made_once import LastMade
from activerules.numba_ext.codegen.on_disk import compiled_stub
from activerules.numba_ext.codegen.unlinked import to_link
from activerules.numba_ext.target.dispatchers import flags_of, require_known, with_options
from activerules.parallel_loops.outline import loops_of, with_calls

P = ParamSpec("P")
R = TypeVar("R")


def parallel(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    """Return a function that does what `function` does, whose derivatives run in threads as well.

    Arguments
        function  a plain function, or an `@njit` function (with `parallel=True` or without), that
                  has `for i in prange(...)` loops. Its source must be known.
        options   cache, fastmath, nogil, error_model, boundscheck: as in `numba.njit`.

    Returns
        An `@njit` function of the same signature; for the same function and options the same one.
        In each of its outermost `prange` loops, threads run equal numbers of consecutive
        iterations, in the function and in both modes of its derivatives. Where such a loop itself
        calls another such function by name, that one runs without threads of its own.

    What a loop may do
        Iterations must be independent, as Numba asks as well: none reads what another one writes.
        Variables may be reduced: `s += e`, `s -= e`, `s *= e`, `s = max(s, e)`, `s = min(s, e)`;
        arrays may be added, `a += e`. The reverse adds to a shadow wherever the loop reads. Threads
        share the shadow of an array that has the index on one axis of all its subscripts, as
        `a[i, j]` and `a[i + 1]`, or that is only written. Of any other array, which the loop may
        only read, each thread adds to a shadow of its own.

    Raises
        NotYetSupported  here, for a function without such a loop or whose source is not known, and
                         for a loop that breaks, or has a variable that passes from one iteration
                         to the next, or out of the loop; at the first derivative, for an array that
                         is written and read by other subscripts, for objects and lists with
                         derivatives, and for random numbers.
        and any exception that an iteration raises.

    Cost      time: the reverse runs each loop once more. Memory: copies of what the loops read and
              the program overwrites later; nothing else is kept. A loop takes one to two
              seconds to compile.

    >>> import numpy as np
    >>> from numba import prange
    >>> def norm(x):
    ...     s = 0.0
    ...     for i in prange(len(x)):
    ...         s += x[i] ** 2
    ...     return s
    >>> grad(parallel(norm))(np.array([1.0, 3.0]))
    array([2., 6.])
    """
    require_known(options)
    if getattr(function, "runs_in_threads", False):
        return function
    key = tuple(sorted(options.items()))
    made = _made.find(function, key)
    return _made.put(function, key, _parallel(function, options)) if made is None else made


_made = LastMade()


def _parallel(function: Any, options: dict[str, Any]) -> Any:
    from activerules.parallel_loops.ruled_loop import ruled_loop  # late: imports much

    target, options = with_options(function, options)
    plain = python_function(target)
    options = {**flags_of(target.targetoptions), **options}
    of_loops = {name: option for name, option in options.items() if name != "cache"}
    tree, loops = loops_of(plain)
    calls = [(loop, ruled_loop(loop, of_loops)) for loop in loops]
    result: Any = compiled_stub(with_calls(plain, tree, calls), target, options)
    result.__wrapped__ = plain
    result.runs_in_threads = True
    result.without_threads = to_link(same_function(plain, result), **of_loops)
    result.__reduce_ex__ = partial(_refuse_to_pickle, plain)
    return result


def _refuse_to_pickle(plain: Any, protocol: int) -> Any:  # noqa: ARG001
    """Raise `TypeError`: the rules of the loops are not pickled."""
    raise TypeError(
        f"parallel({display_name(plain)}) belongs to this process, in which its loops have rules; "
        "call `parallel` in each process"
    )


give_factory_form(parallel)
