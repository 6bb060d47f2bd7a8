"""Classes and records: fields of several types in one piece of memory."""

import math

import numpy as np
from numba import deferred_type, float64, int64, njit, optional, types
from numba.experimental import jitclass
from numba.typed import List

from programs import example

# As np.record, fields are attributes to the interpreter, too.
PARTICLE = np.dtype((np.record, [("mass", np.float64), ("charge", np.float64), ("kind", np.int64)]))
VECTOR = np.dtype([("kind", np.int32), ("x", np.float64), ("y", np.float64, (2,))])


@jitclass([("k", float64), ("n", int64), ("a", float64[:])])
class Spring:
    def __init__(self, k, a):
        self.k = k
        self.n = 3
        self.a = a * k

    def energy(self, y):
        s = 0.0
        for i in range(self.n):
            s += self.k * y * self.a[i % self.a.size]
        return s

    def stiffen(self, factor):
        self.k *= factor
        self.n += 1


@example(lambda rng: (rng.normal(), rng.normal(size=4)))
@njit
def method_of_a_class(x, a):
    spring = Spring(x, a)
    spring.k = spring.k * 2.0
    return spring.energy(x)


@example(lambda rng: (rng.normal(), rng.normal(size=4)))
@njit
def state_changed_by_methods(x, a):
    spring = Spring(1.5, a)
    s = 0.0
    for i in range(4):
        spring.stiffen(math.sin(x + i))
        spring.a[i] += x * spring.k
        s += spring.energy(a[i])
    return s


@example(lambda rng: (rng.normal(), rng.normal(size=3)))
@njit
def several_objects(x, a):
    springs = [Spring(x * i, a) for i in range(3)]
    s = 0.0
    for spring in springs:
        spring.stiffen(x)
        s += spring.energy(1.0)
    return s


@jitclass([("gain", float64), ("rate", float64[:, :])])
class Circuit:
    """`rate` has one item, which is cleared by one store, and strides that are not known."""

    def __init__(self, gain):
        self.gain = gain
        self.rate = np.zeros((1, 1))

    def step(self, x, u):
        self.rate[0] = (u[0] - self.gain * x[0]) / self.gain
        return self.rate


@example(lambda rng: (1.0 + rng.random(), rng.normal(size=(1, 1)), rng.normal(size=(1, 1))))
@njit
def field_of_one_item(gain, x, u):
    circuit = Circuit(gain)
    for _ in range(3):
        x = x + 0.1 * circuit.step(x, u)
    return x[0, 0] ** 2


@jitclass([("ends", int64[:, ::1]), ("k", float64[::1]), ("rest", float64[::1])])
class Springs:
    def __init__(self, ends, k, rest):
        self.ends = ends
        self.k = k
        self.rest = rest

    def force(self, x, out):
        out[:] = 0.0
        for s in range(len(self.ends)):
            i, j = self.ends[s]
            d = x[j] - x[i]
            out[i] += self.k[s] * (d - self.rest[s])
            out[j] -= self.k[s] * (d - self.rest[s])


@example(
    lambda rng: (
        *rng.normal(size=(2, 4)),
        rng.normal(size=3),
        np.array([[0, 1], [1, 2], [0, 2], [2, 0]]),
    )
)
@njit
def indices_beside_floats(k, rest, x, ends):
    net = Springs(ends, k, rest)
    f = np.empty_like(x)
    for _ in range(3):
        net.force(x, f)
        x = x + 0.1 * f
    return (x * x).sum()


@example(lambda rng: (rng.normal(), 4))
@njit
def array_of_records(x, n):
    particles = np.zeros(n, dtype=PARTICLE)
    for i in range(n):
        particles[i].mass = x * i
        particles[i].charge = particles[i].mass * x
        particles[i].kind = i
    s = 0.0
    for i in range(n):
        s += particles[i].charge * particles[i].kind
        particles[i].mass *= particles[i].charge
        s += particles[i].mass
    return s


@example(lambda rng: (rng.normal(), rng.normal()))
@njit
def record_overwritten(x, y):
    particles = np.zeros(3, dtype=PARTICLE)
    for k in range(5):
        particles[k % 2].mass = math.sin(particles[(k + 1) % 2].charge + x)
        particles[k % 2].charge = particles[k % 2].mass * y
        particles[k % 2].kind += 1
        particles[2] = particles[k % 2]
        particles[(k + 1) % 2] = particles[2]
    return particles[0].mass * particles[1].charge * particles[0].kind


@jitclass([("x", float64[:]), ("energies", types.ListType(float64))])
class Trajectory:
    def __init__(self, x):
        self.x = x
        self.energies = List.empty_list(float64)

    @property
    def energy(self):
        return 0.5 * (self.x**2).sum()

    def step(self, k):
        self.x = self.x - 0.1 * k * np.sin(self.x)
        self.energies.append(self.energy)


@example(lambda rng: (rng.normal(), rng.normal(size=3)))
@njit
def array_replaced_beside_a_list(k, x):
    """The new array's lengths are copied from field to field, beside pointers in other fields."""
    trajectory = Trajectory(x.copy())
    for _ in range(3):
        trajectory.step(k)
    return trajectory.energies[0] * trajectory.energies[2] + trajectory.x[0]


node = deferred_type()


@jitclass([("value", float64), ("following", optional(node))])
class Node:
    def __init__(self, value):
        self.value = value
        self.following = None


node.define(Node.class_type.instance_type)


@example(lambda rng: (rng.normal(size=5),))
@njit
def appended_to_a_chain(x):
    """A field is written behind the loop that looked for its object."""
    first = Node(x[0])
    for value in x[1:]:
        here = first
        while True:
            if here.following is None:
                here.following = Node(value * here.value)
                break
            here = here.following
    s, here = 0.0, first
    while here.following is not None:
        s += here.value * math.cos(s)
        here = here.following
    return s + here.value**2


