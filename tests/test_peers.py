"""The programs of benchmarks/peers have the right derivatives, which needs no JAX."""

import numpy as np
import pytest

from activerules.testing import gradient_fd
from benchmarks.peers import programs

PRIMALS = {
    "lse": (programs.log_sum_exp, (3,), (0,)),
    "gmm": (programs.mixture, (2, 3, 4), (0, 1, 2)),
    "llsq": (programs.misfit, (3, 5), (0,)),
    "ode": (programs.end_of_chain, (3, 2), (0,)),
    "det": (programs.determinant, (3,), (0,)),
    "lstm": (programs.perplexity, (2, 2, 4), (0, 1)),
}


@pytest.mark.parametrize("name", PRIMALS)
def test_gradients(name):
    primal, size, argnums = PRIMALS[name]
    args = programs.arguments(name, size)
    value, gradients = programs.PROGRAMS[name](*args)
    assert value == pytest.approx(primal(*args), rel=1e-12)
    for i, gradient in zip(argnums, gradients if len(argnums) > 1 else (gradients,), strict=True):
        np.testing.assert_allclose(gradient, gradient_fd(primal, args, i), rtol=1e-6, atol=1e-8)


def test_jacobian_of_bundle_adjustment():
    """Central differences of each row; the weights' errors are 1 - w²."""
    cameras, points, weights, seen, features = programs.arguments("ba", (2, 3, 4))
    blocks, of_weights = programs.ba(cameras, points, weights, seen, features)
    np.testing.assert_allclose(of_weights, -2.0 * weights)
    for i, (camera, point) in enumerate(seen):
        x = np.concatenate((cameras[camera], points[point], weights[i : i + 1]))
        for j in range(15):
            step = np.zeros(15)
            step[j] = 1e-6
            up, down = (programs.reprojection_error(y, features[i]) for y in (x + step, x - step))
            np.testing.assert_allclose(blocks[i, :, j], (up - down) / 2e-6, rtol=1e-6, atol=1e-7)


def test_newton_step_of_kmeans():
    """The diagonal of the Hessian is twice the number of points that are nearest."""
    centroids, points = programs.arguments("kmeans", (2, 2, 7))
    gradient, diagonal = programs.kmeans(centroids, points)
    np.testing.assert_allclose(
        gradient, gradient_fd(programs.distances, (centroids, points), 0), rtol=1e-6
    )
    nearest = ((points[:, None] - centroids) ** 2).sum(axis=2).argmin(axis=1)
    counts = np.bincount(nearest, minlength=2)
    np.testing.assert_allclose(diagonal, 2.0 * np.repeat(counts[:, None], 2, axis=1))


def test_every_program_has_two_sizes():
    assert set(programs.PROGRAMS) == set(programs.SIZES)
    assert {len(sizes) for sizes in programs.SIZES.values()} == {2}


def test_the_comparison_with_jax():
    """A mismatch is an error, and a table goes between its marks."""
    pytest.importorskip("jax")
    from benchmarks.peers import measure

    x = np.array([1.0, 2.0])
    assert measure.check("lse", (1.0, x), (1.0, x)) == 0.0
    for wrong in (x + 1e-6, x * np.nan):
        with pytest.raises(ValueError, match="lse: the derivatives of Numba and JAX differ"):
            measure.check("lse", (1.0, wrong), (1.0, x))
    row = dict.fromkeys(("milliseconds", "jax", "noise", "error"), 1.0)
    row |= {"name": "lse", "size": [10, 2], "first_calls": [1.0, 2.0]}
    where = {"numba": "0", "jax": "1", "processor": "any"}
    results = {"environment": where, "rounds": 3, "rows": [row]}
    page = f"before\n{measure.BEGIN}\nold\n{measure.END}\nafter\n"
    new = measure.replace_table(page, results)
    assert "| lse | 10 × 2 | 1.000 | 1.00 ± 1.00 | 1.0 | 2.0 | 1e+00 |" in new
    assert measure.replace_table(new, results) == new
    assert "old" not in new
    with pytest.raises(ValueError, match="must hold the lines"):
        measure.replace_table("nothing", results)
