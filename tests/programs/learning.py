"""Statistics and machine learning as loops: losses, likelihoods, small networks."""

import math

import numpy as np
from numba import njit

from programs import example


def classification(rng):
    return rng.normal(size=(6, 4)), rng.normal(size=4), rng.integers(0, 2, size=6).astype(float)


@example(classification, const=("labels",))
@njit
def logistic_regression(features, weights, labels):
    loss = 0.0
    for i in range(features.shape[0]):
        z = 0.0
        for j in range(features.shape[1]):
            z += features[i, j] * weights[j]
        loss += math.log1p(math.exp(-abs(z))) + max(z, 0.0) - labels[i] * z
    return loss / features.shape[0]


@example(classification, const=("features", "labels"))
@njit
def logistic_regression_weights_only(features, weights, labels):
    loss = 0.0
    for i in range(features.shape[0]):
        z = 0.0
        for j in range(features.shape[1]):
            z += features[i, j] * weights[j]
        loss += math.log(1.0 + math.exp(z)) - labels[i] * z
    for w in weights:
        loss += 0.1 * w * w
    return loss


@example(lambda rng: (rng.normal(size=(5, 3)), rng.normal(size=(3, 4)), rng.integers(0, 4, size=5)))
@njit
def softmax_cross_entropy(x, w, labels):
    loss = 0.0
    scores = np.zeros(w.shape[1])
    for i in range(x.shape[0]):
        for k in range(w.shape[1]):
            s = 0.0
            for j in range(x.shape[1]):
                s += x[i, j] * w[j, k]
            scores[k] = s
        top = scores[0]
        for k in range(1, len(scores)):
            top = max(top, scores[k])
        total = 0.0
        for k in range(len(scores)):
            total += math.exp(scores[k] - top)
        loss += top + math.log(total) - scores[labels[i]]
    return loss


def mlp_arguments(rng):
    return (
        rng.normal(size=3),
        rng.normal(size=(4, 3)),
        rng.normal(size=4),
        rng.normal(size=(2, 4)),
        rng.normal(size=2),
        rng.normal(size=2),
    )


@example(mlp_arguments, const=("target",))
@njit
def mlp_scratch_inside(x, w1, b1, w2, b2, target):
    hidden = np.empty(w1.shape[0])
    for i in range(w1.shape[0]):
        s = b1[i]
        for j in range(w1.shape[1]):
            s += w1[i, j] * x[j]
        hidden[i] = math.tanh(s)
    loss = 0.0
    for i in range(w2.shape[0]):
        s = b2[i]
        for j in range(w2.shape[1]):
            s += w2[i, j] * hidden[j]
        loss += (s - target[i]) ** 2
    return loss


@example(lambda rng: (*mlp_arguments(rng), rng.normal(size=4), rng.normal(size=2)))
@njit
def mlp_scratch_passed(x, w1, b1, w2, b2, target, hidden, output):
    for i in range(w1.shape[0]):
        hidden[i] = b1[i]
        for j in range(w1.shape[1]):
            hidden[i] += w1[i, j] * x[j]
    for i in range(len(hidden)):
        hidden[i] = max(hidden[i], 0.1 * hidden[i])
    for i in range(w2.shape[0]):
        output[i] = b2[i]
        for j in range(w2.shape[1]):
            output[i] += w2[i, j] * hidden[j]
    loss = 0.0
    for i in range(len(output)):
        loss += (output[i] - target[i]) ** 2
    return loss


@example(lambda rng: (rng.normal(size=(5, 3)), *mlp_arguments(rng)[1:5], rng.normal(size=(5, 2))))
@njit
def mlp_over_a_batch(batch, w1, b1, w2, b2, targets):
    hidden = np.zeros(w1.shape[0])
    loss = 0.0
    for n in range(batch.shape[0]):
        for i in range(w1.shape[0]):
            s = b1[i]
            for j in range(w1.shape[1]):
                s += w1[i, j] * batch[n, j]
            hidden[i] = 1.0 / (1.0 + math.exp(-s))
        for i in range(w2.shape[0]):
            s = b2[i]
            for j in range(w2.shape[1]):
                s += w2[i, j] * hidden[j]
            loss += (s - targets[n, i]) ** 2
    return loss / batch.shape[0]


def gmm_arguments(rng):
    k, d, n = 3, 2, 7
    return (
        rng.normal(size=k),
        rng.normal(size=(k, d)),
        rng.normal(size=(k, d)) * 0.3,
        rng.normal(size=(n, d)),
    )


@example(gmm_arguments)
@njit
def gmm_log_likelihood(alphas, means, log_scales, data):
    k, d = means.shape
    total = 0.0
    terms = np.empty(k)
    inverse_scales = np.exp(-log_scales)
    for n in range(data.shape[0]):
        for c in range(k):
            q = 0.0
            for j in range(d):
                z = (data[n, j] - means[c, j]) * inverse_scales[c, j]
                q += z * z + 2.0 * log_scales[c, j]
            terms[c] = alphas[c] - 0.5 * q
        top = terms[0]
        for c in range(1, k):
            top = max(top, terms[c])
        s = 0.0
        for c in range(k):
            s += math.exp(terms[c] - top)
        total += top + math.log(s)
    top = alphas[0]
    for c in range(1, k):
        top = max(top, alphas[c])
    s = 0.0
    for c in range(k):
        s += math.exp(alphas[c] - top)
    return total - data.shape[0] * (top + math.log(s))


@njit
def sigmoid(x):
    return 1.0 / (1.0 + math.exp(-x))


