"""
Data assimilation in shallow water
==================================

Where was the water before? Eleven gauges have measured the height of a wave in a channel; the
initial state that explains them minimises a misfit through 400 steps of the shallow water
equations (4D-Var in meteorology). The 128 unknowns get their gradient from one reverse sweep.
``checkpoint`` keeps its memory small: the steps run in segments, which the reverse sweep
recomputes one by one, so that only the tape of one segment exists at a time.
"""

import matplotlib.pyplot as plt
import numpy as np
from numba import njit
from scipy.optimize import minimize

import activerules as ar
from activerules.testing import directional_derivative

CELLS, SEGMENTS, STEPS = 64, 20, 20


@njit
def segment(h, q, dt):
    """Finite volumes on a ring, Rusanov's flux; height and discharge, units with g = dx = 1."""
    h, q, h_flux, q_flux = h.copy(), q.copy(), np.empty(CELLS), np.empty(CELLS)
    for _ in range(STEPS):
        for i in range(CELLS):
            hl, hr, ql, qr = h[i - 1], h[i], q[i - 1], q[i]
            speed = max(abs(ql / hl) + np.sqrt(hl), abs(qr / hr) + np.sqrt(hr))
            h_flux[i] = 0.5 * (ql + qr - speed * (hr - hl))
            momentum = ql**2 / hl + 0.5 * hl**2 + qr**2 / hr + 0.5 * hr**2
            q_flux[i] = 0.5 * (momentum - speed * (qr - ql))
        for i in range(CELLS):
            h[i] -= dt * (h_flux[(i + 1) % CELLS] - h_flux[i])
            q[i] -= dt * (q_flux[(i + 1) % CELLS] - q_flux[i])
    return h, q


checkpointed = ar.checkpoint(segment)


def make_loss(run):
    """The misfit to the gauges after each segment; a small term prefers smooth states."""

    @njit
    def loss(state, gauges, data):
        h, q = state[:CELLS], state[CELLS:]
        total = 1e-3 * (np.sum((h[1:] - h[:-1]) ** 2) + np.sum((q[1:] - q[:-1]) ** 2))
        for k in range(SEGMENTS):
            h, q = run(h, q, 0.4)
            total += np.sum((h[gauges] - data[k]) ** 2)
        return total

    return loss


x = np.arange(CELLS)
h, q = 1.0 + 0.2 * np.exp(-(((x - 20.0) / 5.0) ** 2)), 0.05 * np.sin(2 * np.pi * x / CELLS)
truth, gauges = np.concatenate((h, q)), np.arange(3, CELLS, 6)
data = 1e-3 * np.random.default_rng(0).normal(size=(SEGMENTS, len(gauges)))
for k in range(SEGMENTS):
    h, q = segment(h, q, 0.4)
    data[k] += h[gauges]

loss, background = make_loss(checkpointed), np.concatenate((np.ones(CELLS), np.zeros(CELLS)))
value_and_gradient = ar.value_and_grad(loss)
fit = minimize(value_and_gradient, background, (gauges, data), "L-BFGS-B", jac=True)
error = np.linalg.norm(fit.x - truth) / np.linalg.norm(background - truth)
shadow = ar.Duplicated(background, np.zeros(2 * CELLS))
small, large = (ar.tape_bytes(f, shadow, gauges, data) for f in (loss, make_loss(segment)))
print(
    f"{fit.nfev} gradients of 400 steps, error of the initial state {error:.1%} of the first guess"
)
print(f"tape: {small + large // SEGMENTS:,} bytes with checkpoints, {large:,} without")

for state, style, name in ((background, "k:", "first guess"), (truth, "k", "truth")):
    plt.plot(x, state[:CELLS], style, label=name)
plt.plot(x, fit.x[:CELLS], "--", label="assimilated")
plt.plot(gauges, np.full(len(gauges), 0.97), "^", color="grey", label="gauges")
plt.ylabel("initial height")
plt.legend()

# %%
# Checks: the gradient against finite differences, the same one without checkpoints, and the state.
gradient = value_and_gradient(background, gauges, data)[1]
plain = ar.grad(make_loss(segment))(background, gauges, data)
np.testing.assert_allclose(gradient, plain, rtol=1e-8, atol=1e-12)
along = directional_derivative(loss, (background, gauges, data), (truth, None, None))[0]
np.testing.assert_allclose(gradient @ truth, along, rtol=1e-6)
assert error < 0.2
assert small + large // SEGMENTS < large / 8
