"""Sparse Jacobians and Hessians against dense ones and closed forms."""

import pickle

import numpy as np
import pytest
from numba import njit
from scipy import sparse

import activerules as ar
from activerules.api.sparse import matrices
from activerules.api.sparse.patterns import Plan, column_groups, detected


@njit
def steps(x, a=1.0, side=1):
    """Tridiagonal; column n - 1 has a zero where `a` is zero. A branch adds a corner."""
    if a == 13.0:
        raise ValueError("unlucky")
    y = np.empty_like(x)
    n = x.size
    for i in range(n):
        y[i] = x[i] * x[i] - a
        if i > 0:
            y[i] -= a * x[i - 1]
        if i + 1 < n:
            y[i] += a * np.sin(x[i + 1])
    if side < 0:
        y[0] *= x[n - 1]
    return y


def tridiagonal(n):
    return sparse.diags_array([np.ones(n)] * 3, offsets=[-1, 0, 1], shape=(n, n))


@pytest.fixture(scope="module")
def dense():
    return ar.jacfwd(steps)


@pytest.fixture(scope="module")
def found():
    return ar.jacobian(steps, sparsity="detect")


@pytest.fixture(scope="module")
def given():
    return ar.jacobian(steps, sparsity=tridiagonal(9))


RNG = np.random.default_rng(3)


@pytest.mark.parametrize("sparsity", [tridiagonal(9), tridiagonal(9).toarray(), "detect"])
def test_the_jacobian_is_that_of_dense_sweeps(sparsity, dense):
    x = RNG.normal(size=9)
    before = x.copy()
    jac = ar.jacobian(steps, sparsity=sparsity)(x, 0.7)
    assert isinstance(jac, sparse.csr_array)
    np.testing.assert_allclose(jac.toarray(), dense(x, 0.7), rtol=1e-14)
    np.testing.assert_array_equal(x, before)


def test_the_plan_of_a_tridiagonal_jacobian_is_three_sums_and_a_random_vector():
    plan = Plan.of(tridiagonal(10_000).tocsr(), check=True)
    assert plan.seeds.shape == (4, 10_000)
    np.testing.assert_array_equal(plan.seeds[:3].sum(axis=0), 1.0)


def test_a_tridiagonal_pattern_is_detected_by_few_products():
    n = 10_000
    groups, count = column_groups(tridiagonal(n).tocsr())
    assert count == 3
    assert all(np.diff(np.sort(np.flatnonzero(groups == g))).min() >= 3 for g in range(3))
    seen = []

    def products(seeds):
        seen.append(len(seeds))
        padded = np.pad(seeds, ((0, 0), (1, 1)))
        return padded[:, :-2] * 0.0 + padded[:, 1:-1] + padded[:, 2:]

    pattern = detected(products, (n, n))
    assert (pattern != (tridiagonal(n) != 0)).nnz == 0
    assert sum(seen) < 100  # not n


def test_groups_have_no_common_row():
    pattern = sparse.random_array((60, 40), density=0.08, rng=RNG, format="csr")
    groups, count = column_groups(pattern)
    for group in range(count):
        assert (abs(pattern) != 0).toarray()[:, groups == group].sum(axis=1).max() <= 1


def test_dense_rows_and_columns_are_detected():
    matrix = RNG.normal(size=(7, 150)) * (RNG.random((7, 150)) < 0.05)
    matrix[3], matrix[:, 100] = 1.0, 1.0  # 150 groups: more than one chunk
    pattern = detected(lambda seeds: seeds @ matrix.T, matrix.shape)
    assert pattern.nnz == matrix.size  # 0 times NaN is NaN: a dense product depends on everything
    rows = [sparse.csr_array(matrix[[i]]) for i in range(7)]

    def products(seeds):
        return np.stack([seeds[:, row.indices] @ row.data for row in rows], axis=1)

    np.testing.assert_array_equal(detected(products, matrix.shape).toarray(), matrix != 0)


def test_an_entry_that_is_zero_at_the_point_is_detected(found, dense):
    x = RNG.normal(size=5)
    assert found(x, 0.0).nnz == found(x, 0.5).nnz == 13
    np.testing.assert_allclose(found(x, 0.5).toarray(), dense(x, 0.5), rtol=1e-14)


def test_few_detected_patterns_are_kept(monkeypatch):
    monkeypatch.setattr(matrices, "_REMEMBERED", 2)
    detected = []
    found = ar.jacobian(lambda x, n: n * x, sparsity="detect")
    detect = found._detected
    found._detected = lambda args, plan: detected.append(args[1]) or detect(args, plan)
    for n in (1, 2, 1, 3, 1, 2):
        np.testing.assert_allclose(found(np.ones(2), n).toarray(), n * np.eye(2))
    assert detected == [1, 2, 3, 2]


