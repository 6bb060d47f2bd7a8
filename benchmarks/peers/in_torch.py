"""The programs of GradBench as users of PyTorch write them: eager, whole tensors, `torch.func`.

`torch.compile` needs a C++ compiler at run time and traces no loop that depends on data.
"""

import math
from collections.abc import Callable

import torch
from torch.func import grad, jacfwd, jacrev, jvp, vmap

torch.set_num_threads(1)


def value_and_grad(function: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """By `backward`'s graph, which in eager mode takes less time than `torch.func`."""
    several = argnums if isinstance(argnums, tuple) else (argnums,)

    def both(*args):
        args = [x.detach().requires_grad_() if i in several else x for i, x in enumerate(args)]
        value = function(*args)
        return value.detach(), torch.autograd.grad(value, [args[i] for i in several])

    return both


@value_and_grad
def lse(x):
    largest = torch.max(x)
    return largest + torch.log(torch.sum(torch.exp(x - largest)))


def mixture(alphas, means, factors, points, gamma, m):
    (k, d), n = means.shape, points.shape[0]
    columns, rows = torch.triu_indices(d, d, 1)
    lower = torch.zeros((k, d, d), dtype=points.dtype)
    lower = lower.index_put((torch.arange(k)[:, None], rows, columns), factors[:, d:])
    diagonals, sums = torch.exp(factors[:, :d]), torch.sum(factors[:, :d], dim=1)
    centred = points[:, None, :] - means
    z = diagonals * centred + torch.einsum("cij,ncj->nci", lower, centred)
    terms = alphas + sums - 0.5 * torch.sum(z**2, dim=2)
    likelihood = torch.sum(torch.logsumexp(terms, dim=1)) - n * torch.logsumexp(alphas, dim=0)
    squares = torch.sum(diagonals**2) + torch.sum(factors[:, d:] ** 2)
    freedom = d + m + 1
    log_gamma = torch.special.multigammaln(torch.tensor(0.5 * freedom, dtype=points.dtype), d)
    prior = k * (freedom * d * math.log(gamma / math.sqrt(2.0)) - log_gamma)
    prior = prior + m * torch.sum(sums) - 0.5 * gamma**2 * squares
    return likelihood - 0.5 * n * d * math.log(2.0 * math.pi) + prior


gmm = value_and_grad(mixture, (0, 1, 2))


def turned(angles, points):
    """Rodrigues' formula, for points in the last axis."""
    square = torch.sum(angles**2)
    theta = torch.sqrt(square)
    along = torch.sum(angles * points, dim=-1, keepdim=True)
    return (
        points * torch.cos(theta)
        + torch.cross(angles.expand_as(points), points, dim=-1) * torch.sin(theta) / theta
        + angles * along * (1.0 - torch.cos(theta)) / square
    )


def reprojection_error(camera, point, weight, feature):
    at = turned(camera[:3], point - camera[3:6])
    image = at[:2] / at[2]
    radius = torch.sum(image**2)
    scale = camera[6] * (1.0 + camera[9] * radius + camera[10] * radius**2)
    return weight * (image * scale + camera[7:9] - feature)


def ba(cameras, points, weights, seen, features):
    by = vmap(jacrev(reprojection_error, argnums=(0, 1, 2)))
    of_camera, of_point, of_weight = by(cameras[seen[:, 0]], points[seen[:, 1]], weights, features)
    return torch.cat((of_camera, of_point, of_weight[:, :, None]), dim=2), -2.0 * weights


def distances(centroids, points):
    squares = torch.sum((points[:, None, :] - centroids) ** 2, dim=2)
    return torch.sum(torch.min(squares, dim=1).values)


def kmeans(centroids, points):
    return jvp(lambda c: grad(distances)(c, points), (centroids,), (torch.ones_like(centroids),))


@value_and_grad
def llsq(coefficients, n):
    t = -1.0 + torch.arange(n, dtype=coefficients.dtype) * 2.0 / (n - 1)
    fitted = torch.vander(t, len(coefficients), increasing=True) @ coefficients
    return 0.5 * torch.sum((torch.sign(t) - fitted) ** 2)


@value_and_grad
def ode(x, steps):
    h, one, y = 2.0 / steps, torch.ones(1, dtype=x.dtype), torch.zeros_like(x)

    def chain(y):
        return x * torch.cat((one, y[:-1]))

    for _ in range(steps):
        k1 = chain(y)
        k2 = chain(y + 0.5 * h * k1)
        k3 = chain(y + 0.5 * h * k2)
        k4 = chain(y + h * k3)
        y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return y[-1]


def perplexity(layers, outer, state, sequence):
    states, predicted = [tuple(layer) for layer in state], []
    for x in sequence[:-1]:
        x = x * outer[0]
        for i, (w, b) in enumerate(layers):
            hidden, cell = states[i]
            forget = torch.sigmoid(x * w[0] + b[0])
            accept = torch.sigmoid(hidden * w[1] + b[1])
            output = torch.sigmoid(x * w[2] + b[2])
            change = torch.tanh(hidden * w[3] + b[3])
            cell = cell * forget + accept * change
            x = output * torch.tanh(cell)
            states[i] = x, cell
        x = x * outer[1] + outer[2]
        predicted.append(x - torch.log(torch.sum(torch.exp(x)) + 2.0))
    return -torch.mean(sequence[1:] * torch.stack(predicted))


lstm = value_and_grad(perplexity, (0, 1))


@value_and_grad
def det(matrix):
    def minor(rows):
        """Of a batch: all minors of one size are computed at once."""
        n = rows.shape[-1]
        if n == 1:
            return rows[..., 0, 0]
        others = torch.tensor([[i for i in range(n) if i != j] for j in range(n)])
        below = torch.movedim(rows[..., 1:, :][..., others], -2, -3)
        signs = (-1.0) ** torch.arange(n)
        return torch.sum(signs * rows[..., 0, :] * minor(below), dim=-1)

    return minor(matrix)


def affine(linear, shift):
    """Matrices of affine maps in homogeneous coordinates."""
    below = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=shift.dtype).expand(len(linear), 1, 4)
    return torch.cat((torch.cat((linear, shift), dim=-1), below), dim=-2)


