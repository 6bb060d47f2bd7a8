"""Gradients of random loop nests that work in place, against exact directional derivatives."""

from __future__ import annotations

import ctypes
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from activerules.ir.generate.assemble import assemble, generate
from activerules.ir.llvm.model import Function, Module
from activerules.ir.llvm.parser import parse_module
from activerules.ir.plan.plan import Plan
from activerules.ir.plan.planning import make_plan
from activerules.ir.plan.request import Parameter, Request
from activerules.ir.text.normalise import exposed, normalise
from tests.ir.harness import compile_text
from tests.ir.interpreter import Interpreter
from tests.ir.nests import ChoiceNest, Nest, ReadingNest, WindowNest

SIZES = [(4, 4), (5, 3), (3, 6), (1, 5), (0, 3), (6, 6), (5, 7)]
ROOM = 400  # elements on each side of where the base pointer leads


@dataclass(frozen=True)
class Dual:
    """A number and its directional derivative."""

    v: float
    t: float

    def __add__(self, other: Any) -> Dual:
        return Dual(self.v + other.v, self.t + other.t)

    def __mul__(self, other: Any) -> Dual:
        if isinstance(other, Dual):
            return Dual(self.v * other.v, self.v * other.t + self.t * other.v)
        return Dual(self.v * other, self.t * other)

    def __lt__(self, other: Any) -> bool:
        return self.v < other.v


def planned(text: str, checked: bool) -> tuple[Module, Plan]:
    module = parse_module(normalise(exposed(text), "f"))
    function = module.functions["f"]
    *pointers, n, m = function.arguments
    parameters = (
        *(Parameter(pointer, "duplicated", pointer.name) for pointer in pointers),
        Parameter(n, "const", "n", length=True),
        Parameter(m, "const", "m", length=True),
    )
    request = Request(module, function, "f", parameters, "const", checked=checked)
    return module, make_plan(request)


def derivative(text: str, checked: bool) -> tuple[Any, Plan]:
    module, plan = planned(text, checked)
    functions, declarations, _ = generate(plan)
    for one in functions:
        one.prefix = ""
    return compile_text(assemble(module, functions, declarations, whole=True)), plan


def directional(
    function: Function, sizes: tuple[int, int], x: np.ndarray, v: np.ndarray
) -> np.ndarray:
    """How the memory that is left changes with the memory at the start, in the direction `v`."""
    run = Interpreter(function)
    names = [a.name for a in run.function.arguments[:-2]]
    addresses = [(name, 8 * (k - ROOM)) for name in names for k in range(2 * ROOM)]
    run.memory = {address: Dual(*pair) for address, *pair in zip(addresses, x, v, strict=True)}
    assert run.run([*((name, 0) for name in names), *sizes], limit=200_000)
    return np.array([run.memory[address].t for address in addresses])


def call(compiled: Any, name: str, result: Any, x: np.ndarray, bar: np.ndarray, sizes: Any) -> Any:
    """Call a function with the arrays that are joined in `x`, and their shadows in `bar`."""
    starts = range(0, len(x), 2 * ROOM)
    arrays = [part[start : start + 2 * ROOM] for start in starts for part in (x, bar)]
    prototype = ctypes.CFUNCTYPE(result, *[ctypes.c_void_p] * len(arrays), *[ctypes.c_int64] * 2)
    function = prototype(compiled.engine.get_function_address(name))
    return function(*(array.ctypes.data + 8 * ROOM for array in arrays), *sizes)


def check(seed: int, checked: bool, kind: type[Nest] = Nest) -> int:
    """How many sizes were compared."""
    text = kind(random.Random(seed)).text
    compiled, plan = derivative(text, checked)
    function = parse_module(normalise(text, "f")).functions["f"]
    compared = 0
    for sizes in SIZES:
        numbers = np.random.default_rng(seed)
        x, v, w = numbers.uniform(-1.0, 1.0, size=(3, 2 * ROOM * len(kind.pointers)))
        bar = w.copy()
        if plan.assumptions and not call(
            compiled, "f.holds", ctypes.c_bool, x.copy(), bar, sizes=sizes
        ):
            continue
        call(compiled, "f.gradient", None, x.copy(), bar, sizes=sizes)
        wanted = w @ directional(function, sizes, x, v)
        np.testing.assert_allclose(bar @ v, wanted, rtol=1e-9, atol=1e-9)
        compared += 1
    return compared


@pytest.mark.parametrize("block", range(4))
def test_gradient(block: int) -> None:
    assert sum(check(seed, True) for seed in range(6 * block, 6 * block + 6)) > 20


def test_gradient_of_nests_that_read_again() -> None:
    assert sum(check(seed, True, ReadingNest) for seed in range(12)) > 60


def test_gradient_of_nests_that_read_neighbours() -> None:
    assert sum(check(seed, True, WindowNest) for seed in range(12)) > 60


def test_gradient_of_nests_that_choose() -> None:
    assert sum(check(seed, True, ChoiceNest) for seed in range(12)) > 60