def test_another_path_of_the_function_adds_to_what_was_detected(found, dense):
    x = 1.0 + RNG.random(6)
    for side in (1, -1, 1):
        np.testing.assert_allclose(found(x, side=side).toarray(), dense(x, 1.0, side), rtol=1e-14)


def test_entries_outside_the_pattern_are_an_error(given, dense):
    x = 1.0 + RNG.random(9)
    assert given(x).nnz == 25
    with pytest.raises(ar.SparsityMismatch, match=r"in rows 0\n(.|\n)*missing .* are \(0, 8\)"):
        given(x, side=-1)
    unchecked = ar.jacobian(steps, sparsity=tridiagonal(9), check=False)(x, side=-1)
    # what the check is for: an entry is added to another one of its row
    assert abs(unchecked.toarray() - dense(x, 1.0, -1)).max() > 0.1


@pytest.mark.parametrize("row", range(4))
@pytest.mark.parametrize("column", range(4))
def test_any_single_entry_outside_is_found(row, column):
    pattern = np.ones((4, 4))
    pattern[row, column] = 0.0
    x = np.array([1.0, 1.0, 1.0, 1.0])
    with pytest.raises(ar.SparsityMismatch, match=rf"in rows {row}\n"):
        ar.jacobian(dense_product, sparsity=pattern)(x)


@njit
def dense_product(x):
    y = np.zeros(4)
    for i in range(4):
        for j in range(4):
            y[i] += 10.0 ** (3 * i) * (1.0 + i + j) * x[j] * x[j]
    return y


def test_nan_and_infinity_are_returned_and_not_taken_for_entries():
    @njit
    def roots(x):
        return np.sqrt(x)

    jac = ar.jacobian(roots, sparsity=np.eye(3))
    np.testing.assert_array_equal(
        jac(np.array([4.0, 0.0, -1.0])).diagonal(), [0.25, np.inf, np.nan]
    )
    with pytest.raises(ar.SparsityMismatch):
        ar.jacobian(roots, sparsity=np.diag([1, 0, 1]))(np.array([4.0, 0.0, 1.0]))


def test_what_is_returned_shares_no_memory(given):
    x = RNG.normal(size=9)
    first = given(x, 0.5)
    expected = first.toarray()
    first.data[3] = 0.0
    first.eliminate_zeros()
    first.data[:] = 0.0
    np.testing.assert_array_equal(given(x, 0.5).toarray(), expected)


@njit
def on_grid(u, work, scale):
    """Of two axes, in single precision, with a scratch array."""
    for i in range(u.shape[0]):
        for j in range(u.shape[1]):
            work[i, j] = u[i, j] * u[i, j]
    out = np.zeros_like(u)
    for i in range(u.shape[0] - 1):
        for j in range(u.shape[1]):
            out[i, j] = scale * work[i + 1, j] + work[i, j]
    return out


def test_arrays_of_two_axes_go_by_items_in_c_order():
    u = np.asfortranarray(RNG.normal(size=(4, 3)).astype(np.float32))
    work = np.full((4, 3), 7.0, np.float32)
    jac = ar.jacobian(on_grid, sparsity="detect")(u, work, 2.0)
    expected = np.zeros((12, 12))
    for row in range(9):
        expected[row, row] = 2.0 * u.ravel()[row]
        expected[row, row + 3] = 4.0 * u.ravel()[row + 3]
    assert jac.dtype == np.float32
    np.testing.assert_allclose(jac.toarray(), expected, rtol=1e-6)
    assert np.all(work == 7.0)


@njit
def rosenbrock(x, w):
    s = 0.0
    for i in range(x.size - 1):
        s += w[0] * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
    return s


@njit
def chain(x, w):
    """Several products of its Hessian with a vector share the exponentials."""
    y = np.exp(x) * w[0]
    return np.sum(y[:-1] * np.sin(y[1:]))


def test_hessians_whose_columns_share_work():
    x, w = RNG.normal(size=8), np.array([0.5])
    hess = ar.hessian(chain, sparsity=tridiagonal(8))(x, w)
    gradient, h = ar.grad(chain), 1e-4
    for k, e in enumerate(np.eye(8)):
        fine, coarse = (
            (gradient(x + d * e, w) - gradient(x - d * e, w)) / (2 * d) for d in (h, 2 * h)
        )
        error = np.abs(coarse - fine).max() + 1e-10
        np.testing.assert_allclose(hess.toarray()[:, k], (4 * fine - coarse) / 3, atol=error)


def test_hessians():
    x, w = RNG.normal(size=8), np.array([100.0])
    expected = ar.hessian(rosenbrock)(x, w)
    for sparsity in ("detect", tridiagonal(8), np.tri(8) - np.tri(8, k=-2)):
        hess = ar.hessian(rosenbrock, sparsity=sparsity)(x, w)
        assert hess.nnz == 22
        np.testing.assert_allclose(hess.toarray(), expected, rtol=1e-13)
    with pytest.raises(ar.SparsityMismatch, match=r"Hessian has entries .*in rows 0, 1, 2, 3, …"):
        ar.hessian(rosenbrock, sparsity=np.eye(8))(x, w)


