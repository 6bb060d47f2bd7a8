"""`vjp`: a function's result together with its pullback, from Python and inside `@njit`.

`numba_ext.split.pullback` implements pullbacks.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

from numba import njit

from activerules.annotations.activity import (
    BY_NAME,
    Annotation,
    Const,
)
from activerules.annotations.signature import SplitSpec
from activerules.annotations.trees import flattened, restored
from activerules.annotations.values import make_zero
from activerules.api.value_and_aux import constant_aux
from activerules.numba_ext.calls import call_arguments, checks, error_context
from activerules.numba_ext.calls.error_context import run_compiled
from activerules.numba_ext.calls.intrinsics import dispatcher_of_type
from activerules.numba_ext.calls.nested_forms import nested_vjp_stub
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_rules
from activerules.numba_ext.codegen.entry_points import ENTRY_POINT
from activerules.numba_ext.codegen.made_once import COMPILED, LastMade
from activerules.numba_ext.codegen.on_disk import compiled_stub
from activerules.numba_ext.codegen.stubs import Stub
from activerules.numba_ext.codegen.types import AnnotationType, refused_annotation, runtime_type
from activerules.numba_ext.codegen.unoptimised import compiles_for_derivative
from activerules.numba_ext.split.pullback import (
    PullbackApart,
    PullbackType,
    bind,
    data_of,
    make_with_pullback,
    require_kept,
    run_pullback,
)
from activerules.numba_ext.target.dispatchers import require_known, with_options
from activerules.rules.registry import RULES
from activerules.rules.written import function_from, replacement_of
from activerules.values.layout import layout_of

R = TypeVar("R")
A = TypeVar("A")


@typing.overload
def vjp(
    function: Callable[..., R], *primals: Any, has_aux: Literal[False] = False, **options: Any
) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...


@typing.overload
def vjp(
    function: Callable[..., tuple[R, A]], *primals: Any, has_aux: Literal[True], **options: Any
) -> tuple[R, Callable[[Any], tuple[Any, ...]], A]: ...


def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False, **options: Any) -> Any:
    """Return `(out, pullback)`: what the function returns, and the pullback of its cotangents.

    Arguments
        function  an `@njit` function or a plain one that Numba can compile; it returns floats,
                  arrays of floats, or tuples of these. An entry of a tuple may be None.
        primals   its arguments; afterwards they hold what the function wrote into them.
        has_aux=True   the function returns `(value, aux)`, where aux is not differentiated, and the
                  result is `(value, pullback, aux)`; not in compiled functions.
        options   cache, fastmath, nogil, error_model: as in `numba.njit`.

    Returns
        out       the function's result.
        pullback  `pullback(cotangent)`, for a cotangent of the type and shapes of `out`, returns a
                  tuple with one entry per primal: its cotangent, of the primal's type and shape, in
                  new arrays and objects. The entry is None for what carries no derivative
                  (integers, strings, functions, types of other packages). In the cotangent, entries
                  of `out` that are None or have no derivative (integers, arrays of them) may be
                  None. A pullback may be called any number of times, even if primals and `out` have
                  been changed since; but not from two threads at once.

    Raises
        ActivityError   the function returns nothing that has a derivative, the cotangent is not
                        of the type of `out`, or a primal is an annotation.
        NotAFloatReturn the function may return None, and does.
        ShadowMismatch  the cotangent differs from `out` in shape, or is not None for an entry that
                        is None.
        NotYetSupported a primal holds floats and has no shadow: Python's own lists and sets, values
                        that may be None.
        TapeError       two threads call one pullback at once, or its last call raised.
        and what `autodiff` raises.

    Cost      the augmented primal and its tape now, one reverse sweep per call of the pullback.

    >>> out, pullback = vjp(lambda x, y: x * y, 3.0, 4.0)
    >>> out, pullback(1.0), pullback(10.0)
    (12.0, (4.0, 3.0), (40.0, 30.0))
    """
    primals = flattened(primals)
    fingerprint = None if has_aux or options else call_arguments.fingerprint(primals)
    run = _runs.find(function, fingerprint) if fingerprint else None
    if run is not None:
        return restored(run(*primals))
    require_known(options, instead="among the primals, which have no names")
    target, options = with_options(function, options)
    if has_aux:
        parted = constant_aux(target, len(primals))
        (value, aux), pullback = vjp(parted, *primals, **options)
        return value, _OfValue(pullback, make_zero(flattened(aux))), aux
    argtypes = call_arguments.types_of(primals)
    key = ("vjp of", argtypes, repr(sorted(options.items())) if options else "")
    run = COMPILED.find(target, key)
    if run is None:
        require_kept(call_arguments.parameter_names(target, len(argtypes)), argtypes)
        if options.get("cache") or options.get("nogil"):
            run = _apart(target, argtypes, options)
        else:
            run = partial(run_compiled, vjp_stub(target, argtypes))
        COMPILED.put(target, key, run)
    if fingerprint:
        _runs.put(function, fingerprint, run)
    return restored(run(*primals))


# What ran the calls without options, by the function and the types of its arguments.
_runs = LastMade()


class _OfValue:
    """The pullback of the value of a function that returns `(value, aux)`."""

    def __init__(self, pullback: Any, zero: Any) -> None:
        self._pullback, self._zero = pullback, zero

    def __call__(self, cotangent: Any) -> Any:
        """Return the cotangents of the primals."""
        return self._pullback((cotangent, self._zero))

    def __repr__(self) -> str:
        """Return the `repr` of the pullback it is made of."""
        return repr(self._pullback)


@chosen_by_rules(vjp)
def _vjp(function, *primals):
    dispatcher = dispatcher_of_type(function)
    make = nested_vjp_stub if compiles_for_derivative() else vjp_stub
    stub = make(dispatcher, primals)
    return lambda function, *primals: stub(*primals)


def vjp_stub(target: Any, argtypes: Sequence[Any], argnums: Sequence[int] | None = None) -> Any:
    """The compiled function that returns `(out, pullback)` for arguments of these types.

    argnums   the arguments to differentiate with respect to; by default all that can carry a
              derivative.
    """
    return stub_of(target, spec_of(target, argtypes, argnums))


def stub_of(target: Any, spec: SplitSpec) -> Any:
    """The compiled function that returns `(out, pullback)` for a split derivative."""
    return COMPILED.get(target, ("vjp", spec), lambda: _make_stub(target, spec))


def spec_of(target: Any, argtypes: Sequence[Any], argnums: Sequence[int] | None) -> SplitSpec:
    """The split derivative that `vjp` needs for arguments of these types."""
    names = call_arguments.parameter_names(target, len(argtypes))
    chosen = range(len(argtypes)) if argnums is None else argnums
    with error_context.of_call(target):
        kinds = tuple(
            _kind_of(name, runtime_type(ty)) if k in chosen else Const
            for k, (name, ty) in enumerate(zip(names, argtypes, strict=True))
        )
    return SplitSpec(Annotation, kinds, True, repeated=True)


def _kind_of(name: str, ty: Any) -> type[Annotation]:
    """The activity of an argument of type `ty` in which everything that can be active is."""
    if RULES.is_inactive_type(ty):
        return Const
    if isinstance(ty, AnnotationType):
        raise refused_annotation(name, ty)
    node = layout_of(ty)
    if node.activity != "const":
        checks.require_known_leaves(name, ty)
        checks.refuse_records(name, ty, "vjp")
    elif node.numbers.by_value or node.numbers.by_reference:
        checks.require_differentiable(name, ty)  # raises: None would pass for a derivative of zero
    return BY_NAME[node.activity]


def _make_stub(target: Any, spec: SplitSpec) -> Any:
    """The stub for these activities; its parameters have names."""
    names = ", ".join(f"x{k}" for k, _ in enumerate(spec.arguments))
    source = f"def stub({names}): return make(pullback, spec, target, {names})"
    scope = {
        "make": make_with_pullback, "pullback": Stub(_pullback_stub(target, spec)),
        "spec": spec, "target": target,
    }  # fmt: skip
    return _compile_stub(f"vjp_{target.py_func.__name__}", source, scope)


def _pullback_stub(target: Any, spec: SplitSpec) -> Any:
    """The compiled entry of a pullback."""
    source = "def stub(pullback, cotangent): return run_pullback(spec, target, pullback, cotangent)"
    scope = {"run_pullback": run_pullback, "spec": spec, "target": target}
    return _compile_stub(f"pullback_{target.py_func.__name__}", source, scope)


def _compile_stub(name: str, source: str, scope: dict[str, Any]) -> Any:
    stub = function_from(source, "stub", scope, module=__name__, file=__file__)
    stub.__name__ = stub.__qualname__ = name
    return njit(**ENTRY_POINT)(stub)


# --- with options ---


def _apart(
    target: Any, argtypes: tuple[Any, ...], options: dict[str, Any]
) -> Callable[..., tuple[Any, PullbackApart]]:
    """The function that runs the two halves separately, which options require.

    The signatures of the halves contain no pullback: that is an object of this process, whereas
    code stored on disk is looked up by its signature.
    """
    spec = spec_of(target, argtypes, None)
    key = ("vjp", spec, repr(sorted(options.items())))
    record, play, ordinary = COMPILED.get(target, key, lambda: _make_halves(target, spec, options))

    def run(*primals: Any) -> tuple[Any, PullbackApart]:
        out, data = run_compiled(record, *primals)
        ty = record.overloads[argtypes].signature.return_type
        return out, PullbackApart(PullbackType(ordinary, ty.types[1]), data, play)

    return run


def _make_halves(target: Any, spec: SplitSpec, options: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Three functions: one runs the augmented primal, one the reverse, and one is the pullback for
    compiled callers.
    """
    ordinary = _pullback_stub(target, spec)
    plain = target.py_func
    scope = {
        "make": make_with_pullback, "run_pullback": run_pullback, "spec": spec,
        "target": Stub(target),
        "bind": bind, "data_of": data_of, "stub": Stub(ordinary),
    }  # fmt: skip
    names = ", ".join(f"x{k}" for k, _ in enumerate(spec.arguments))
    sources = {
        "record": f"def record({names}):\n out, pullback = make(stub, spec, target, {names})\n"
        " return out, data_of(pullback)",
        "play": "def play(data, cotangent):\n"
        " return run_pullback(spec, target, bind(stub, data), cotangent)",
    }

    def half(name: str) -> Any:
        stub = replacement_of(plain, sources[name], scope, name=name)
        stub.__qualname__ = f"{plain.__qualname__}.vjp_{name}"
        return compiled_stub(stub, target, options, spec, **ENTRY_POINT)

    return half("record"), half("play"), ordinary
