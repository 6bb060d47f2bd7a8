"""`jacrev` and `jacobian`: whole Jacobians by reverse mode, or by the mode with fewer sweeps.

The reverse mode runs the primal once and then a sweep per entry of the result, over one tape; the
forward mode is that of `jacfwd`. As the tape does not depend on the arguments' memory, what the
function wrote into them is taken back at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from activerules.errors import ActivityError, UnknownOption
from activerules.everyday import ArgNums, DerivedFunction
from activerules.jacobians import WIDTH, jacobian_forward
from activerules.numba_ext import checks
from activerules.numba_ext.cotangents import copied
from activerules.numba_ext.factories import give_factory_form
from activerules.numba_ext.forward_forms import compiles_for_derivative
from activerules.numba_ext.intrinsics import dispatcher_of_type
from activerules.numba_ext.kinds import is_number
from activerules.numba_ext.overwriting import overwrite
from activerules.numba_ext.pullback import read_plain
from activerules.pullback import spec_of, vjp_stub
from activerules.rules.pattern import type_name
from activerules.rules.written import function_from


def jacrev(function: Callable[..., Any], argnums: ArgNums = 0, **options: Any) -> DerivedFunction:
    """Return the Jacobian of a function, by reverse mode.

    Arguments
        function  an `@njit` function or a plain one that Numba can compile; it returns a number or
                  an array of numbers.
        argnums   the argument to differentiate by (a number or an array of numbers), or a tuple of
                  them; not both the argument and the result may be complex.
        options   cache, fastmath, nogil, error_model: what they mean in `numba.njit`.

    Returns
        A function with the signature of `function`, callable from Python and inside `@njit`. Its
        result has the shape `out.shape + in.shape` and the dtype of the result (a float where both
        are floats); with a tuple of `argnums` it is a tuple of these. Of a complex result it is the
        derivative by the real argument; by a complex argument x + iy of a real result it is
        ∂/∂x + i ∂/∂y, as the gradient is. Arguments the function writes into are left as they were.

    Raises
        ActivityError (at the call) if the result or an argument of `argnums` is not made of
        numbers, or both are complex; ArityError if there is no such argument; and what `autodiff`
        raises.

    Cost      the primal once, and one reverse sweep per entry of the result, two if it is complex.

    >>> jacrev(lambda x: x * x)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return _ReverseJacobian(function, argnums, options=options)


def jacobian(
    function: Callable[..., Any], argnums: ArgNums = 0, mode: str = "auto", **options: Any
) -> DerivedFunction:
    """Return the Jacobian of a function.

    Arguments
        mode  "reverse" (that of `jacrev`), "forward" (that of `jacfwd`), or "auto": the one that
              has fewer sweeps to run for the sizes of result and arguments.
        the others are those of `jacrev`, which also says what is returned and raised.
    """
    if mode not in _MODES:
        raise UnknownOption(f"jacobian has no mode {mode!r}", instead=[", ".join(_MODES)])
    return _MODES[mode](function, argnums, options=options)


# --- compiled forms ---


def jacobian_reverse(spec: Any, function: Any, *args: Any) -> Any:
    """Stand for the Jacobian by reverse mode; only called from compiled stubs."""
    raise NotImplementedError("this function only has a compiled form")


def jacobian_by_size(spec: Any, function: Any, *args: Any) -> Any:
    """Stand for the Jacobian by either mode; only called from compiled stubs."""
    raise NotImplementedError("this function only has a compiled form")


@overload(jacobian_reverse)
def _jacobian_reverse(spec, function, *args):
    request = spec.value
    if compiles_for_derivative():
        return lambda spec, function, *args: jacobian_forward(spec, function, *args)
    dispatcher = dispatcher_of_type(function)
    names = checks.read_arity(dispatcher, len(args))
    _require_numbers(names, args, request.argnums)
    result, recorded = _recorded(function, dispatcher, args, request.argnums)
    if not is_number(_element(result)):
        raise ActivityError(
            f"a Jacobian of {dispatcher.py_func.__name__}, which returns {type_name(result)}",
            why="it is made of a number or one array of numbers",
            instead=["vjp, which takes the cotangent of such a result"],
        )
    if _is_complex(result):
        _require_real(names, args, request.argnums)
    source = [*recorded, *_rows(request, result, args)]
    return _compiled(source, dispatcher, args, request.argnums)


