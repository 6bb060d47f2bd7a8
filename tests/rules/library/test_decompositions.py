"""Decompositions, least squares and numbers of matrices: reverse and forward against finite
differences, in both precisions, for memory of any layout; LinAlgError as the primal raises it."""

import numpy as np
import pytest
from numba import float64, njit

import activerules as ar
from activerules.chainrules import rrule
from activerules.rules.library.decompositions import eigh_parts
from activerules.rules.library.repeated import over_gaps_of_cotangents
from activerules.rules.library.singular_values import svd_parts
from activerules.testing.gradient import check_gradient
from activerules.testing.numeric import copied, directional_derivative, rand_tangent
from tests.programs import ALL, sample

RNG = np.random.default_rng(0)
SQUARE = RNG.normal(size=(4, 4)) + np.diag([1.0, 3.0, 6.0, 9.0])
SYMMETRIC = SQUARE @ SQUARE.T
TALL = RNG.normal(size=(4, 3))
WIDE = RNG.normal(size=(3, 4))
MATRIX = float64[:, ::1]
W = np.cos(np.arange(16.0).reshape(4, 4) * 1.3 + 0.4)


@njit
def of_eigh(a):
    values, vectors = np.linalg.eigh(a)
    return (values * W[0]).sum() + (vectors * vectors * W).sum() + np.linalg.eigvalsh(a)[1]


@njit
def of_hermitian(a):
    values, vectors = np.linalg.eigh(a)
    weights = vectors.real * vectors.imag * W + vectors.real**3  # not of lengths alone
    return (values * W[0]).sum() + weights.sum() + np.linalg.eigvalsh(a)[1]


@njit
def of_eig(a):
    values, vectors = np.linalg.eig(a)  # complex since NumPy 2.5
    powers = np.linalg.eigvals(a).real ** 2
    return (values.real**3).sum() / 50.0 + (vectors.real**4).sum() + powers.sum()


@njit
def of_complex_eig(a):
    values, vectors = np.linalg.eig(a)
    weights = vectors.real * vectors.imag * W + vectors.real**3
    squares = np.linalg.eigvals(a) ** 2
    return (
        weights.sum() + (values.real * values.imag * W[1]).sum() + (squares * (2.0 - 1j)).real.sum()
    )


@njit
def of_svd(a, full):
    u, s, vt = np.linalg.svd(a, full)
    k = s.size
    thin, weights = u[:, :k], W[: a.shape[0], :k]
    return (thin**3 * weights).sum() + (s * W[0, :k]).sum() + (vt[0] ** 3 + vt[1] ** 4).sum()


@njit
def of_qr(a):
    q, r = np.linalg.qr(a)
    k = q.shape[1]
    return (q * W[: a.shape[0], :k]).sum() + (r * W[:k, : a.shape[1]]).sum()


@njit
def of_pinv(a):
    p = np.linalg.pinv(a)
    return (p * W[: p.shape[0], : p.shape[1]]).sum()


@njit
def of_lstsq(a, b):
    x, residuals, rank, s = np.linalg.lstsq(a, b)
    return (x**3).sum() + residuals.sum() + (s * W[0, : s.size]).sum() + rank


ORDERS = np.array([2.0, -2.0, np.inf, 1.0, -1.0])


@njit
def of_numbers(a):
    sign, logarithm = np.linalg.slogdet(a)
    norms = 0.0
    for k in range(ORDERS.size):  # one call: the derivative of each is a page of code
        norms += np.linalg.norm(a, ORDERS[k]) * W[1, k % 4]
    return np.linalg.cond(a) + norms + sign * logarithm**2 + np.linalg.matrix_rank(a)


@njit
def of_complex_svd(a, full):
    u, s, vh = np.linalg.svd(a, full)
    k = s.size
    thin, right = u[:, :k], vh[:k]
    left = thin.real * thin.imag * W[: a.shape[0], :k] + thin.real**3  # not of lengths alone
    return (s * W[0, :k]).sum() + left.sum() + (right.imag * right.real + right.imag**3).sum()


@njit
def of_complex_qr(a):
    q, r = np.linalg.qr(a)
    return ((q * (1.0 + 2j)).real ** 3).sum() + (r.real * r.imag + r.real**2).sum()


