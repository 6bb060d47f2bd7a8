"""`minimize`, `least_squares` and `root` of SciPy for `@njit` functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

import numpy as np
from numba.extending import is_jitted

from activerules import extras
from activerules.api.grad import value_and_grad
from activerules.api.hessian import hessian
from activerules.api.hvp import hvp
from activerules.api.jacobian_by_size import jacobian
from activerules.api.jvp import jvp
from activerules.api.vjp import vjp
from activerules.errors import ActivityError
from activerules.interop.scipy.progress import counted
from activerules.numba_ext.target.dispatchers import dispatcher_of

_optimize: Any = extras.load("scipy.optimize", "scipy")

_TAKE_PRODUCTS = frozenset({"newton-cg", "trust-ncg", "trust-krylov", "trust-constr"})
_TAKE_HESSIANS = frozenset({"dogleg", "trust-exact"})
_TAKE_GRADIENTS = frozenset({"cg", "bfgs", "l-bfgs-b", "tnc", "slsqp"})
_ROOTS_BY_JACOBIAN = frozenset({"hybr", "lm"})


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: Any = None,
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    progress: Any = False,
) -> Any:
    """`scipy.optimize.minimize` of an `@njit` function, with its derivatives.

    Arguments
        fun       an `@njit` function `fun(x, *args)`, or a plain one that Numba compiles, that
                  returns one float; `x` is a vector of floats, as in SciPy.
        jac, hess, hessp   where they are left out, the derivatives that the method uses: value and
                  gradient from one sweep; products with the Hessian for Newton-CG, trust-ncg,
                  trust-krylov and trust-constr; the Hessian for dogleg and trust-exact. What is
                  given is passed on to SciPy.
        constraints   as in SciPy; an `@njit` function in them gets its Jacobian, unless one is
                  given.
        progress  True draws a bar of tqdm that counts evaluations; or such a bar.
        Everything else is SciPy's.

    Returns
        SciPy's `OptimizeResult`; `nfev`, `njev` and `nhev` count calls as always.

    Raises
        NotAFloatReturn if `fun` does not return one float, ActivityError if it cannot be
        differentiated with respect to `x`, NotCompilable if Numba cannot compile it, MissingExtra;
        and what `grad` and SciPy raise.

    Cost      value and gradient: a small multiple of the value. A method without derivatives, such
              as Nelder-Mead, calls `fun` alone.

    >>> minimize(lambda x: np.sum((x - 2.0) ** 2), np.zeros(3)).x
    array([2., 2., 2.])
    """
    _require_numbers(x0)
    objective, jac, hess, hessp = _derivatives_of(fun, method, jac, hess, hessp)
    with counted(objective, progress, "minimize") as evaluate:
        return _optimize.minimize(
            evaluate, x0, args, method, jac, hess, hessp, bounds,
            _with_jacobians(constraints), tol, callback, options,
        )  # fmt: skip


def _derivatives_of(fun: Any, method: Any, jac: Any, hess: Any, hessp: Any) -> tuple[Any, ...]:
    """`fun`, `jac`, `hess`, `hessp` for SciPy."""
    # a method of the user's own is given everything
    name = method.lower() if isinstance(method, str) else "newton-cg" if method else "bfgs"
    if jac is True:  # `fun` also returns its gradient: it is not differentiated
        return fun, jac, hess, hessp
    if hess is None and hessp is None:
        if name in _TAKE_PRODUCTS:
            hessp = _product(fun)
        elif name in _TAKE_HESSIANS:
            hess = _of_doubles(hessian(fun))
    if jac is None and name in _TAKE_GRADIENTS | _TAKE_PRODUCTS | _TAKE_HESSIANS:
        return _of_doubles(value_and_grad(fun)), True, hess, hessp
    return fun, jac, hess, hessp


def _require_numbers(x0: Any) -> None:
    """Raise `ActivityError` for parameters in a dictionary or dataclass, which `grad` takes."""
    if isinstance(x0, Mapping) or is_dataclass(x0):
        raise ActivityError(
            f"x0 is of class {type(x0).__name__}, and SciPy solves for a vector of numbers",
            instead=["an array, from which the function takes its parameters"],
        )


def _of_doubles(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of an own contiguous vector of doubles, whatever SciPy was given as `x0`.

    Compiled code sees one type of array, and may write into it.
    """

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        return function(np.array(x, np.float64), *args, **kwargs)

    return call


def _product(fun: Any) -> Callable[..., Any]:
    """The product with the Hessian; SciPy finds its type by a vector of bytes."""
    product = hvp(fun)
    return lambda x, v, *args: product(np.array(x, np.float64), np.array(v, np.float64), *args)


