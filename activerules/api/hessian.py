"""Second order: `hessian`, and what `hvp` is built from.

Both are reverse over forward. With D the derivative of f along a direction,

    D(x, v) = f'(x) v            by forward mode: code without a tape, to be differentiated again
    H(x) v  = the gradient of D(·, v) at x, by reverse mode

Gradients inside a function that is differentiated are computed likewise: see
`nested.gradient_rules`.

Source    Pearlmutter (1994), Fast exact multiplication by the Hessian; Griewank and Walther (2008),
          section 5.4
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import njit, typed, types

from activerules.annotations.values import make_zero
from activerules.api.derived import ArgNums, DerivedFunction, GradientFunction, P
from activerules.api.has_aux import jacobian_function
from activerules.api.jacobian_blocks import arranged, carrying
from activerules.api.jacobian_columns import Columns, columns_form
from activerules.api.jacobian_forward import names_of, written_arrays
from activerules.api.jvp import jvp
from activerules.api.list_arguments import by_arrays
from activerules.errors import ActivityError
from activerules.numba_ext.calls import checks
from activerules.numba_ext.calls.factories import give_factory_form
from activerules.numba_ext.calls.forward_forms import compiles_for_derivative
from activerules.numba_ext.calls.intrinsics import dispatcher_of_type, give_compiled_form
from activerules.numba_ext.codegen.arity import first_names
from activerules.numba_ext.codegen.made_once import MadeOnce
from activerules.numba_ext.codegen.types import SpecType
from activerules.rules.pattern import type_name
from activerules.rules.written import function_from
from activerules.values.kinds import gradient_type
from activerules.values.leaf_texts import TupleTexts, leaves_at

_made = MadeOnce()
_CONTAINERS: Any = (typed.List, typed.Dict)


def copy_of_argument(x: Any) -> Any:
    """A copy of an array, with its strides, or of a list; other arguments are returned."""
    if isinstance(x, _CONTAINERS):
        return x.copy()
    if not isinstance(x, np.ndarray):
        return x
    fresh = make_zero(x)
    fresh[...] = x
    return fresh


def hessian(
    function: Callable[P, Any], argnums: ArgNums = 0, has_aux: bool = False, **options: Any
) -> DerivedFunction[P, Any]:
    """Return the Hessian of a function that returns one float.

    Arguments
        function  an `@njit` function or a plain one that Numba can compile.
        argnums   what to differentiate with respect to: an argument by number or name, or a tuple
                  of several. They are floats, arrays of floats, and tuples of these; a
                  `numba.typed.List` of floats counts as an array.
        has_aux=True   the function returns `(value, aux)`, and the result is `(Hessian, aux)`.
        options   cache, fastmath, nogil, error_model: as in `numba.njit`.

    Returns
        A function with the signature of `function`, callable from Python and inside `@njit`. Its
        result has the shape `in.shape + in.shape`; with a tuple of `argnums` it is a tuple of
        tuples, entry [i][j] with respect to arguments i and j. It is the Jacobian of the gradient,
        with a further index for the entries of an argument that is a tuple. Arrays that the
        function writes into are copied first.

    Raises
        ActivityError (at the call) for an argument that is not made of floats; and what `grad` and
        `jvp` raise.

    Cost      one product of the Hessian and a vector per number in the input.

    >>> hessian(lambda x: x * x * x)(2.0)
    12.0
    """
    return jacobian_function(HessianFunction, function, argnums, has_aux, options)


def hessian_of(spec: Any, function: Any, *args: Any) -> Any:
    """The Hessian, for compiled stubs only."""
    raise NotImplementedError("this function only has a compiled form")


class HessianFunction(DerivedFunction[..., Any]):
    """What `hessian` returns: a function that computes Hessians."""

    form = staticmethod(hessian_of)
    kind = "hessian"


def _hessian_form(typing_context, spec, function, *args):
    if not isinstance(spec, SpecType):
        return None
    by_lists = by_arrays(typing_context, hessian_of, spec, function, args)
    if by_lists is not None:
        return by_lists
    request = spec.value
    argnums = request.argnums
    dispatcher = dispatcher_of_type(function)
    names = checks.read_arity(dispatcher, len(args))
    found = tuple(map(types.unliteral, args))
    for j in argnums:
        _require_hessian(names[j], found[j])
    # what is differentiated is the gradient with respect to all of `argnums`, a tuple
    result = types.Tuple([gradient_type(found[j]) for j in argnums])
    rows = carrying("out", result)
    gradients: dict[str, Any] = {}
    columns: dict[str, Columns] = {}
    call = "g{}(" if compiles_for_derivative() else "passing(g{}, "
    texts = TupleTexts()
    for j in argnums:
        written = written_arrays(dispatcher, names, found, j, 1)
        given = ", ".join(names_of(written))
        columns[f"x{j}"] = Columns(
            f"x{j}",
            found,
            1,
            lambda tangent, j=j, given=given: f"({call.format(j)}{given}, {tangent[0]}),)",
            rows,
            written,
            texts,
        )
        gradients[f"g{j}"] = GradientFunction(
            along(dispatcher, j, len(args)), argnums, options={}
        ).dispatcher
    blocks = arranged(texts, result, found, request, lambda row, x: columns[x.root].block(row, x))
    blocks += "[0]" * request.single
    before = (spec, function)
    return columns_form(
        typing_context, before, args, list(columns.values()), blocks, texts, gradients, dispatcher
    )


give_compiled_form(hessian_of, _hessian_form)


def _require_hessian(name: str, found: Any) -> None:
    leaves = list(leaves_at("", found))
    if not all(isinstance(leaf.number, types.Float) for leaf in leaves if leaf.carries) or not any(
        leaf.carries for leaf in leaves
    ):
        raise ActivityError(
            f"`{name}` is {type_name(found)}: no Hessian with respect to it",
            why="argnums names what to differentiate with respect to: floats, arrays and tuples",
            instead=["another argnums"],
        )


# --- the function that reverse mode is applied to ---


def along(dispatcher: Any, argnum: int, count: int) -> Any:
    """The function `(*args, v) -> f'(args) v`, where `v` is a tangent of argument `argnum` of
    `count`.
    """

    def make() -> Any:
        names = first_names(dispatcher, count)
        extra = _free(f"dot_{names[argnum]}", names)
        tangents = [extra if k == argnum else "None" for k in range(len(names))]
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
        made.__name__ = plain.__name__  # errors show the user's function
        return njit(made)

    return _made.get(dispatcher, ("along", argnum, count), make)


def _free(name: str, taken: Sequence[str]) -> str:
    return _free(f"{name}_", taken) if name in taken else name


give_factory_form(hessian)
