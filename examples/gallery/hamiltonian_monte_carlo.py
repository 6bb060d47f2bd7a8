"""
Hamiltonian Monte Carlo: the posterior of that model
====================================================

The parameters of the FitzHugh-Nagumo model again, but now their whole distribution, by Hamiltonian
Monte Carlo. The sampler is one compiled function: ``ar.value_and_grad(log_density)`` is called
inside ``@njit`` code like any other function, so no step of the chain goes through Python.
"""

import matplotlib.pyplot as plt
import numpy as np
from numba import njit

import activerules as ar


@njit
def rates(v, r, a, b, c):
    return c * (v - v**3 / 3.0 + r), -(v - a + b * r) / c


@njit
def solve(parameters, steps, h):
    a, b, c = parameters
    path = np.empty((steps, 2))
    v, r = -1.0, 1.0
    for k in range(steps):
        v1, r1 = rates(v, r, a, b, c)
        v2, r2 = rates(v + h * v1, r + h * r1, a, b, c)
        v, r = v + 0.5 * h * (v1 + v2), r + 0.5 * h * (r1 + r2)
        path[k] = v, r
    return path


@njit
def log_density(parameters, data):
    """Normal errors of deviation 0.1 at every tenth step, and a flat prior."""
    path = solve(parameters, 10 * len(data), 0.025)
    return -0.5 * np.sum((path[9::10] - data) ** 2) / 0.1**2


value_and_gradient = ar.value_and_grad(log_density)


@njit
def sample(q, data, scale, step, leaps, count):
    """A chain of Hamiltonian Monte Carlo; `scale` are rough standard deviations."""
    np.random.seed(1)
    chain, energies = np.empty((count, q.size)), np.empty(count)
    value, slope = value_and_gradient(q, data)
    for n in range(count):
        p = np.random.normal(0.0, 1.0, q.size)
        start, q_new, value_new, slope_new = value - 0.5 * np.sum(p * p), q, value, slope
        length = step * np.random.uniform(0.6, 1.4)  # of varying length: no orbit is closed
        for _ in range(leaps):
            p = p + 0.5 * length * scale * slope_new
            q_new = q_new + length * scale * p
            value_new, slope_new = value_and_gradient(q_new, data)
            p = p + 0.5 * length * scale * slope_new
        energies[n] = value_new - 0.5 * np.sum(p * p) - start
        if np.log(np.random.random()) < energies[n]:
            q, value, slope = q_new, value_new, slope_new
        chain[n] = q
    return chain, energies


truth = np.array([0.2, 0.2, 3.0])
noise = 0.1 * np.random.default_rng(1).normal(size=(80, 2))
data = solve(truth, 800, 0.025)[9::10] + noise
negative_hessian = ar.hessian(lambda q, data: -log_density(q, data))
scale = 1.0 / np.sqrt(np.diag(negative_hessian(truth, data)))
chain, energies = sample(truth, data, scale, 0.6, 5, 3000)
accepted = np.minimum(1.0, np.exp(energies)).mean()
print(f"mean {chain.mean(axis=0).round(4)}, deviation {chain.std(axis=0).round(4)}")
print(f"{accepted:.0%} of the proposals were accepted")

plt.scatter(chain[:, 0], chain[:, 2], s=4, alpha=0.4, label="samples")
plt.plot(truth[0], truth[2], "k+", ms=14, mew=2, label="truth")
plt.xlabel("a")
plt.ylabel("c")
plt.legend()

# %%
# Checks: the mean of exp(ΔH) is one for any step, because the integrator preserves volume and is
# reversible; the spread is that of the normal approximation; the truth lies in the sample.
assert abs(np.exp(energies).mean() - 1.0) < 0.05
assert 0.6 < accepted < 1.0
normal = np.linalg.inv(negative_hessian(chain.mean(axis=0), data))
np.testing.assert_allclose(chain.std(axis=0), np.sqrt(np.diag(normal)), rtol=0.15)
assert (np.abs(chain.mean(axis=0) - truth) < 3.0 * chain.std(axis=0)).all()
