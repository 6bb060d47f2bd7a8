"""Run a function of an `.ll` text and its gradient in this process, and compare with finite
differences.

Arguments are Python floats and ints, and NumPy arrays for memory: a structured dtype is a C
struct, and a `Pointer` field of it leads to another array. The shadow of an array has its
layout; where the array holds pointers, the shadow holds pointers to shadows.

What is compared: for random cotangents of everything the function leaves behind (its memory and
its result), the cotangents of everything it starts from. A shadow holds the first when the
gradient is called and the second when it returns, so shadows never start at zero, and memory
that is overwritten must come out with a zero.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from activerules.annotations.activity import Active, Const, Duplicated
from activerules.ir.foreign.aliases import own_names
from activerules.ir.foreign.differentiate import differentiate
from activerules.ir.llvm.model import Function
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.types import FloatType, IntType, Type, WordType
from activerules.testing.schemes import central_fdm

__all__ = ["Active", "Compiled", "Const", "Duplicated", "Struct", "check_gradient", "compile_text"]

_unique = itertools.count()


@dataclass
class Struct:
    """A C struct: `array` (one structured element or more), with pointers to other memory.

    `pointers` maps a field (of type u8, in element 0) to an array or a Struct.
    """

    array: np.ndarray
    pointers: dict[str, Any] = field(default_factory=dict)


class Compiled:
    """A module in memory that can be executed; `function(name)` gives a ctypes callable."""

    def __init__(self, text: str, opt: int | None = 2) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple()
        machine = target.create_target_machine(opt=0, codemodel="jitdefault")  # `opt` is of passes
        module = llvm.parse_assembly(text)
        module.verify()
        self.module_functions = {f.name.strip('"'): f for f in parse_module(str(module)).defined()}
        for alias, own in own_names(str(module)).items():
            self.module_functions[alias] = self.module_functions[own]
        if opt is not None:
            builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(opt))
            builder.getModulePassManager().run(module, builder)
        self.engine = llvm.create_mcjit_compiler(module, machine)
        _load_libraries()
        undefined = [
            f.name
            for f in module.functions
            if f.is_declaration
            and not f.name.startswith("llvm.")
            and "personality" not in f.name  # of code that catches nothing; never called
            and llvm.address_of_symbol(f.name) is None
        ]
        assert not undefined, f"the process would end at the first call of {undefined}"
        self.engine.finalize_object()

    def function(self, name: str, module_function: Function | None = None) -> Callable[..., Any]:
        """The function as a ctypes callable, with the types of its IR signature."""
        f = module_function or self.module_functions[name]
        address = self.engine.get_function_address(name)
        assert address, name
        prototype = ctypes.CFUNCTYPE(_ctype(f.result), *(_ctype(a.type) for a in f.arguments))
        call = prototype(address)
        call.engine = self.engine  # type: ignore[attr-defined]
        return call


@cache
def _load_libraries() -> None:
    """What the machine code calls: libm, the run time of compilers (`llvm.powi`), exceptions."""
    for name in ("libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"):
        llvm.load_library_permanently(name)


def compile_text(text: str, opt: int | None = 2) -> Compiled:
    """Compile; `opt` None: no pass at all."""
    return Compiled(text, opt)


def _ctype(t: Type) -> Any:
    match t:
        case WordType("void"):
            return None
        case FloatType("double"):
            return ctypes.c_double
        case FloatType("float"):
            return ctypes.c_float
        case IntType(bits):
            return {
                1: ctypes.c_bool,
                8: ctypes.c_int8,
                16: ctypes.c_int16,
                32: ctypes.c_int32,
                64: ctypes.c_int64,
            }[bits]
        case _:
            return ctypes.c_void_p


# --- memory as arguments ---


def _copied(value: Any, copies: dict[int, Any]) -> Any:
    """A deep copy in which what was one piece of memory stays one."""
    if isinstance(value, np.ndarray):
        if id(value) not in copies:
            copies[id(value)] = value.copy()
        return copies[id(value)]
    if isinstance(value, Struct):
        if id(value) not in copies:
            made = Struct(value.array.copy(), {})
            copies[id(value)] = made
            made.pointers = {k: _copied(v, copies) for k, v in value.pointers.items()}
            for name, target in made.pointers.items():
                made.array[name][0] = _address(target)
        return copies[id(value)]
    return value


def _copies(values: Sequence[Any]) -> list[Any]:
    copies: dict[int, Any] = {}
    return [_copied(v, copies) for v in values]


def _address(value: Any) -> int:
    return (value.array if isinstance(value, Struct) else value).ctypes.data


def _floats(values: Sequence[Any]) -> Iterator[np.ndarray]:
    """Views of the float arrays reached from arguments, each once, in a fixed order."""
    seen: set[int] = set()
    work = list(values)
    while work:
        value = work.pop(0)
        if isinstance(value, Struct):
            if id(value) in seen:
                continue
            seen.add(id(value))
            for name in value.array.dtype.names or ():
                if value.array.dtype[name].base.kind == "f":
                    yield value.array[name]
            work += value.pointers.values()
        elif isinstance(value, np.ndarray) and id(value) not in seen and value.dtype.kind == "f":
            seen.add(id(value))
            yield value


def _passed(value: Any) -> Any:
    return _address(value) if isinstance(value, np.ndarray | Struct) else value


# --- the check ---


def check_gradient(
    text: str,
    function: str,
    activities: Sequence[type],
    args: Sequence[Any],
    *,
    seed: int = 0,
    opt: int | None = 2,
    tolerance: float = 1e-6,
    calls: int = 2,
) -> str:
    """Assert that the gradient is what finite differences say, and acts on memory as the primal.

    Gives the text that `differentiate` returned.
    """
    derivative_text = differentiate(text, function, list(activities))
    compiled = compile_text(derivative_text, opt)
    primal, gradient = compiled.function(function), compiled.function(f"{function}.gradient")
    for call in range(calls):
        _check_call(
            primal,
            gradient,
            compiled,
            function,
            activities,
            args,
            np.random.default_rng(seed + call),
            tolerance,
        )
    return derivative_text


def _check_call(primal, gradient, compiled, function, activities, args, rng, tolerance) -> None:
    """One call with random cotangents."""
    f = compiled.module_functions[function]
    returns = f.result.is_float
    weight = float(rng.normal()) if returns else 0.0
    duplicated = [k for k, a in enumerate(activities) if a is Duplicated]
    active = [k for k, a in enumerate(activities) if a is Active]
    shadows = _copies([args[k] for k in duplicated])
    for view in _floats(shadows):
        view[...] = rng.normal(size=view.shape)
    cotangents = [view.copy() for view in _floats(shadows)]

    def objective(values: list[Any]) -> float:
        result = primal(*map(_passed, values))
        outputs = list(_floats([values[k] for k in duplicated]))
        total = weight * result if returns else 0.0
        return total + sum(
            float(np.sum(c.astype(float) * v)) for c, v in zip(cotangents, outputs, strict=True)
        )

    single = any(v.dtype == np.float32 for v in _floats(args)) or any(
        a.type == FloatType("float") for a in f.arguments
    )
    expected_scalars = [_slope(objective, args, k, None, None, single) for k in active]
    expected = [
        np.array(
            [
                _slope(objective, args, None, (n, index), duplicated, single)
                for index in np.ndindex(view.shape)
            ]
        ).reshape(view.shape)
        for n, view in enumerate(_floats([args[k] for k in duplicated]))
    ]
    after = _copies(args)
    primal(*map(_passed, after))
    mine = _copies(args)
    got = _call_gradient(
        gradient,
        compiled,
        function,
        mine,
        dict(zip(duplicated, shadows, strict=True)),
        activities,
        weight,
    )
    for a, b in zip(_floats(after), _floats(mine), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, err_msg="memory the gradient leaves behind")
    limit = max(tolerance, 2e-2 if single else 0.0)
    for k, number, slope in zip(active, got, expected_scalars, strict=True):
        np.testing.assert_allclose(
            number, slope, rtol=limit, atol=limit, err_msg=f"derivative of argument {k}"
        )
    for n, (view, slope) in enumerate(zip(_floats(shadows), expected, strict=True)):
        np.testing.assert_allclose(view, slope, rtol=limit, atol=limit, err_msg=f"shadow {n}")


def _slope(objective, args, scalar: int | None, entry, duplicated, single: bool) -> float:
    """The derivative of the objective along one number of the input.

    single   whether it is computed in single precision, which does not show in what it returns
    """
    if scalar is not None:
        start = float(args[scalar])
    else:
        n, index = entry
        start = float(list(_floats([args[k] for k in duplicated]))[n][index])

    def along(x: float) -> float:
        values = _copies(args)
        if scalar is not None:
            values[scalar] = x
        else:
            list(_floats([values[k] for k in duplicated]))[n][index] = x
        return objective(values)

    return central_fdm(3).estimate(along, start, eps=1e-7 if single else None)[0]


def _call_gradient(gradient, compiled, function, args, shadows, activities, weight) -> list[float]:
    """Call it by its documented signature; gives the derivatives of the Active parameters."""
    f = compiled.module_functions[function]
    passed: list[Any] = []
    for k, value in enumerate(args):
        passed.append(_passed(value))
        if k in shadows:
            passed.append(_passed(shadows[k]))
    if f.result.is_float:
        passed.append(weight)
    g = compiled.module_functions[f"{function}.gradient"]
    active = [f.arguments[k].type for k, a in enumerate(activities) if a is Active]
    if not active:
        gradient(*passed)
        return []

    class Derivatives(ctypes.Structure):
        _fields_ = [(f"d{k}", _ctype(t)) for k, t in enumerate(active)]

    result = Derivatives()
    shim = _shim(compiled, g, len(passed))
    shim(ctypes.addressof(result), *passed)
    return [getattr(result, f"d{k}") for k in range(len(active))]


def _shim(compiled: Compiled, g: Function, count: int) -> Callable[..., Any]:
    """A wrapper that writes the returned struct through a pointer.

    ctypes and LLVM return structs of more than two registers differently.
    """
    key = f"shim.{g.name}"
    known = compiled.__dict__.setdefault("shims", {})
    if key not in known:
        name = f"activerules.test.shim{next(_unique)}"
        parameters = ", ".join(f"{a.type} %p{k}" for k, a in enumerate(g.arguments))
        types = ", ".join(str(a.type) for a in g.arguments)
        address = compiled.engine.get_function_address(g.name.strip('"'))
        text = (
            f"define void @{name}(ptr %out, {parameters}) {{\n"
            f"  %r = call {g.result} inttoptr (i64 {address} to ptr)({parameters})\n"
            f"  store {g.result} %r, ptr %out\n  ret void\n}}\n"
        )
        other = Compiled(text, None)
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *(_ctype(a.type) for a in g.arguments))
        known[key] = (prototype(other.engine.get_function_address(name)), other, types, count)
    return known[key][0]
