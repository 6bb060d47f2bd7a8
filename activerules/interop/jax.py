"""A function compiled by Numba as a function of JAX's arrays.

It is one primitive of JAX, whose derivative rules are instances of the primitive again: the
pushforward, linear in the tangents, and its transpose, the pullback.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from activerules import extras
from activerules.errors import ForeignArrayError
from activerules.interop.functions import ArrayFunction, Specialised, kind_of
from activerules.interop.recorded import continued, recorded

_jax: Any = extras.load("jax", "jax")
_core: Any = extras.load("jax.extend.core", "jax")
_ad: Any = extras.load("jax.interpreters.ad", "jax")
_batching: Any = extras.load("jax.interpreters.batching", "jax")
_mlir: Any = extras.load("jax.interpreters.mlir", "jax")
_partial: Any = extras.load("jax.interpreters.partial_eval", "jax")

__all__ = ["wrap"]

Shape = tuple[int, ...]


def wrap(function: Callable[..., Any], shape: Any = None) -> Callable[..., Any]:
    """Return the function as one of JAX's arrays, which JAX transforms.

    Arguments
        function  an `@njit` function, or a plain one that Numba compiles, of numbers and arrays; it
                  returns a number, an array of numbers, or a tuple of these.
        shape     needed if it returns arrays, since JAX knows shapes before anything has run: the
                  shape of the result, or a function from the shapes of the arguments to it; of a
                  tuple of results, a tuple of shapes.

    Returns
        A function of arrays on the CPU: of dtype float64 or complex128, with derivatives of any
        order, in both modes; of integers or booleans, which are constant. An array without
        dimensions is a number for `function`. `jit`, `grad`, `jvp`, `hessian`, `vmap` (in a loop)
        and the other transformations apply. It must be pure: what it writes into its arguments is
        lost.

    Raises
        ForeignArrayError if JAX is not set to double precision, or an array is of another
        precision or lies on a GPU; ShadowMismatch if a result does not have the shape of `shape`;
        NotAFloatReturn if the result is something else; ArityError, NotCompilable; at the
        derivative what `vjp` and `jvp` raise.

    Cost      a callback from JAX's compiled code, some 50 to 200 µs, and a copy of the arguments.
              A value and its gradient take one forward and one reverse sweep, and so do all rows of
              `jacrev`. In between the tape is kept, of at most the last 32 calls: what is older, as
              in a long `scan`, is computed again by the reverse sweep.

    >>> _jax.config.update("jax_enable_x64", True)
    >>> square = wrap(lambda x: (x * x).sum())
    >>> _jax.jit(_jax.grad(square))(np.array([1.0, 2.0]))
    Array([2., 4.], dtype=float64)
    """
    known = Specialised(function, conjugated=True)

    @functools.wraps(known.target.py_func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        _require_double()
        arrays = {name: _array(name, x) for name, x in known.bound(args, kwargs).items()}
        typed = known.of([kind_of(name, x.dtype.name, x.ndim) for name, x in arrays.items()])
        shapes = _shapes_of(typed, shape, [x.shape for x in arrays.values()])
        results = _bind(typed, shapes, [*arrays.values()])
        return results[0] if typed.single else tuple(results)

    return wrapped


def _require_double() -> None:
    if not _jax.config.jax_enable_x64:
        raise ForeignArrayError(
            "JAX computes in single precision",
            why="derivatives across the bridge are in double precision",
            instead=['jax.config.update("jax_enable_x64", True), before any array is made'],
        )


def _array(name: str, x: Any) -> Any:
    """An argument as an array of JAX, or a tracer; `ForeignArrayError` for what is none."""
    try:
        array = _jax.numpy.asarray(x)
    except TypeError as error:
        raise ForeignArrayError(
            f"`{name}` is an object of type {type(x).__name__}",
            instead=["an array or a number", "a function that captures it"],
        ) from error
    if not isinstance(array, _jax.core.Tracer):
        _require_cpu(name, array)
    return array


def _require_cpu(name: str, x: Any) -> None:
    elsewhere = sorted({device.platform for device in x.devices()} - {"cpu"})
    if elsewhere:
        raise ForeignArrayError(
            f"`{name}` lies on a device of the platform {elsewhere[0]}",
            why="compiled code runs on the CPU",
            instead=['jax.device_put(x, jax.devices("cpu")[0])'],
        )


def _shapes_of(
    function: ArrayFunction, shape: Any, argument_shapes: Sequence[Shape]
) -> tuple[Shape, ...]:
    """The shapes of the results."""
    requested: Any = shape(*argument_shapes) if callable(shape) else shape
    if requested is None:
        listed: list[Any] = [()] * len(function.results)
    elif function.single:
        listed = [requested]
    else:
        listed = list(requested) if isinstance(requested, tuple | list) else [requested]
    if not all(map(_is_shape, listed)):
        raise function.wrong_shapes(listed, "a shape is a tuple of lengths")
    shapes = tuple(tuple(map(int, np.atleast_1d(shape))) for shape in listed)
    if tuple(map(len, shapes)) != tuple(ndim for _, ndim in function.results):
        raise function.wrong_shapes(shapes)
    return shapes


def _is_shape(shape: Any) -> bool:
    """Whether it is a tuple of lengths, or one length."""
    lengths = shape if isinstance(shape, tuple | list) else (shape,)
    return all(isinstance(n, int | np.integer) and n >= 0 for n in lengths)


# --- the primitive ---

_call: Any = _core.Primitive("activerules_call")
_call.multiple_results = True


def _bind(function: ArrayFunction, shapes: Sequence[Shape], args: Sequence[Any]) -> list[Any]:
    return _call.bind(*args, function=function, shapes=tuple(shapes))


def _outputs(function: ArrayFunction, shapes: Sequence[Shape]) -> list[Any]:
    return [
        _jax.ShapeDtypeStruct(shape, dtype)
        for shape, (dtype, _) in zip(shapes, function.results, strict=True)
    ]


@_call.def_abstract_eval
def _abstract(*_args: Any, function: ArrayFunction, shapes: tuple[Shape, ...]) -> list[Any]:
    return [
        _jax.core.ShapedArray(output.shape, output.dtype) for output in _outputs(function, shapes)
    ]


def _by_callback(*args: Any, function: ArrayFunction, shapes: tuple[Shape, ...]) -> list[Any]:
    def run(*arrays: Any) -> list[np.ndarray[Any, Any]]:
        return _results(arrays, function, shapes)

    return _jax.pure_callback(run, _outputs(function, shapes), *args)


def _results(
    arrays: Sequence[Any], function: ArrayFunction, shapes: tuple[Shape, ...]
) -> list[np.ndarray[Any, Any]]:
    results = function.run([*map(np.asarray, arrays)])
    function.require_shapes(results, shapes)
    return results


@_call.def_impl
def _run(*args: Any, function: ArrayFunction, shapes: tuple[Shape, ...]) -> list[Any]:
    """Outside of `jit` an error is that of the function, not one of JAX's runtime."""
    return [*map(_jax.numpy.asarray, _results(args, function, shapes))]