def test_wrong_patterns():
    with pytest.raises(ar.SparsityMismatch, match=r"shape \(3, 4\), and the argument has 5"):
        ar.jacobian(steps, sparsity=np.ones((3, 4)))(np.ones(5))
    with pytest.raises(ar.SparsityMismatch, match=r"shape \(3, 5\), and the result has 5"):
        ar.jacobian(steps, sparsity=np.ones((3, 5)))(np.ones(5))
    with pytest.raises(ar.SparsityMismatch, match="square"):
        ar.hessian(rosenbrock, sparsity=np.ones((3, 5)))
    for wrong in (object(), ["a"], np.ones(3), np.ones((2, 2, 2))):
        with pytest.raises(ar.SparsityMismatch):
            ar.jacobian(steps, sparsity=wrong)
    with pytest.raises(ar.UnknownOption, match="'detected'"):
        ar.jacobian(steps, sparsity="detected")


def test_what_has_no_sparse_derivative(given, found):
    with pytest.raises(ar.ActivityError, match="is float: no sparse Jacobian"):
        found(2.0)
    with pytest.raises(ar.ActivityError, match="`x` is"):
        found(np.ones(2, np.complex128))
    with pytest.raises(ar.ActivityError, match="which returns"):
        ar.jacobian(lambda x: (x, x), sparsity=np.eye(2))(np.ones(2))
    with pytest.raises(ar.NotYetSupported, match="several"):
        ar.jacobian(steps, (0, 1), sparsity="detect")
    with pytest.raises(ar.NotYetSupported, match="has_aux"):
        ar.hessian(rosenbrock, has_aux=True, sparsity="detect")
    with pytest.raises(ar.NotYetSupported, match="reverse"):
        ar.jacobian(steps, mode="reverse", sparsity="detect")
    with pytest.raises(ar.ArityError):
        found()
    with pytest.raises(ar.ArityError):
        given(np.ones(9), 1.0, 1, 1)
    with pytest.raises(ValueError, match="unlucky"):
        found(np.ones(9), 13.0)

    @njit
    def caller(x):
        return given(x)

    with pytest.raises(ar.NotYetSupported, match="inside a compiled function"):
        caller(np.ones(9))


def test_a_function_that_refuses_nan_as_tangent_needs_a_pattern(rules_of_this_test):
    @njit
    def doubled(x):
        return 2.0 * x

    @njit
    def finite(x):
        for item in x:
            if not np.isfinite(item):
                raise ValueError("not finite")
        return x

    @ar.forward(doubled)
    def doubled_forward(config, ret: ar.Duplicated, x: ar.Duplicated):
        return 2.0 * x.val, 2.0 * finite(x.dval)

    with pytest.raises(ar.SparsityMismatch, match="ValueError: not finite"):
        ar.jacobian(njit(lambda x: doubled(x) * x), sparsity="detect")(np.ones(3))


def test_it_describes_itself_and_is_pickled(given):
    assert repr(given) == "jacobian(steps, sparsity=(9, 9)) with respect to argument 0"
    assert given.__name__ == "sparse_jacobian_steps"
    assert given.__doc__.startswith("The sparse Jacobian of `steps` with respect to `")
    assert given.__doc__.endswith(steps.py_func.__doc__ or "`.")
    x = RNG.normal(size=9)
    again = pickle.loads(pickle.dumps(given))
    np.testing.assert_array_equal(again(x, 0.3).toarray(), given(x, 0.3).toarray())


def test_a_tuple_of_arrays_of_different_lengths_is_an_argument():
    def scaled(x, weights):
        return x * weights[0] * weights[1][0]

    jac = ar.jacobian(scaled, sparsity="detect")
    for n in (3, 5):
        found = jac(np.ones(n), (np.arange(float(n)), np.array([2.0])))
        np.testing.assert_array_equal(found.toarray(), np.diag(2.0 * np.arange(n)))


def test_an_argument_without_items():
    assert ar.jacobian(lambda x: 2.0 * x, sparsity="detect")(np.empty(0)).shape == (0, 0)


def test_a_number_of_numpy_is_part_of_what_a_detected_pattern_depends_on():
    @njit
    def shifted(x, by):
        return x * np.roll(x, by)

    sparse = ar.jacobian(shifted, sparsity="detect", check=False)
    x = np.array([1.0, 2.0, 3.0])
    for by in (np.int64(0), np.int64(1), 2):
        assert np.allclose(sparse(x, by).toarray(), ar.jacobian(shifted)(x, by))
