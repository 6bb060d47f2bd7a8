"""The programs of GradBench as users of JAX write them: whole arrays, `vmap`, `scan`, `jit`."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp, multigammaln

jax.config.update("jax_enable_x64", True)


@jax.jit
@jax.value_and_grad
def lse(x):
    largest = jnp.max(x)
    return largest + jnp.log(jnp.sum(jnp.exp(x - largest)))


@partial(jax.jit, static_argnums=(4, 5))
@partial(jax.value_and_grad, argnums=(0, 1, 2))
def gmm(alphas, means, factors, points, gamma, m):
    (k, d), n = means.shape, points.shape[0]
    columns, rows = np.triu_indices(d, 1)
    lower = jnp.zeros((k, d, d)).at[:, rows, columns].set(factors[:, d:])
    diagonals, sums = jnp.exp(factors[:, :d]), jnp.sum(factors[:, :d], axis=1)
    centred = points[:, None, :] - means
    z = diagonals * centred + jnp.einsum("cij,ncj->nci", lower, centred)
    terms = alphas + sums - 0.5 * jnp.sum(z**2, axis=2)
    likelihood = jnp.sum(logsumexp(terms, axis=1)) - n * logsumexp(alphas)
    squares = jnp.sum(diagonals**2) + jnp.sum(factors[:, d:] ** 2)
    freedom = d + m + 1
    prior = k * (freedom * d * np.log(gamma / np.sqrt(2.0)) - multigammaln(0.5 * freedom, d))
    prior += m * jnp.sum(sums) - 0.5 * gamma**2 * squares
    return likelihood - 0.5 * n * d * np.log(2.0 * np.pi) + prior


def reprojection_error(camera, point, weight, feature):
    angles, centred = camera[:3], point - camera[3:6]
    square = jnp.sum(angles**2)
    theta = jnp.sqrt(square)
    turned = (
        centred * jnp.cos(theta)
        + jnp.cross(angles, centred) * jnp.sin(theta) / theta
        + angles * jnp.dot(angles, centred) * (1.0 - jnp.cos(theta)) / square
    )
    image = turned[:2] / turned[2]
    radius = jnp.sum(image**2)
    scale = camera[6] * (1.0 + camera[9] * radius + camera[10] * radius**2)
    return weight * (image * scale + camera[7:9] - feature)


@jax.jit
def ba(cameras, points, weights, seen, features):
    by = jax.vmap(jax.jacrev(reprojection_error, argnums=(0, 1, 2)))
    of_camera, of_point, of_weight = by(cameras[seen[:, 0]], points[seen[:, 1]], weights, features)
    return jnp.concatenate((of_camera, of_point, of_weight[:, :, None]), axis=2), -2.0 * weights


def distances(centroids, points):
    squares = jnp.sum((points[:, None, :] - centroids) ** 2, axis=2)
    return jnp.sum(jnp.min(squares, axis=1))


@jax.jit
def kmeans(centroids, points):
    return jax.jvp(
        lambda c: jax.grad(distances)(c, points), (centroids,), (jnp.ones_like(centroids),)
    )


@partial(jax.jit, static_argnums=1)
@jax.value_and_grad
def llsq(coefficients, n):
    t = -1.0 + jnp.arange(n) * 2.0 / (n - 1)
    fitted = jnp.vander(t, len(coefficients), increasing=True) @ coefficients
    return 0.5 * jnp.sum((jnp.sign(t) - fitted) ** 2)


@partial(jax.jit, static_argnums=1)
@jax.value_and_grad
def ode(x, steps):
    h = 2.0 / steps

    def chain(y):
        return x * jnp.concatenate((jnp.ones(1), y[:-1]))

    def step(y, _):
        k1 = chain(y)
        k2 = chain(y + 0.5 * h * k1)
        k3 = chain(y + 0.5 * h * k2)
        k4 = chain(y + h * k3)
        return y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4), None

    return jax.lax.scan(step, jnp.zeros_like(x), None, length=steps)[0][-1]


@jax.jit
@partial(jax.value_and_grad, argnums=(0, 1))
def lstm(layers, outer, state, sequence):
    def predict(state, x):
        x, states = x * outer[0], []
        for (w, b), (hidden, cell) in zip(layers, state, strict=True):
            forget = jax.nn.sigmoid(x * w[0] + b[0])
            accept = jax.nn.sigmoid(hidden * w[1] + b[1])
            output = jax.nn.sigmoid(x * w[2] + b[2])
            change = jnp.tanh(hidden * w[3] + b[3])
            cell = cell * forget + accept * change
            x = output * jnp.tanh(cell)
            states.append(jnp.stack((x, cell)))
        x = x * outer[1] + outer[2]
        return jnp.stack(states), x - jnp.log(jnp.sum(jnp.exp(x)) + 2.0)

    _, predicted = jax.lax.scan(predict, state, sequence[:-1])
    return -jnp.mean(sequence[1:] * predicted)


@jax.jit
@jax.value_and_grad
def det(matrix):
    def minor(rows):
        """Of a batch: all minors of one size are computed at once."""
        n = rows.shape[-1]
        if n == 1:
            return rows[..., 0, 0]
        others = np.array([[i for i in range(n) if i != j] for j in range(n)])
        below = jnp.moveaxis(rows[..., 1:, others], -2, -3)
        return jnp.sum((-1.0) ** np.arange(n) * rows[..., 0, :] * minor(below), axis=-1)

    return minor(matrix)


def rotated(angles, points):
    """Rodrigues' formula, for points in rows."""
    square = jnp.sum(angles**2)
    theta = jnp.sqrt(square)
    return (
        points * jnp.cos(theta)
        + jnp.cross(angles, points) * jnp.sin(theta) / theta
        + jnp.outer(points @ angles, angles) * (1.0 - jnp.cos(theta)) / square
    )


