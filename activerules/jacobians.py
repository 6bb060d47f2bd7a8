"""Jacobians by forward mode, written in Numba on top of `autodiff(Forward, ...)`.

One run of the function carries `WIDTH` tangents: unit vectors for as many numbers of the argument.
The code for a call is made from its types: what kind each argument is, and which arrays the
function writes, so that it works on copies of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload, register_jitable

from activerules.annotations.activity import BatchDuplicated, Duplicated
from activerules.annotations.signature import Forward
from activerules.annotations.values import make_zero, onehot
from activerules.autodiff import autodiff
from activerules.errors import ActivityError
from activerules.numba_ext import checks
from activerules.numba_ext.checks import Argument
from activerules.numba_ext.forward_forms import compiled_forward, compiles_for_derivative
from activerules.numba_ext.gradient import ActivityName
from activerules.numba_ext.intrinsics import dispatcher_of_type
from activerules.numba_ext.overwriting import overwrite
from activerules.numba_ext.types import SpecType
from activerules.rules.pattern import type_name
from activerules.rules.written import function_from

WIDTH = 4


def jacobian_forward(spec: Any, function: Any, *args: Any) -> Any:
    """Stand for the Jacobian by forward mode; only called from compiled stubs."""
    raise NotImplementedError("this function only has a compiled form")


@overload(jacobian_forward)
def _jacobian_forward(spec, function, *args):
    if not isinstance(spec, SpecType):
        return None
    request = spec.value
    dispatcher = dispatcher_of_type(function)
    names = checks.read_arity(dispatcher, len(args))
    found = tuple(map(types.unliteral, args))
    if request.holomorphic:
        arguments = [
            Argument(name, ty, "duplicated" if k in request.argnums else "const")
            for k, (name, ty) in enumerate(zip(names, found, strict=True))
        ]
        result = compiled_forward(dispatcher, arguments, True, 1).result_type
        require_holomorphic(dispatcher, names, found, request.argnums, result)
    for i in () if request.holomorphic else request.argnums:
        with checks.naming(dispatcher):
            _require_direction(names[i], found[i])
    lines = ["def impl(spec, function, *args):"]
    lines += [f"x{k} = args[{k}]" for k in range(len(args))]
    for i in request.argnums:
        lines += _block(dispatcher, names, found, i)
    results = [f"jac{i}" for i in request.argnums]
    lines.append("return " + (results[0] if request.single else f"({', '.join(results)},)"))
    return compiled_source("\n    ".join(lines))


def element_of(found: Any) -> Any:
    """The type of an array's elements, or of a number."""
    return found.dtype if isinstance(found, types.Array) else types.unliteral(found)


def is_complex(found: Any) -> bool:
    """Whether a type is that of complex numbers, or of an array of them."""
    return isinstance(element_of(found), types.Complex)


def require_holomorphic(
    dispatcher: Any, names: Sequence[str], found: Sequence[Any], argnums: Sequence[int], result: Any
) -> None:
    """Raise `ActivityError` unless arguments and result are complex."""
    rows = [(f"`{names[k]}` is", found[k]) for k in argnums]
    rows.append((f"{dispatcher.py_func.__name__} returns", result))
    for what, ty in rows:
        if not is_complex(ty):
            raise ActivityError(
                f"{what} {type_name(ty)}, and a holomorphic derivative is asked for",
                why="it is that of a complex result by complex numbers, and arrays of them",
                instead=["the Jacobian without holomorphic=True"],
            )


def _require_direction(name: str, found: Any) -> None:
    if isinstance(found, types.Float):
        return
    if isinstance(found, types.Array | types.UniTuple) and isinstance(found.dtype, types.Float):
        return
    raise ActivityError(
        f"`{name}` is {type_name(found)}: there is no Jacobian by it",
        why="argnums names the arguments to differentiate by: floats, arrays and tuples of floats",
        instead=[
            "another argnums",
            "jacrev, for complex numbers; holomorphic=True, if the result is complex too",
            "jvp, which takes any tangent",
        ],
    )


# --- the code of one call ---


def _block(dispatcher: Any, names: Sequence[str], found: Sequence[Any], i: int) -> list[str]:
    """Lines that leave the Jacobian by argument `i` in `jac<i>`."""
    # what is differentiated again is scalar code
    width = 1 if compiles_for_derivative() else WIDTH
    written = written_arrays(dispatcher, names, found, i, width)
    if isinstance(found[i], types.Float | types.Complex):
        push = _push(written, i, f"Duplicated(x{i}, type(x{i})(1.0))")
        return [*copies_of(written), f"jac{i} = {push}"]
    if isinstance(found[i], types.BaseTuple):
        push = _push(written, i, f"BatchDuplicated(x{i}, onehot(x{i}))")
        return [*copies_of(written), f"jac{i} = {push}"]
    lanes = [f"d{i}_{c}" for c in range(width)]
    primal = f"y{i}" if written[i] else f"x{i}"
    push = _push(written, i, f"BatchDuplicated({primal}, ({', '.join(lanes)},))")
    body = [
        *(f"set_unit({lane}, k + {c})" for c, lane in enumerate(lanes)),
        *copies_of(written),
        f"t{i} = {push}",
    ]
    put = [f"put_column(jac{i}, t{i}[{c}], k + {c}, x{i}.size)" for c in range(width)]
    return [
        *(f"{lane} = make_zero(x{i})" for lane in lanes),
        "k = 0",
        *body,
        f"jac{i} = new_jacobian(t{i}[0], x{i})",
        *put,
        f"for k in range({width}, x{i}.size, {width}):",
        *("    " + line for line in (*body, *put)),
    ]


