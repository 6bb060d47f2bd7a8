"""Programs of several fields, as scientists write them: physics, statistics, finance, learning."""

import math

import numpy as np
from numba import njit

from programs import example


@example(lambda rng: (rng.normal(size=(8, 9)), 0.1, 4), seeds=1)
@njit
def heat(u, k, n):
    v = u.copy()
    for t in range(n):
        w = v.copy()
        w[1:-1, 1:-1] = v[1:-1, 1:-1] + k * (
            v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2] - 4 * v[1:-1, 1:-1]
        )
        v = w
    return (v**2).sum()


@example(
    lambda rng: (
        rng.normal(size=(5, 3)),
        rng.normal(size=(5, 3)),
        np.abs(rng.normal(size=5)) + 1,
        0.01,
        5,
    ),
    seeds=1,
)
@njit
def nbody(x, v, m, dt, n):
    x = x.copy()
    v = v.copy()
    for t in range(n):
        a = np.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[0]):
                if i != j:
                    d = x[j] - x[i]
                    r2 = np.sum(d * d) + 0.1
                    a[i] += m[j] * d / (r2 * math.sqrt(r2))
        v += dt * a
        x += dt * v
    return 0.5 * np.sum(m * np.sum(v * v, axis=1))


@example(
    lambda rng: (
        np.abs(rng.normal(size=6)),
        np.abs(rng.normal(size=(3, 3))) + 0.1,
        np.abs(rng.normal(size=(3, 4))) + 0.1,
    ),
    seeds=1,
)
@njit
def hmm(_, A, B):
    obs = (0, 2, 1, 3, 1)
    p = np.ones(3) / 3
    ll = 0.0
    for o in obs:
        p = (p @ A) * B[:, o]
        s = p.sum()
        ll += math.log(s)
        p = p / s
    return ll


@example(
    lambda rng: (rng.normal(size=4), rng.normal(size=(4, 4)) * 0.1, rng.normal(size=6)), seeds=1
)
@njit
def kalman(x0, F, zs):
    P = np.eye(4)
    x = x0.copy()
    H = np.zeros((1, 4))
    H[0, 0] = 1.0
    ll = 0.0
    for k in range(zs.shape[0]):
        x = F @ x
        P = F @ P @ F.T + 0.1 * np.eye(4)
        S = (H @ P @ H.T)[0, 0] + 0.5
        y = zs[k] - (H @ x)[0]
        K = (P @ H.T) / S
        x = x + K[:, 0] * y
        P = P - K @ (H @ P)
        ll += -0.5 * (y * y / S + math.log(S))
    return ll


@example(lambda rng: (1.2, 1.0, 0.05, 0.2, 1.5), seeds=1)
@njit
def black_scholes(s, k, r, sig, t):
    d1 = (math.log(s / k) + (r + 0.5 * sig * sig) * t) / (sig * math.sqrt(t))
    d2 = d1 - sig * math.sqrt(t)
    N1 = 0.5 * (1 + math.erf(d1 / math.sqrt(2.0)))
    N2 = 0.5 * (1 + math.erf(d2 / math.sqrt(2)))
    return s * N1 - k * math.exp(-r * t) * N2


@example(
    lambda rng: (rng.normal(size=(6, 4)), rng.normal(size=(6, 4)), rng.normal(size=(6, 3))), seeds=1
)
@njit
def attention(Q, K, V):
    S = Q @ K.T / math.sqrt(4.0)
    out = 0.0
    for i in range(S.shape[0]):
        m = S[i].max()
        e = np.exp(S[i] - m)
        w = e / e.sum()
        out += (w @ V).sum() ** 2
    return out


@example(lambda rng: (rng.normal(size=(5, 4)) + np.eye(5, 4) * 3,), seeds=1)
@njit
def gram_schmidt(A):
    Q = A.copy()
    for j in range(A.shape[1]):
        for i in range(j):
            Q[:, j] -= (Q[:, i] * A[:, j]).sum() * Q[:, i]
        Q[:, j] /= math.sqrt((Q[:, j] ** 2).sum())
    return Q[0, 0] + Q[1, 2] * Q[3, 3]


