"""
Hidden Markov model: the earthquakes of the last century
========================================================

The yearly number of large earthquakes, as counts of a Poisson process whose rate switches between
unseen states. The likelihood is the scaled forward recursion. Its gradient with respect to the
logarithms of the observation probabilities is the probability of each state given *all* data: what
is usually computed by a second, backward recursion is what reverse mode makes of the first one.
"""

import matplotlib.pyplot as plt
import numpy as np
from numba import njit
from scipy.optimize import minimize
from scipy.special import gammaln

import activerules as ar

COUNTS = np.array(
    """13 14 8 10 16 26 32 27 18 32 36 24 22 23 22 18 25 21 21 14 8 11 14 23 18 17 19 20 22 19 13 26
    13 14 22 24 21 22 26 21 23 24 27 41 31 27 35 26 28 36 39 21 17 22 17 19 15 34 10 15 22 18 15 20
    15 22 19 16 30 27 29 23 20 16 21 21 25 16 18 15 18 14 10 15 8 15 6 11 8 7 18 16 13 12 13 20 15
    16 12 18 15 16 13 15 16 11 11""".split(),
    dtype=float,
)


@njit
def forward(start, transition, log_observed):
    """Log-likelihood; `log_observed[t, i]` is that of observation t in state i."""
    total, belief = 0.0, start
    for t in range(len(log_observed)):
        joint = belief * np.exp(log_observed[t])
        total += np.log(joint.sum())
        belief = (joint / joint.sum()) @ transition
    return total


@njit
def model(parameters, counts, log_factorials):
    rates, leave = np.exp(parameters[:2]), 1.0 / (1.0 + np.exp(parameters[2:]))
    transition = np.array([[1.0 - leave[0], leave[0]], [leave[1], 1.0 - leave[1]]])
    start = leave[::-1] / leave.sum()
    log_observed = np.empty((len(counts), 2))
    for t in range(len(counts)):
        log_observed[t] = counts[t] * np.log(rates) - rates - log_factorials[t]
    return start, transition, log_observed


@njit
def loss(parameters, counts, log_factorials):
    start, transition, log_observed = model(parameters, counts, log_factorials)
    return -forward(start, transition, log_observed)


data = COUNTS, gammaln(COUNTS + 1.0)
initial = np.array([np.log(10.0), np.log(30.0), 2.0, 2.0])
fit = minimize(ar.value_and_grad(loss), initial, args=data, jac=True, method="BFGS")
start, transition, log_observed = model(fit.x, *data)
print(f"rates {np.exp(fit.x[:2]).round(3)}, minus log-likelihood {fit.fun:.4f}")

posterior = ar.grad(forward, argnums=2)(start, transition, log_observed)
years = np.arange(1900, 2007)
plt.bar(years, COUNTS, color="lightgrey", label="earthquakes of magnitude 7 or more")
plt.plot(years, posterior @ np.exp(fit.x[:2]), label="expected rate, given all years")
plt.legend()

# %%
# Checks: rates and likelihood of Zucchini and MacDonald (Hidden Markov Models for Time Series,
# 2009, section 3.3.1); and the posterior by the classical backward recursion.
np.testing.assert_allclose(np.exp(fit.x[:2]), [15.472, 26.125], rtol=1e-4)
assert abs(fit.fun - 342.3183) < 1e-3
observed = np.exp(log_observed)
alpha, beta = [start * observed[0]], [np.ones(2)]
for b in observed[1:]:
    alpha.append((alpha[-1] @ transition) * b)
for b in observed[:0:-1]:
    beta.append(transition @ (b * beta[-1]))
smoothed = np.array(alpha) * np.array(beta[::-1])
np.testing.assert_allclose(posterior, smoothed / smoothed.sum(axis=1, keepdims=True), rtol=1e-9)