def bent(flexion, abduction):
    """The rotations of all joints, about their x axes and then about their z axes."""
    cx, sx, cz, sz = flexion.cos(), flexion.sin(), abduction.cos(), abduction.sin()
    zero = torch.zeros_like(cx)
    rows = [[cz, -sz * cx, sz * sx], [sz, cz * cx, -cz * sx], [zero, sx, cx]]
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)


def hand_errors(pose, parents, base, inverse, positions, weights, seen, points):
    fingers, bones = pose[6:].reshape(-1, 4), len(base)
    zero = torch.zeros_like(fingers[:, :1])
    flexion = torch.cat((fingers[:, :1], fingers[:, 2:], zero), dim=1).ravel()
    abduction = torch.cat((fingers[:, 1:2], zero, zero, zero), dim=1).ravel()
    pad = torch.zeros(bones - len(flexion), dtype=pose.dtype)
    turns = bent(torch.cat((pad, flexion)), torch.cat((pad, abduction)))
    no_shift = torch.zeros((bones, 3, 1), dtype=pose.dtype)
    relative = affine(base[..., :3], base[..., 3:]) @ affine(turns, no_shift)
    first = at = relative[0] @ relative[1]
    chain, places = relative[2:].reshape(-1, 4, 4, 4), []
    for joint in range(4):
        at = at @ chain[:, joint]
        places.append(at)
    below = torch.stack(places, dim=1).reshape(-1, 4, 4)
    place = torch.cat((relative[:1], first[None], below))
    moved = (place @ affine(inverse[..., :3], inverse[..., 3:]))[:, :3]
    ones = torch.ones((len(seen), 1), dtype=pose.dtype)
    at_rest = torch.cat((positions[seen], ones), dim=1)
    at = torch.einsum("nb,bij,nj->ni", weights[seen], moved, at_rest)
    return points - turned(pose[:3], at) - pose[3:6]


ht = jacfwd(hand_errors)


def minimiser(function):
    slope = grad(function)

    def minimise(start, given):
        x, value, gradient = start, function(start, given), slope(start, given)
        rate, successes = 1e-5, 0
        while torch.linalg.norm(gradient) > 1e-5:
            if successes == 10:
                rate, successes = 2.0 * rate, 0
            step = rate * gradient
            if torch.linalg.norm(step) <= 1e-5:
                break
            at_new = function(x - step, given)
            if at_new < value:
                x, value = x - step, at_new
                gradient = slope(x, given)
                successes += 1
            else:
                rate, successes = 0.5 * rate, 0
        return x

    return minimise


def descent(q, p):
    return torch.sum(q**2) - torch.sum(p**2)


maximise = minimiser(descent)


def summit(p, start):
    return -descent(maximise(start, p), p)


minimise_summit = minimiser(summit)


def saddle(start):
    p = minimise_summit(start, start)
    return p, maximise(start, p)


def potential(place, w):
    still = torch.tensor([10.0, 0.0], dtype=place.dtype)
    moved = torch.stack((still[0], 10.0 - w))
    return 1.0 / torch.linalg.norm(place - moved) + 1.0 / torch.linalg.norm(place - still)


def landing(control, step):
    place = torch.tensor([0.0, 8.0], dtype=control.dtype)
    speed = torch.tensor([0.75, 0.0], dtype=control.dtype)
    while place[1] + step * speed[1] > 0.0:
        slope = grad(potential)(place, control[0])
        place, speed = place + step * speed, speed - step * slope
    return (place[0] - place[1] / speed[1] * speed[0]) ** 2


particle = minimiser(landing)
