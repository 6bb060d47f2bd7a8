"""
Spiking neurons: a surrogate gradient by a rule
===============================================

A neuron that integrates its input and fires at a threshold has a derivative of zero: its spikes
are steps. What trains networks of them is a *surrogate*, the slope of a fast sigmoid in place of
that of the step (Zenke and Ganguli, 2018). Here it is a rule of two short functions. It serves
wherever ``spike`` is called, and the simulation remains a plain loop. The neuron learns to fire at
four given times.
"""

import matplotlib.pyplot as plt
import numpy as np
from numba import njit

import activerules as ar

DECAY, SLOPE = 0.9, 5.0


@njit
def spike(v):
    return 1.0 if v >= 0.0 else 0.0


@ar.augmented_primal(spike)
def spike_augmented(config, ret: ar.Active, v: ar.Active):
    return ar.AugmentedReturn(spike(v.val), None, None)


@ar.reverse(spike)
def spike_reverse(config, dret: ar.Active, tape, v: ar.Active):
    return dret.val / (1.0 + SLOPE * abs(v.val)) ** 2


@njit
def simulate(weights, inputs):
    """Potential less threshold, and spikes; as is usual, the reset is no part of the gradient."""
    potential, spikes = np.empty(len(inputs)), np.empty(len(inputs))
    v = 0.0
    for t in range(len(inputs)):
        v = DECAY * v + inputs[t] @ weights
        potential[t] = v - 1.0
        spikes[t] = spike(v - 1.0)
        v -= ar.ignore_derivatives(spikes[t])
    return potential, spikes


@njit
def loss(weights, inputs, target):
    """Squared distance of two spike trains, both smoothed by an exponential (van Rossum, 2001)."""
    spikes = simulate(weights, inputs)[1]
    total, trace = 0.0, 0.0
    for t in range(len(spikes)):
        trace = DECAY * trace + spikes[t] - target[t]
        total += trace * trace
    return total


rng = np.random.default_rng(1)
inputs = (rng.random((100, 80)) < 0.06).astype(float)
target = np.zeros(100)
target[[15, 40, 60, 85]] = 1.0
weights = rng.normal(0.04, 0.04, 80)
first = weights.copy()
value_and_gradient = ar.value_and_grad(loss)
history, mean_square = [], np.zeros(80)
for _ in range(300):
    value, gradient = value_and_gradient(weights, inputs, target)
    history.append(value)
    mean_square = 0.9 * mean_square + 0.1 * gradient**2
    weights -= 0.005 * gradient / (np.sqrt(mean_square) + 1e-8)
print(f"loss {history[0]:.2f} -> {history[-1]:.2f}")
print(f"spikes at {np.flatnonzero(simulate(weights, inputs)[1])}")

figure, axes = plt.subplots(3, 1, figsize=(8, 6), sharex=True)
for ax, w, title in zip(axes[:2], (first, weights), ("before", "after"), strict=True):
    ax.plot(1.0 + simulate(w, inputs)[0])
    ax.axhline(1.0, color="grey", ls=":")
    ax.vlines(np.flatnonzero(target), 1.6, 2.0, color="tab:red")
    ax.set_title(f"potential {title} training, and the times to learn")
axes[2].imshow(inputs.T, aspect="auto", cmap="Greys")
axes[2].set(title="input spikes", xlabel="time", ylabel="synapse")
figure.tight_layout()

# %%
# Checks: it has learned all four spikes; and the gradient is the one derived by hand, the surrogate
# times the smoothed input (an *eligibility trace*), weighted by the error from each time on.
np.testing.assert_array_equal(simulate(weights, inputs)[1], target)
potential, spikes = simulate(first, inputs)
lags = np.subtract.outer(np.arange(100), np.arange(100))
smooth = np.where(lags >= 0, DECAY ** np.maximum(lags, 0), 0.0)
error = 2.0 * smooth.T @ (smooth @ (spikes - target))
by_hand = (error / (1.0 + SLOPE * np.abs(potential)) ** 2) @ (smooth @ inputs)
np.testing.assert_allclose(value_and_gradient(first, inputs, target)[1], by_hand, rtol=1e-9)
