"""
Register two images
===================

Two pictures of the same terrain, the second shifted, turned and stretched. The six numbers of the
affine map that takes one to the other minimise the squared difference. Interpolation, loops over
pixels and the test for the border are plain code; Gauss-Newton uses the Jacobian of the residuals.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import cbook
from numba import njit
from scipy.ndimage import gaussian_filter
from scipy.optimize import least_squares

import activerules as ar
from activerules.testing import central_fdm


@njit
def at(image, y, x):
    """Bilinear interpolation; pixels outside repeat the border."""
    y = min(max(y, 0.0), image.shape[0] - 1.001)
    x = min(max(x, 0.0), image.shape[1] - 1.001)
    i, j = int(y), int(x)
    s, t = y - i, x - j
    top = (1.0 - t) * image[i, j] + t * image[i, j + 1]
    bottom = (1.0 - t) * image[i + 1, j] + t * image[i + 1, j + 1]
    return (1.0 - s) * top + s * bottom


@njit
def warp(p, image, size):
    """The square of `size` pixels in the middle, mapped by p: shift, and a matrix less identity."""
    out, (height, width) = np.empty((size, size)), image.shape
    for i in range(size):
        for j in range(size):
            u, v = i / size - 0.5, j / size - 0.5
            y = 0.5 * height + size * u + p[0] + p[2] * u + p[3] * v
            x = 0.5 * width + size * v + p[1] + p[4] * u + p[5] * v
            out[i, j] = at(image, y, x)
    return out


@njit
def residuals(p, image, target):
    return (warp(p, image, len(target)) - target).ravel()


with cbook.get_sample_data("jacksboro_fault_dem.npz") as sample:
    terrain = gaussian_filter(sample["elevation"].astype(float), 2.0)[::2, ::2]
terrain = (terrain - terrain.mean()) / terrain.std()
truth = np.array([6.0, -4.0, 3.0, -8.0, 8.0, 2.0])
target = warp(truth, terrain, 80)
target += 0.02 * np.random.default_rng(0).normal(size=target.shape)
jacobian = ar.jacfwd(residuals)
fit = least_squares(residuals, np.zeros(6), jacobian, args=(terrain, target), x_scale=10.0)
print(f"found {fit.x.round(3)}\ntruth {truth}\n{fit.nfev} evaluations")

figure, axes = plt.subplots(1, 3, figsize=(10, 3.6))
images = target, warp(np.zeros(6), terrain, 80) - target, warp(fit.x, terrain, 80) - target
for ax, image, title in zip(axes, images, ("target", "difference before", "after"), strict=True):
    ax.imshow(image, cmap="terrain" if ax is axes[0] else "RdBu", vmin=-1.5, vmax=1.5)
    ax.set(title=title, xticks=[], yticks=[])
figure.tight_layout()

# %%
# Checks: the map is found to a fifth of a pixel at the border of the square; what remains is the
# noise; and the Jacobian along a direction is the finite difference of one residual.
assert np.abs(fit.x - truth).max() < 0.2
np.testing.assert_allclose(np.sqrt(np.mean(fit.fun**2)), 0.02, rtol=0.05)
direction, point = np.array([0.3, 0.5, -0.2, 0.1, 0.4, -0.3]), truth + 0.123
pixel = 3210
difference = central_fdm(5, 1)(
    lambda h: residuals(point + h * direction, terrain, target)[pixel], 0.0
)
computed = jacobian(point, terrain, target)[pixel] @ direction
np.testing.assert_allclose(computed, difference, rtol=1e-3)
