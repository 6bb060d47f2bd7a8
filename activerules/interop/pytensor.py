"""A function compiled by Numba as an `Op` of PyTensor, for models of PyMC."""

from __future__ import annotations

import functools
import pickle
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from activerules import extras
from activerules.errors import ForeignArrayError
from activerules.interop.functions import ArrayFunction, Pullback, Specialised, carries, kind_of
from activerules.interop.recorded import continued, recorded

_op: Any = extras.load("pytensor.graph.op", "pytensor")
_basic: Any = extras.load("pytensor.graph.basic", "pytensor")
_tensor: Any = extras.load("pytensor.tensor", "pytensor")
_gradient: Any = extras.load("pytensor.gradient", "pytensor")
_rewriting: Any = extras.load("pytensor.graph.rewriting.basic", "pytensor")
_rewrites: Any = extras.load("pytensor.tensor.rewriting.basic", "pytensor")

__all__ = ["wrap"]


def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as one of PyTensor's variables, with derivatives of any order.

    Arguments
        function  an `@njit` function, or a plain one that Numba compiles, of numbers and arrays; it
                  returns a real number, an array of them, or a tuple of these.

    Returns
        A function of variables, arrays and numbers: of dtype float64, with derivatives; of integers
        or booleans, which are constant, as is every value that is no variable. A scalar is a number
        for `function`. The result is a variable, or a tuple of them: a log density for
        `pymc.Potential` or `pymc.CustomDist`, or a part of a model.

    Raises
        ForeignArrayError for a variable of another precision or type; NotAFloatReturn if the result
        is something else; ArityError, NotCompilable; when the graph runs, what `vjp` raises.

    Cost      a call of Python per evaluation. A graph of a value and its gradient takes one forward
              and one reverse sweep, and copies the arguments.

    >>> x = _tensor.dvector("x")
    >>> y = wrap(lambda x: (x * x).sum())(x)
    >>> _gradient.grad(y, x).eval({x: np.array([1.0, 2.0])})
    array([2., 4.])
    """
    known = Specialised(function)

    @functools.wraps(known.target.py_func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        variables = {name: _variable(name, x) for name, x in known.bound(args, kwargs).items()}
        typed = known.of([kind_of(name, x.dtype, x.ndim) for name, x in variables.items()])
        results = _Call(typed)(*variables.values(), return_list=True)
        return results[0] if typed.single else tuple(results)

    return wrapped


def _variable(name: str, x: Any) -> Any:
    """An argument as a variable; `ForeignArrayError` for what is no dense real tensor."""
    if isinstance(x, bool | int | float | np.generic | np.ndarray):
        return _tensor.constant(np.asarray(x), dtype=np.asarray(x).dtype)  # in no smaller dtype
    try:
        variable = _tensor.as_tensor_variable(x)
        fits = not variable.dtype.startswith("complex")
    except (TypeError, NotImplementedError, AttributeError):
        fits, variable = False, x
    if not fits:
        raise ForeignArrayError(
            f"`{name}` is {variable}, of type {getattr(variable, 'type', type(variable).__name__)}",
            why="a dense tensor of real numbers is needed",
            instead=["such a variable, a number or an array", "a function that captures it"],
        )
    return variable


class _Call(_op.Op):
    """A call of an array function; the call of its pullback is the gradient."""

    __props__ = ("function",)

    def __init__(self, function: ArrayFunction) -> None:
        self.function = function

    def __reduce__(self) -> Any:
        """Numba keeps the address of what raises this, where it calls `perform`."""
        raise pickle.PicklingError(f"{self.function.name} and its tapes belong to this process")

    def __copy__(self) -> _Call:
        return self

    def __deepcopy__(self, memo: Any) -> _Call:
        return self

    def make_node(self, *inputs: Any) -> Any:
        """Return the node; sizes along axes are known when it runs."""
        outputs = [
            _tensor.TensorType(dtype.name, shape=(None,) * ndim)()
            for dtype, ndim in self.function.results
        ]
        return _basic.Apply(self, [*inputs], outputs)

    def perform(self, node: Any, inputs: Sequence[Any], output_storage: Sequence[Any]) -> None:
        """Run the function."""
        results = self.function.run(inputs)
        for storage, result in zip(output_storage, results, strict=True):
            storage[0] = result

    def connection_pattern(self, node: Any) -> list[list[bool]]:
        """Whether each argument has a derivative through each result."""
        kinds = self.function.kinds
        return [[carries(x) and carries(y) for y in self.function.results] for x in kinds]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        """Return the cotangents of the arguments."""
        function = self.function
        # what is a constant of the graph is nowhere differentiated
        wrt = tuple(k for k in function.varied if not isinstance(inputs[k], _basic.Constant))
        seeds = [
            outputs[k].zeros_like() if _is_disconnected(cotangents[k]) else cotangents[k]
            for k in function.useful
        ]
        pulled = [_gradient.DisconnectedType()() for _ in inputs]
        for k in function.varied:
            pulled[k] = inputs[k].zeros_like()
        if wrt:
            bars = _Call(function.pullback(wrt))(*inputs, *seeds, return_list=True)
            for k, bar in zip(wrt, bars, strict=True):
                pulled[k] = bar
        return pulled

    def pushforward(self, inputs: Any, outputs: Any, tangents: Any) -> list[Any]:
        """Return the tangents of the results."""
        function = self.function
        wrt = tuple(k for k in function.varied if not _is_disconnected(tangents[k]))
        cotangents = [_gradient.DisconnectedType()() for _ in outputs]
        if wrt:
            directions = [tangents[k] for k in wrt]
            pushed = _Call(function.pushforward(wrt))(*inputs, *directions, return_list=True)
            for k, tangent in zip(function.useful, pushed, strict=True):
                cotangents[k] = tangent
        return cotangents


def _l_op(self: _Call, inputs: Any, outputs: Any, output_grads: Any) -> list[Any]:
    return self.pullback(inputs, outputs, output_grads)


def _r_op(self: _Call, inputs: Any, eval_points: Any) -> list[Any]:
    missing = _gradient.DisconnectedType()
    tangents = [missing() if x is None else x for x in eval_points]
    pushed = self.pushforward(inputs, self.make_node(*inputs).outputs, tangents)
    return [None if _is_disconnected(x) else x for x in pushed]


def _in_object_mode(op: Any, node: Any = None, **options: Any) -> Any:
    """What PyTensor does where an operation has no code for Numba, without its warning: that a call
    of `perform` goes through Python is said in `wrap`.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Numba will use object mode", UserWarning)
        return _for_numba.generate_fallback_impl(op, node, **options)


