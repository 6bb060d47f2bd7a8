"""The programs of GradBench as they are written for Numba: loops, products, arrays to fill.

Each is what a scientist would write without a thought of derivatives. What is differentiated, and
how, is at the end of each section.

Source: https://github.com/gradbench/gradbench describes them; gmm, ba, ht and lstm come from
ADBench (Srajer, Kukelova, Fitzgibbon 2018), det, llsq and ode from cmpad, saddle and particle from
the benchmarks of Siskind and Pearlmutter.
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
    place = 0
    for i in range(1, len(x)):
        if x[i] > x[place]:
            place = i
    largest, total = x[place], 0.0
    for i in range(len(x)):
        total += math.exp(x[i] - largest)
    return largest + math.log(total)


VECTOR_MATH = ar.ReverseWithPrimal.vector_math()


@njit
def lse(x):
    """Value and gradient, with several exponentials at once, as JAX and PyTorch evaluate them."""
    x_bar = np.zeros_like(x)
    _, value = ar.autodiff(VECTOR_MATH, log_sum_exp, ar.Active, ar.Duplicated(x, x_bar))
    return value, x_bar


# --- gmm: log likelihood of a mixture of Gaussians, with a Wishart prior ---


@njit
def mixture(alphas, means, factors, points, gamma, m):
    """A row of `factors` has the logarithms of the diagonal of a triangular matrix L, then what is
    below the diagonal, column by column; the inverse of the covariance is LᵀL.
    """
    k, d = means.shape
    n = points.shape[0]
    diagonals = np.exp(factors[:, :d])
    lower, terms = np.zeros((d, d)), np.empty((n, k))
    for c in range(k):
        place = d
        for column in range(d):
            lower[column, column] = diagonals[c, column]
            for row in range(column + 1, d):
                lower[row, column] = factors[c, place]
                place += 1
        z = (points - means[c]) @ lower.T
        terms[:, c] = alphas[c] + np.sum(factors[c, :d]) - 0.5 * np.sum(z * z, axis=1)
    likelihood = -0.5 * n * d * math.log(2.0 * math.pi) - n * log_sum_exp(alphas)
    for i in range(n):
        likelihood += log_sum_exp(terms[i])
    return likelihood + log_wishart_prior(factors, diagonals, gamma, m)


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
    return (
        weight * (u * scale + camera[7] - feature[0]),
        weight * (v * scale + camera[8] - feature[1]),
    )


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
        blocks[i, 0], blocks[i, 1] = ar.jacrev(reprojection_error)(unknowns, features[i])
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


# --- det: a determinant by its minors, all minors of one size at once ---


@njit
def free_columns(n):
    """For each row the columns of every minor of the rows from there on, one minor after the other,
    and where those of each row begin.
    """
    starts, size = np.zeros(n + 1, np.int64), 1
    for row in range(n):
        size *= n - row
        starts[row + 1] = starts[row] + size
    columns = np.empty(starts[n], np.int64)
    columns[:n] = np.arange(n)
    for row in range(n - 1):
        width, place = n - row, starts[row + 1]
        for first in range(starts[row], starts[row + 1], width):
            for left_out in range(first, first + width):
                for k in range(first, first + width):
                    if k != left_out:
                        columns[place] = columns[k]
                        place += 1
    return columns, starts


@njit
def determinant(matrix):
    """By n! products, which is no way to compute one, but is what the others do."""
    n = matrix.shape[0]
    columns, starts = free_columns(n)
    minors = np.ones(starts[n] - starts[n - 1])
    for row in range(n - 1, -1, -1):
        width = n - row
        larger = np.empty(len(minors) // width)
        for i in range(len(larger)):
            total, sign = 0.0, 1.0
            for k in range(i * width, (i + 1) * width):
                total += sign * matrix[row, columns[starts[row] + k]] * minors[k]
                sign = -sign
            larger[i] = total
        minors = larger
    return minors[0]


det = ar.value_and_grad(determinant)


# --- ht: hand tracking, a skinned mesh that follows its bones ---

BONES, FINGERS, VERTICES = 22, 5, 544


@njit
def multiplied(a, b):
    """The product of two affine maps, (3, 4)."""
    product = np.empty((3, 4))
    for i in range(3):
        for j in range(4):
            product[i, j] = a[i, 0] * b[0, j] + a[i, 1] * b[1, j] + a[i, 2] * b[2, j]
        product[i, 3] += a[i, 3]
    return product


@njit
def bent(flexion, abduction):
    """The rotation of a joint, about its x axis and then about its z axis."""
    turn = np.zeros((3, 4))
    cx, sx, cz, sz = (
        math.cos(flexion),
        math.sin(flexion),
        math.cos(abduction),
        math.sin(abduction),
    )
    turn[0, 0], turn[0, 1], turn[0, 2] = cz, -sz * cx, sz * sx
    turn[1, 0], turn[1, 1], turn[1, 2] = sz, cz * cx, -cz * sx
    turn[2, 1], turn[2, 2] = sx, cx
    return turn


@njit
def hand_errors(pose, parents, base, inverse, positions, weights, seen, points):
    """Where vertices of the mesh are, less the points they were seen at, (n, 3).

    The pose is a rotation and a translation of the hand, and four angles per finger: two of its
    first joint, one of each of the others. A vertex follows its bones by its weights. A bone has
    its place relative to its parent (`base`), and at rest (`inverse`, of the place in the hand).
    """
    place, moved = np.empty((len(parents), 3, 4)), np.empty((len(parents), 3, 4))
    for bone in range(len(parents)):
        joint = (bone - 2) % 4
        relative = base[bone]
        if bone >= 2 and joint < 3:
            angle = 6 + 4 * ((bone - 2) // 4) + (joint + 1 if joint > 0 else 0)
            sideways = pose[angle + 1] if joint == 0 else 0.0
            relative = multiplied(relative, bent(pose[angle], sideways))
        place[bone] = multiplied(place[parents[bone]], relative) if bone > 0 else relative
        moved[bone] = multiplied(place[bone], inverse[bone])
    errors, at = np.empty((len(seen), 3)), np.empty(3)
    for i in range(len(seen)):
        vertex = seen[i]
        at[:] = 0.0
        for bone in range(len(parents)):
            weight = weights[vertex, bone]
            if weight != 0.0:
                for j in range(3):
                    at[j] += weight * (
                        moved[bone, j, 0] * positions[vertex, 0]
                        + moved[bone, j, 1] * positions[vertex, 1]
                        + moved[bone, j, 2] * positions[vertex, 2]
                        + moved[bone, j, 3]
                    )
        turned = rotated(pose, at[0], at[1], at[2])
        for j in range(3):
            errors[i, j] = points[i, j] - turned[j] - pose[3 + j]
    return errors


ht = ar.jacfwd(hand_errors)


# --- saddle and particle: gradients within a function whose gradient is taken ---


def minimiser(function, slope, moved, norm):
    """Gradient descent with a step size that adapts, for a function of a point and of constants.

    `slope` is its gradient, `moved(x, rate, gradient)` a step down from x, `norm` the length of a
    gradient.
    """

    @njit
    def minimise(start, given):
        x, value = start, function(start, given)
        gradient, rate, successes = slope(x, given), 1e-5, 0
        while norm(gradient) > 1e-5:
            if successes == 10:
                rate, successes = 2.0 * rate, 0
            if rate * norm(gradient) <= 1e-5:
                break
            new = moved(x, rate, gradient)
            at_new = function(new, given)
            if at_new < value:
                x, value, gradient = new, at_new, slope(new, given)
                successes += 1
            else:
                rate, successes = 0.5 * rate, 0
        return x

    return minimise


@njit
def moved(x, rate, gradient):
    """A step in the plane."""
    return x[0] - rate * gradient[0], x[1] - rate * gradient[1]


@njit
def norm(x):
    """The length of a pair."""
    return math.sqrt(x[0] * x[0] + x[1] * x[1])


@njit
def descent(q, p):
    """Less what is minimal in p and maximal in q."""
    return q[0] * q[0] + q[1] * q[1] - (p[0] * p[0] + p[1] * p[1])


maximise = minimiser(descent, ar.grad(descent), moved, norm)


@njit
def summit(p, start):
    """The maximum over q."""
    return -descent(maximise(start, p), p)


minimise_summit = minimiser(summit, ar.grad(summit), moved, norm)


@njit
def saddle(start):
    """The saddle point; each gradient of the outer descent is that of a whole inner one."""
    corner = start[0], start[1]
    p = minimise_summit(corner, corner)
    return np.array(p), np.array(maximise(corner, p))


@njit
def potential(x, y, w):
    """Of two charges, one of which is moved by the control."""
    return 1.0 / math.sqrt((x - 10.0) ** 2 + (y - 10.0 + w) ** 2) + 1.0 / math.sqrt(
        (x - 10.0) ** 2 + y**2
    )


@njit
def landing(control, step):
    """The square of the distance from the target where a particle lands, by Euler's method."""
    x, y, u, v = 0.0, 8.0, 0.75, 0.0
    while y + step * v > 0.0:
        slope_x, slope_y = ar.grad(potential, argnums=(0, 1))(x, y, control)
        x, y = x + step * u, y + step * v
        u, v = u - step * slope_x, v - step * slope_y
    return (x - y / v * u) ** 2


