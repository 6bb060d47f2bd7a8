"""Gradients of random loop nests that work in place, against exact directional derivatives."""

from __future__ import annotations

import ctypes
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from activerules.ir.foreign.differentiate import differentiate
from activerules.ir.generate.assemble import assemble, generate
from activerules.ir.llvm.model import Function, Module
from activerules.ir.llvm.parser import parse_module
from activerules.ir.plan.layout import Layout, make_array_layout, without_rows
from activerules.ir.plan.plan import Plan
from activerules.ir.plan.planning import make_plan
from activerules.ir.plan.request import Caller, Parameter, Request, Returned
from activerules.ir.text.normalise import exposed, normalise
from tests.ir.harness import Const, Duplicated, compile_text
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
    returned, caller = Returned("const"), Caller(checked=checked)
    request = Request(module, function, "f", parameters, returned, caller=caller)
    return module, make_plan(request)


def derivative(text: str, checked: bool) -> tuple[Any, Plan]:
    module, plan = planned(text, checked)
    return compile_text(generated(module, plan, None)), plan


def generated(module: Module, plan: Plan, layout: Layout | None) -> str:
    """The text of the module with the gradient."""
    functions, declarations, _ = generate(plan, layout)
    for one in functions:
        one.prefix = ""
    return assemble(module, functions, declarations, whole=True)


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


def run(compiled: Any, name: str, arrays: list[list[np.ndarray]], sizes: tuple[int, int]) -> None:
    """Call a function of pointers into arrays: those of the first parameter, the second, …"""
    pointers = [array for each in zip(*arrays, strict=True) for array in each]
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers), *[ctypes.c_int64] * 2)
    function = prototype(compiled.engine.get_function_address(name))
    function(*(array.ctypes.data + 8 * ROOM for array in pointers), *sizes)


@pytest.mark.parametrize("kind", [Nest, ReadingNest])
def test_gradients_that_keep_values_in_arrays_are_differentiated_again(kind: type[Nest]) -> None:
    """Their tangents against finite differences of gradients with a tape, and their gradients
    against their tangents.
    """
    differentiated = 0
    for seed in range(12):
        if differentiated > 8:
            break
        text = kind(random.Random(seed)).text
        compiled, plan = derivative(text, True)
        plan = without_rows(plan)
        layout = make_array_layout(plan)
        if layout is None or layout.arrays is None or not layout.arrays.entries:
            continue
        again = generated(plan.request.module, plan, layout)
        count = len(kind.pointers)
        both: list[type] = [Duplicated] * (2 * count) + [Const, Const]
        forward, reverse = (
            compile_text(differentiate(again, "f.gradient", both, mode, return_activity=Const))
            for mode in ("forward", "reverse")
        )
        numbers = np.random.default_rng(seed)
        size = 2 * ROOM * count
        x, v, w, u, x_bar, w_bar = numbers.uniform(-1.0, 1.0, size=(6, size))
        for sizes in SIZES[1:5]:
            holds = x.copy(), w.copy()
            if plan.assumptions and not call(compiled, "f.holds", ctypes.c_bool, *holds, sizes):
                continue

            def gradient(h: float) -> np.ndarray:
                bar = w + h * u
                call(compiled, "f.gradient", None, x + h * v, bar, sizes)
                return bar

            def split(array: np.ndarray) -> list[np.ndarray]:
                return list(array.reshape(-1, 2 * ROOM))

            x_dot, w_dot = v.copy(), u.copy()
            tangents = [split(a) for a in (x.copy(), x_dot, w.copy(), w_dot)]
            run(forward, "f.gradient.forward", tangents, sizes)
            coarse, fine = ((gradient(h) - gradient(-h)) / (2 * h) for h in (2e-4, 1e-4))
            error = np.abs(coarse - fine).max()
            np.testing.assert_allclose(w_dot, (4 * fine - coarse) / 3, atol=1e-7 + error)
            x_after, w_after = x_bar.copy(), w_bar.copy()
            cotangents = [split(a) for a in (x.copy(), x_after, w.copy(), w_after)]
            run(reverse, "f.gradient.gradient", cotangents, sizes)
            np.testing.assert_allclose(
                x_after @ v + w_after @ u, x_bar @ x_dot + w_bar @ w_dot, rtol=1e-9, atol=1e-9
            )
            differentiated += 1
    assert differentiated > 8