if hasattr(_op.Op, "pullback"):
    _for_numba: Any = extras.load("pytensor.link.numba.dispatch.basic", "pytensor")
    _for_numba.numba_funcify.register(_Call)(_in_object_mode)
else:  # before PyTensor 3
    _Call.L_op, _Call.R_op = _l_op, _r_op


@_rewrites.register_specialize
@_rewriting.node_rewriter([_Call])
def _go_on_from_value(fgraph: Any, node: Any) -> Any:
    """Where a function and its pullback are called with the same arguments, let the pullback go on
    from the forward sweep of the function.
    """
    pullback = node.op.function
    if not isinstance(pullback, Pullback):
        return None
    primal, wrt = pullback.primal, pullback.wrt
    inputs = node.inputs[: len(primal.kinds)]
    cotangents = node.inputs[len(inputs) :]
    recording = recorded(primal, wrt)
    for client, _ in fgraph.clients[inputs[wrt[0]]]:
        op = getattr(client, "op", None)
        if recording and op == _Call(primal) and client.inputs == inputs:
            *results, number = _Call(recording)(*inputs, return_list=True)
            pull = _Call(continued(primal).pullback(wrt))
            bars = pull(*inputs, number, *cotangents, return_list=True)
            return {
                **dict(zip(node.outputs, bars, strict=True)),
                **dict(zip(client.outputs, results, strict=True)),
            }
    return None


def _is_disconnected(variable: Any) -> bool:
    return isinstance(variable.type, _gradient.DisconnectedType)
