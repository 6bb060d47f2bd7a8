"""Fit the Lotka-Volterra model to the Hudson Bay hare and lynx counts of 1900-1920.

Hares u and lynx v follow    du/dt = (alpha - beta v) u,    dv/dt = (delta u - gamma) v,
solved by RK4 in plain loops; the counts scatter around the solution with log-normal errors. All
eight unknowns are positive, so we look for their logarithms. SciPy's L-BFGS-B gets the loss and its
gradient from `ar.value_and_grad`: the loops are differentiated as they stand.

Data: pelts of the Hudson's Bay Company, in thousands. The model follows Carpenter (2018),
Predator-Prey Population Dynamics: the Lotka-Volterra model in Stan.
"""

import math
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # vectors of eight gain nothing from threads

import matplotlib.pyplot as plt
import numpy as np
from numba import njit
from scipy.optimize import minimize

import activerules as ar
from activerules.testing import gradient_fd

NAMES = ("alpha", "beta", "gamma", "delta", "hare in 1900", "lynx in 1900", "σ hare", "σ lynx")
START = np.log([0.5, 0.02, 0.8, 0.03, 30.0, 4.0, 0.5, 0.5])
STEPS_PER_YEAR = 20


@njit
def step(u, v, alpha, beta, gamma, delta):
    """One step of the classical Runge-Kutta method."""
    h = 1.0 / STEPS_PER_YEAR
    u1, v1 = (alpha - beta * v) * u, (delta * u - gamma) * v
    a, b = u + 0.5 * h * u1, v + 0.5 * h * v1
    u2, v2 = (alpha - beta * b) * a, (delta * a - gamma) * b
    a, b = u + 0.5 * h * u2, v + 0.5 * h * v2
    u3, v3 = (alpha - beta * b) * a, (delta * a - gamma) * b
    a, b = u + h * u3, v + h * v3
    u4, v4 = (alpha - beta * b) * a, (delta * a - gamma) * b
    return (
        u + h / 6.0 * (u1 + 2.0 * u2 + 2.0 * u3 + u4),
        v + h / 6.0 * (v1 + 2.0 * v2 + 2.0 * v3 + v4),
    )


@njit
def loss(logs, counts):
    """Negative log-likelihood of the eight logarithms; counts has a row (hare, lynx) per year."""
    p = np.exp(logs)
    u, v = p[4], p[5]
    total = 0.0
    for year in range(counts.shape[0]):
        hare = (math.log(counts[year, 0]) - math.log(u)) / p[6]
        lynx = (math.log(counts[year, 1]) - math.log(v)) / p[7]
        total += 0.5 * (hare * hare + lynx * lynx) + logs[6] + logs[7]
        for _ in range(STEPS_PER_YEAR):
            u, v = step(u, v, p[0], p[1], p[2], p[3])
    return total


@njit
def trajectory(p, years):
    """The populations over the given number of years, a row per step."""
    path = np.empty((years * STEPS_PER_YEAR + 1, 2))
    path[0] = p[4], p[5]
    for k in range(1, len(path)):
        path[k] = step(path[k - 1, 0], path[k - 1, 1], p[0], p[1], p[2], p[3])
    return path


def fit(objective, gradient_given):
    """Minimise from START: the result, the loss of each call in turn, and the seconds of the
    fastest of five runs.
    """
    losses = []

    def recorded(logs):
        found = objective(logs)
        losses.append(found[0] if gradient_given else found)
        return found

    minimize(recorded, START, jac=gradient_given, method="L-BFGS-B")
    clock = [time.perf_counter()]
    for _ in range(5):
        result = minimize(objective, START, jac=gradient_given, method="L-BFGS-B")
        clock.append(time.perf_counter())
    return result, losses, min(np.diff(clock))


def draw(plot, years, counts, p, histories):
    """The model at every step beside the counts, and what the gradient buys; into a file."""
    plt.switch_backend("Agg")
    _, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), width_ratios=(3, 2))
    path = trajectory(p, len(years) - 1)
    times = years[0] + np.arange(len(path)) / STEPS_PER_YEAR
    for column, (name, colour) in enumerate((("hare", "tab:blue"), ("lynx", "tab:red"))):
        left.plot(years, counts[:, column], "o", color=colour, label=f"{name}, counted")
        left.plot(times, path[:, column], color=colour, label=f"{name}, model")
    left.set_xticks(years[::4])
    left.set_ylabel("thousands of pelts")
    left.set_title("Pelts of the Hudson's Bay Company, and the fitted model")
    left.legend(loc="upper center", ncols=2)
    left.set_ylim(0.0, 1.3 * counts.max())

    best = min(min(losses) for losses in histories.values())
    for name, losses in histories.items():
        above = np.minimum.accumulate(losses) - best
        right.semilogy(np.arange(1, len(above) + 1), above, label=f"{name}: {len(above)} calls")
    right.set_xlabel("calls of the loss")
    right.set_ylabel("loss above its minimum")
    right.set_title("What the gradient buys")
    right.legend()
    plt.tight_layout()
    plt.savefig(plot, dpi=150)


def main(plot="lotka_volterra.png"):
    """Fit, print, and draw into the file `plot`."""
    table = np.loadtxt(Path(__file__).with_name("hare_lynx.csv"), delimiter=",", skiprows=1)
    years, counts = table[:, 0], table[:, 1:].copy()
    value_and_gradient = ar.value_and_grad(loss)

    began = time.perf_counter()
    before, gradient = value_and_gradient(START, counts)
    print(f"compiled loss and gradient in {time.perf_counter() - began:.1f} s")
    difference = np.max(np.abs(gradient - gradient_fd(loss, (START, counts))))
    print(
        f"gradient against finite differences: largest difference {difference:.1e} "
        f"of {np.max(np.abs(gradient)):.0f}\n"
    )

    result, losses, seconds = fit(lambda logs: value_and_gradient(logs, counts), True)
    by_differences, losses_fd, seconds_fd = fit(lambda logs: loss(logs, counts), None)
    for name, value in zip(NAMES, np.exp(result.x), strict=True):
        print(f"  {name:13s} {value:8.4f}")
    print(
        f"\nloss {before:.2f} -> {result.fun:.4f}: {result.nit} iterations, {result.nfev} "
        f"gradients, {seconds:.4f} s, |gradient| {np.max(np.abs(result.jac)):.1e}"
    )
    print(
        f"with finite differences: loss {by_differences.fun:.4f}, {by_differences.nfev} "
        f"losses, {seconds_fd:.4f} s ({seconds_fd / seconds:.1f} times as long)"
    )

    histories = {"gradients": losses, "finite differences": losses_fd}
    draw(plot, years, counts, np.exp(result.x), histories)
    print(f"plot written to {plot}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
