"""
A rule for a C function
=======================

Numba calls C functions through ``ctypes`` or ``cffi``. What happens in them cannot be seen, so
their derivative is a rule. Here it is that of the Bessel function J₁ of the C library, in a fit of
the Airy pattern: the image of a star in a telescope. Without the rule the gradient is refused, with
an error that says how to write it.
"""

import ctypes
import ctypes.util

import matplotlib.pyplot as plt
import numpy as np
from numba import njit
from scipy import special
from scipy.optimize import minimize

import activerules as ar
from activerules.testing import gradient_fd

libm = ctypes.CDLL(ctypes.util.find_library("m"))
j0, j1 = libm.j0, libm.j1
for function in (j0, j1):
    function.argtypes, function.restype = [ctypes.c_double], ctypes.c_double


@njit
def airy(x):
    """(2 J₁(x) / x)², with its limit at zero."""
    return (2.0 * j1(x) / x) ** 2 if abs(x) > 1e-8 else 1.0


@njit
def loss(parameters, image):
    """Brightness, width and centre of the star, and the background; squared difference."""
    brightness, width, y, x, background = parameters
    total = 0.0
    for i in range(image.shape[0]):
        for k in range(image.shape[1]):
            r = np.hypot(i - y, k - x) / width
            total += (brightness * airy(r) + background - image[i, k]) ** 2
    return total


truth = np.array([10.0, 2.5, 15.3, 17.8, 1.0])
start = np.array([6.0, 3.5, 16.0, 16.0, 0.0])
i, k = np.mgrid[:32, :32]
r = np.hypot(i - truth[2], k - truth[3]) / truth[1]
rng = np.random.default_rng(0)
image = truth[0] * (2.0 * special.j1(r) / r) ** 2 + truth[4] + 0.1 * rng.normal(size=(32, 32))

try:
    ar.grad(loss)(start, image)
except ar.ActiverulesError as error:
    print(f"{type(error).__name__}: {str(error).splitlines()[0]}")

# %%
# The rule: J₁'(x) = J₀(x) - J₁(x) / x. The value is on the tape; only J₀ is computed anew.


@ar.augmented_primal(j1)
def j1_augmented(config, ret: ar.Active, x: ar.Active):
    y = j1(x.val)
    return ar.AugmentedReturn(y, None, y)


@ar.reverse(j1)
def j1_reverse(config, dret: ar.Active, y, x: ar.Active):
    return dret.val * (j0(x.val) - y / x.val)


value_and_gradient = ar.value_and_grad(loss)
fit = minimize(value_and_gradient, start, args=(image,), jac=True, method="BFGS")
names = ("brightness", "width", "y", "x", "background")
for name, value, true in zip(names, fit.x, truth, strict=True):
    print(f"{name:10s} {value:8.4f}   (truth {true})")

figure, axes = plt.subplots(1, 2, figsize=(8, 3.8))
axes[0].imshow(np.log(np.maximum(image, 0.5)))
axes[0].set_title("image, logarithmic")
axes[1].plot(r.ravel(), image.ravel(), ".", alpha=0.4, label="pixels")
distance = np.linspace(1e-3, r.max(), 300)
axes[1].plot(
    distance, fit.x[0] * (2.0 * special.j1(distance) / distance) ** 2 + fit.x[4], label="fit"
)
axes[1].set_xlabel("distance / width")
axes[1].legend()

# %%
# Checks: the rule against SciPy's derivative of J₁, the gradient against finite differences, and
# the fit.
for x in (0.3, 2.0, 7.5):
    np.testing.assert_allclose(ar.grad(lambda x: j1(x))(x), special.jvp(1, x), rtol=1e-12)
reference = gradient_fd(loss, (start, image))
np.testing.assert_allclose(value_and_gradient(start, image)[1], reference, rtol=1e-6)
np.testing.assert_allclose(fit.x, truth, atol=0.05)
