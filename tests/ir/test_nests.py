"""Gradients of random loop nests that work in place, against exact directional derivatives."""

from __future__ import annotations

import ctypes
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from activerules.ir.generate.assemble import assemble, generate
from activerules.ir.llvm.model import Module
from activerules.ir.llvm.parser import parse_module
from activerules.ir.normal.normalise import exposed, normalise
from activerules.ir.plan.plan import Plan
from activerules.ir.plan.planning import make_plan
from activerules.ir.plan.request import Parameter, Request
from tests.ir.harness import compile_text
from tests.ir.interpreter import Interpreter
from tests.ir.nests import Nest

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


def planned(text: str, checked: bool) -> tuple[Module, Plan]:
    module = parse_module(normalise(exposed(text), "f"))
    function = module.functions["f"]
    a, n, m = function.arguments
    parameters = (
        Parameter(a, "duplicated", "a"),
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


def directional(text: str, sizes: tuple[int, int], x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """How the memory that is left changes with the memory at the start, in the direction `v`."""
    run = Interpreter(parse_module(normalise(text, "f")).functions["f"])
    for k in range(2 * ROOM):
        run.memory["a", 8 * (k - ROOM)] = Dual(x[k], v[k])
    assert run.run([("a", 0), *sizes])
    return np.array([run.memory["a", 8 * (k - ROOM)].t for k in range(2 * ROOM)])


def call(compiled: Any, name: str, result: Any, *arrays: np.ndarray, sizes: Any) -> Any:
    prototype = ctypes.CFUNCTYPE(result, *[ctypes.c_void_p] * len(arrays), *[ctypes.c_int64] * 2)
    function = prototype(compiled.engine.get_function_address(name))
    return function(*(array.ctypes.data + 8 * ROOM for array in arrays), *sizes)


def check(seed: int, checked: bool) -> int:
    """How many sizes were compared."""
    text = Nest(random.Random(seed)).text
    compiled, plan = derivative(text, checked)
    compared = 0
    for sizes in SIZES:
        numbers = np.random.default_rng(seed)
        x, v, w = numbers.uniform(-1.0, 1.0, size=(3, 2 * ROOM))
        bar = w.copy()
        if plan.assumptions and not call(
            compiled, "f.holds", ctypes.c_bool, x.copy(), bar, sizes=sizes
        ):
            continue
        call(compiled, "f.gradient", None, x.copy(), bar, sizes=sizes)
        wanted = w @ directional(text, sizes, x, v)
        np.testing.assert_allclose(bar @ v, wanted, rtol=1e-9, atol=1e-9)
        compared += 1
    return compared


@pytest.mark.parametrize("block", range(4))
def test_gradient(block: int) -> None:
    assert sum(check(seed, True) for seed in range(6 * block, 6 * block + 6)) > 20
