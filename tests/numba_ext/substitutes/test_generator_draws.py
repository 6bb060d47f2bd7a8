"""Samplers whose draws have no derivative: those of Numba's that reject candidates by their
parameters, found in its source."""

import ast
import inspect

import pytest
from numba import float64
from numba.np.random import distributions

import activerules as ar
from activerules.numba_ext.substitutes import generator_draws  # noqa: F401  (it refuses them)
from activerules.rules.library.random import DRAWN
from activerules.rules.registry import RULES

# a draw that is an integer has no derivative anyway
INTEGERS = ("binomial", "geometric", "loggam", "logseries", "poisson")


def names(node):
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def rejects(function):
    """Whether a loop in a sampler decides by what is computed from its parameters."""
    loops = [node for node in ast.walk(function) if isinstance(node, ast.While)]
    return any(
        names(test) & computed(function, loop) for loop in loops for test in conditions(loop)
    )


def conditions(loop):
    return [node.test for node in ast.walk(loop) if isinstance(node, ast.If | ast.While)]


def computed(function, loop):
    """The names of what is computed from the parameters before a loop ends."""
    found = {argument.arg for argument in function.args.args[1:]}
    before = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and node.lineno < loop.end_lineno
    ]
    for _ in before:
        for node in before:
            if names(node.value) & found:
                found |= names(node.targets[0])
    return found


def samplers():
    tree = ast.parse(inspect.getsource(distributions))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [
        (node.name, len(node.args.args))
        for node in functions
        if node.name.startswith("random_")
        and not any(name in node.name for name in INTEGERS)
        and rejects(node)
    ]


def test_d1_samplers_that_reject_by_their_parameters_are_refused():
    found = samplers()
    assert {"random_standard_gamma", "random_standard_gamma_f", "random_beta"} <= {*dict(found)}
    for name, count in found:
        kinds = ["const", "active", *["const"] * (count - 2)]
        with pytest.raises(ar.NoRuleForActivity) as refused:
            RULES.find(getattr(distributions, name), [float64] * (count + 1), (*kinds, "active"))
        assert DRAWN.split("\n")[0] in str(refused.value)