def _with_jacobians(constraints: Any) -> Any:
    """The constraints; those by an `@njit` function that have no Jacobian get one."""
    if isinstance(constraints, Mapping):
        if "jac" in constraints or not _is_compiled(constraints.get("fun")):
            return constraints
        return {**constraints, "jac": _of_doubles(jacobian(constraints["fun"]))}
    if isinstance(constraints, _optimize.NonlinearConstraint):
        # SciPy's default is a name of finite differences
        if constraints.jac != "2-point" or not _is_compiled(constraints.fun):
            return constraints
        return _optimize.NonlinearConstraint(
            constraints.fun, constraints.lb, constraints.ub,
            _of_doubles(jacobian(constraints.fun)), constraints.hess,
            constraints.keep_feasible, constraints.finite_diff_rel_step,
            constraints.finite_diff_jac_sparsity,
        )  # fmt: skip
    if isinstance(constraints, Sequence):
        return [_with_jacobians(constraint) for constraint in constraints]
    return constraints


def _is_compiled(function: Any) -> bool:
    return is_jitted(getattr(function, "dispatcher", function))


def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = None,
    *positional: Any,
    progress: Any = False,
    **settings: Any,
) -> Any:
    """`scipy.optimize.least_squares` of an `@njit` function, with its Jacobian.

    Arguments
        fun       an `@njit` function `fun(x, *args, **kwargs)`, or a plain one that Numba compiles,
                  that returns a vector of m residuals; `x` is a vector of n floats.
        jac       left out: the Jacobian, of shape (m, n), by forward or reverse sweeps, whichever
                  are fewer; with `jac_sparsity=` a sparse one, see `jacobian`. "operator": a
                  `LinearOperator` that multiplies by one sweep, for `method="trf"` and "dogbox"
                  with `tr_solver="lsmr"`. Anything else is passed on to SciPy.
        progress  True draws a bar of tqdm that counts evaluations; or such a bar.
        Everything else is SciPy's.

    Returns, raises   as in SciPy; and what `jacobian` raises.

    >>> least_squares(lambda x: np.array([x[0] - 1.0, x[0] * x[1] - 2.0]), np.ones(2)).x
    array([1., 2.])
    """
    if jac is None:
        structure = settings.pop("jac_sparsity", None)
        jac = jacobian(fun) if structure is None else jacobian(fun, sparsity=structure)
        fun, jac = _of_doubles(dispatcher_of(fun)), _of_doubles(jac)
    elif isinstance(jac, str) and jac == "operator":
        fun, jac = _of_doubles(dispatcher_of(fun)), _of_doubles(_as_operator(fun))
    with counted(fun, progress, "least_squares") as evaluate:
        _require_numbers(x0)
        return _optimize.least_squares(evaluate, x0, jac, *positional, **settings)


def _as_operator(fun: Any) -> Callable[..., Any]:
    """The Jacobian as a `LinearOperator`, which computes products alone."""
    linear: Any = extras.load("scipy.sparse.linalg", "scipy")
    signature = inspect.signature(dispatcher_of(fun).py_func)

    def at(x: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(x, *args, **kwargs)
        bound.apply_defaults()  # one before a keyword argument, too
        constants = bound.args[1:]
        out, pullback = vjp(fun, x, *constants)
        tangents = (None,) * len(constants)

        def matvec(v: Any) -> Any:
            direction = np.array(v, np.float64).ravel()
            return jvp(fun, (x.copy(), *constants), (direction, *tangents))[1]

        def rmatvec(u: Any) -> Any:
            return pullback(np.array(u, np.float64).ravel())[0]

        shape = np.size(out), x.size
        return linear.LinearOperator(shape, matvec=matvec, rmatvec=rmatvec, dtype=np.float64)

    return at


def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    jac: Any = None,
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    progress: Any = False,
) -> Any:
    """`scipy.optimize.root` of an `@njit` function, with its Jacobian.

    Arguments
        fun       an `@njit` function `fun(x, *args)`, or a plain one that Numba compiles, that
                  returns a vector as long as `x`.
        jac       left out: the Jacobian for the methods that use one, hybr and lm; what is given is
                  passed on to SciPy.
        progress  True draws a bar of tqdm that counts evaluations; or such a bar.
        Everything else is SciPy's.

    Returns, raises   as in SciPy; and what `jacobian` raises.

    >>> root(lambda x: np.array([x[0] ** 2 - x[1], x[1] - 4.0]), np.ones(2)).x
    array([2., 4.])
    """
    if jac is None and method.lower() in _ROOTS_BY_JACOBIAN:
        fun, jac = _of_doubles(dispatcher_of(fun)), _of_doubles(jacobian(fun))
    with counted(fun, progress, "root") as evaluate:
        _require_numbers(x0)
        return _optimize.root(evaluate, x0, args, method, jac, tol, callback, options)
