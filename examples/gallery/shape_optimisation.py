"""
Finite elements: the stiffest bar
=================================

The torsional stiffness of a bar is proportional to the integral of u, with -Δu = 1 in its cross
section and u = 0 on the edge. Which section of given area is the stiffest? Each shape of the edge
assembles a CSR matrix over a mesh that follows it. Conjugate gradients are not differentiated step
by step: a rule says that the derivative of a solve is one more solve.
"""

import matplotlib.pyplot as plt
import numpy as np
from numba import njit
from scipy.optimize import minimize
from scipy.spatial import Delaunay

import activerules as ar
from activerules.testing import gradient_fd


@njit
def solve(indptr, indices, data, b, inner):
    """Conjugate gradients: A x = b for the first `inner` unknowns, the others are zero."""
    x, r, Ap = np.zeros_like(b), b.copy(), np.zeros_like(b)
    r[inner:] = 0.0
    p, square = r.copy(), r @ r
    while square > 1e-24 * (b @ b):
        for i in range(inner):
            row = slice(indptr[i], indptr[i + 1])
            Ap[i] = data[row] @ p[indices[row]]
        step, before = square / (p @ Ap), square
        x, r = x + step * p, r - step * Ap
        square = r @ r
        p = r + square / before * p
    return x


@ar.augmented_primal(solve)
def solve_augmented(config, ret, indptr, indices, data: ar.Duplicated, b: ar.Duplicated, inner):
    x = solve(indptr.val, indices.val, data.val, b.val, inner.val)
    return ar.AugmentedReturn(x, np.zeros_like(x), x)


@ar.reverse(solve, saves=("indptr", "indices", "data"))
def solve_reverse(config, dret, x, indptr, indices, data: ar.Duplicated, b: ar.Duplicated, inner):
    """b̄ = A⁻¹ x̄, for A is symmetric; Ā = -b̄ xᵀ where A has entries."""
    b_bar = solve(indptr.val, indices.val, data.val, dret.dval, inner.val)
    ar.accumulate(b, b_bar)
    ar.accumulate(data, -np.repeat(b_bar, np.diff(indptr.val)) * x[indices.val])


@njit
def bar(design, unit, triangles, places, indptr, indices, inner):
    """The nodes, u, and minus the stiffness over area squared, which is -1 for a disc."""
    points, angle = unit.copy(), np.arctan2(unit[:, 1], unit[:, 0])
    for m in range(len(design)):
        points += design[m] * np.cos((m + 2) * np.expand_dims(angle, 1)) * unit
    data, load, total = np.zeros(len(indices)), np.zeros(len(unit)), 0.0
    for t, (a, b, c) in enumerate(triangles):
        e = np.stack((points[c] - points[b], points[a] - points[c], points[b] - points[a]))
        area = 0.5 * (e[0, 0] * e[1, 1] - e[0, 1] * e[1, 0])
        total += area
        for i in range(3):
            load[triangles[t, i]] += area / 3.0
            for j in range(3):
                data[places[t, i, j]] += (e[i] @ e[j]) / (4.0 * area)
    u = solve(indptr, indices, data, load, inner)
    return points, u, -8.0 * np.pi * (u @ load) / total**2


loss = njit(lambda design, mesh: bar(design, *mesh)[2])
rings = [(k, 2.0 * np.pi * np.arange(max(6 * k, 1)) / max(6 * k, 1)) for k in range(13)]
unit = np.concatenate([k / 12.0 * np.column_stack((np.cos(a), np.sin(a))) for k, a in rings])
triangles, n = Delaunay(unit).simplices.astype(np.int64), len(unit)
pairs = np.repeat(triangles, 3, axis=1) * n + np.tile(triangles, 3)
entries, places = np.unique(pairs, return_inverse=True)
rows = np.searchsorted(entries, n * np.arange(n + 1))
mesh = unit, triangles, places.reshape(-1, 3, 3), rows, entries % n, n - 72
start = np.array([0.2, 0.15, -0.1, 0.05, 0.05])
slope = ar.value_and_grad(loss)
fit = minimize(slope, start, (mesh,), "BFGS", jac=True, options={"gtol": 1e-6})
print(f"stiffness of a disc's {-loss(start, mesh):.1%} -> {-fit.fun:.1%}, {fit.nfev} gradients")

figure, axes = plt.subplots(1, 2, figsize=(9, 4))
for ax, design, title in zip(axes, (start, fit.x), ("start", "stiffest"), strict=True):
    points, u, _ = bar(design, *mesh)
    ax.tripcolor(*points.T, triangles, u, shading="gouraud")
    ax.set(title=title, aspect="equal")

# %%
# Checks: finite differences; and the disc is the stiffest section (Saint-Venant, Pólya 1948).
reference = gradient_fd(loss, (start, mesh))
np.testing.assert_allclose(slope(start, mesh)[1], reference, rtol=1e-6)
assert max(np.abs(fit.x).max(), abs(fit.fun + 1.0)) < 0.01
