"""
Price an option and its sensitivities by Monte Carlo
====================================================

The price of an Asian call option, which pays by the mean of the price path, and its *greeks*: the
derivatives with respect to spot, rate and volatility. Reverse mode gives all of them with the
price, path by path, so their standard errors come from the same paths. The geometric mean has a
closed form to compare with; the arithmetic mean, which is what is traded, has none.

The payoff has a kink, which does no harm to first derivatives. Its second derivative is zero almost
everywhere: the gamma of the option is *not* the mean ``hessian`` of this function. That needs the
derivative of the density, or a smoothed payoff.
"""

import matplotlib.pyplot as plt
import numpy as np
from numba import njit
from scipy.stats import norm

import activerules as ar
from activerules.testing import gradient_fd

STRIKE, YEARS, STEPS = 100.0, 1.0, 12


@njit
def payoff(market, normals, geometric):
    """The discounted payoff of the mean price of one path; market is spot, rate, volatility."""
    spot, rate, volatility = market
    dt = YEARS / STEPS
    log_price, mean = np.log(spot), 0.0
    for z in normals:
        log_price += (rate - 0.5 * volatility**2) * dt + volatility * np.sqrt(dt) * z
        mean += (log_price if geometric else np.exp(log_price)) / STEPS
    if geometric:
        mean = np.exp(mean)
    return np.exp(-rate * YEARS) * max(mean - STRIKE, 0.0)


value_and_greeks = ar.value_and_grad(payoff)


@njit
def simulate(market, normals, geometric):
    """Mean and standard error of the price, delta, rho and vega."""
    samples = np.empty((len(normals), 4))
    for k in range(len(normals)):
        samples[k, 0], samples[k, 1:] = value_and_greeks(market, normals[k], geometric)
    errors = np.array([np.std(samples[:, j]) for j in range(4)]) / np.sqrt(len(normals))
    return samples.sum(axis=0) / len(normals), errors


def geometric_price(market):
    """Kemna and Vorst (1990), with the mean over discrete dates."""
    spot, rate, volatility = market
    times = YEARS * np.arange(1, STEPS + 1) / STEPS
    variance = volatility**2 * np.minimum.outer(times, times).mean()
    drift = (rate - 0.5 * volatility**2) * times.mean()
    d = (np.log(spot / STRIKE) + drift + variance) / np.sqrt(variance)
    forward = spot * np.exp(drift + 0.5 * variance) * norm.cdf(d)
    return np.exp(-rate * YEARS) * (forward - STRIKE * norm.cdf(d - np.sqrt(variance)))


normals = np.random.default_rng(0).normal(size=(40_000, STEPS))
spots = np.linspace(80.0, 120.0, 11)
curves = np.array([simulate(np.array([s, 0.03, 0.2]), normals, False)[0] for s in spots])
figure, axes = plt.subplots(1, 3, figsize=(10, 3), sharex=True)
for ax, column, name in zip(axes, (0, 1, 3), ("price", "delta", "vega"), strict=True):
    ax.plot(spots, curves[:, column], "o-")
    ax.set(title=name, xlabel="spot")
figure.tight_layout()

# %%
# Check: the geometric mean against its closed form, within four standard errors.
market = np.array([100.0, 0.03, 0.2])
estimate, error = simulate(market, normals, True)
exact = np.append(geometric_price(market), gradient_fd(geometric_price, (market,)))
for k, name in enumerate(("price", "delta", "rho", "vega")):
    print(f"{name:5s}  {estimate[k]:8.4f} ± {error[k]:.4f}   closed form {exact[k]:8.4f}")
assert (np.abs(estimate - exact) < 4.0 * error).all()