branch = deferred_type()


@jitclass(
    [
        ("key", float64),
        ("size", int64),
        ("weight", float64),
        ("left", optional(branch)),
        ("right", optional(branch)),
    ]
)
class Tree:
    def __init__(self, key, weight):
        self.key = key
        self.size = 1
        self.weight = weight
        self.left = None
        self.right = None


branch.define(Tree.class_type.instance_type)


@njit
def put(root, key, weight):
    here = root
    while True:
        here.size += 1
        if key < here.key:
            if here.left is None:
                here.left = Tree(key, weight * here.weight)
                break
            here = here.left
        else:
            if here.right is None:
                here.right = Tree(key, weight)
                break
            here = here.right


@njit
def soft_value(tree, x):
    s = tree.weight * math.sin(x * tree.key) * tree.size
    if tree.left is not None:
        s += 0.5 * soft_value(tree.left, x + tree.weight)
    if tree.right is not None:
        s += 0.3 * soft_value(tree.right, x * tree.key)
    return s


@example(lambda rng: (rng.normal(size=6),), seeds=1)
@njit
def search_tree(x):
    """Nodes with two children, chosen between in a loop and followed by recursion."""
    root = Tree(x[0], x[0] * x[0])
    for v in x[1:]:
        put(root, v, v * v)
    return soft_value(root, 0.7)


fork = deferred_type()


@jitclass(
    [
        ("weight", float64),
        ("data", float64[:]),
        ("left", optional(fork)),
        ("right", optional(fork)),
    ]
)
class Fork:
    def __init__(self, weight, data):
        self.weight = weight
        self.data = data
        self.left = None
        self.right = None


fork.define(Fork.class_type.instance_type)


@example(lambda rng: (rng.normal(size=5), rng.normal()), seeds=1)
@njit
def path_of_forks(x, y):
    """LLVM merges what the two branches write: the offset of the field is then a select."""
    root = Fork(x[0], x * y)
    here = root
    for i in range(1, len(x)):
        new = Fork(x[i] * y, x[:i] * here.data[0])
        if i % 2:
            here.left = new
        else:
            here.right = new
        here = new
    s = 0.0
    here = root
    while True:
        s += here.weight * here.weight * (s + here.data.sum())
        left, right = here.left, here.right
        if left is not None:
            here = left
        elif right is not None:
            here = right
        else:
            return s


_CELL = np.dtype(
    [("links", np.int64, (3,)), ("x", np.float64, (3,)), ("used", "i8"), ("sign", np.int8, (3,))]
)


@example(lambda rng: (rng.normal(size=(2, 3)), np.array([[1, 0, 2], [2, 2, 1]]), 2))
@njit
def arrays_of_integers_in_records(x, links, used):
    """Which item is read is known when the program runs; so it is of the floats beside them."""
    cells = np.zeros(2, dtype=_CELL)
    for c in range(2):
        cells[c]["used"] = used
        for k in range(used):
            cells[c]["links"][k] = links[c, k]
            cells[c]["sign"][k] = 1 - 2 * k
            cells[c]["x"][k] = x[c, k] * x[1 - c, k]
    total = 0.0
    for c in range(2):
        cell = cells[c]
        for k in range(cell["used"]):
            cell["x"][cell["links"][k]] += x[c, k] * cell["sign"][k]
            total += cell["x"][k] ** 2 * cell["links"][k]
    return total


_WEIGHTS_LAST = np.dtype([("kind", np.int32), ("w", np.float64, (20,))])
_WEIGHTS_FIRST = np.dtype([("w", np.float64, (20,)), ("kind", np.int8)])


@example(lambda rng: (rng.normal(size=20),))
@njit
def one_packed_record(x):
    """`np.zeros` clears bytes that are no multiple of eight."""
    first = np.zeros(1, _WEIGHTS_LAST)
    second = np.zeros(1, _WEIGHTS_FIRST)
    first[0].kind = 2
    second[0].kind = 3
    for k in range(20):
        first[0].w[k] = x[k] * k
        second[0].w[k] = math.sin(x[k])
    s = 0.0
    for k in range(19):
        s += first[0].w[k] * second[0].w[k + 1] * first[0].kind * second[0].kind
    return s


@example(lambda rng: (rng.normal(size=(3, 20)), np.array([2, 0, 1])))
@njit
def few_packed_records(x, order):
    """Vectors beside integers, in records whose number is known."""
    p = np.zeros(3, _WEIGHTS_LAST)
    for i in range(3):
        p[i].kind = order[i]
        for k in range(20):
            p[i].w[k] = x[i, k] * k
    q = p.copy()
    s = 0.0
    for i in range(3):
        q[order[i]].w[order[i]] *= x[i, i]
        for k in range(19):
            s += q[p[i].kind].w[k] * p[i].w[k + 1] * (q[i].kind + 1)
    return s


_PARTS = np.dtype(
    [("kind", np.int16), ("parts", [("w", np.float64, (3,)), ("flag", np.int8)], (2,))]
)


@example(lambda rng: (rng.normal(size=(4, 2, 3)),))
@njit
def records_in_packed_records(x):
    p = np.zeros(len(x), _PARTS)
    for i in range(len(x)):
        p[i].kind = i
        for j in range(2):
            p[i].parts[j].flag = i == j
            for k in range(3):
                p[i].parts[j].w[k] = x[i, j, k] ** 2
    s = 0.0
    for i in range(len(x)):
        for j in range(2):
            for k in range(3):
                s += p[i].parts[j].w[k] * x[i, 1 - j, k] * (p[i].kind + p[i].parts[j].flag)
    return s