@njit
def of_complex_pinv(a):
    p = np.linalg.pinv(a)
    return (p.real * p.imag + p.real).sum()


@njit
def of_complex_lstsq(a, b):
    x, residuals, rank, s = np.linalg.lstsq(a, b)
    return (x.real**3 * x.imag).sum() + residuals.sum() + (s * W[0, : s.size]).sum() + rank


@njit
def of_complex_numbers(a):
    sign, logarithm = np.linalg.slogdet(a)
    norms = 0.0
    for k in range(ORDERS.size):
        norms += np.linalg.norm(a, ORDERS[k]) * W[1, k % 4]
    return np.linalg.cond(a) + norms + sign.real * sign.imag + logarithm**2


@njit
def of_condition(a, count):
    total = np.linalg.cond(a)
    for k in range(count):
        total += np.linalg.cond(a, ORDERS[k]) * W[1, k % 4]
    return total


COMPLEX_TALL = TALL + 1j * W[:, :3]
COMPLEX_WIDE = WIDE - 1j * W[:3]

# The matrices of one program have one type: it is compiled once.
CASES = {
    "eigh": (of_eigh, [(SYMMETRIC,)]),
    "hermitian": (of_hermitian, [(SQUARE + 1j * W,)]),
    "eig": (of_eig, [(SYMMETRIC + 0.1 * TALL @ WIDE,)]),
    "complex_eig": (of_complex_eig, [(SQUARE + 1j * W,)]),
    "svd": (of_svd, [(SQUARE, 0), (TALL, 0), (WIDE, 0), (TALL, 1)]),
    "qr": (of_qr, [(SQUARE,), (TALL,), (WIDE,)]),
    "pinv": (of_pinv, [(TALL,), (WIDE,)]),
    "lstsq": (of_lstsq, [(TALL, W[:, :2].copy()), (WIDE, W[:3, :2].copy())]),
    "numbers": (of_numbers, [(SQUARE,)]),
    "condition": (of_condition, [(SQUARE, ORDERS.size), (TALL, 2)]),
    "complex_condition": (of_condition, [(SQUARE + 1j * W, ORDERS.size)]),
    "complex_svd": (
        of_complex_svd,
        [(SQUARE + 1j * W, 0), (COMPLEX_TALL, 0), (COMPLEX_WIDE, 0), (COMPLEX_WIDE, 1)],
    ),
    "complex_qr": (of_complex_qr, [(SQUARE + 1j * W,), (COMPLEX_TALL,), (COMPLEX_WIDE,)]),
    "complex_pinv": (of_complex_pinv, [(COMPLEX_TALL,), (COMPLEX_WIDE,)]),
    "complex_lstsq": (
        of_complex_lstsq,
        [(COMPLEX_TALL, W[:, :2] + 0.5j), (COMPLEX_WIDE, W[:3, :2] * (1.0 + 1j))],
    ),
    "complex_numbers": (of_complex_numbers, [(SQUARE + 1j * W,)]),
}


@pytest.mark.parametrize("name", CASES)
def test_implementations_i1_both_modes(name):
    program, matrices = CASES[name]
    both = ALL or not name.startswith("complex")  # by night forward mode of those, too
    for args in matrices:
        check_gradient(program, args, trials=1)
        if both:
            check_forward(program, args)


def check_forward(program, args):
    rng = np.random.default_rng(3)
    tangents = tuple(rand_tangent(x, rng) for x in args)
    annotated = [
        ar.Const(x) if t is None else ar.Duplicated(x.copy(), t)
        for x, t in zip(args, tangents, strict=True)
    ]
    found = ar.autodiff(ar.Forward, program, ar.Duplicated, *annotated)

    def value(*moved):
        return float(program(*map(copied, moved)))

    expected, error = directional_derivative(value, args, tangents)
    assert abs(found - expected) <= 10 * error + 1e-8 * abs(expected)


def test_single_precision():
    check_gradient(of_qr, (TALL.astype(np.float32),), trials=1)


@njit
def in_a_loop(a):
    total = 0.0
    for _ in range(3):
        values, vectors = np.linalg.eigh(a)
        total += values[0] * vectors[0, 0] ** 2
        a[0, 0] += 0.5 * values[1]
    return total


