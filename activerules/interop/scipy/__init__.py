"""SciPy's solvers with the derivatives filled in: same names, parameters and results.

`minimize`, `least_squares`, `root`, `solve_ivp` take an `@njit` function and pass SciPy the
gradients, Jacobians and Hessian products that the chosen method uses. `low_level` makes a
`scipy.LowLevelCallable` for `scipy.integrate.quad` and `scipy.ndimage`.
"""

from activerules.interop.scipy.initial_values import solve_ivp
from activerules.interop.scipy.low_level import low_level
from activerules.interop.scipy.optimize import least_squares, minimize, root

__all__ = ["least_squares", "low_level", "minimize", "root", "solve_ivp"]


def __dir__() -> list[str]:
    """The interface alone."""
    return sorted(__all__)