def affine(linear, shift):
    """Matrices of affine maps in homogeneous coordinates."""
    below = jnp.broadcast_to(jnp.array([0.0, 0.0, 0.0, 1.0]), (len(linear), 1, 4))
    return jnp.concatenate((jnp.concatenate((linear, shift), axis=-1), below), axis=-2)


def bent(flexion, abduction):
    """The rotations of all joints, about their x axes and then about their z axes."""
    cx, sx, cz, sz = jnp.cos(flexion), jnp.sin(flexion), jnp.cos(abduction), jnp.sin(abduction)
    zero = jnp.zeros_like(cx)
    rows = [[cz, -sz * cx, sz * sx], [sz, cz * cx, -cz * sx], [zero, sx, cx]]
    return jnp.moveaxis(jnp.array(rows), -1, 0)


def hand_errors(pose, parents, base, inverse, positions, weights, seen, points):
    fingers, bones = pose[6:].reshape(-1, 4), len(base)
    zero = jnp.zeros_like(fingers[:, :1])
    flexion = jnp.concatenate((fingers[:, :1], fingers[:, 2:], zero), axis=1).ravel()
    abduction = jnp.concatenate((fingers[:, 1:2], zero, zero, zero), axis=1).ravel()
    pad = jnp.zeros(bones - len(flexion))
    turns = bent(jnp.concatenate((pad, flexion)), jnp.concatenate((pad, abduction)))
    relative = affine(base[..., :3], base[..., 3:]) @ affine(turns, jnp.zeros((bones, 3, 1)))
    # A chain of fingers is as deep as its bones: all fingers take a step at once.
    first = relative[0] @ relative[1]
    chain = relative[2:].reshape(-1, 4, 4, 4)
    places, at = [], first
    for joint in range(4):
        at = at @ chain[:, joint]
        places.append(at)
    below = jnp.stack(places, axis=1).reshape(-1, 4, 4)
    place = jnp.concatenate((relative[:1], first[None], below))
    moved = (place @ affine(inverse[..., :3], inverse[..., 3:]))[:, :3]
    at_rest = jnp.concatenate((positions[seen], jnp.ones((len(seen), 1))), axis=1)
    at = jnp.einsum("nb,bij,nj->ni", weights[seen], moved, at_rest)
    return points - rotated(pose[:3], at) - pose[3:6]


ht = jax.jit(jax.jacfwd(hand_errors))


def minimiser(function, differentiate):
    """`while_loop` has a derivative in forward mode only: so must be what is taken of this one."""
    slope = differentiate(function)

    def minimise(start, given):
        def going_on(state):
            _, _, gradient, _, _, done = state
            return ~done & (jnp.sqrt(jnp.sum(gradient**2)) > 1e-5)

        def descend(state):
            x, value, gradient, rate, successes, _ = state
            often = successes == 10
            rate, successes = jnp.where(often, 2.0 * rate, rate), jnp.where(often, 0, successes)
            step = rate * gradient
            new = x - step
            at_new = function(new, given)
            done, better = jnp.sqrt(jnp.sum(step**2)) <= 1e-5, at_new < value
            moves = better & ~done
            return (
                jnp.where(moves, new, x),
                jnp.where(moves, at_new, value),
                jax.lax.cond(moves, lambda: slope(new, given), lambda: gradient),
                jnp.where(better, rate, 0.5 * rate),
                jnp.where(better, successes + 1, 0),
                done,
            )

        state = start, function(start, given), slope(start, given), 1e-5, 0, False
        return jax.lax.while_loop(going_on, descend, state)[0]

    return minimise


def descent(q, p):
    return jnp.sum(q**2) - jnp.sum(p**2)


maximise = minimiser(descent, jax.grad)


def summit(p, start):
    return -descent(maximise(start, p), p)


@jax.jit
def saddle(start):
    p = minimiser(summit, jax.jacfwd)(start, start)
    return p, maximise(start, p)


def potential(place, w):
    charges = jnp.array([[10.0, 10.0 - w], [10.0, 0.0]])
    return jnp.sum(1.0 / jnp.linalg.norm(place - charges, axis=1))


def landing(control, step):
    def flying(state):
        place, speed = state
        return place[1] + step * speed[1] > 0.0

    def fly(state):
        place, speed = state
        return place + step * speed, speed - step * jax.grad(potential)(place, control[0])

    start = jnp.array([0.0, 8.0]), jnp.array([0.75, 0.0])
    place, speed = jax.lax.while_loop(flying, fly, start)
    return (place[0] - place[1] / speed[1] * speed[0]) ** 2


particle = jax.jit(minimiser(landing, jax.jacfwd))