def test_a_part_of_a_matrix_is_overwritten_in_a_loop():
    wide = np.zeros((8, 8))
    wide[::2, ::2] = SYMMETRIC
    check_gradient(in_a_loop, (wide[::2, ::2],), trials=1)


@njit
def of_singular_vectors(a, which):
    """Of square ones, a sum, an entry of A AᵀA, and one of the orthogonal factor."""
    u, s, vt = np.linalg.svd(a)
    if which == 0:
        return u[0, 3]
    if which == 1:
        return u.sum() + vt.sum()
    if which == 2:
        return (u * s**3 @ vt)[0, 1]
    return (u @ vt)[0, 1]


def test_columns_without_a_derivative_are_refused():
    with pytest.raises(ar.NotYetSupported, match="last columns of a full U"):
        ar.grad(of_singular_vectors)(TALL, 0)


def test_a_phase_without_a_derivative_is_refused():
    """The first entry of a vector fixes its phase, unless it is zero; lengths have no phase."""
    block = np.array([[2.0, 1j], [-1j, 3.0]])
    a = np.block([[block, np.zeros((2, 2))], [np.zeros((2, 2)), 2.5 * block]])
    with pytest.raises(ar.NotYetSupported, match="phase of a complex eigenvector"):
        ar.grad(of_hermitian)(a)
    with pytest.raises(ar.NotYetSupported, match="phase of a complex eigenvector"):
        ar.jvp(of_hermitian, (a,), (a.conj(),))

    def density(a):
        vectors = np.linalg.eigh(a)[1]
        return (np.abs(vectors) ** 2 * W).sum()

    check_gradient(density, (a,), trials=1)

    def lowest(a):
        return np.linalg.eigh(a)[0][0]

    block_dot = np.array([[0.3, 0.2 - 1j], [0.2 + 1j, -0.7]])
    direction = np.kron(np.eye(2), block_dot)
    expected, error = directional_derivative(lambda b: float(lowest(b)), (a,), (direction,))
    slope = ar.jvp(lowest, (a,), (direction,))[1]
    assert abs(slope - expected) <= 10 * error


@njit
def of_products(a):
    """Of entries of A AᴴA and of lengths, which no phase changes."""
    u, s, vh = np.linalg.svd(a)
    cube = u * s**3 @ vh
    return cube[0, 1].real + cube[1, 3].imag + (np.abs(u) ** 2 * W).sum()


@njit
def of_vectors(a):
    """Of an entry of U Vᴴ, which no common phase of both changes."""
    u, _, vh = np.linalg.svd(a)
    return (u @ vh)[2, 2].imag


def test_phases_of_singular_vectors():
    """Vectors whose first entries are zero: functions that no phase changes have a derivative."""
    block = np.array([[2.0, 1j], [1.0 - 1j, 3.0]])
    a = np.block([[block, np.zeros((2, 2))], [np.zeros((2, 2)), 2.5 * block]])
    check_gradient(of_products, (a,), trials=1)
    with pytest.raises(ar.NotYetSupported, match="singular vector whose first entry"):
        ar.grad(of_complex_svd)(a, 0)
    with pytest.raises(ar.NotYetSupported, match="singular vector whose first entry"):
        ar.jvp(of_products, (a,), (a.conj(),))
    slope = ar.jvp(of_singular_values, (a,), (a.copy(),))[1]
    assert slope == pytest.approx(4.0 * of_singular_values(a), rel=1e-12)


def test_columns_of_zero_singular_values():
    """The phases of U and V are independent there; values do not mind."""
    a = np.diag([3.0, 2.0 + 1j, 0.0, 1j])
    np.testing.assert_allclose(ar.grad(of_singular_values)(a), 4 * a @ a.conj().T @ a, atol=1e-13)
    with pytest.raises(ar.NotYetSupported, match="singular vector whose first entry"):
        ar.grad(of_complex_svd)(a, 0)
    with pytest.raises(ar.RepeatedValues, match="singular value 3 is zero"):
        ar.grad(of_vectors)(a)


@njit
def of_two_numbers(x):
    z = np.empty((3, 2), np.complex128)
    for i in range(3):
        for j in range(2):
            z[i, j] = complex(W[i, j] + x[0] * W[j, i], W[j, i + 1] * x[1] + x[0] * x[1])
    return z


