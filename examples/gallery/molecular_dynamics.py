"""
Molecular dynamics: forces from the energy
==========================================

A liquid of 64 Lennard-Jones atoms in a periodic box. Only the energy is written down; the forces
are minus its gradient, taken inside the compiled time loop. A new potential needs no new
forces, and no sign of a force can be wrong. Here the interaction is smoothly cut off, a detail that
forces written by hand easily miss.
"""

import matplotlib.pyplot as plt
import numpy as np
from numba import njit

import activerules as ar

CUT = 2.0


@njit
def energy(x, box):
    """Lennard-Jones energy in reduced units; (1 - (r/CUT)²)² takes it to zero smoothly."""
    total = 0.0
    for i in range(len(x)):
        for j in range(i):
            s = 0.0
            for k in range(3):
                d = x[i, k] - x[j, k]
                d -= box * np.round(d / box)  # the nearest image
                s += d * d
            if s < CUT**2:
                u = 1.0 / s**3
                total += 4.0 * u * (u - 1.0) * (1.0 - s / CUT**2) ** 2
    return total


slope = ar.value_and_grad(energy)


@njit
def simulate(x, v, box, dt, steps):
    """Velocity Verlet; potential and kinetic energy at each step."""
    history = np.empty((steps, 2))
    potential, gradient = slope(x, box)
    for n in range(steps):
        v = v - 0.5 * dt * gradient
        x = x + dt * v
        potential, gradient = slope(x, box)
        v = v - 0.5 * dt * gradient
        history[n] = potential, 0.5 * np.sum(v * v)
    return x, v, history


box, dt = 4.3, 0.004
lattice = np.arange(4) * box / 4
x = np.stack(np.meshgrid(lattice, lattice, lattice), axis=-1).reshape(-1, 3)
v = np.random.default_rng(0).normal(size=x.shape)
v -= v.mean(axis=0)
x_end, v_end, history = simulate(x, v, box, dt, 2000)

potential, kinetic = history.T
for values, name in (
    (potential, "potential"),
    (kinetic, "kinetic"),
    (potential + kinetic, "total"),
):
    plt.plot(dt * np.arange(2000), values, label=name)
plt.xlabel("time")
plt.ylabel("energy")
plt.legend(loc=(0.75, 0.55))
drift = np.ptp(potential + kinetic) / np.ptp(potential)
print(f"total energy varies by {drift:.2%} of what the potential energy varies by")

# %%
# Checks: the forces against the formula that one would write by hand; momentum and energy are
# kept; and the way back in time leads to the start, as long as rounding has not grown.
d = x_end[:, None] - x_end
d -= box * np.round(d / box)
s = (d**2).sum(axis=-1) + np.diag(np.full(64, np.inf))
u, taper = 1.0 / s**3, np.where(s < CUT**2, 1.0 - s / CUT**2, 0.0)
by_s = 4.0 * (-3.0 * u * (2.0 * u - 1.0) / s * taper**2 - 2.0 * u * (u - 1.0) * taper / CUT**2)
np.testing.assert_allclose(slope(x_end, box)[1], 2.0 * (by_s[..., None] * d).sum(1), atol=1e-10)
assert np.abs(v_end.sum(axis=0)).max() < 1e-10
assert drift < 0.01
forth = simulate(x_end, v_end, box, dt, 200)
back = simulate(forth[0], -forth[1], box, dt, 200)
np.testing.assert_allclose(back[0], x_end, atol=1e-8)
