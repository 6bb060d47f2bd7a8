"""The programs of GradBench as they are written for Numba: loops, and arrays that are filled.

Each is what a scientist would write without a thought of derivatives. What is differentiated, and
how, is at the end of each section.

Source: https://github.com/gradbench/gradbench describes them; gmm, ba and lstm come from ADBench
(Srajer, Kukelova, Fitzgibbon 2018), det, llsq and ode from cmpad.
"""

import math
from collections.abc import Callable

import numpy as np
from numba import njit

import activerules as ar

# --- lse: the logarithm of a sum of exponentials ---


@njit
def log_sum_exp(x):
    """Stable: the largest entry is taken out of the sum."""
    largest = x[0]
    for i in range(1, len(x)):
        largest = max(largest, x[i])
    total = 0.0
    for i in range(len(x)):
        total += math.exp(x[i] - largest)
    return largest + math.log(total)


lse = ar.value_and_grad(log_sum_exp)


# --- gmm: log likelihood of a mixture of Gaussians, with a Wishart prior ---


@njit
def mixture(alphas, means, factors, points, gamma, m):
    """A row of `factors` has the logarithms of the diagonal of a triangular matrix L, then what is
    below the diagonal, column by column; the inverse of the covariance is LᵀL.
    """
    k, d = means.shape
    n = points.shape[0]
    diagonals = np.exp(factors[:, :d])
    centred, terms = np.empty(d), np.empty(k)
    likelihood = -0.5 * n * d * math.log(2.0 * math.pi) - n * log_sum_exp(alphas)
    for i in range(n):
        for c in range(k):
            for j in range(d):
                centred[j] = points[i, j] - means[c, j]
            terms[c] = alphas[c]
            for row in range(d):
                z = diagonals[c, row] * centred[row]
                for column in range(row):
                    z += factors[c, below_diagonal(d, row, column)] * centred[column]
                terms[c] += factors[c, row] - 0.5 * z * z
        likelihood += log_sum_exp(terms)
    return likelihood + log_wishart_prior(factors, diagonals, gamma, m)


@njit
def below_diagonal(d, row, column):
    """Where a row of `factors` has an entry of the matrix."""
    return d + column * (2 * d - column - 1) // 2 + row - column - 1


@njit
def log_wishart_prior(factors, diagonals, gamma, m):
    """The prior of each precision matrix, with `m` more degrees of freedom than dimensions."""
    k, d = diagonals.shape
    freedom = d + m + 1
    constant = freedom * d * math.log(gamma / math.sqrt(2.0))
    constant -= 0.25 * d * (d - 1) * math.log(math.pi)
    for j in range(d):
        constant -= math.lgamma(0.5 * (freedom - j))
    squares = 0.0
    for c in range(k):
        for j in range(d):
            squares += diagonals[c, j] ** 2
        for j in range(d, factors.shape[1]):
            squares += factors[c, j] ** 2
    return k * constant - 0.5 * gamma**2 * squares + m * np.sum(factors[:, :d])


gmm = ar.value_and_grad(mixture, argnums=(0, 1, 2))


# --- ba: bundle adjustment, points seen by cameras ---


@njit
def rotated(angles, x, y, z):
    """Rodrigues' formula."""
    square = angles[0] ** 2 + angles[1] ** 2 + angles[2] ** 2
    if square == 0.0:
        return (
            x + angles[1] * z - angles[2] * y,
            y + angles[2] * x - angles[0] * z,
            z + angles[0] * y - angles[1] * x,
        )
    theta = math.sqrt(square)
    cosine, sine = math.cos(theta), math.sin(theta) / theta
    dot = (angles[0] * x + angles[1] * y + angles[2] * z) * (1.0 - cosine) / square
    return (
        x * cosine + (angles[1] * z - angles[2] * y) * sine + angles[0] * dot,
        y * cosine + (angles[2] * x - angles[0] * z) * sine + angles[1] * dot,
        z * cosine + (angles[0] * y - angles[1] * x) * sine + angles[2] * dot,
    )