def lstm_arguments(rng):
    hidden, inputs, steps = 3, 2, 4
    return (
        rng.normal(size=(4 * hidden, inputs)) * 0.5,
        rng.normal(size=(4 * hidden, hidden)) * 0.5,
        rng.normal(size=4 * hidden) * 0.5,
        rng.normal(size=(steps, inputs)),
    )


@example(lstm_arguments)
@njit
def lstm(w, u, b, xs):
    hidden = u.shape[1]
    h = np.zeros(hidden)
    c = np.zeros(hidden)
    gates = np.zeros(4 * hidden)
    loss = 0.0
    for t in range(xs.shape[0]):
        for i in range(4 * hidden):
            s = b[i]
            for j in range(xs.shape[1]):
                s += w[i, j] * xs[t, j]
            for j in range(hidden):
                s += u[i, j] * h[j]
            gates[i] = s
        for i in range(hidden):
            forget = sigmoid(gates[i])
            write = sigmoid(gates[hidden + i])
            read = sigmoid(gates[2 * hidden + i])
            c[i] = forget * c[i] + write * math.tanh(gates[3 * hidden + i])
            h[i] = read * math.tanh(c[i])
        for i in range(hidden):
            loss += h[i] * h[i]
    return loss


@example(lambda rng: (rng.normal(size=(3, 3)) * 0.5, rng.normal(size=3), 5))
@njit
def recurrent_with_ping_pong_buffers(w, start, steps):
    now = start.copy()
    following = np.zeros_like(start)
    for _ in range(steps):
        for i in range(w.shape[0]):
            s = 0.0
            for j in range(w.shape[1]):
                s += w[i, j] * now[j]
            following[i] = math.tanh(s)
        now, following = following, now
    total = 0.0
    for v in now:
        total += v
    return total


@example(lambda rng: (rng.normal(size=7), rng.normal(size=3), np.zeros(5)))
@njit
def convolution(signal, kernel, out):
    for i in range(len(out)):
        s = 0.0
        for k in range(len(kernel)):
            s += signal[i + k] * kernel[k]
        out[i] = s


@example(lambda rng: (rng.normal(size=(6, 6)), rng.normal(size=(3, 3)), float(rng.normal())))
@njit
def convolution_relu_pool(image, kernel, bias):
    total = 0.0
    for i in range(0, 4, 2):
        for j in range(0, 4, 2):
            best = -1e300
            for a in range(2):
                for b in range(2):
                    s = bias
                    for p in range(3):
                        for q in range(3):
                            s += image[i + a + p, j + b + q] * kernel[p, q]
                    best = max(best, s)
            if best > 0.0:
                total += best * best
            else:
                total += 0.01 * best
    return total


@example(lambda rng: (rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), rng.normal(size=(4, 2))))
@njit
def attention(queries, keys, values):
    n, d = queries.shape
    out = np.zeros((n, values.shape[1]))
    weights = np.zeros(n)
    for i in range(n):
        total = 0.0
        for j in range(i + 1):
            s = 0.0
            for k in range(d):
                s += queries[i, k] * keys[j, k]
            weights[j] = math.exp(s / math.sqrt(d))
            total += weights[j]
        for j in range(i + 1):
            for k in range(values.shape[1]):
                out[i, k] += weights[j] / total * values[j, k]
    loss = 0.0
    for i in range(n):
        for k in range(out.shape[1]):
            loss += out[i, k] ** 3
    return loss


@example(
    lambda rng: (
        rng.uniform(0.2, 1.0, size=(3, 3)),
        rng.uniform(0.2, 1.0, size=(3, 2)),
        rng.uniform(0.2, 1.0, size=3),
        rng.integers(0, 2, size=6),
    )
)
@njit
def hidden_markov_forward(transitions, emissions, start, observed):
    n = len(start)
    alpha = start * emissions[:, observed[0]]
    log_likelihood = 0.0
    for t in range(1, len(observed)):
        scale = 0.0
        following = np.zeros(n)
        for j in range(n):
            s = 0.0
            for i in range(n):
                s += alpha[i] * transitions[i, j]
            following[j] = s * emissions[j, observed[t]]
            scale += following[j]
        for j in range(n):
            alpha[j] = following[j] / scale
        log_likelihood += math.log(scale)
    return log_likelihood


@example(lambda rng: (rng.uniform(0.5, 1.5, size=3), rng.normal(size=4), rng.normal(size=4)))
@njit
def gaussian_process_like_kernel(theta, xs, ys):
    s = 0.0
    for i in range(len(xs)):
        for j in range(len(xs)):
            d = xs[i] - xs[j]
            k = theta[0] * math.exp(-d * d / (2.0 * theta[1] * theta[1]))
            if i == j:
                k += theta[2]
            s += ys[i] * k * ys[j]
    return s


@example(lambda rng: (rng.normal(size=2), rng.normal(size=(8, 2)), 4, 0.1), const=("rate",))
@njit
def unrolled_gradient_descent(start, data, steps, rate):
    w0, w1 = start[0], start[1]
    for _ in range(steps):
        g0, g1 = 0.0, 0.0
        for i in range(data.shape[0]):
            r = math.tanh(w0 * data[i, 0]) + w1 - data[i, 1]
            g0 += r * data[i, 0]
            g1 += r
        w0 -= rate * g0
        w1 -= rate * g1
    return w0 * w0 + w1


@example(lambda rng: (rng.normal(size=(5, 2)), rng.normal(size=(3, 2))))
@njit
def k_means_cost(points, centres):
    cost = 0.0
    for i in range(points.shape[0]):
        best = np.inf
        for j in range(centres.shape[0]):
            s = 0.0
            for k in range(points.shape[1]):
                s += (points[i, k] - centres[j, k]) ** 2
            if s < best:
                best = s
        cost += best
    return cost