@example(
    lambda rng: (
        np.abs(rng.normal(size=6)) + 4,
        rng.normal(size=5),
        rng.normal(size=5),
        rng.normal(size=6),
    ),
    seeds=1,
)
@njit
def thomas(b, a, c, d):
    n = b.size
    cp = np.empty(n - 1)
    dp = np.empty(n)
    cp[0] = c[0] / b[0]
    dp[0] = d[0] / b[0]
    for i in range(1, n - 1):
        m = b[i] - a[i - 1] * cp[i - 1]
        cp[i] = c[i] / m
        dp[i] = (d[i] - a[i - 1] * dp[i - 1]) / m
    dp[n - 1] = (d[n - 1] - a[n - 2] * dp[n - 2]) / (b[n - 1] - a[n - 2] * cp[n - 2])
    x = dp.copy()
    for i in range(n - 2, -1, -1):
        x[i] = dp[i] - cp[i] * x[i + 1]
    return (x * x).sum()


@example(lambda rng: (1.3, 0.7), seeds=1)
@njit
def adaptive(y0, lam):
    t = 0.0
    y = y0
    h = 0.1
    while t < 1.0:
        k1 = -lam * y
        k2 = -lam * (y + 0.5 * h * k1)
        if t + h > 1.0:
            h = 1.0 - t
        y = y + h * k2
        t = t + h
        h = h * 1.1
    return y


@example(lambda rng: (rng.normal(size=7), rng.normal(size=7)), seeds=1)
@njit
def where_clip(x, y):
    z = np.where(x > 0, x * y, x - y)
    return (
        np.clip(z, -0.8, 0.9).sum()
        + np.maximum(x, y).sum()
        + np.abs(x).sum()
        + np.minimum(x, 0.3).prod()
    )


@example(lambda rng: (rng.normal(size=4), rng.normal(size=5)), seeds=1)
@njit
def broadcast(x, y):
    M = x.reshape(-1, 1) * y.reshape(1, -1) + x.reshape(-1, 1)
    return np.sin(M).sum() + M[1].sum() * M[:, 2].mean() + np.sum(M, axis=0)[1] + M.T.ravel()[3]


@example(lambda rng: (rng.normal(size=8), np.array([3, 1, 2, 0, 7, 7, 5, 2])), seeds=1)
@njit
def gather(x, idx):
    y = x[idx]
    z = np.zeros(4)
    for i in range(idx.size):
        z[idx[i] % 4] += y[i] * y[i]
    m = x > 0.1
    return (z * z).sum() + x[m].sum() + x[np.argmax(x)] ** 2


@example(lambda rng: (rng.normal(size=10), 3), seeds=1)
@njit
def moving(x, w):
    out = np.empty(x.size - w + 1)
    for i in range(out.size):
        out[i] = x[i : i + w].mean() * x[i : i + w].std()
    return np.dot(out, out)


@example(lambda rng: (rng.normal(size=3), 0.3), seeds=1)
@njit
def tup(x, a):
    def helper(p, q):
        return p * q, math.sin(p) + q

    s = 0.0
    u, v = 1.0, a
    for i in range(3):
        u, v = helper(u + x[i], v)
    for i, (p, q) in enumerate(zip(x, x[::-1])):
        s += i * p * q
    return u * v + s


@example(lambda rng: (0.4, 2.0), seeds=1)
@njit
def simpson(a, b):
    def f(t):
        return math.exp(-t * t) * math.cos(3 * t)

    n = 20
    h = (b - a) / n
    s = f(a) + f(b)
    for i in range(1, n):
        s += f(a + i * h) * (4 if i % 2 else 2)
    return s * h / 3