def written_arrays(
    dispatcher: Any, names: Sequence[str], found: Sequence[Any], i: int, width: int
) -> tuple[bool, ...]:
    """Which arguments are arrays that the function writes."""
    activities: list[ActivityName] = ["const"] * len(found)
    activities[i] = "duplicated"
    arguments = [Argument(*one) for one in zip(names, found, activities, strict=True)]
    if isinstance(found[i], types.Float | types.Complex):
        width = 1
    elif isinstance(found[i], types.BaseTuple):
        width = len(found[i])
    gradient = compiled_forward(dispatcher, arguments, True, width)
    return tuple(
        written and isinstance(ty, types.Array)
        for written, ty in zip(gradient.written, found, strict=True)
    )


def copies_of(written: Sequence[bool]) -> list[str]:
    """Lines that copy what the function writes: `y0` of `x0`."""
    return [f"y{k} = copy_of(x{k})" for k, is_written in enumerate(written) if is_written]


def names_of(written: Sequence[bool]) -> list[str]:
    """What to pass for each argument: itself, or its copy."""
    return [f"y{k}" if is_written else f"x{k}" for k, is_written in enumerate(written)]


def _push(written: Sequence[bool], i: int, annotated: str) -> str:
    args = names_of(written)
    args[i] = annotated
    return f"autodiff(Forward, function, {', '.join(args)})"


def compiled_source(source: str, **more: Any) -> Any:
    """The function `impl` of a source text, which may call what is defined here."""
    scope = {
        **more,
        "autodiff": autodiff,
        "Forward": Forward,
        "Duplicated": Duplicated,
        "BatchDuplicated": BatchDuplicated,
        "make_zero": make_zero,
        "onehot": onehot,
        "set_unit": set_unit,
        "copy_of": copy_of,
        "new_jacobian": new_jacobian,
        "put_column": put_column,
    }
    return function_from(source, "impl", scope, module=__name__)


# --- what the code calls ---


@register_jitable
def set_unit(direction, k, unit=1.0):
    """Make an array zero, but for a one (or `unit`) in place `k`, if it has one."""
    direction[...] = 0.0
    if k < direction.size:
        direction.flat[k] = unit


@register_jitable
def copy_of(x):
    """A copy with the strides of `x`."""
    y = make_zero(x)
    overwrite(y, x)
    return y


def new_jacobian(column: Any, x: Any) -> Any:
    """Memory for a Jacobian with columns like `column`, by an array `x`."""
    raise NotImplementedError("this function only has a compiled form")


@overload(new_jacobian)
def _new_jacobian(column, x):
    if isinstance(column, types.Array):
        return lambda column, x: np.empty(column.shape + x.shape, column.dtype)
    if isinstance(column, types.BaseTuple):
        items = "".join(f"new_jacobian(column[{i}], x), " for i in range(len(column)))
        return _helper(f"def impl(column, x): return ({items})", new_jacobian=new_jacobian)
    if isinstance(column, types.NoneType):
        return lambda column, x: None
    return lambda column, x: np.empty(x.shape, type(column))


def put_column(jacobian: Any, column: Any, k: int, n: int) -> None:
    """Write column `k` of `n`; nothing if there is no such column."""
    raise NotImplementedError("this function only has a compiled form")


@overload(put_column)
def _put_column(jacobian, column, k, n):
    if isinstance(column, types.Array):

        def put_array(jacobian, column, k, n):
            if k < n:
                rows = jacobian.reshape((column.size, n))
                r = 0
                for value in column.flat:
                    rows[r, k] = value
                    r += 1

        return put_array
    if isinstance(column, types.BaseTuple):
        parts = [f"put_column(jacobian[{i}], column[{i}], k, n)" for i in range(len(column))]
        source = f"def impl(jacobian, column, k, n): {'; '.join(parts) or 'pass'}"
        return _helper(source, put_column=put_column)
    if isinstance(column, types.NoneType):
        return lambda jacobian, column, k, n: None

    def put_number(jacobian, column, k, n):
        if k < n:
            jacobian.reshape(n)[k] = column

    return put_number


def _helper(source: str, **names: Any) -> Any:
    return function_from(source, "impl", names, module=__name__)