_mlir.register_lowering(_call, _mlir.lower_fun(_by_callback, multiple_results=True))


def _jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    function: ArrayFunction,
    shapes: tuple[Shape, ...],
) -> tuple[list[Any], list[Any]]:
    """The results, and their tangents along those tangents that are not zero."""
    wrt = tuple(k for k in function.varied if not isinstance(tangents[k], _ad.Zero))
    useful = function.useful
    # tangents are unknown where a function is linearised, which is how it is transposed
    transposed = any(isinstance(tangents[k], _partial.JaxprTracer) for k in wrt)
    recording = recorded(function, wrt) if transposed and useful else None
    if recording is None:
        linear, operands, results = function, [*primals], _bind(function, shapes, primals)
    else:
        axes = recording.results[-1][1]  # of a batch
        *results, number = _bind(recording, [*shapes, np.shape(primals[0])[:axes]], primals)
        linear, operands = continued(function), [*primals, number]
    of_results = [*map(_zero_tangent, results)]
    if wrt and useful:
        pushed = _bind(
            linear.pushforward(wrt),
            [shapes[k] for k in useful],
            [*operands, *(tangents[k] for k in wrt)],
        )
        for k, tangent in zip(useful, pushed, strict=True):
            of_results[k] = tangent
    return results, of_results


def _zero_tangent(result: Any) -> Any:
    """A symbolic zero; that of integers has a dtype of its own."""
    differentiable = np.issubdtype(result.dtype, np.inexact)
    dtype = result.dtype if differentiable else _jax.dtypes.float0
    return _ad.Zero(_jax.core.ShapedArray(result.shape, dtype))


_ad.primitive_jvps[_call] = _jvp


def _transpose(
    cotangents: Sequence[Any], *args: Any, function: ArrayFunction, shapes: tuple[Shape, ...]
) -> list[Any]:
    """The cotangents of the last arguments, in which the function is linear."""
    first = len(args) - function.linear
    filled = [
        np.zeros(shape, dtype) if isinstance(cotangent, _ad.Zero) else cotangent
        for cotangent, shape, (dtype, _) in zip(cotangents, shapes, function.results, strict=True)
    ]
    outputs = [argument.aval.shape for argument in args[first:]]
    return [None] * first + _bind(function.transposed, outputs, [*args[:first], *filled])


_ad.primitive_transposes[_call] = _transpose


def _batch(
    args: Sequence[Any], axes: Sequence[Any], *, function: ArrayFunction, shapes: tuple[Shape, ...]
) -> tuple[list[Any], list[int]]:
    """The function along the first axis of all arguments."""
    numpy = _jax.numpy
    size = next(x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None)
    rows = [
        numpy.broadcast_to(x, (size, *x.shape)) if axis is None else numpy.moveaxis(x, axis, 0)
        for x, axis in zip(args, axes, strict=True)
    ]
    results = _bind(function.batched(), [(size, *shape) for shape in shapes], rows)
    return results, [0] * len(results)


_batching.primitive_batchers[_call] = _batch
