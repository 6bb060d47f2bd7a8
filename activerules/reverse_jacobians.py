"""`jacrev` and `jacobian`: whole Jacobians by reverse mode, or by the mode with fewer sweeps.

The reverse mode runs the primal once and then sweeps over one tape, each for `WIDTH` entries of the
result (one, where sweeps for several share no code); the forward mode is that of `jacfwd`. As the
tape does not depend on the arguments' memory, what the function wrote into them is taken back at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from activerules.annotations.activity import Active, Annotation, BatchDuplicated, Const, Duplicated
from activerules.annotations.signature import SplitSpec
from activerules.annotations.values import make_zero
from activerules.errors import ActivityError, UnknownOption
from activerules.everyday import ArgNums, DerivedFunction
from activerules.jacobians import (
    WIDTH,
    element_of,
    is_complex,
    jacobian_forward,
    require_holomorphic,
    set_unit,
)
from activerules.numba_ext import checks
from activerules.numba_ext.cotangents import copied
from activerules.numba_ext.emitter import Call
from activerules.numba_ext.factories import give_factory_form
from activerules.numba_ext.forward_forms import compiles_for_derivative
from activerules.numba_ext.intrinsics import dispatcher_of_type
from activerules.numba_ext.kinds import is_number, shadow_type
from activerules.numba_ext.overwriting import overwrite
from activerules.numba_ext.pullback import read_plain
from activerules.numba_ext.split import read_split
from activerules.numba_ext.types import AnnotationType
from activerules.pullback import spec_of, vjp_stub
from activerules.rules.pattern import type_name
from activerules.rules.written import function_from
from activerules.thunk import play, record


def jacrev(function: Callable[..., Any], argnums: ArgNums = 0, **options: Any) -> DerivedFunction:
    """Return the Jacobian of a function, by reverse mode.

    Arguments
        function  an `@njit` function or a plain one that Numba can compile; it returns a number or
                  an array of numbers.
        argnums   the argument to differentiate by (a number or an array of numbers), or a tuple of
                  them; not both the argument and the result may be complex.
        holomorphic=True   f'(z), where arguments and result are complex; that the function is
                  holomorphic is the caller's word.
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

    Cost      the primal once, and one reverse sweep per four entries of the result (per entry if
              a rule in the function allows no more), two if it is complex.

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
    result, recorded, lanes = _recorded(function, dispatcher, args, request.argnums)
    if not is_number(element_of(result)):
        raise ActivityError(
            f"a Jacobian of {dispatcher.py_func.__name__}, which returns {type_name(result)}",
            why="it is made of a number or one array of numbers",
            instead=["vjp, which takes the cotangent of such a result"],
        )
    if request.holomorphic:
        require_holomorphic(dispatcher, names, args, request.argnums, result)
    elif is_complex(result):
        _require_real(names, args, request.argnums)
    source = [*recorded, *_rows(request, result, args, lanes)]
    return _compiled(source, dispatcher, args, request.argnums, lanes)


@overload(jacobian_by_size)
def _jacobian_by_size(spec, function, *args):
    request = spec.value
    if compiles_for_derivative():
        return lambda spec, function, *args: jacobian_forward(spec, function, *args)
    dispatcher = dispatcher_of_type(function)
    arrays = [k for k in request.argnums if isinstance(args[k], types.Array)]
    if request.holomorphic or any(is_complex(args[k]) for k in request.argnums):
        return lambda spec, function, *args: jacobian_reverse(spec, function, *args)
    plain = all(isinstance(element_of(args[k]), types.Float) for k in request.argnums)
    if not (arrays and plain):
        return lambda spec, function, *args: jacobian_forward(spec, function, *args)
    result, recorded, lanes = _recorded(function, dispatcher, args, request.argnums)
    if isinstance(result, types.BaseTuple):
        return lambda spec, function, *args: jacobian_forward(spec, function, *args)
    if not isinstance(result, types.Array):
        return lambda spec, function, *args: jacobian_reverse(spec, function, *args)
    forward = " + ".join(f"(x{k}.size + {WIDTH - 1}) // {WIDTH}" for k in arrays)
    forward += f" + {len(request.argnums) - len(arrays)}"
    reverse = f"(out.size + {WIDTH - 1}) // {WIDTH}" if lanes else "out.size"
    names = ", ".join(f"x{k}" for k in range(len(args)))
    blocks = ["forward"] if request.single else [f"forward[{i}]" for i in _places(request)]
    source = [
        *recorded,
        f" if {reverse} > {forward}:",
        f"  forward = jacobian_forward(spec, function, {names})",
        f"  return {_result([f'copied({one})' for one in blocks], request.single)}",
        *_rows(request, result, args, lanes),
    ]
    return _compiled(source, dispatcher, args, request.argnums, lanes)


def _places(request: Any) -> range:
    return range(len(request.argnums))