@njit
def qr_of_two_numbers(x):
    r = np.linalg.qr(of_two_numbers(x))[1]
    return r[0, 0].real ** 3 + r[0, 1].real * r[1, 1].real


@njit
def svd_of_two_numbers(x):
    u, s, vh = np.linalg.svd(of_two_numbers(x), False)
    return (s**3).sum() + (u[1] * vh[0]).imag.sum()


@pytest.mark.parametrize("function", sample([qr_of_two_numbers, svd_of_two_numbers], 2))
def test_second_derivatives_of_complex_decompositions(function):
    x, v = np.array([0.6, -0.8]), np.array([0.3, 1.1])
    expected, error = directional_derivative(ar.grad(function), (x,), (v,))
    assert np.all(np.abs(ar.hvp(function, x, v) - expected) <= 10 * error + 1e-8)


@pytest.mark.parametrize(("function", "options"), [(eigh_parts, ()), (svd_parts, (False,))])
def test_complex_rules_run_by_python(function, options):
    """`rrule` called directly runs rules as they are written."""
    for a in (SQUARE, SQUARE + 1j * W):
        result, pullback = rrule(function, a, *options)
        seed = np.cos(np.arange(result.size) * 0.7) * np.ones(1, a.dtype)
        values = slice(0, 4) if function is eigh_parts else slice(16, 20)
        seed *= 1j if np.iscomplexobj(a) else 1.0
        seed[values] = 0.5
        expected = ar.vjp(function, a, *options)[1](seed)[0]
        np.testing.assert_allclose(pullback(seed)[1], expected, rtol=1e-9, atol=1e-12)


def test_eigenvalues_that_are_not_real():
    rotation = SQUARE + 9.0 * (np.eye(4, k=1) - np.eye(4, k=-1))
    assert np.iscomplex(np.linalg.eigvals(rotation)).any()
    if np.lib.NumpyVersion(np.__version__) < "2.5.0":
        with pytest.raises(ValueError, match="domain change"):
            ar.grad(of_eig)(rotation)
        return
    check_gradient(of_complex_eig, (rotation,), trials=1)
    check_forward(of_complex_eig, (rotation,))


@njit
def of_squares(a):
    values, vectors = np.linalg.eig(a)
    squares = vectors.real**2 + vectors.imag**2
    return (W[0, : a.shape[0]] @ (squares * (values.real + 2.0 * values.imag))).sum()


@pytest.mark.parametrize("row", [[3, 2, 0, 3], [1, 0, 1, -1], [1, 2, 3, 1], [2, 0, 3]])
def test_entries_of_a_vector_that_are_equally_large(row):
    """LAPACK makes one of them real; the modulus of another, as computed, may be larger."""
    circulant = np.array([np.roll(row, k) for k in range(len(row))], np.complex128)
    check_gradient(of_squares, (circulant,), trials=1)
    check_forward(of_squares, (circulant,))


def test_implementations_i1_errors_of_the_primal():
    with pytest.raises(np.linalg.LinAlgError, match="square"):
        ar.grad(of_eigh)(TALL)


@njit
def product_into(a, b):
    c = np.empty((a.shape[0], b.shape[1]))
    np.dot(a, b, c)
    return c.sum()


@pytest.mark.usefixtures("rules_of_this_test")
def test_a_product_written_to_an_argument():
    """Of functions with rules only: without its rule, Numba makes the product by a call of itself
    that is given an array for the result."""
    check_gradient(product_into, (SQUARE, W), trials=1)
    ar.opt_out(np.dot, ar.Duplicated[MATRIX], ar.Duplicated[MATRIX])
    with pytest.raises(ar.ActiverulesError, match="numba_xxgemm"):
        ar.grad(njit(product_into.py_func))(SQUARE, W)


@njit
def shuffled(x):
    np.random.seed(5)
    return (np.random.permutation(x) ** 2 * np.arange(x.size)).sum()


def test_a_permutation_of_active_values():
    check_gradient(shuffled, (W[0].copy(),), trials=1)


