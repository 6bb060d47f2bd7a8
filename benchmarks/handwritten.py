"""Gradients of three losses as a careful author would write them in Numba, to compare with.

Each has the arguments of its primal in the program library, every differentiable one followed by an
array its derivative is added to, and returns the value.
"""

import math

import numpy as np
from numba import njit


@njit
def log_sum_exp(x, x_bar):
    """x̄_i += exp(x_i - value)."""
    largest = x[0]
    for i in range(1, len(x)):
        if x[i] > largest:
            largest = x[i]
    weights = np.empty_like(x)
    s = 0.0
    for i in range(len(x)):
        weights[i] = math.exp(x[i] - largest)
        s += weights[i]
    for i in range(len(x)):
        x_bar[i] += weights[i] / s
    return largest + math.log(s)


@njit
def logistic_regression(features, features_bar, weights, weights_bar, labels):
    """With residual r_i = (sigmoid(z_i) - label_i) / n:  F̄_ij += r_i w_j,  w̄_j += r_i F_ij."""
    n = features.shape[0]
    loss = 0.0
    for i in range(n):
        z = 0.0
        for j in range(features.shape[1]):
            z += features[i, j] * weights[j]
        e = math.exp(-abs(z))
        loss += math.log1p(e) + max(z, 0.0) - labels[i] * z
        sigmoid = 1.0 / (1.0 + e) if z > 0.0 else e / (1.0 + e)
        r = (sigmoid - labels[i]) / n
        for j in range(features.shape[1]):
            features_bar[i, j] += r * weights[j]
            weights_bar[j] += r * features[i, j]
    return loss / n


@njit
def gmm_log_likelihood(
    alphas, alphas_bar, means, means_bar, log_scales, log_scales_bar, data, data_bar
):
    """Responsibilities weigh the derivatives of each component."""
    k, d = means.shape
    n = data.shape[0]
    total = 0.0
    terms = np.empty(k)
    inverse_scales = np.exp(-log_scales)
    z = np.empty((k, d))
    for i in range(n):
        for c in range(k):
            q = 0.0
            for j in range(d):
                z[c, j] = (data[i, j] - means[c, j]) * inverse_scales[c, j]
                q += z[c, j] * z[c, j] + 2.0 * log_scales[c, j]
            terms[c] = alphas[c] - 0.5 * q
        top = terms[0]
        for c in range(1, k):
            top = max(top, terms[c])
        s = 0.0
        for c in range(k):
            terms[c] = math.exp(terms[c] - top)
            s += terms[c]
        total += top + math.log(s)
        for c in range(k):
            responsibility = terms[c] / s
            alphas_bar[c] += responsibility
            for j in range(d):
                pull = responsibility * z[c, j] * inverse_scales[c, j]
                means_bar[c, j] += pull
                data_bar[i, j] -= pull
                log_scales_bar[c, j] += responsibility * (z[c, j] * z[c, j] - 1.0)
    top = np.max(alphas)
    weights = np.exp(alphas - top)
    s = np.sum(weights)
    for c in range(k):
        alphas_bar[c] -= n * weights[c] / s
    return total - n * (top + math.log(s))