def _recorded(
    function: Any, dispatcher: Any, args: Sequence[Any], argnums: Sequence[int]
) -> tuple[Any, list[str], SplitSpec | None]:
    """The type of the result; lines that leave `out` and what to sweep over (`pullback`, or the
    `tape` of several lanes), the arguments as they were; and how several lanes are asked for, if
    they are.
    """
    found = tuple(map(types.unliteral, args))
    plain = spec_of(dispatcher, args, argnums)
    lanes = _lanes(plain, function, found)
    _, call = lanes[1:] if lanes else read_plain(plain, function, found)
    pairs = zip(call.gradient.written, found, strict=True)
    written = [k for k, (w, ty) in enumerate(pairs) if w and isinstance(ty, types.Array)]
    names = ", ".join(f"x{k}" for k in range(len(args)))
    run = [f" out, pullback = record({names})"]
    if lanes:
        arrays = [k for k, kind in enumerate(lanes[0].arguments) if kind is BatchDuplicated]
        run = [f" d{k}_{c} = make_zero(x{k})" for k in arrays for c in range(WIDTH)]
        run.append(f" tape, out, bars = record_lanes(lanes, target, {_annotated(lanes[0])})")
    source = [
        "def impl(spec, function, *args):",
        *(f" x{k} = args[{k}]" for k in range(len(args))),
        *(f" before{k} = copied(x{k})" for k in written),
        *run,
        *(f" overwrite(x{k}, before{k})" for k in written),
    ]
    return call.gradient.result_type, source, lanes[0] if lanes else None


def _lanes(
    plain: SplitSpec, function: Any, found: Sequence[Any]
) -> tuple[SplitSpec, SplitSpec, Call] | None:
    """How to ask for `WIDTH` cotangents in one sweep, if that is possible and of use: the spec, the
    same with the activity of the result, and the call.
    """
    if Duplicated not in plain.arguments:
        return None
    kinds: dict[type[Annotation], type[Annotation]] = {Duplicated: BatchDuplicated}
    spec = replace(plain, arguments=tuple(kinds.get(kind, kind) for kind in plain.arguments))
    asked, call = read_split(spec, function, [
        AnnotationType(kind, ty, types.UniTuple(shadow_type(ty), WIDTH))
        if kind is BatchDuplicated
        else (ty if kind is Const else AnnotationType(kind, ty))
        for kind, ty in zip(spec.arguments, found, strict=True)
    ])  # fmt: skip
    together = call.gradient.width == WIDTH and isinstance(call.gradient.result_type, types.Array)
    return (spec, asked, call) if together else None


def _annotated(spec: SplitSpec) -> str:
    """The arguments of the two halves, with the shadows of all lanes."""
    items = []
    for k, kind in enumerate(spec.arguments):
        shadows = "".join(f"d{k}_{c}, " for c in range(WIDTH))
        text = {
            "BatchDuplicated": f"BatchDuplicated(x{k}, ({shadows}))",
            "Active": f"Active(x{k})",
        }
        items.append(text.get(kind.__name__, f"x{k}"))
    return ", ".join(items)


def _require_numbers(names: Sequence[str], found: Sequence[Any], argnums: Sequence[int]) -> None:
    """Raise `ActivityError` unless the arguments of `argnums` are numbers, or arrays of them."""
    for k in argnums:
        if not is_number(element_of(found[k])):
            raise ActivityError(
                f"`{names[k]}` is {type_name(found[k])}: there is no Jacobian by it",
                why="argnums names the arguments to differentiate by: numbers and arrays of them",
                instead=["another argnums", "vjp or jvp, which take tuples"],
            )


def _require_real(names: Sequence[str], found: Sequence[Any], argnums: Sequence[int]) -> None:
    """Raise `ActivityError` for a complex argument of a function with a complex result."""
    for k in argnums:
        if is_complex(found[k]):
            raise ActivityError(
                f"`{names[k]}` and the result are complex: the Jacobian has four real parts",
                why="a complex number holds two of them, which is all there is if the function is "
                "holomorphic",
                instead=[
                    "holomorphic=True, if it is",
                    "jacobian of the real and of the imaginary part of the result",
                ],
            )


