"""
Optimal control: swing up a pendulum on a cart
==============================================

Which force brings a hanging pendulum upright and to rest in two seconds, with least effort? Single
shooting: 60 forces, each held for a thirtieth of a second, are the unknowns; four conditions at the
end are constraints. SciPy's SLSQP takes the gradient of the effort and the Jacobian of the end
state, which reverse mode computes from the Runge-Kutta loop in four sweeps.
"""

import matplotlib.pyplot as plt
import numpy as np
from numba import njit
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

import activerules as ar

SECONDS, STEPS = 2.0, 60
CART, BOB, LENGTH, GRAVITY = 1.0, 0.3, 0.5, 9.81


@njit
def rates(s, force):
    """Position and angle (0: hanging), and their rates of change (Kelly, 2017)."""
    _, angle, speed, spin = s
    sin, cos = np.sin(angle), np.cos(angle)
    push = force + BOB * LENGTH * sin * spin**2
    inertia = CART + BOB * (1.0 - cos**2)
    pull = (push + BOB * GRAVITY * cos * sin) / inertia
    turn = -(push * cos + (CART + BOB) * GRAVITY * sin) / (LENGTH * inertia)
    return np.array([speed, spin, pull, turn])


@njit
def simulate(forces):
    h = SECONDS / len(forces)
    path = np.zeros((len(forces) + 1, 4))
    for k in range(len(forces)):
        s, force = path[k], forces[k]
        k1 = rates(s, force)
        k2 = rates(s + 0.5 * h * k1, force)
        k3 = rates(s + 0.5 * h * k2, force)
        k4 = rates(s + h * k3, force)
        path[k + 1] = s + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return path


@njit
def miss(forces):
    """How far the end is from upright, at rest, one metre to the right."""
    return simulate(forces)[-1] - np.array([1.0, np.pi, 0.0, 0.0])


@njit
def effort(forces):
    return np.sum(forces**2) * SECONDS / len(forces)


jacobian = ar.jacrev(miss)
end = {"type": "eq", "fun": miss, "jac": jacobian}
start = 5.0 * np.sin(2.0 * np.pi * np.linspace(0.0, 1.0, STEPS))
slope = ar.grad(effort)
fit = minimize(effort, start, jac=slope, constraints=end, method="SLSQP", options={"maxiter": 300})
print(f"effort {fit.fun:.2f}, {fit.nit} iterations, misses by {np.abs(miss(fit.x)).max():.0e}")

path, time = simulate(fit.x), np.linspace(0.0, SECONDS, STEPS + 1)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4))
axes[0].step(time[:-1], fit.x, where="post")
axes[0].set(title="force", xlabel="time")
x = path[:, 0] + np.array([[0.0], [LENGTH]]) * np.sin(path[:, 1])
y = np.array([[0.0], [-LENGTH]]) * np.cos(path[:, 1])
axes[1].plot(x, y, color="lightgrey")
axes[1].plot(x[1], y[1])
axes[1].set(title="cart and pendulum", aspect="equal")
figure.tight_layout()

# %%
# Checks: SciPy's solver with these forces ends upright, too; and at the optimum the gradient of the
# effort is a combination of the constraints' (Lagrange's condition).
s = np.zeros(4)
for force in fit.x:
    s = solve_ivp(lambda t, s, f=force: rates(s, f), (0, SECONDS / STEPS), s, rtol=1e-9).y[:, -1]
np.testing.assert_allclose(s, [1.0, np.pi, 0.0, 0.0], atol=2e-2)
constraints, slopes = jacobian(fit.x), slope(fit.x)
multipliers = np.linalg.lstsq(constraints.T, slopes)[0]
assert fit.success
assert np.abs(constraints.T @ multipliers - slopes).max() < 1e-2 * np.abs(slopes).max()