@njit
def moved_control(w, rate, gradient):
    """A step of a single number."""
    return w - rate * gradient


# of one number: forward mode, which keeps nothing
steer = minimiser(landing, ar.jacfwd(landing), moved_control, abs)


@njit
def particle(start, step):
    """The control by which the particle lands on the target."""
    return np.array([steer(start[0], step)])


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
    "ht": ht,
    "saddle": saddle,
    "particle": particle,
}
SIZES = {
    "lse": ((10_000,), (1_000_000,)),
    "gmm": ((5, 4, 500), (10, 16, 1_000)),
    "ba": ((5, 100, 500), (20, 1_000, 5_000)),
    "kmeans": ((5, 4, 500), (10, 16, 5_000)),
    "llsq": ((4, 1_000), (16, 20_000)),
    "ode": ((20, 50), (200, 200)),
    "det": ((6,), (8,)),
    "ht": ((100,), (1_000,)),
    "saddle": ((),),
    "particle": ((),),
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
    if name == "ht":
        return hand(rng, size[0])
    starts = {"saddle": (np.ones(2),), "particle": (np.zeros(1), 0.1)}
    if name in starts:
        return starts[name]
    if name == "llsq":
        return rng.normal(size=size[0]), size[1]
    return rng.uniform(0.5, 1.5, size=size[0]), size[1]


def hand(rng: np.random.Generator, points: int) -> tuple:
    """A random hand: bones in chains of four from the second one, a vertex that follows three."""
    parents = np.array([0, 0, *(i if j else 1 for i in range(1, BONES - 1) for j in [(i - 1) % 4])])
    base, inverse = np.tile(np.eye(3, 4), (2, BONES, 1, 1))
    base = base + 0.2 * rng.normal(size=base.shape)
    inverse = inverse + 0.2 * rng.normal(size=inverse.shape)
    weights = np.zeros((VERTICES, BONES))
    for row in weights:
        row[rng.choice(BONES, 3, replace=False)] = rng.dirichlet(np.ones(3))
    pose = 0.3 * rng.normal(size=6 + 4 * FINGERS)
    positions, seen = rng.normal(size=(VERTICES, 3)), rng.integers(0, VERTICES, points)
    return pose, parents, base, inverse, positions, weights, seen, rng.normal(size=(points, 3))
