"""Rules for the special functions of SciPy that `numba_stats` calls by their addresses.

`from activerules.interop import numba_stats` defines them. What is written in Python there needs
none. The derivatives with respect to the order of a Bessel function, or the shape of a gamma, beta
or t distribution function, have no closed form: they are refused (`NoRuleForActivity`).

Sources     Abramowitz and Stegun (1964), 6.5, 7.1, 9.6, 26.5, 26.7; Owen (1956), Tables for
            computing bivariate normal probabilities
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numba import njit

from activerules import extras
from activerules.annotations.activity import Active, Const, Duplicated
from activerules.chainrules.scalar import scalar_rule
from activerules.rules.define import augmented_primal, forward, reverse
from activerules.rules.protocol import AugmentedReturn
from activerules.rules.written import by_name, function_from

_functions: Any = extras.load(
    "numba_stats._special", "numba-stats", "its special functions are to be differentiated"
)

_ROOT_OF_TAU = math.sqrt(2.0 * math.pi)

_ROOT_OF_PI = math.sqrt(math.pi)
_erfcx, _xlogy, _xlog1py = _functions.erfcx, _functions.xlogy, _functions.xlog1py


@njit
def _slope_of_erfcx(y, x):
    """2xy - 2/√π; far out, where the terms cancel, by the series of 7.1.23."""
    if x < 50.0:
        return 2.0 * x * y - 2.0 / _ROOT_OF_PI
    t = 0.5 / (x * x)
    series = 1.0 - t * (3.0 - t * (15.0 - t * (105.0 - t * 945.0)))
    return -2.0 * t * series / _ROOT_OF_PI


@njit
def _slope_of_log_ndtr(y, x):
    """φ / Φ, in either tail without a difference of large exponents."""
    if x > 0.0:
        return math.exp(-0.5 * x * x - y) / _ROOT_OF_TAU
    return 2.0 / (_ROOT_OF_TAU * _erfcx(-x / math.sqrt(2.0)))


scalar_rule(_functions.ndtri, lambda Ω, p: (_ROOT_OF_TAU * math.exp(0.5 * Ω * Ω),))
scalar_rule(_erfcx, lambda Ω, x: (_slope_of_erfcx(Ω, x),))
scalar_rule(_functions.log_ndtr, lambda Ω, x: (_slope_of_log_ndtr(Ω, x),))
# of x = 0 they are 0 for every y
scalar_rule(_xlogy, lambda Ω, x, y: (math.log(y), x / y if x else 0.0))
scalar_rule(_xlog1py, lambda Ω, x, y: (math.log1p(y), x / (1.0 + y) if x else 0.0))
scalar_rule(
    _functions.owens_t,
    lambda Ω, h, a: (
        -0.5 * math.exp(-0.5 * h * h) * math.erf(a * h / math.sqrt(2.0)) / _ROOT_OF_TAU,
        math.exp(-0.5 * h * h * (1.0 + a * a)) / (2.0 * math.pi * (1.0 + a * a)),
    ),
)

_SOURCE = """
def augmented(config, ret: Active, {constant}, x: Active):
    y = function({values}, x.val)
    return AugmentedReturn(y, None, y)

def pullback(config, dret: Active, y, {constant}, x: Active):
    return dret.val * slope(y, {values}, x.val)

def pushforward(config, ret: Duplicated, {constant}, x: Duplicated):
    y = function({values}, x.val)
    return y, slope(y, {values}, x.val) * x.dval
"""


def _in_last(name: str, slope: Callable[..., float], names: str = "a") -> None:
    """Rules with respect to the last argument; the others, `names`, are constant."""
    function = getattr(_functions, name)
    source = _SOURCE.format(
        constant=", ".join(f"{a}: Const" for a in names),
        values=", ".join(f"{a}.val" for a in names),
    )
    scope = {
        "function": function,
        "slope": njit(slope),
        **by_name(Active, AugmentedReturn, Const, Duplicated),
    }

    def half_of(half: str) -> Any:
        return function_from(source, half, scope, module=__name__, like=_in_last)

    augmented_primal(function)(half_of("augmented"))
    reverse(function)(half_of("pullback"))
    forward(function)(half_of("pushforward"))


@njit
def _gamma_density(a, x):
    if x == math.inf:
        return 0.0
    return math.exp(_xlogy(a - 1.0, x) - x - math.lgamma(a))


@njit
def _t_density(n, x):
    power = math.exp(-0.5 * (n + 1.0) * math.log1p(x * x / n))
    if n < 1e4:
        ratio = math.exp(math.lgamma(0.5 * (n + 1.0)) - math.lgamma(0.5 * n))
        return power * ratio / math.sqrt(math.pi * n)
    # the ratio by its series: the logarithms are large
    return power * (1.0 - (1.0 - (0.125 + 0.15625 / n) / n) * 0.25 / n) / _ROOT_OF_TAU


@njit
def _beta_density(a, b, x):
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(scale + _xlogy(a - 1.0, x) + _xlog1py(b - 1.0, -x))


_kv, _ive = _functions.kv, _functions.ive

_in_last("gammainc", lambda y, a, x: _gamma_density(a, x))
_in_last("gammaincc", lambda y, a, x: -_gamma_density(a, x))
_in_last("gammaincinv", lambda y, a, p: 1.0 / _gamma_density(a, y))
_in_last("stdtr", lambda y, n, x: _t_density(n, x))
_in_last("stdtrit", lambda y, n, p: 1.0 / _t_density(n, y))
_in_last("kv", lambda y, v, x: -0.5 * (_kv(v - 1.0, x) + _kv(v + 1.0, x)))
_in_last(
    "ive", lambda y, v, x: 0.5 * (_ive(v - 1.0, x) + _ive(v + 1.0, x)) - math.copysign(1.0, x) * y
)
_in_last("betainc", lambda y, a, b, x: _beta_density(a, b, x), names="ab")
