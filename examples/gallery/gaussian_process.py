"""
Gaussian process regression
===========================

The amplitude, the length scale and the noise of a Gaussian process, by maximum likelihood. The
loss is the textbook's Cholesky form. Its gradient costs a small multiple of the factorisation,
however many hyperparameters there are: the derivatives of ``cholesky`` and ``solve`` are matrix
products again, not a loop over entries.
"""

import matplotlib.pyplot as plt
import numpy as np
from numba import njit
from scipy.optimize import minimize

import activerules as ar


@njit
def kernel(x, y, amplitude, length):
    """Squared exponential covariances of two sets of points."""
    k = np.empty((len(x), len(y)))
    for i in range(len(x)):
        for j in range(len(y)):
            k[i, j] = amplitude**2 * np.exp(-0.5 * ((x[i] - y[j]) / length) ** 2)
    return k


@njit
def loss(logs, x, y):
    """Minus the log marginal likelihood; logs of amplitude, length scale and noise."""
    amplitude, length, noise = np.exp(logs)
    L = np.linalg.cholesky(kernel(x, x, amplitude, length) + noise**2 * np.eye(len(x)))
    z = np.linalg.solve(L, y)
    return 0.5 * z @ z + np.log(np.diag(L)).sum() + 0.5 * len(x) * np.log(2.0 * np.pi)


def predict(logs, x, y, at):
    """Mean and standard deviation of the function at new points."""
    amplitude, length, noise = np.exp(logs)
    L = np.linalg.cholesky(kernel(x, x, amplitude, length) + noise**2 * np.eye(len(x)))
    weights = np.linalg.solve(L, kernel(x, at, amplitude, length))
    return weights.T @ np.linalg.solve(L, y), np.sqrt(amplitude**2 - (weights**2).sum(axis=0))


rng = np.random.default_rng(3)
x = np.sort(rng.uniform(0.0, 10.0, 50))
y = np.sin(x) + 0.1 * x + 0.2 * rng.normal(size=50)
start = np.log([1.0, 3.0, 1.0])
value_and_gradient = ar.value_and_grad(loss)
fit = minimize(value_and_gradient, start, args=(x, y), jac=True, method="L-BFGS-B")
amplitude, length, noise = np.exp(fit.x)
print(f"amplitude {amplitude:.2f}, length {length:.2f}, noise {noise:.3f} (truth 0.2)")
print(f"loss {loss(start, x, y):.2f} -> {fit.fun:.2f}, {fit.nfev} values and gradients")

at = np.linspace(0.0, 10.0, 300)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True)
for ax, logs, title in zip(axes, (start, fit.x), ("start", "maximum likelihood"), strict=True):
    mean, deviation = predict(logs, x, y, at)
    ax.fill_between(at, mean - 2 * deviation, mean + 2 * deviation, alpha=0.25)
    ax.plot(at, mean)
    ax.plot(x, y, "k.", ms=4)
    ax.set_title(title)
figure.tight_layout()

# %%
# Check: the closed form (Rasmussen and Williams, 2006, equation 5.9), at the start.
amplitude, length, noise = np.exp(start)
K = kernel(x, x, amplitude, length)
inverse = np.linalg.inv(K + noise**2 * np.eye(50))
by_logs = (2.0 * K, K * ((x[:, None] - x) / length) ** 2, 2.0 * noise**2 * np.eye(50))
M = inverse - np.outer(inverse @ y, inverse @ y)
closed = [0.5 * np.sum(M * derivative) for derivative in by_logs]
np.testing.assert_allclose(value_and_gradient(start, x, y)[1], closed, rtol=1e-9)
assert np.abs(fit.jac).max() < 1e-2
assert 0.15 < np.exp(fit.x[2]) < 0.25
