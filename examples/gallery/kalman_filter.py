"""
Kalman filter: the variances of the Nile
========================================

The yearly flow of the Nile is modelled as a level that drifts, measured with an error. The two
variances maximise the likelihood, which the Kalman filter computes. The filter is written for any
linear Gaussian model with one measurement at a time, and can be differentiated with respect to each
of its matrices.
"""

import matplotlib.pyplot as plt
import numpy as np
from numba import njit
from scipy.optimize import minimize

import activerules as ar
from activerules.testing import gradient_fd

FLOW = np.array(
    """1120 1160 963 1210 1160 1160 813 1230 1370 1140 995 935 1110 994 1020 960 1180 799 958 1140
    1100 1210 1150 1250 1260 1220 1030 1100 774 840 874 694 940 833 701 916 692 1020 1050 969 831
    726 456 824 702 1120 1100 832 764 821 768 845 864 862 698 845 744 796 1040 759 781 865 845 944
    984 897 822 1010 771 676 649 846 812 742 801 1040 860 874 848 890 744 749 838 1050 918 986 797
    923 975 815 1020 906 901 1170 912 746 919 718 714 740""".split(),
    dtype=float,
)


@njit
def kalman(F, H, Q, R, m, P, y):
    """The log-likelihood of the numbers y, and the filtered means; `m`, `P` describe the start."""
    means = np.empty((len(y), len(m)))
    total = 0.0
    for t in range(len(y)):
        error, PH = y[t] - H @ m, P @ H
        variance = H @ PH + R
        total -= 0.5 * (error**2 / variance + np.log(2.0 * np.pi * variance))
        means[t] = m + PH * (error / variance)
        m = F @ means[t]
        P = F @ (P - np.outer(PH, PH) / variance) @ F.T + Q
    return total, means


@njit
def log_likelihood(F, H, Q, R, m, P, y):
    return kalman(F, H, Q, R, m, P, y)[0]


value_and_gradient = ar.value_and_grad(log_likelihood, argnums=("F", "H", "Q", "R", "m", "P"))
one = np.eye(1)


def nile(logs):
    """Minus the log-likelihood of a drifting level with variances exp(logs), and its gradient."""
    Q, R = np.exp(logs)
    model = one, np.ones(1), Q * one, R, np.zeros(1), 1e7 * one
    value, (_, _, Q_bar, R_bar, _, _) = value_and_gradient(*model, FLOW)
    return -value, np.array([-Q * Q_bar[0, 0], -R * R_bar])


fit = minimize(nile, np.log([1e4, 1e4]), jac=True, method="BFGS")
print(f"variance of the drift {np.exp(fit.x[0]):.1f}, of the error {np.exp(fit.x[1]):.0f}")
print(f"log-likelihood {-fit.fun:.2f}, {fit.nfev} values and gradients")

Q, R = np.exp(fit.x)
level = kalman(one, np.ones(1), Q * one, R, np.zeros(1), 1e7 * one, FLOW)[1]
years = np.arange(1871, 1971)
plt.plot(years, FLOW, "o", ms=4, alpha=0.6, label="flow, 10⁸ m³")
plt.plot(years, level, label="filtered level")
plt.legend()

# %%
# Checks: the estimates of Durbin and Koopman (Time Series Analysis by State Space Methods, 2012,
# section 2.10.3) for the same start; and the gradient with respect to every matrix of a model with
# two states, against finite differences.
np.testing.assert_allclose(np.exp(fit.x), [1469.1, 15099.0], rtol=2e-3)
F, H = np.array([[1.0, 1.0], [0.0, 0.9]]), np.array([1.0, 0.5])
model = F, H, np.diag([0.3, 0.1]), 0.5, np.zeros(2), np.eye(2), FLOW[:20] / 1000.0
for k, gradient in enumerate(value_and_gradient(*model)[1]):
    np.testing.assert_allclose(gradient, gradient_fd(log_likelihood, model, k), atol=1e-6)