@njit
def reprojection_error(unknowns, feature):
    """Of rotation (3), centre (3), focal length, principal point (2), distortion (2) of a camera,
    a point (3) and a weight.
    """
    camera, point, weight = unknowns[:11], unknowns[11:14], unknowns[14]
    x, y, z = rotated(camera, point[0] - camera[3], point[1] - camera[4], point[2] - camera[5])
    u, v = x / z, y / z
    radius = u * u + v * v
    scale = camera[6] * (1.0 + camera[9] * radius + camera[10] * radius * radius)
    errors = np.empty(2)
    errors[0] = weight * (u * scale + camera[7] - feature[0])
    errors[1] = weight * (v * scale + camera[8] - feature[1])
    return errors


@njit
def ba(cameras, points, weights, seen, features):
    """Blocks of the sparse Jacobian: of each observation by its camera, point and weight, and of
    the error of each weight, 1 - w².
    """
    n = len(seen)
    blocks = np.empty((n, 2, 15))
    unknowns = np.empty(15)
    for i in range(n):
        unknowns[:11] = cameras[seen[i, 0]]
        unknowns[11:14] = points[seen[i, 1]]
        unknowns[14] = weights[i]
        blocks[i] = ar.jacrev(reprojection_error)(unknowns, features[i])
    return blocks, -2.0 * weights


# --- kmeans: a step of Newton's method, whose Hessian is diagonal ---


@njit
def distances(centroids, points):
    """The sum of the squared distances of all points to the centroid that is nearest."""
    total = 0.0
    for i in range(points.shape[0]):
        nearest = math.inf
        for c in range(centroids.shape[0]):
            square = 0.0
            for j in range(points.shape[1]):
                square += (points[i, j] - centroids[c, j]) ** 2
            nearest = min(nearest, square)
        total += nearest
    return total


@njit
def slopes(centroids, points):
    """The gradient, to be differentiated again."""
    return ar.grad(distances)(centroids, points)


@njit
def kmeans(centroids, points):
    """The gradient and the diagonal of the Hessian, by one tangent of the gradient."""
    return ar.jvp(slopes, (centroids, points), (np.ones_like(centroids), None))


# --- llsq: a polynomial through a step, by least squares ---


@njit
def misfit(coefficients, n):
    """Half the sum of squares at `n` points of [-1, 1]."""
    total = 0.0
    for i in range(n):
        t = -1.0 + i * 2.0 / (n - 1)
        residual, power = np.sign(t), 1.0
        for j in range(len(coefficients)):
            residual -= coefficients[j] * power
            power *= t
        total += 0.5 * residual * residual
    return total


llsq = ar.value_and_grad(misfit)


# --- ode: Runge-Kutta with fixed steps ---


@njit
def chain(x, y, out):
    """Each entry grows with the one before it."""
    out[0] = x[0]
    for i in range(1, len(x)):
        out[i] = x[i] * y[i - 1]


@njit
def end_of_chain(x, steps):
    """The last entry at time 2."""
    n, h = len(x), 2.0 / steps
    y = np.zeros(n)
    k1, k2, k3, k4 = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for _ in range(steps):
        chain(x, y, k1)
        chain(x, y + 0.5 * h * k1, k2)
        chain(x, y + 0.5 * h * k2, k3)
        chain(x, y + h * k3, k4)
        y += h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return y[n - 1]


ode = ar.value_and_grad(end_of_chain)


# --- lstm: a recurrent network whose matrices are diagonal ---


@njit
def sigmoid(x):
    """Between 0 and 1."""
    return 1.0 / (1.0 + math.exp(-x))