@overload(jacobian_by_size)
def _jacobian_by_size(spec, function, *args):
    request = spec.value
    if compiles_for_derivative():
        return lambda spec, function, *args: jacobian_forward(spec, function, *args)
    dispatcher = dispatcher_of_type(function)
    arrays = [k for k in request.argnums if isinstance(args[k], types.Array)]
    if any(_is_complex(args[k]) for k in request.argnums):
        return lambda spec, function, *args: jacobian_reverse(spec, function, *args)
    plain = all(isinstance(_element(args[k]), types.Float) for k in request.argnums)
    if not (arrays and plain):
        return lambda spec, function, *args: jacobian_forward(spec, function, *args)
    result, recorded = _recorded(function, dispatcher, args, request.argnums)
    if isinstance(result, types.BaseTuple):
        return lambda spec, function, *args: jacobian_forward(spec, function, *args)
    if not isinstance(result, types.Array):
        return lambda spec, function, *args: jacobian_reverse(spec, function, *args)
    sweeps = " + ".join(f"(x{k}.size + {WIDTH - 1}) // {WIDTH}" for k in arrays)
    sweeps += f" + {len(request.argnums) - len(arrays)}"
    names = ", ".join(f"x{k}" for k in range(len(args)))
    forward = ["forward"] if request.single else [f"forward[{i}]" for i in _places(request)]
    source = [
        *recorded,
        f" if out.size > {sweeps}:",
        f"  forward = jacobian_forward(spec, function, {names})",
        f"  return {_result([f'copied({one})' for one in forward], request.single)}",
        *_rows(request, result, args),
    ]
    return _compiled(source, dispatcher, args, request.argnums)


def _places(request: Any) -> range:
    return range(len(request.argnums))


def _recorded(
    function: Any, dispatcher: Any, args: Sequence[Any], argnums: Sequence[int]
) -> tuple[Any, list[str]]:
    """The type of the result, and lines that leave `out` and `pullback`, the arguments as they
    were.
    """
    found = tuple(map(types.unliteral, args))
    _, call = read_plain(spec_of(dispatcher, args, argnums), function, found)
    pairs = zip(call.gradient.written, found, strict=True)
    written = [k for k, (w, ty) in enumerate(pairs) if w and isinstance(ty, types.Array)]
    names = ", ".join(f"x{k}" for k in range(len(args)))
    return call.gradient.result_type, [
        "def impl(spec, function, *args):",
        *(f" x{k} = args[{k}]" for k in range(len(args))),
        *(f" before{k} = copied(x{k})" for k in written),
        f" out, pullback = record({names})",
        *(f" overwrite(x{k}, before{k})" for k in written),
    ]


def _require_numbers(names: Sequence[str], found: Sequence[Any], argnums: Sequence[int]) -> None:
    """Raise `ActivityError` unless the arguments of `argnums` are numbers, or arrays of them."""
    for k in argnums:
        if not is_number(_element(found[k])):
            raise ActivityError(
                f"`{names[k]}` is {type_name(found[k])}: there is no Jacobian by it",
                why="argnums names the arguments to differentiate by: numbers and arrays of them",
                instead=["another argnums", "vjp or jvp, which take tuples"],
            )


def _require_real(names: Sequence[str], found: Sequence[Any], argnums: Sequence[int]) -> None:
    """Raise `ActivityError` for a complex argument of a function with a complex result."""
    for k in argnums:
        if _is_complex(found[k]):
            raise ActivityError(
                f"`{names[k]}` and the result are complex: the Jacobian has four real parts",
                why="a complex number holds two of them, which is all there is if the function is "
                "holomorphic",
                instead=[
                    "autodiff(Reverse.holomorphic(), …) of one number",
                    "jacobian of the real and of the imaginary part of the result",
                ],
            )


