"""Second order: `hvp` and `hessian`.

Both are reverse over forward. With D the derivative of f along a direction,

    D(x, v) = f'(x) v            by forward mode: tape-free code that is differentiated again
    H(x) v  = the gradient of D(·, v) at x, by reverse mode

A gradient inside a function that is differentiated is one step of the same kind: see
`gradient_rules`.

Source    Pearlmutter (1994), Fast exact multiplication by the Hessian; Griewank and Walther (2008),
          section 5.4
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from activerules.annotations.values import make_zero
from activerules.autodiff import run_compiled
from activerules.directional import jvp
from activerules.errors import ActivityError
from activerules.everyday import ArgNums, DerivedFunction, GradientFunction
from activerules.jacobians import compiled_source, copies_of, copy_of, names_of, written_arrays
from activerules.numba_ext import checks
from activerules.numba_ext.dispatchers import MadeOnce, dispatcher_of
from activerules.numba_ext.factories import give_factory_form
from activerules.numba_ext.intrinsics import dispatcher_of_type
from activerules.numba_ext.types import SpecType
from activerules.rules.pattern import type_name
from activerules.rules.written import function_from

_made = MadeOnce()


def hvp(function: Callable[..., Any], x: Any, v: Any) -> Any:
    """The Hessian of a function of one argument, times a vector: `H(x) v`.

    Arguments
        function  an `@njit` function or a plain one that Numba can compile; it returns one float.
        x         its argument: a float, an array of floats, a tuple of floats.
        v         of the type, shape and strides of `x`.

    Returns
        What `grad` returns: a float, a new array, a tuple. An array that the function writes into
        is copied first, and so is `v`.

    Raises
        what `grad` and `jvp` raise.

    Cost      one to two gradients in most programs, whatever the size of `x`; the tape of the
              derivative along `v`. It is reverse over forward: docs/maths.md says why.

    >>> hvp(lambda x: x * x * x, 2.0, 10.0)
    120.0
    """
    target = dispatcher_of(function)
    checks.read_arity(target, 1)
    product = hessian_product(target).dispatcher
    return run_compiled(product, _copied(x), _copied(v))


def _copied(x: Any) -> Any:
    """A copy of an array, strides kept: a function that writes into `x` has its tangent in `v`."""
    if not isinstance(x, np.ndarray):
        return x
    fresh = make_zero(x)
    fresh[...] = x
    return fresh


def hessian(function: Callable[..., Any], argnums: ArgNums = 0, **options: Any) -> HessianFunction:
    """Return the Hessian of a function that returns one float.

    Arguments
        function  an `@njit` function or a plain one that Numba can compile.
        argnums   the argument to differentiate by, or a tuple of them: floats and arrays of floats.
        options   cache, fastmath, nogil, error_model: what they mean in `numba.njit`.

    Returns
        A function with the signature of `function`, callable from Python and inside `@njit`. Its
        result has the shape `in.shape + in.shape`; with a tuple of `argnums` it is a tuple of
        tuples, entry [i][j] by argument i and argument j. Arrays that the function writes into are
        copied first.

    Raises
        ActivityError (at the call) for an argument that is no float and no array of floats; and
        what `grad` and `jvp` raise.

    Cost      one product with the Hessian per number of the input.

    >>> hessian(lambda x: x * x * x)(2.0)
    12.0
    """
    return HessianFunction(function, argnums, options=options)


def hessian_of(spec: Any, function: Any, *args: Any) -> Any:
    """Stand for the Hessian; only called from compiled stubs."""
    raise NotImplementedError("this function only has a compiled form")


class HessianFunction(DerivedFunction):
    """What `hessian` returns."""

    form = staticmethod(hessian_of)
    kind = "hessian"


@overload(hvp)
def _hvp(function, x, v):
    dispatcher = dispatcher_of_type(function)
    product = hessian_product(dispatcher).dispatcher
    names = checks.read_arity(dispatcher, 1)
    if written_arrays(dispatcher, names, (types.unliteral(x),), 0, 1)[0]:
        return lambda function, x, v: product(copy_of(x), copy_of(v))
    return lambda function, x, v: product(x, v)


@overload(hessian_of)
def _hessian_of(spec, function, *args):
    if not isinstance(spec, SpecType):
        return None
    places, single = spec.value.argnums, spec.value.single
    dispatcher = dispatcher_of_type(function)
    names = checks.read_arity(dispatcher, len(args))
    found = tuple(map(types.unliteral, args))
    lines = ["def impl(spec, function, *args):"]
    lines += [f"x{k} = args[{k}]" for k in range(len(args))]
    gradients = {}
    for j in places:
        _require_hessian(names[j], found[j])
        written = written_arrays(dispatcher, names, found, j, 1)
        lines += _columns(j, places, written, isinstance(found[j], types.Array))
        gradients[f"g{j}"] = GradientFunction(along(dispatcher, j), places, options={}).dispatcher
    rows = [", ".join(f"h{i}_{j}" for j in places) for i in places]
    lines.append("return " + (rows[0] if single else "".join(f"({row},), " for row in rows)))
    return compiled_source("\n    ".join(lines), **gradients)


def _require_hessian(name: str, found: Any) -> None:
    numbers = found.dtype if isinstance(found, types.Array) else found
    if not isinstance(numbers, types.Float):
        raise ActivityError(
            f"`{name}` is {type_name(found)}: there is no Hessian by it",
            why="argnums names the arguments to differentiate by: floats and arrays of floats",
            instead=["another argnums", "hvp, which takes tuples of floats, too"],
        )


def _columns(j: int, places: Sequence[int], written: Sequence[bool], is_array: bool) -> list[str]:
    """Lines that leave the blocks of the Hessian with columns for argument `j` in `h<i>_<j>`."""
    product = f"c = g{j}({', '.join(names_of(written))}, "
    if not is_array:
        blocks = [f"h{i}_{j} = c[{n}]" for n, i in enumerate(places)]
        return [*copies_of(written), product + f"type(x{j})(1.0))", *blocks]
    one = [f"set_unit(e{j}, k)", *copies_of(written), product + f"e{j})"]
    put = [f"put_column(h{i}_{j}, c[{n}], k, x{j}.size)" for n, i in enumerate(places)]
    return [
        f"e{j} = make_zero(x{j})",
        "k = 0",
        *one,
        *(f"h{i}_{j} = new_jacobian(c[{n}], x{j})" for n, i in enumerate(places)),
        *put,
        f"for k in range(1, x{j}.size):",
        *("    " + line for line in (*one, *put)),
    ]


# --- the functions that reverse mode is applied to ---


def hessian_product(dispatcher: Any) -> GradientFunction:
    """The function `(x, v) -> H(x) v` of a function of one argument."""
    return _made.get(
        dispatcher, "product", lambda: GradientFunction(along(dispatcher, 0), 0, options={})
    )


def along(dispatcher: Any, place: int) -> Any:
    """The function `(*args, v) -> f'(args) v`, where v is a tangent of the argument in `place`."""

    def make() -> Any:
        names = list(inspect.signature(dispatcher.py_func).parameters)
        extra = _free(f"dot_{names[place]}", names)
        tangents = [extra if k == place else "None" for k in range(len(names))]
        source = (
            f"def along({', '.join(names)}, {extra}):\n"
            f"    return _jvp(_function, ({', '.join(names)},), ({', '.join(tangents)},))[1]\n"
        )
        plain = dispatcher.py_func
        made = function_from(
            source,
            "along",
            {"_jvp": jvp, "_function": dispatcher},
            module=__name__,
            file=plain.__code__.co_filename,
            line=plain.__code__.co_firstlineno,
        )
        made.__name__ = plain.__name__  # errors name the function the Hessian is of
        return njit(made)

    return _made.get(dispatcher, ("along", place), make)


def _free(name: str, taken: Sequence[str]) -> str:
    return _free(f"{name}_", taken) if name in taken else name


give_factory_form(hessian)
