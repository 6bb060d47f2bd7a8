"""Algorithms whose integer side decides what the floats do: heaps, cell lists, trees, alignments,
hashes.
"""

import math

import numpy as np
from numba import njit

from programs import example

EDGES = np.array([0, 3, 5, 7, 9, 10])
ENDS = np.array([1, 2, 3, 2, 3, 3, 4, 4, 1, 0])


@example(lambda rng: (rng.uniform(0.5, 2.0, size=10),), seeds=2)
@njit
def shortest_paths(w):
    """Dijkstra with a heap in two arrays."""
    n = len(EDGES) - 1
    best = np.full(n, np.inf)
    keys, nodes = np.empty(32), np.empty(32, np.int64)
    size, keys[0], nodes[0], best[0] = 1, 0.0, 0, 0.0
    while size > 0:
        d, v = keys[0], nodes[0]
        size -= 1
        last, moved, i = keys[size], nodes[size], 0
        while 2 * i + 1 < size:
            c = 2 * i + 1
            if c + 1 < size and keys[c + 1] < keys[c]:
                c += 1
            if keys[c] >= last:
                break
            keys[i], nodes[i] = keys[c], nodes[c]
            i = c
        keys[i], nodes[i] = last, moved
        if d > best[v]:
            continue
        for e in range(EDGES[v], EDGES[v + 1]):
            u = ENDS[e]
            if d + w[e] < best[u]:
                best[u] = d + w[e]
                i = size
                size += 1
                while i > 0 and keys[(i - 1) // 2] > best[u]:
                    keys[i], nodes[i] = keys[(i - 1) // 2], nodes[(i - 1) // 2]
                    i = (i - 1) // 2
                keys[i], nodes[i] = best[u], u
    return best[4] + 0.1 * best[2] ** 2


@njit
def soft_forces(x, box, f, head, following):
    """Forces between neighbours, found by linked cells; the energy."""
    cells = 3
    head[:] = -1
    for i in range(len(x)):
        c = int(x[i, 0] / box * cells) % cells * cells + int(x[i, 1] / box * cells) % cells
        following[i] = head[c]
        head[c] = i
    f[:, :] = 0.0
    energy = 0.0
    for i in range(len(x)):
        column, row = int(x[i, 0] / box * cells), int(x[i, 1] / box * cells)
        for right in (-1, 0, 1):
            for up in (-1, 0, 1):
                j = head[(column + right) % cells * cells + (row + up) % cells]
                while j >= 0:
                    if j > i:
                        dx, dy = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1]
                        dx -= box * np.rint(dx / box)
                        dy -= box * np.rint(dy / box)
                        r = math.sqrt(dx * dx + dy * dy)
                        if r < 1.2:
                            w = 1.0 - r / 1.2
                            energy += 0.5 * w * w
                            f[i, 0] += w / r * dx
                            f[i, 1] += w / r * dy
                            f[j, 0] -= w / r * dx
                            f[j, 1] -= w / r * dy
                    j = following[j]
    return energy


@example(
    lambda rng: (
        np.array([[i + 0.5, j + 0.5] for i in range(3) for j in range(3)]) * 1.2
        + 0.1 * rng.normal(size=(9, 2)),
        0.3 * rng.normal(size=(9, 2)),
        0.05,
    ),
    seeds=1,
)
@njit
def molecular_dynamics(x, v, dt):
    f = np.empty_like(x)
    head, following = np.empty(9, np.int32), np.empty(len(x), np.int32)
    energy = soft_forces(x, 3.6, f, head, following)
    for _ in range(3):
        v += 0.5 * dt * f
        x += dt * v
        x %= 3.6
        energy += soft_forces(x, 3.6, f, head, following)
        v += 0.5 * dt * f
    return energy + 0.5 * np.sum(v * v)


@njit
def log_add(a, b):
    if a == -np.inf:
        return b
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


@example(lambda rng: (rng.normal(size=(6, 4)), np.array([1, 2, 2])), seeds=2)
@njit
def alignment(scores, labels):
    """The forward algorithm over a label sequence with blanks, from minus infinity."""
    places = 2 * len(labels) + 1
    label = np.zeros(places, np.int64)
    label[1::2] = labels
    a = np.full(places, -np.inf)
    a[0], a[1] = scores[0, 0], scores[0, label[1]]
    for t in range(1, len(scores)):
        b = np.empty(places)
        for s in range(places):
            v = a[s]
            if s > 0:
                v = log_add(v, a[s - 1])
            if s > 1 and label[s] != 0 and label[s] != label[s - 2]:
                v = log_add(v, a[s - 2])
            b[s] = v + scores[t, label[s]]
        a = b
    return log_add(a[-1], a[-2])


@example(lambda rng: (rng.normal(size=5), 0.3, 12345))
@njit
def hashed_dropout(x, p, seed):
    """Shifts and exclusive ors of integers between the floats."""
    state = np.uint64(seed)
    out = np.zeros_like(x)
    for r in range(3):
        for i in range(x.size):
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            u = float(state >> np.uint64(11)) / 9007199254740992.0
            if u > 0.25 and ((i * 2654435761 + r) & 0xFFFFFFFF) % 3:
                out[i] += math.tanh(x[i] * (r + 1)) / (1 - p)
    return out.sum() + out[0] * out[-1]


@example(
    lambda rng: (
        rng.normal(size=5), 0.9, 0.3, 0.5, rng.normal(size=(5, 8)), rng.uniform(size=5)
    ),
    const=("noise", "u"),
    seeds=1,
)  # fmt: skip
@njit
def particle_filter(y, phi, spread, error, noise, u):
    """Resampling by searches in cumulated weights that the floats decide."""
    n = noise.shape[1]
    x, w, chosen = np.zeros(n), np.empty(n), np.empty(n, np.int32)
    likelihood = 0.0
    for t in range(len(y)):
        x = phi * x + spread * noise[t]
        for i in range(n):
            w[i] = math.exp(-0.5 * ((y[t] - x[i]) / error) ** 2) / error
        total = w.sum()
        likelihood += math.log(total / n)
        c = np.cumsum(w / total)
        j = 0
        for i in range(n):
            while j < n - 1 and c[j] < (i + u[t]) / n:
                j += 1
            chosen[i] = j
        x = x[chosen]
    return likelihood


@example(lambda rng: (1.0 + 0.1 * rng.uniform(), 0.3, 0.8, 0.05), seeds=2)
@njit
def impacts(height, speed, restitution, drag):
    """Events go to a list: bracketed by bisection, polished by one Newton step."""
    t, y, v, dt = 0.0, height, speed, 0.02
    events = []
    while t < 1.4:
        a = -9.81 - drag * v * abs(v)
        if v < 0 and y + dt * v + 0.5 * dt * dt * a < 0.0 <= y:
            low, high = 0.0, dt
            for _ in range(40):
                middle = 0.5 * (low + high)
                if y + middle * v + 0.5 * middle * middle * a > 0:
                    low = middle
                else:
                    high = middle
            h = high - (y + high * v + 0.5 * high * high * a) / (v + high * a)
            events.append(t + h)
            v = -restitution * (v + h * a)
            y = (dt - h) * v
        else:
            y, v = y + dt * v + 0.5 * dt * dt * a, v + dt * a
        t += dt
    s = y
    for i, event in enumerate(events):
        s += event * (i + 1)
    return s
