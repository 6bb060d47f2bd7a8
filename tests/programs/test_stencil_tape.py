"""A stencil loop keeps the states its reverse needs, and no more: counted in bytes."""

import numpy as np
import pytest

import activerules as ar
from programs import stencils

# bytes of control flow: per run of an inner loop, per step of the outer, and in the frame
CONTROL = 64


def duplicated(*shape):
    return ar.Duplicated(np.full(shape, 0.5), np.zeros(shape))


@pytest.mark.parametrize("steps", [1, 7])
def test_a_linear_stencil_keeps_nothing(steps):
    used = ar.tape_bytes(stencils.gauss_seidel, duplicated(20, 30), ar.Const(steps))
    assert used <= CONTROL * (1 + steps * 20)


@pytest.mark.parametrize("steps", [2, 9])
def test_a_reaction_keeps_the_state_it_is_computed_from(steps):
    """u'_ij needs u_ij² v_ij undone: two values per cell and step, whatever the diffusion."""
    shape = (20, 20)
    fields = [duplicated(*shape) for _ in range(4)]
    numbers = (ar.Const(3.4), ar.Const(1.0), ar.Const(0.5), ar.Const(steps))
    call = (stencils.brusselator, *fields, *numbers)
    used = ar.tape_bytes(*call, return_activity=ar.Const)
    states = 8 * 2 * shape[0] * shape[1] * steps
    assert states <= used <= states + CONTROL * (1 + steps * (1 + shape[0]))


@pytest.mark.parametrize("steps", [2, 9])
def test_a_nonlinear_sweep_keeps_what_its_sine_takes(steps):
    """u_ij becomes mean (1 + 0.1 sin u_ij): the mean, u_ij, and its sine, not taken twice."""
    used = ar.tape_bytes(stencils.gauss_seidel_nonlinear, duplicated(20, 30), ar.Const(steps))
    states = 8 * 3 * 18 * 28 * steps
    assert states <= used <= states + CONTROL * (1 + steps * (1 + 20) + 20)


def test_a_history_keeps_nothing_it_holds_itself():
    """Time steps in the rows of an array: each is read where it stands."""
    history = duplicated(40, 30)
    used = ar.tape_bytes(stencils.time_by_space_history, history, return_activity=ar.Const)
    # only what a step overwrites itself: one value per cell
    assert used <= 8 * 39 * 28 + CONTROL * 41


@pytest.mark.parametrize("shape", [(30, 40), (3, 40), (30, 2), (1, 1), (0, 5)])
def test_the_neighbours_of_all_cells_are_kept_once(shape):
    """Four differences per cell are needed, of the values of one array."""
    steps = 3
    arrays = duplicated(*shape), duplicated(*shape)
    used = ar.tape_bytes(stencils.variable_conductivity, *arrays, ar.Const(steps))
    states = 8 * shape[0] * shape[1] * steps
    assert used <= states + CONTROL * (2 + steps * 2)
    assert used >= states - 8 * 2 * (shape[1] + 2) * steps or min(shape) < 3


def test_neighbours_in_a_line_are_kept_once():
    """Whether a slope is positive, and what it takes: the values around the cell, and a ratio."""
    steps, n = 4, 50
    used = ar.tape_bytes(
        stencils.slope_limiter, ar.Duplicated(np.arange(50.0) ** 2, np.zeros(50)),
        ar.Const(0.2), ar.Const(steps), return_activity=ar.Const,
    )  # fmt: skip
    assert 8 * n * steps <= used <= (8 + 8) * n * steps + CONTROL * (2 + steps * 2)


def test_neighbours_in_three_axes_are_kept_once():
    steps, shape = 2, (8, 9, 10)
    used = ar.tape_bytes(stencils.products_in_three_axes, duplicated(*shape), ar.Const(steps))
    assert used <= 8 * 720 * steps + CONTROL * (4 + steps * 2)


@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_a_chain_keeps_its_places_wherever_its_ends_are(n):
    steps = 3
    used = ar.tape_bytes(
        stencils.chain_of_springs, duplicated(n), ar.Const(steps), return_activity=ar.Const
    )
    assert used <= 8 * n * steps + CONTROL * (2 + steps * 2)


@pytest.mark.parametrize("steps", [2, 9])
def test_rows_on_a_ring_are_not_copied_with_what_lies_between(steps):
    """With the rate of diffusion, the sums of neighbours are needed, too."""
    shape = (20, 20)
    fields = [duplicated(*shape) for _ in range(4)]
    numbers = (ar.Const(3.4), ar.Const(1.0), ar.Active(0.5), ar.Const(steps))
    used = ar.tape_bytes(stencils.brusselator, *fields, *numbers, return_activity=ar.Const)
    states = 8 * 4 * shape[0] * shape[1] * steps
    assert states <= used <= states + CONTROL * (1 + steps * (1 + shape[0]))


@pytest.mark.parametrize("program", ["neighbours_within_a_grid", "nearest_within_an_image"])
@pytest.mark.parametrize("shape", [(40, 30), (2, 40), (40, 1), (1, 1)])
def test_cells_inside_a_grid_are_kept_once_wherever_its_border_is(program, shape):
    steps, (n, m), f = 3, shape, getattr(stencils, program)
    used = ar.tape_bytes(f, duplicated(n, m), ar.Const(0.1), ar.Const(steps))
    border = 8 * 6 * 2 * (n + m)
    assert used <= (8 * n * m + border) * steps + CONTROL * (4 + steps * 2)


@pytest.mark.parametrize("columns", [12, 13, 500])
def test_of_wide_rows_what_is_read_is_kept_once(columns):
    steps, n = 3, 12
    square = duplicated(n, columns), duplicated(n, columns)
    used = ar.tape_bytes(stencils.conductivity_in_a_square, *square, ar.Const(steps))
    assert 8 * (n - 2) ** 2 * steps <= used <= 8 * n**2 * steps + CONTROL * (2 + steps * 2)
    cube = duplicated(n, n + 1, columns)
    used = ar.tape_bytes(stencils.products_in_a_cube, cube, ar.Const(steps))
    assert 8 * (n - 2) ** 3 * steps <= used <= 8 * n**3 * steps + CONTROL * (2 + steps * (2 + n))
