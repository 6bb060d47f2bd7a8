"""`grad` and `value_and_grad`: functions with the signature of the one they differentiate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from activerules.api.derived import ArgNums, DerivedFunction, GradientFunction, P, R
from activerules.api.has_aux import GradientWithAux
from activerules.numba_ext.calls.factories import give_factory_form
from activerules.numba_ext.target.dispatchers import require_flag


def grad(
    function: Callable[P, Any], argnums: ArgNums = 0, has_aux: bool = False, **options: Any
) -> DerivedFunction[P, Any]:
    """Return the gradient of a function that returns one float.

    Arguments
        function  an `@njit` function or a plain one that Numba can compile.
        argnums   what to differentiate with respect to: an argument by number or name, or a tuple.
        has_aux=True   the function returns `(value, aux)`, where aux is not differentiated, and the
                  result is `(gradient, aux)`.
        options   cache, fastmath, nogil, error_model: as in `numba.njit`.

    Returns
        A function with the signature of `function`, callable from Python and inside `@njit`. Its
        result is the derivative with respect to the argument: a float for a float, a tuple for a
        tuple, a new array of the same dtype and shape for an array; with a tuple of `argnums`, a
        tuple of these.

    Raises
        NotAFloatReturn (at the call) if the function returns something else, ActivityError if an
        argument of `argnums` is not made of floats, ArityError if there is no such argument or one
        is given twice; and what `autodiff` raises.

    Cost      a small multiple of the function itself, whatever the number of arguments and their
              sizes; memory for the tape.

    >>> grad(lambda x: x * x)(3.0)
    6.0
    """
    if require_flag("has_aux", has_aux):
        return GradientWithAux(function, argnums, with_value=False, options=options)
    return GradientFunction(function, argnums, with_value=False, options=options)


def value_and_grad(
    function: Callable[P, R], argnums: ArgNums = 0, has_aux: bool = False, **options: Any
) -> DerivedFunction[P, tuple[R, Any]]:
    """Return a function whose result is `(value, gradient)`, or with `has_aux=True`
    `((value, aux), gradient)`; see `grad`.

    >>> value_and_grad(lambda x: x * x)(3.0)
    (9.0, 6.0)
    """
    if require_flag("has_aux", has_aux):
        return GradientWithAux(function, argnums, with_value=True, options=options)
    return GradientFunction(function, argnums, with_value=True, options=options)


give_factory_form(grad)
give_factory_form(value_and_grad)