def _rows(request: Any, result: Any, args: Sequence[Any], lanes: SplitSpec | None) -> list[str]:
    """Lines that return the Jacobian: one sweep per `WIDTH` entries of the result, or per entry."""
    argnums = request.argnums
    arrays = [k for k in argnums if isinstance(args[k], types.Array)]
    shape = "out.shape" if isinstance(result, types.Array) else "()"
    made = [
        f" j{k} = np.empty(({'count' if shape != '()' else '1'}, "
        f"{f'x{k}.size' if k in arrays else '1'}), dtype{k})"
        for k in argnums
    ]
    # by a real number x, the cotangents 1 and i of a complex result u + iv give u_x and v_x
    turned = is_complex(result) and not request.holomorphic

    def bar(k: int) -> str:
        flat = ".ravel()" if k in arrays else ""
        if request.holomorphic:  # a cotangent is the conjugate of f'(z) times that of the result
            return f"np.conj(bars[{k}]{flat})"
        return f"bars[{k}]{flat}" + (f" + 1j * turned[{k}]{flat}" if turned else "")

    put = [
        f"  overwrite(j{k}[row], {bar(k)})" if k in arrays else f"  j{k}[row, 0] = {bar(k)}"
        for k in argnums
    ]
    if shape == "()":
        second = ["  turned = pullback(1j)"] * turned
        loop = [" for row in range(1):", "  bars = pullback(1.0)", *second, *put]
        shaped = [f"j{k}.reshape(x{k}.shape)" if k in arrays else f"j{k}[0, 0]" for k in argnums]
    elif lanes:
        loop = _sweeps(lanes, request, argnums, arrays, turned=turned)
        shaped = _shaped(argnums, arrays)
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
        shaped = _shaped(argnums, arrays)
    count = [" count = out.size"] if shape != "()" else []
    return [*count, *made, *loop, f" return {_result(shaped, request.single)}"]


def _shaped(argnums: Sequence[int], arrays: Sequence[int]) -> list[str]:
    return [
        f"j{k}.reshape(out.shape + x{k}.shape)" if k in arrays else f"j{k}.reshape(out.shape)"
        for k in argnums
    ]


def _sweeps(
    lanes: SplitSpec, request: Any, argnums: Sequence[int], arrays: Sequence[int], *, turned: bool
) -> list[str]:
    """Lines that fill the Jacobian, `WIDTH` rows at a time; lanes that are left over stay zero."""

    def sweep(unit: str, start: str) -> list[str]:
        """One sweep; what it gives begins the rows, or is added to them."""
        clear = [f"  d{k}_{c}[...] = 0" for k in arrays for c in range(WIDTH)]
        seed = [f"  set_unit(bars[{c}], row + {c}, {unit})" for c in range(WIDTH)]
        play = f"  found = play_lanes(lanes, target, {_annotated(lanes)}, None, tape)"
        put = []
        for c in range(WIDTH):
            put.append(f"  if row + {c} < count:")
            for k in argnums:
                place = f"j{k}[row + {c}{'' if k in arrays else ', 0'}]"
                bar = f"d{k}_{c}.ravel()" if k in arrays else f"found[{k}][{c}]"
                bar = f"np.conj({bar})" if request.holomorphic else bar
                if start:
                    put.append(f"   {place} += {start} * {bar}")
                else:
                    put.append(
                        f"   overwrite({place}, {bar})" if k in arrays else f"   {place} = {bar}"
                    )
        return [*clear, *seed, play, *put]

    loop = f" for row in range(0, count, {WIDTH}):"
    return [loop, *sweep("1.0", ""), *(sweep("1j", "1j") if turned else [])]


def _result(items: Sequence[str], single: bool) -> str:
    return items[0] if single else f"({''.join(item + ', ' for item in items)})"


def _compiled(
    source: Sequence[str],
    dispatcher: Any,
    args: Sequence[Any],
    argnums: Sequence[int],
    lanes: SplitSpec | None,
) -> Any:
    found = tuple(map(types.unliteral, args))
    plain, function = spec_of(dispatcher, args, argnums), types.Dispatcher(dispatcher)
    made = _lanes(plain, function, found) if lanes else None
    _, call = made[1:] if made else read_plain(plain, function, found)
    scope: dict[str, Any] = {
        "np": np,
        "copied": copied,
        "overwrite": overwrite,
        "jacobian_forward": jacobian_forward,
        "BatchDuplicated": BatchDuplicated,
        "Active": Active,
        "lanes": lanes,
        "make_zero": make_zero,
        "play_lanes": play,
        "record_lanes": record,
        "set_unit": set_unit,
        "target": dispatcher,
        "dtype": np.dtype(str(element_of(call.gradient.result_type))),
    }
    if lanes is None:
        scope["record"] = vjp_stub(dispatcher, args, argnums)
    for k in argnums:
        own = np.dtype("c8") if is_complex(args[k]) else np.dtype("f4")
        scope[f"dtype{k}"] = np.result_type(scope["dtype"], own)
    return function_from("\n".join(source), "impl", scope, module=__name__)


class _ReverseJacobian(DerivedFunction):
    form = staticmethod(jacobian_reverse)
    kind = "jacrev"
    own_options = ("holomorphic",)


class _ForwardJacobian(DerivedFunction):
    form = staticmethod(jacobian_forward)
    kind = "jacobian"
    own_options = ("holomorphic",)


class _Jacobian(DerivedFunction):
    form = staticmethod(jacobian_by_size)
    kind = "jacobian"
    own_options = ("holomorphic",)


_MODES: dict[str, type[DerivedFunction]] = {
    "auto": _Jacobian,
    "forward": _ForwardJacobian,
    "reverse": _ReverseJacobian,
}


give_factory_form(jacrev)
give_factory_form(jacobian)