def _is_complex(found: Any) -> bool:
    return isinstance(_element(found), types.Complex)


def _element(found: Any) -> Any:
    return found.dtype if isinstance(found, types.Array) else types.unliteral(found)


def _rows(request: Any, result: Any, args: Sequence[Any]) -> list[str]:
    """Lines that return the Jacobian: one sweep per entry of the result."""
    argnums = list(dict.fromkeys(request.argnums))
    arrays = [k for k in argnums if isinstance(args[k], types.Array)]
    shape = "out.shape" if isinstance(result, types.Array) else "()"
    made = [
        f" j{k} = np.empty(({'count' if shape != '()' else '1'}, "
        f"{f'x{k}.size' if k in arrays else '1'}), dtype{k})"
        for k in argnums
    ]
    # by a real number x, the cotangents 1 and i of a complex result u + iv give u_x and v_x
    turned = _is_complex(result)

    def bar(k: int) -> str:
        flat = ".ravel()" if k in arrays else ""
        return f"bars[{k}]{flat}" + (f" + 1j * turned[{k}]{flat}" if turned else "")

    put = [
        f"  overwrite(j{k}[row], {bar(k)})" if k in arrays else f"  j{k}[row, 0] = {bar(k)}"
        for k in argnums
    ]
    if shape == "()":
        second = ["  turned = pullback(1j)"] * turned
        loop = [" for row in range(1):", "  bars = pullback(1.0)", *second, *put]
        shaped = [f"j{k}.reshape(x{k}.shape)" if k in arrays else f"j{k}[0, 0]" for k in argnums]
    else:
        loop = [
            " entries = np.zeros(count, dtype)",
            " cotangent = entries.reshape(out.shape)",
            " for row in range(count):",
            "  entries[row] = 1.0",
            "  bars = pullback(cotangent)",
            *["  entries[row] = 1j", "  turned = pullback(cotangent)"] * turned,
            "  entries[row] = 0.0",
            *put,
        ]
        shaped = [
            f"j{k}.reshape(out.shape + x{k}.shape)" if k in arrays else f"j{k}.reshape(out.shape)"
            for k in argnums
        ]
    by_number = dict(zip(argnums, shaped, strict=True))
    items = [by_number[k] for k in request.argnums]
    count = [" count = out.size"] if shape != "()" else []
    return [*count, *made, *loop, f" return {_result(items, request.single)}"]


def _result(items: Sequence[str], single: bool) -> str:
    return items[0] if single else f"({''.join(item + ', ' for item in items)})"


def _compiled(
    source: Sequence[str], dispatcher: Any, args: Sequence[Any], argnums: Sequence[int]
) -> Any:
    found = tuple(map(types.unliteral, args))
    _, call = read_plain(spec_of(dispatcher, args, argnums), types.Dispatcher(dispatcher), found)
    scope: dict[str, Any] = {
        "np": np,
        "copied": copied,
        "overwrite": overwrite,
        "jacobian_forward": jacobian_forward,
        "record": vjp_stub(dispatcher, args, argnums),
        "dtype": np.dtype(str(_element(call.gradient.result_type))),
    }
    for k in argnums:
        own = np.dtype("c8") if _is_complex(args[k]) else np.dtype("f4")
        scope[f"dtype{k}"] = np.result_type(scope["dtype"], own)
    return function_from("\n".join(source), "impl", scope, module=__name__)


class _ReverseJacobian(DerivedFunction):
    form = staticmethod(jacobian_reverse)
    kind = "jacrev"


class _ForwardJacobian(DerivedFunction):
    form = staticmethod(jacobian_forward)
    kind = "jacobian"


class _Jacobian(DerivedFunction):
    form = staticmethod(jacobian_by_size)
    kind = "jacobian"


_MODES: dict[str, type[DerivedFunction]] = {
    "auto": _Jacobian,
    "forward": _ForwardJacobian,
    "reverse": _ReverseJacobian,
}


give_factory_form(jacrev)
give_factory_form(jacobian)
