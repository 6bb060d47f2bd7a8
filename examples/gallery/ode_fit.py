"""
Fit an ordinary differential equation
=====================================

The FitzHugh-Nagumo model of a nerve cell has three parameters, and here they are found from 80
noisy measurements. The solver is the adaptive Bogacki-Shampine pair, written as it would be without
derivatives: a ``while`` loop that accepts or rejects steps and chooses their length. The gradient
is that of the loop as it ran, step lengths included; no adjoint equation has to be derived.
"""

import matplotlib.pyplot as plt
import numpy as np
from numba import njit
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

import activerules as ar
from activerules.testing import gradient_fd


@njit
def rates(v, r, a, b, c):
    return c * (v - v**3 / 3.0 + r), -(v - a + b * r) / c


@njit
def solve(parameters, times, tol):
    a, b, c = parameters
    path = np.empty((len(times), 2))
    v, r, t, h = -1.0, 1.0, 0.0, 0.1
    for k in range(len(times)):
        while times[k] - t > 1e-12:
            h = min(h, times[k] - t)
            v1, r1 = rates(v, r, a, b, c)
            v2, r2 = rates(v + 0.5 * h * v1, r + 0.5 * h * r1, a, b, c)
            v3, r3 = rates(v + 0.75 * h * v2, r + 0.75 * h * r2, a, b, c)
            v_new = v + h * (2.0 * v1 + 3.0 * v2 + 4.0 * v3) / 9.0
            r_new = r + h * (2.0 * r1 + 3.0 * r2 + 4.0 * r3) / 9.0
            v4, r4 = rates(v_new, r_new, a, b, c)
            v_error = -5.0 * v1 + 6.0 * v2 + 8.0 * v3 - 9.0 * v4
            r_error = -5.0 * r1 + 6.0 * r2 + 8.0 * r3 - 9.0 * r4
            error = h * np.hypot(v_error, r_error) / 72.0
            if error <= tol:
                v, r, t = v_new, r_new, t + h
            h *= min(4.0, max(0.2, 0.9 * (tol / error) ** (1.0 / 3.0)))
        path[k] = v, r
    return path


@njit
def loss(parameters, times, data):
    """Minus the log-likelihood, up to a constant."""
    return 0.5 * np.sum((solve(parameters, times, 1e-6) - data) ** 2) / 0.1**2


truth, start = np.array([0.2, 0.2, 3.0]), np.array([0.4, 0.4, 2.5])
times = np.linspace(0.25, 20.0, 80)
data = solve(truth, times, 1e-6) + 0.1 * np.random.default_rng(1).normal(size=(80, 2))
value_and_gradient = ar.value_and_grad(loss)
fit = minimize(value_and_gradient, start, args=(times, data), jac=True, method="BFGS")

# %%
# The inverse of the Hessian at the minimum is the covariance of the estimates.
deviations = np.sqrt(np.diag(np.linalg.inv(ar.hessian(loss)(fit.x, times, data))))
for name, value, deviation, true in zip("abc", fit.x, deviations, truth, strict=True):
    print(f"{name} = {value:.4f} ± {deviation:.4f}   (truth {true})")

time = np.linspace(0.0, 20.0, 401)[1:]
for parameters, style, name in ((start, "k:", "start"), (fit.x, "k-", "fit")):
    plt.plot(time, solve(parameters, time, 1e-6)[:, 0], style, label=name)
plt.plot(times, data[:, 0], "o", ms=4, color="tab:orange", label="measured")
plt.xlabel("time")
plt.ylabel("membrane potential")
plt.ylim(-2.5, 3.0)
plt.legend(loc="upper center", ncols=3)

# %%
# Checks: the gradient against finite differences, the solver against SciPy's, and the truth lies
# within three standard deviations of the fit.
reference = gradient_fd(loss, (start, times, data))
np.testing.assert_allclose(value_and_gradient(start, times, data)[1], reference, rtol=1e-3)
scipy = solve_ivp(lambda t, y: rates(*y, *truth), (0, 20), [-1, 1], "DOP853", times, rtol=1e-10)
assert np.abs(scipy.y.T - solve(truth, times, 1e-6)).max() < 1e-3
assert (np.abs(fit.x - truth) < 3.0 * deviations).all()
