"""`solve_ivp` of SciPy for `@njit` functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from activerules import extras
from activerules.api.jacobian_by_size import jacobian
from activerules.interop.scipy.progress import counted
from activerules.numba_ext.target.dispatchers import dispatcher_of

_integrate: Any = extras.load("scipy.integrate", "scipy")


def solve_ivp(
    fun: Callable[..., Any],
    t_span: Any,
    y0: Any,
    method: Any = "RK45",
    *positional: Any,
    progress: Any = False,
    **settings: Any,
) -> Any:
    """`scipy.integrate.solve_ivp` of an `@njit` function, with its Jacobian.

    Arguments
        fun       an `@njit` function `fun(t, y, *args)`, or a plain one that Numba compiles, that
                  returns dy/dt, an array or tuple as long as `y`; for one unknown also a float.
        method    implicit methods (Radau, BDF, LSODA, and classes of solvers with a parameter
                  `jac`) are given the Jacobian with respect to `y`, unless `jac=` is given; with
                  `jac_sparsity=` a sparse one, see `jacobian`. If `y0` is complex, `fun` is
                  taken to be holomorphic, as in SciPy.
        progress  True draws a bar of tqdm that counts evaluations; or such a bar.
        Everything else is SciPy's.

    Returns, raises   as in SciPy; and what `jacobian` raises.

    >>> decay = solve_ivp(lambda t, y: -100.0 * y, (0.0, 1.0), np.ones(1), "BDF")
    >>> decay.success, bool(abs(decay.y[0, -1]) < 1e-3)
    (True, True)
    """
    if settings.get("jac") is None and _takes_jacobian(method):
        structure = settings.pop("jac_sparsity", None)
        if structure is not None:
            settings["jac"] = jacobian(fun, 1, sparsity=structure)
        elif np.iscomplexobj(y0):
            settings["jac"] = _matrix_of(jacobian(fun, 1, holomorphic=True))
        else:
            settings["jac"] = _matrix_of(jacobian(fun, 1))
        fun = dispatcher_of(fun)
    with counted(fun, progress, "solve_ivp") as evaluate:
        return _integrate.solve_ivp(evaluate, t_span, y0, method, *positional, **settings)


def _matrix_of(derivative: Callable[..., Any]) -> Callable[..., Any]:
    """A Jacobian as a matrix, also that of a float, which is a vector, and that of a tuple."""
    return lambda *args: np.atleast_2d(derivative(*args))


def _takes_jacobian(method: Any) -> bool:
    solver = getattr(_integrate, method, None) if isinstance(method, str) else method
    return inspect.isclass(solver) and "jac" in inspect.signature(solver).parameters
