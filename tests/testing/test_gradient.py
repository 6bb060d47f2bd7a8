"""Objects as arguments of programs whose gradients are checked."""

import math

import numpy as np
import pytest
from numba import float64, njit, typed
from numba.experimental import jitclass

import activerules as ar
from activerules.errors import ArityError, RuleCheckError
from activerules.testing import check_gradient, check_grads, gradient_fd

PACKED = np.dtype([("a", np.float64, 2), ("n", np.int32), ("b", np.float64)])


@jitclass([("k", float64), ("a", float64[:])])
class Spring:
    def __init__(self, k, a):
        self.k = k
        self.a = a

    def energy(self, x):
        return 0.5 * self.k * np.sum((x - self.a) ** 2)


@njit
def energy_of(spring, x):
    return spring.energy(x)


@njit
def first_of(arrays, x):
    return arrays[0][1] * arrays[1][0] * x[0]


@njit
def of_record(v, x):
    return (v.a[0] * v.b + v.a[1] ** 2) * x[1]


@njit
def stiffened(spring, x):
    spring.k *= x[0]
    spring.a[0] += x[1]


def record():
    return np.rec.array([((0.7, -1.2), 3, 0.4)], dtype=PACKED)[0]


OBJECTS = [
    (energy_of, lambda: Spring(1.5, np.array([0.3, -0.2]))),
    (first_of, lambda: typed.List([np.array([1.0, 2.0]), np.array([0.5])])),
    (of_record, record),
    (stiffened, lambda: Spring(1.5, np.array([0.3, -0.2]))),
]


@pytest.mark.parametrize(("f", "make"), OBJECTS)
def test_objects_are_duplicated_by_default(f, make):
    check_gradient(f, (make(), np.array([0.9, 0.1])))


def test_forward_mode_and_objects():
    check_grads(stiffened, (Spring(1.5, np.array([0.3, -0.2])), np.array([0.9, 0.1])), order=1)


@njit
def energy_declared(spring, x):
    return spring.energy(x)


ar.inactive(energy_declared)


@njit
def energy_without_a_slope(spring, x):
    return energy_declared(spring, x) + x[0]


def test_a_wrong_derivative_of_an_object_is_found():
    with pytest.raises(RuleCheckError, match="argument 0"):
        check_gradient(
            energy_without_a_slope, (Spring(1.5, np.array([0.3, -0.2])), np.array([0.9, 0.1]))
        )


@pytest.mark.parametrize("check", [check_gradient, check_grads, gradient_fd])
def test_arguments_that_are_not_in_a_tuple_are_refused(check):
    with pytest.raises(ArityError, match=r"\(f, \(x,\)\) for one"):
        check(lambda x: x.sum(), np.ones(2))


@njit
def entropy(volumes):
    if volumes.min() <= 0.0:
        raise ValueError("a volume is not positive")
    return np.log(volumes).sum()


@pytest.mark.parametrize("seed", range(4))
def test_small_values_stay_in_the_domain_of_the_program(seed):
    check_gradient(entropy, (np.array([3e-4, 4e-4]),), seed=seed)


def test_every_argument_has_an_activity():
    with pytest.raises(ValueError, match="2 activities for 1 arguments"):
        check_gradient(njit(lambda x: x), (1.0,), (ar.Active, ar.Const))


@pytest.mark.parametrize("activities", [3, (None,), (1.0,), ar.Active])
def test_activities_that_are_no_annotation_classes(activities):
    with pytest.raises(ar.ActivityError, match="one annotation class per argument"):
        check_gradient(math.exp, (1.0,), activities)


def test_no_trials_are_no_check():
    with pytest.raises(ValueError, match="0 trials compare nothing"):
        check_gradient(njit(lambda x: x * x), (2.0,), trials=0)
