"""A function compiled by Numba as a function of PyTorch's tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from activerules import extras
from activerules.errors import ForeignArrayError
from activerules.interop.functions import ArrayFunction, Specialised, kind_of

_torch: Any = extras.load("torch", "torch")

__all__ = ["wrap"]


def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as one of tensors, which PyTorch differentiates.

    Arguments
        function  an `@njit` function, or a plain one that Numba compiles, of numbers and arrays; it
                  returns a number, an array of numbers, or a tuple of these.

    Returns
        A function of tensors on the CPU: of dtype float64 or complex128, with derivatives of any
        order, in both modes; of integers or booleans, which are constant. A tensor without
        dimensions is a number for `function`. Python's numbers and NumPy's arrays are constants.
        `torch.func` transforms it; `vmap` runs it in a loop.

    Raises
        ForeignArrayError for a tensor on another device, a sparse one, or one of another precision;
        NotAFloatReturn if the result is something else; ArityError, NotCompilable; in the backward
        pass what `vjp` raises.

    Cost      compiled code reads the memory of contiguous tensors, without a copy. A tensor that is
              not contiguous, and one that `function` writes into, is copied first, so no tensor is
              ever changed. A gradient takes one forward and one reverse sweep, with respect to the
              tensors that require it; in between the tape of `vjp` is kept.

    >>> x = _torch.tensor([1.0, 2.0], dtype=_torch.float64, requires_grad=True)
    >>> wrap(lambda x: (x * x).sum())(x).backward()
    >>> x.grad
    tensor([2., 4.], dtype=torch.float64)
    """
    known = Specialised(function)

    @functools.wraps(known.target.py_func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        tensors = {name: _tensor(name, x) for name, x in known.bound(args, kwargs).items()}
        typed = known.of([kind_of(name, _dtype_of(t), t.ndim) for name, t in tensors.items()])
        results = _run(typed, [*tensors.values()])
        return results[0] if typed.single else results

    return wrapped


def _tensor(name: str, x: Any) -> Any:
    """An argument as a tensor; `ForeignArrayError` if compiled code cannot reach its items."""
    if isinstance(x, _torch.Tensor):
        if x.device.type != "cpu" or x.layout is not _torch.strided:
            raise ForeignArrayError(
                f"`{name}` is a tensor of layout {x.layout} on {x.device}",
                why="compiled code computes with strided memory of the CPU",
                instead=[f"{name}.cpu()", f"{name}.to_dense()"],
            )
        return x
    if isinstance(x, bool | int | float | complex | np.generic | np.ndarray):
        array = np.asarray(x)
        return _torch.from_numpy(array if array.flags.writeable else array.copy())
    raise ForeignArrayError(
        f"`{name}` is an object of type {type(x).__name__}",
        instead=["a tensor, a number, or an array of NumPy", "a function that captures it"],
    )


def _dtype_of(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _array(tensor: Any) -> np.ndarray[Any, Any]:
    """The memory of a tensor; a lazy conjugate is computed."""
    return tensor.detach().resolve_conj().resolve_neg().numpy()


@dataclass
class _Sweep:
    """The pullback that a forward pass leaves for the backward pass, for the arguments `wrt`."""

    wrt: tuple[int, ...]
    pullback: Callable[[Sequence[Any]], list[np.ndarray[Any, Any]]] | None = None


def _run(function: ArrayFunction, tensors: Sequence[Any]) -> tuple[Any, ...]:
    differentiated = _torch.is_grad_enabled()
    wrt = tuple(k for k in function.varied if differentiated and tensors[k].requires_grad)
    return _Call.apply(function, _Sweep(wrt), *tensors)


class _Call(_torch.autograd.Function):
    """A call of an array function."""

    @staticmethod
    def forward(function: ArrayFunction, sweep: _Sweep, *tensors: Any) -> tuple[Any, ...]:
        """Run it; where a gradient is needed, keep the pullback."""
        arrays = [_array(tensor) for tensor in tensors]
        if sweep.wrt:
            results, sweep.pullback = function.run_with_pullback(arrays, sweep.wrt)
        else:
            results = function.run(arrays)
        return tuple(map(_torch.from_numpy, results))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Keep what derivatives need; PyTorch finds out if a tensor is changed in between."""
        ctx.function, ctx.sweep, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        useful = ctx.function.useful
        ctx.mark_non_differentiable(*(out for k, out in enumerate(output) if k not in useful))

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
        """Return the cotangents of the tensors that need one; differentiable, if asked for."""
        function, sweep, tensors = ctx.function, ctx.sweep, ctx.saved_tensors
        wrt = tuple(k for k in function.varied if ctx.needs_input_grad[k + 2])
        useful = [cotangents[k] for k in function.useful]
        if _torch.is_grad_enabled() or sweep.pullback is None or sweep.wrt != wrt:
            bars = _run(function.pullback(wrt), [*tensors, *useful])
        else:
            bars = tuple(map(_torch.from_numpy, sweep.pullback([*map(_array, useful)])))
        pulled: list[Any] = [None] * (len(tensors) + 2)
        for k, bar in zip(wrt, bars, strict=True):
            pulled[k + 2] = bar
        return tuple(pulled)

    @staticmethod
    def jvp(ctx: Any, _function: Any, _sweep: Any, *tangents: Any) -> tuple[Any, ...]:
        """Return the tangents of the results."""
        function = ctx.function
        wrt = tuple(k for k in function.varied if tangents[k] is not None)
        pushed = _run(function.pushforward(wrt), [*ctx.saved_tensors, *(tangents[k] for k in wrt)])
        of_results: list[Any] = [None] * len(function.results)
        for k, tangent in zip(function.useful, pushed, strict=True):
            of_results[k] = tangent
        return tuple(of_results)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], function: ArrayFunction, _sweep: Any, *tensors: Any
    ) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """Run the function along a new first axis."""
        size = info.batch_size
        rows = [
            x.expand(size, *x.shape) if axis is None else x.movedim(axis, 0)
            for x, axis in zip(tensors, in_dims[2:], strict=True)
        ]
        results = _run(function.batched(), rows)
        return results, (0,) * len(results)