@njit
def of_singular_values(a):
    """|AᵀA|²."""
    return (np.linalg.svd(a)[1] ** 4).sum()


@njit
def of_another_vector(a):
    values, vectors = np.linalg.eigh(a)
    return values[0] * values[1] + (vectors[:, 2] ** 3).sum()


@njit
def logarithm(a):
    values, vectors = np.linalg.eigh(a)
    return (vectors * np.log(values) @ vectors.T).sum()


TWICE = np.linalg.qr(SQUARE[:3, :3])[0]
TWICE = TWICE * np.array([1.0, 1.0, 2.0]) @ TWICE.T


EQUAL = {
    "identity": np.eye(3),
    "twice": np.diag([2.0, 2.0, 3.0]),
    "of rank 2": np.diag([2.0, 2.0, 0.0]),
    "of rank 1": np.diag([2.0, 0.0, 0.0]),
    "tall": np.eye(4)[:, :3].copy(),
    "wide": np.eye(3, 4),
}


@pytest.mark.parametrize("name", EQUAL)
def test_derivatives_of_repeated_singular_values(name):
    a = EQUAL[name]
    expected = 4 * a @ a.T @ a
    np.testing.assert_allclose(ar.grad(of_singular_values)(a), expected, atol=1e-14)
    direction = np.linspace(-1.0, 2.0, a.size).reshape(a.shape)
    _, tangent = ar.jvp(of_singular_values, (a,), (direction,))
    assert tangent == pytest.approx((expected * direction).sum(), rel=1e-13)


@pytest.mark.parametrize("name", ["identity", "twice", "of rank 2"])
def test_singular_vectors_of_repeated_values_are_refused(name):
    """Even if their cotangents cancel in the pair: they do not hold a derivative."""
    for which in (1, 2, 3):
        with pytest.raises(ar.RepeatedValues, match="are equal") as error:
            ar.grad(of_singular_vectors)(EQUAL[name], which)
        assert error.value.where[0][1] == "u, s, vt = np.linalg.svd(a)"


def test_cotangents_that_are_not_numbers_are_refused():
    """Second derivatives of values meet the tangents of vectors, which are NaN for equal ones."""
    bad = np.full((2, 2), np.nan)
    with pytest.raises(ar.RepeatedValues, match="values 0 and 1 are equal"):
        over_gaps_of_cotangents(bad, np.ones(2), bad)
    assert not over_gaps_of_cotangents(np.zeros((2, 2)), np.ones(2), -np.zeros((2, 2))).any()


def test_vectors_of_other_values_do_not_mind_a_pair_that_is_equal():
    check_gradient(of_another_vector, (TWICE,), trials=1)


def test_vectors_of_repeated_values_are_refused():
    """Where λ = 1 the cotangents of V log(Λ) Vᵀ are zero, and its derivative is not."""
    for matrix in (np.eye(3), TWICE):
        with pytest.raises(ar.RepeatedValues, match="values 0 and 1 are equal"):
            ar.grad(logarithm)(matrix)
    with pytest.raises(ar.RepeatedValues, match="values 0 and 1 are equal"):
        ar.jvp(logarithm, (TWICE,), (np.ones((3, 3)),))


def test_values_that_nearly_repeat():
    """The sum of the entries of log(A) along the identity is that of A⁻¹."""
    near = np.diag([1.0, 1.0 + 1e-10, 2.0])
    factor = ar.grad(of_singular_vectors)(near, 3)
    np.testing.assert_allclose(factor, [[0, 0.5, 0], [-0.5, 0, 0], [0, 0, 0]], atol=1e-9)
    assert np.trace(ar.grad(logarithm)(near)) == pytest.approx(2.5, rel=1e-5)


@njit
def of_a_zero_matrix(a):
    return np.linalg.qr(a)[1][0, 1].real + np.linalg.cond(a)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.complex64])
def test_a_zero_matrix_has_no_derivative_and_raises_no_error(dtype):
    """Numba's `/` of complex numbers raises ZeroDivisionError whatever the error model."""
    a = np.zeros((2, 2), dtype)
    assert not np.isfinite(ar.jvp(of_a_zero_matrix, (a,), (np.ones_like(a),))[1])
    assert not np.isfinite(ar.grad(of_a_zero_matrix)(a)).any()
