"""`hvp`: the product of the Hessian of a function, of any number of arguments, with a vector.

It is the gradient, with respect to the first argument, of the derivative along the vector:
`jvp.along`.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, TypeVar

import numpy as np
from numba import types
from numba.extending import register_jitable

from activerules.annotations.trees import NUMBERS
from activerules.annotations.values import laid_like
from activerules.api.derived import DerivedFunction, GradientFunction, P
from activerules.api.hessian import copy_of_argument
from activerules.api.jacobian_blocks import copy_of, require_copyable
from activerules.api.jacobian_columns import keep_apart, lines_apart
from activerules.api.jacobian_forward import differentiated_again
from activerules.api.jvp import along
from activerules.callables import location_of
from activerules.errors import ArityError
from activerules.numba_ext.calls import call_arguments
from activerules.numba_ext.calls.error_context import say_shapes
from activerules.numba_ext.calls.intrinsics import compiled_only, dispatcher_of_type
from activerules.numba_ext.calls.nested_forms import calling
from activerules.numba_ext.codegen.arity import free_name
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_rules
from activerules.numba_ext.codegen.made_once import LastMade, compiled_lines
from activerules.numba_ext.codegen.types import runtime_type
from activerules.numba_ext.codegen.unoptimised import compiles_for_derivative
from activerules.numba_ext.replaced.in_steps import Steps, passing, steps_form
from activerules.numba_ext.rules.checks import in_layout_of
from activerules.values.kinds import is_absent, is_number_list

X = TypeVar("X")


@typing.overload
def hvp(
    function: Callable[Concatenate[X, P], Any], **options: Any
) -> DerivedFunction[Concatenate[X, X, P], X]: ...


@typing.overload
def hvp(function: Callable[..., Any], x: X, v: X, *args: Any, **options: Any) -> X: ...


def hvp(
    function: Callable[..., Any], x: Any = None, v: Any = None, *args: Any, **options: Any
) -> Any:
    """The Hessian of a function with respect to its first argument, times a vector: `H(x) v`.

    Arguments
        function  an `@njit` function or a plain one that Numba can compile; it returns one float.
        x         its first argument: a float, an array of floats, a tuple of floats.
        v         of the type and shape of `x`; in a function that is differentiated itself also of
                  its strides. From Python, an array of integers is converted.
        args      the other arguments of the function, which are constant.
        options   cache, fastmath, nogil, error_model: as in `numba.njit`.

    Returns
        A value of the type of `x`: a float, a new array, a tuple. Arrays that the function writes
        into are copied first. `hvp(function)`, without `x` and `v`, is a function `(x, v, *args)`
        that returns the product, callable from Python and inside `@njit`: the `hessp` of SciPy.

    Raises
        ArityError if the arguments do not fit the function, ShadowMismatch if arguments share
        memory that the function writes into; and what `grad` and `jvp` raise.

    Cost      one to four gradients, whatever the size of `x`; the tape of the derivative along
              `v`. It is reverse over forward; docs/maths.md says why.

    >>> hvp(lambda x: x * x * x, 2.0, 10.0)
    120.0
    >>> hvp(lambda x, a: a * x * x * x)(2.0, 10.0, 0.5)
    60.0
    """
    if x is None and v is None and not args:
        return ProductFunction(function, 0, options=options)
    product = None if options else _products.find(function, None)
    if product is None:
        product = ProductFunction(function, 0, options=options)
        if not options:
            _products.put(function, None, product)
    return product(x, v, *args)


_products = LastMade()


@compiled_only
def product_of(typing_context, spec, function, *argtypes):
    """The product of the Hessian and a vector; `argtypes` are those of the first argument, the
    vector, and the other arguments.
    """
    x, v, *rest = map(runtime_type, argtypes)
    args = (x, *rest)
    dispatcher = dispatcher_of_type(function)
    if is_absent(v):
        name = dispatcher.py_func.__name__
        raise ArityError(
            f"a product with the Hessian of {name} takes a vector, and there is none",
            where=[("in the product with the Hessian of", name, location_of(dispatcher))],
            instead=[f"hvp({name}, x, v)", f"hvp({name}), a function of x and v"],
        )
    names = call_arguments.parameter_names(dispatcher, len(args))
    is_written = differentiated_again(dispatcher, names, args, 0).written
    written = [k for k, _ in enumerate(args) if is_written[k]]
    for k in written:
        if not is_number_list(args[k]):
            require_copyable(names[k], args[k])
    gradient = GradientFunction(along(dispatcher, 0, len(args)), 0, options={}).linked
    parameters = ["x0", "v", *(f"x{k}" for k in range(1, len(args)))]
    vector = "laid_like(v, x0)" if _may_be_laid_otherwise(v, x) else "v"
    if 0 in written:
        vector = _copy(v, vector)
    allocated = [*(f"y{k}" for k in written), *(["w"] if vector != "v" else [])]
    passed = [f"y{k}" if k in written else f"x{k}" for k, _ in enumerate(args)]
    call = f"{', '.join(passed)}, {'v' if vector == 'v' else 'w'})"
    nested = compiles_for_derivative()
    run = f"return gradient({call}" if nested else f"return passing(gradient, {call}"
    allocations = [
        *lines_apart(args, written),
        *(f"y{k} = {_copy(args[k], f'x{k}')}" for k in written),
        *([f"w = {vector}"] if vector != "v" else []),
    ]
    scope = {
        "copy_of": copy_of, "gradient": gradient, "keep_apart": keep_apart, "passing": passing,
        "laid_like": register_jitable(_laid_like),
    }  # fmt: skip

    def compiled(names: Sequence[str], lines: Sequence[str]) -> Any:
        key = "hvp", x, v, *rest
        return compiled_lines(dispatcher, "product", names, lines, scope, *key)

    before = (spec, function)
    if nested or not allocated:
        callee = compiled(parameters, [*allocations, run])
        return calling(typing_context, callee, before, (x, v, *rest))
    unpack = f"{', '.join(allocated)}, = allocated"
    steps = Steps(
        compiled(parameters, [*allocations, f"return ({', '.join(allocated)},)"]),
        compiled(["allocated", *parameters], [unpack, run]),
        compiled(["allocated", "first", *parameters], ["return first"]),
    )
    return steps_form(typing_context, steps, before, (x, v, *rest))


def _may_be_laid_otherwise(v: Any, x: Any) -> bool:
    """Whether a vector is an array that may have other strides than `x`, by their types."""
    if not (isinstance(v, types.Array) and isinstance(x, types.Array)):
        return False
    if (v.ndim, v.dtype) != (x.ndim, x.dtype):
        return False  # refused
    return not (v.layout == x.layout and v.is_contig) and not compiles_for_derivative()


def _laid_like(v, x):
    """The vector, or a copy of it with the strides of `x`."""
    return in_layout_of(v, x) if v.shape == x.shape else v


class ProductFunction(DerivedFunction[..., Any]):
    """What `hvp` returns: a function that computes products of a Hessian and a vector."""

    form = staticmethod(product_of)
    kind = "hvp"

    def _own_signature(self, signature: inspect.Signature) -> inspect.Signature:
        """The signature of the function with the vector as second parameter."""
        first, *rest = signature.parameters.values()
        taken = set(signature.parameters)
        plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
        vector = inspect.Parameter(free_name("v", taken), plain)
        if first.kind is first.VAR_POSITIONAL:
            rest = [first, *rest]
            first = inspect.Parameter(free_name("x", taken), plain)
        return signature.replace(parameters=[first.replace(default=first.empty), vector, *rest])

    def _run(self, /, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            bound = self.__signature__.bind(*args, **kwargs)
            args, kwargs = bound.args, bound.kwargs
        if len(args) > 1:
            x, v, *rest = args
            v = _converted(v, x)
            laid = laid_like(v, x, [])
            # `hvp(f, x, x)` is given one array twice
            tangent = copy_of_argument(v) if laid is v else laid
            args = x, tangent, *rest
        return super()._run(*args, **kwargs)

    def _is_served_as_given(self, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Whether the vector is laid out like `x`, and in memory of its own."""
        if len(args) < 2:
            return False
        x, v, *others = args
        if type(v) in NUMBERS:
            return True
        if type(v) is tuple:
            return NUMBERS.issuperset(map(type, v))
        if type(v) is not np.ndarray or type(x) is not np.ndarray:
            return False
        if v.strides != x.strides or v.dtype != x.dtype:
            return False
        if not _are_apart(v, x):
            return False
        return not (others or named) or all(_are_apart(v, y) for y in (*others, *named.values()))

    def _explain(self, error: Exception, args: Sequence[Any]) -> None:
        if len(args) > 1:
            x, v, *_ = args
            say_shapes(error, "the vector of a product with the Hessian", v, x)

    def _require_call(self, args: Sequence[Any], kwargs: Any) -> None:
        name = self._target.py_func.__name__
        try:
            self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            raise ArityError(
                f"the arguments are not those of hvp({name}): {error}",
                where=[("in the product with the Hessian of", name, location_of(self._target))],
                instead=[f"hvp({name}){self.__signature__}"],
            ) from error


def _converted(v: Any, x: Any) -> Any:
    """The vector, of the type of `x` if it is an array of integers: SciPy tries a product with
    zeros that are integers of one byte.
    """
    arrays = type(v) is np.ndarray and type(x) is np.ndarray
    return v.astype(x.dtype) if arrays and v.dtype.kind in "biu" else v


def _are_apart(v: np.ndarray[Any, Any], x: Any) -> bool:
    """Whether an array shares no memory with a value; False if that takes long to find out."""
    if type(x) is not np.ndarray:
        return type(x) in NUMBERS
    if v.base is None and x.base is None:  # both own their memory
        return v is not x
    return not np.may_share_memory(v, x)


@chosen_by_rules(hvp)
def _hvp(function, x=None, v=None, *args):  # noqa: ARG001
    product = ProductFunction(dispatcher_of_type(function), 0, options={}).linked
    if is_absent(x) and is_absent(v):
        return lambda function, x=None, v=None, *args: product
    return lambda function, x=None, v=None, *args: product(x, v, *args)


def _copy(ty: Any, text: str) -> str:
    return f"{text}.copy()" if is_number_list(ty) else f"copy_of({text})"
