"""
The mean of time series: soft dynamic time warping
==================================================

Series of the same shape at different speeds have a mean that is a blur. Under dynamic time warping
they have a useful one: the series with the least sum of warped distances to all. With the minimum
replaced by a soft one the distance is smooth, and its gradient is the expected alignment of all
paths. Cuturi and Blondel derive a backward recursion for it; here reverse mode makes it.
"""

import matplotlib.pyplot as plt
import numpy as np
from numba import njit
from scipy.optimize import minimize

import activerules as ar


@njit
def soft_min(a, b, c, gamma):
    low = min(a, b, c)
    return low - gamma * np.log(
        np.exp((low - a) / gamma) + np.exp((low - b) / gamma) + np.exp((low - c) / gamma)
    )


@njit
def warped(cost, gamma):
    """The soft length of the cheapest way through a matrix, with its table of partial lengths."""
    n, m = cost.shape
    table = np.full((n + 1, m + 1), 1e10)
    table[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            table[i, j] = cost[i - 1, j - 1] + soft_min(
                table[i - 1, j], table[i, j - 1], table[i - 1, j - 1], gamma
            )
    return table


@njit
def soft_dtw(cost, gamma):
    return warped(cost, gamma)[-1, -1]


@njit
def loss(mean, series, gamma):
    total = 0.0
    for k in range(len(series)):
        total += soft_dtw((np.expand_dims(mean, 1) - series[k]) ** 2, gamma)
    return total


rng = np.random.default_rng(2)
t = np.linspace(0.0, 1.0, 50)
series = np.empty((8, 50))
for k in range(8):
    s = t ** rng.uniform(0.5, 2.0)
    series[k] = np.sin(2 * np.pi * s) * (s < 0.6) - 0.5 * np.exp(-(((s - 0.8) / 0.05) ** 2))
series += 0.03 * rng.normal(size=series.shape)
start = series.mean(axis=0)
fit = minimize(ar.value_and_grad(loss), start, (series, 0.02), "L-BFGS-B", jac=True)
print(f"loss of the mean {loss(start, series, 0.02):.2f}, of the warped mean {fit.fun:.2f}")

cost = (series[0][:, None] - series[1]) ** 2
alignment = ar.grad(soft_dtw)(cost, 0.02)
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6))
axes[0].plot(t, series.T, color="lightgrey")
axes[0].plot(t, start, "--", label="mean")
axes[0].plot(t, fit.x, label="warped mean")
axes[0].legend()
axes[1].imshow(alignment, origin="lower")
axes[1].set_title("expected alignment of two of them")
figure.tight_layout()

# %%
# Check: the backward recursion of Cuturi and Blondel (2017, algorithm 2).
n, m = cost.shape
table, costs, expected = np.full((n + 2, m + 2), -np.inf), np.zeros((n + 2, m + 2)), None
table[:-1, :-1], costs[1:-1, 1:-1] = warped(cost, 0.02), cost
table[-1, -1], expected = table[n, m], np.zeros((n + 2, m + 2))
expected[-1, -1] = 1.0
for i in range(n, 0, -1):
    for j in range(m, 0, -1):
        for a, b in ((i + 1, j), (i, j + 1), (i + 1, j + 1)):
            weight = np.exp((table[a, b] - table[i, j] - costs[a, b]) / 0.02)
            expected[i, j] += expected[a, b] * weight
np.testing.assert_allclose(alignment, expected[1:-1, 1:-1], atol=1e-10)
assert fit.fun < 0.6 * loss(start, series, 0.02)