@example(lambda rng: (rng.normal(size=5), rng.normal(size=6)), seeds=1)
@njit
def softdtw(x, y):
    n, m = x.size, y.size
    D = np.full((n + 1, m + 1), 1e3)
    D[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            c = (x[i - 1] - y[j - 1]) ** 2
            a = D[i - 1, j]
            b = D[i, j - 1]
            d = D[i - 1, j - 1]
            mn = min(a, min(b, d))
            D[i, j] = (
                c
                + mn
                - 0.5
                * math.log(
                    math.exp(-(a - mn) / 0.5)
                    + math.exp(-(b - mn) / 0.5)
                    + math.exp(-(d - mn) / 0.5)
                )
            )
    return D[n, m]


@example(lambda rng: (rng.normal(size=(4, 4)) + np.eye(4) * 4, np.ones(4)), seeds=1)
@njit
def power_iter(A, v):
    v = v.copy()
    size = 0.0
    for _ in range(12):
        w = A @ v
        size = np.sqrt(np.sum(w * w))
        v = w / size
    return size + v[0]


@example(lambda rng: (rng.normal(size=(4, 4)) * 0.1 + np.eye(4) * 3, rng.normal(size=4)), seeds=1)
@njit
def jacobi(A, b):
    x = np.zeros(4)
    for it in range(50):
        xn = np.empty(4)
        for i in range(4):
            s = b[i]
            for j in range(4):
                if j != i:
                    s -= A[i, j] * x[j]
            xn[i] = s / A[i, i]
        e = np.max(np.abs(xn - x))
        x = xn
        if e < 1e-9:
            break
    return x.sum()


@example(lambda rng: (0.2, 0.3, 30), seeds=1)
@njit
def mandel(cr, ci, n):
    z = 0j
    c = complex(cr, ci)
    for i in range(n):
        z = z * z + c
        if abs(z) > 2:
            break
    return z.real**2 + z.imag


@example(lambda rng: (rng.normal(size=(5, 5)), rng.normal(size=(3, 3))), seeds=1)
@njit
def conv2(img, k):
    out = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            out[i, j] = np.sum(img[i : i + 3, j : j + 3] * k)
    return np.tanh(out).sum()


@example(lambda rng: (rng.normal(size=6), rng.normal(size=(2, 6)), rng.normal(size=2)), seeds=1)
@njit
def rnn(xs, W, h0):
    h = h0.copy()
    for t in range(xs.size):
        g = np.tanh(W[:, :2].copy() @ h + W[:, 2] * xs[t] + W[:, 3])
        h = g * 1 / (1 + np.exp(-W[:, 4] * xs[t])) + 0.5 * h
    return np.sum(h**2)


@example(lambda rng: (rng.normal(size=6),), seeds=1)
@njit
def cumul(x):
    c = np.cumsum(x)
    d = np.diff(c) * np.arange(1, 6)
    e = np.outer(d, c)
    return e.sum() + np.var(c) + np.sort(x)[2] + np.median(x) + np.ptp(x)


@example(lambda rng: (np.sort(np.abs(rng.normal(size=6))) * 1.0, rng.normal(size=6), 0.7), seeds=1)
@njit
def interp_lin(xs, ys, x):
    i = 0
    while i < xs.size - 2 and xs[i + 1] < x:
        i += 1
    t = (x - xs[i]) / (xs[i + 1] - xs[i])
    return ys[i] * (1 - t) + ys[i + 1] * t


@example(lambda rng: (rng.normal(size=(4, 3)), rng.normal(size=4), np.zeros(3)), seeds=1)
@njit
def sgd(X, y, w0):
    w = w0 + 0.1
    for e in range(3):
        for i in range(4):
            r = X[i] @ w - y[i]
            w = w - 0.1 * r * X[i]
    return np.sum((X @ w - y) ** 2)


@example(lambda rng: (rng.normal(size=(3, 4, 2)),), seeds=1)
@njit
def three_d(a):
    s = 0.0
    for i in range(a.shape[0]):
        b = a[i]
        for r in b:
            for v in r:
                s += v * v * v
    return s + a.sum() + a[:, 1, :].max()


@example(lambda rng: (rng.normal(size=5),), seeds=1)
@njit
def ifs(x):
    s = 0.0
    for v in x:
        if v > 1:
            s += v * v
        elif v > 0:
            s -= math.log(v)
        elif v > -1:
            if s > 0:
                s *= v
            else:
                continue
        else:
            return s * v
    return s


@example(lambda rng: (2.3,), seeds=1)
@njit
def bisect(a):
    lo, hi = 0.0, a
    for _ in range(60):
        mid = 0.5 * (lo + hi)
        if mid * mid * mid > a:
            hi = mid
        else:
            lo = mid
    return lo * 0 + a * math.pow(a, 1 / 3)