@njit
def perplexity(layers, outer, state, sequence):
    """Of predicting each row of a sequence from those before it. Of each layer there are the gates'
    weights and their biases, (2, 4, d), and hidden state and cell, (2, d).
    """
    steps, d = sequence.shape
    state = state.copy()
    x = np.empty(d)
    total = 0.0
    for t in range(steps - 1):
        for j in range(d):
            x[j] = sequence[t, j] * outer[0, j]
        for k in range(layers.shape[0]):
            w, b = layers[k, 0], layers[k, 1]
            for j in range(d):
                hidden = state[k, 0, j]
                forget = sigmoid(x[j] * w[0, j] + b[0, j])
                accept = sigmoid(hidden * w[1, j] + b[1, j])
                output = sigmoid(x[j] * w[2, j] + b[2, j])
                change = math.tanh(hidden * w[3, j] + b[3, j])
                cell = state[k, 1, j] * forget + accept * change
                state[k, 1, j] = cell
                state[k, 0, j] = output * math.tanh(cell)
                x[j] = state[k, 0, j]
        exponentials = 2.0
        for j in range(d):
            x[j] = x[j] * outer[1, j] + outer[2, j]
            exponentials += math.exp(x[j])
        for j in range(d):
            total += sequence[t + 1, j] * (x[j] - math.log(exponentials))
    return -total / (d * (steps - 1))


lstm = ar.value_and_grad(perplexity, argnums=(0, 1))


# --- det: a determinant by its minors, recursively ---


@njit
def minor(matrix, row, free):
    """The determinant of the rows from `row` on, and the columns whose bit is set in `free`."""
    n = matrix.shape[0]
    if row == n:
        return 1.0
    total, sign = 0.0, 1.0
    for j in range(n):
        if free >> j & 1:
            total += sign * matrix[row, j] * minor(matrix, row + 1, free - (1 << j))
            sign = -sign
    return total


@njit
def determinant(matrix):
    """By n! products, which is no way to compute one, but a test of recursion."""
    return minor(matrix, 0, (1 << matrix.shape[0]) - 1)


det = ar.value_and_grad(determinant)


# --- their arguments ---

PROGRAMS: dict[str, Callable] = {
    "lse": lse,
    "gmm": gmm,
    "ba": ba,
    "kmeans": kmeans,
    "llsq": llsq,
    "ode": ode,
    "lstm": lstm,
    "det": det,
}
SIZES = {
    "lse": ((10_000,), (1_000_000,)),
    "gmm": ((5, 4, 500), (10, 16, 1_000)),
    "ba": ((5, 100, 500), (20, 1_000, 5_000)),
    "kmeans": ((5, 4, 500), (10, 16, 5_000)),
    "llsq": ((4, 1_000), (16, 20_000)),
    "ode": ((20, 50), (200, 200)),
    "det": ((6,), (8,)),
    "lstm": ((2, 14, 100), (4, 14, 1_000)),
}


def arguments(name: str, size: tuple[int, ...]) -> tuple:
    """Reproducible arguments; a size has as many numbers as those in `SIZES`."""
    rng = np.random.default_rng(0)
    if name == "lse":
        return (rng.normal(size=size),)
    if name == "gmm":
        k, d, n = size
        factors = 0.2 * rng.normal(size=(k, d * (d + 1) // 2))
        return rng.normal(size=k), rng.normal(size=(k, d)), factors, rng.normal(size=(n, d)), 1.0, 0
    if name == "ba":
        cameras = 0.1 * rng.normal(size=(size[0], 11))
        cameras[:, 6] += 1.0
        points = rng.normal(size=(size[1], 3)) + np.array([0.0, 0.0, 6.0])
        n = size[2]
        seen = np.stack((rng.integers(0, size[0], n), rng.integers(0, size[1], n)), axis=1)
        return cameras, points, rng.uniform(0.5, 1.5, size=n), seen, rng.normal(size=(n, 2))
    if name == "kmeans":
        k, d, n = size
        return rng.normal(size=(k, d)), rng.normal(size=(n, d))
    if name == "lstm":
        k, d, steps = size
        outer, state = rng.normal(size=(3, d)), rng.normal(size=(k, 2, d))
        return rng.normal(size=(k, 2, 4, d)), outer, state, rng.normal(size=(steps, d))
    if name == "det":
        return (rng.normal(size=size * 2),)
    if name == "llsq":
        return rng.normal(size=size[0]), size[1]
    return rng.uniform(0.5, 1.5, size=size[0]), size[1]
