"""A library of @njit programs, one module per family, each written the way its users write.

A program stands next to the function that makes its arguments:

    @example(lambda rng: (rng.normal(), rng.normal(size=7)))
    @njit
    def horner(x, coefficients): ...

`example` registers it and returns it unchanged. The programs know nothing of derivatives; the test
modules of this folder differentiate all of them.
"""

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import numpy as np

FAMILIES = (
    "algorithms",
    "arguments",
    "branches",
    "callables",
    "calls",
    "complex_numbers",
    "dynamics",
    "exits",
    "factorisations",
    "layouts",
    "learning",
    "lists",
    "loops",
    "memory",
    "nests",
    "numbers",
    "numpy_style",
    "objects",
    "options",
    "recursion",
    "reductions",
    "science",
    "solvers",
    "special_functions",
    "stencils",
    "tuples",
    "typed_dicts",
    "typed_lists",
    "whiles",
)

ALL = "ALL_PROGRAMS" in os.environ


@dataclass(frozen=True)
class Program:
    """A function, a maker of random arguments, and the names of float arguments to keep Const."""

    function: Callable
    arguments: Callable[[np.random.Generator], tuple]
    const: frozenset[str] = frozenset()
    seeds: int = 3

    @property
    def name(self) -> str:
        family = self.function.py_func.__module__.rpartition(".")[2]
        return f"{family}.{self.function.__name__}"

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.function.py_func).parameters)

    def points(self) -> list[tuple]:
        """Random arguments, the same ones in every run."""
        return [self.arguments(np.random.default_rng(seed)) for seed in range(self.seeds)]


_PROGRAMS: list[Program] = []


def example(arguments, const=(), seeds=3):
    """Register the function below as a program."""

    def register(function):
        _PROGRAMS.append(Program(function, arguments, frozenset(const), seeds))
        return function

    return register


def all_programs() -> list[Program]:
    """Every program of every family, in a fixed order."""
    for family in FAMILIES:
        import_module(f"programs.{family}")
    return sorted(_PROGRAMS, key=lambda program: program.name)


def sample(items, one_in):
    """Every `one_in`-th item: what the ordinary tests have time for; all of them by night."""
    return list(items)[:: 1 if ALL else one_in]
