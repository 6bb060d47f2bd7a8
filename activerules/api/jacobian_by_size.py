"""`jacobian`: by reverse mode as `jacrev`, or by forward mode as `jacfwd`, whichever needs fewer
sweeps for the sizes of arguments and result.

Compiled callers get the code of both modes. A call from Python compiles the one it needs: where all
data enters and leaves the function through arguments and result, it is run once on copies of the
arguments, to learn the size of the result. Otherwise reverse mode is compiled first. It knows the
size as soon as the function has run, and is abandoned if forward mode needs fewer sweeps.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from numbers import Number
from typing import Any, overload

import numpy as np
from numba import types

from activerules.api.derived import ArgNums, DerivedFunction, P
from activerules.api.has_aux import jacobian_function
from activerules.api.hessian import copy_of_argument
from activerules.api.jacobian_blocks import carrying, is_complex
from activerules.api.jacobian_forward import WIDTH, ForwardJacobian, jacobian_forward
from activerules.api.jacobian_reverse import (
    ForwardIsShorter,
    ReverseJacobian,
    Sweeps,
    jacobian_reverse,
    size_of,
    sweeps_of,
)
from activerules.api.list_arguments import by_arrays
from activerules.api.sparse.matrices import SparseFunction
from activerules.errors import NotYetSupported, UnknownOption
from activerules.numba_ext.calls import call_arguments
from activerules.numba_ext.calls.error_context import run_compiled
from activerules.numba_ext.calls.factories import give_factory_form
from activerules.numba_ext.calls.intrinsics import compiled_only, dispatcher_of_type
from activerules.numba_ext.codegen.made_once import COMPILED
from activerules.numba_ext.codegen.types import runtime_type
from activerules.numba_ext.codegen.unoptimised import compiles_for_derivative
from activerules.numba_ext.replaced.in_steps import steps_form
from activerules.rules.registry import RULES
from activerules.rules.views import FORWARD_VIEW
from activerules.values.leaf_texts import LeafText

_MOST_KINDS = 1000  # of arguments, for which the mode is remembered


@overload
def jacobian(
    function: Callable[P, Any],
    argnums: ArgNums = 0,
    mode: str = "auto",
    has_aux: bool = False,
    sparsity: None = None,
    check: bool = True,
    **options: Any,
) -> DerivedFunction[P, Any]: ...


@overload
def jacobian(
    function: Callable[P, Any],
    argnums: ArgNums = 0,
    mode: str = "auto",
    has_aux: bool = False,
    *,
    sparsity: Any,
    check: bool = True,
    **options: Any,
) -> SparseFunction: ...


def jacobian(
    function: Callable[P, Any],
    argnums: ArgNums = 0,
    mode: str = "auto",
    has_aux: bool = False,
    sparsity: Any = None,
    check: bool = True,
    **options: Any,
) -> Any:
    """Return the Jacobian of a function.

    Arguments
        mode  "reverse" (as `jacrev`), "forward" (as `jacfwd`), or "auto": at each call, the mode
              that needs fewer sweeps for the sizes of result and arguments. A call from Python
              compiles that one only, and remembers it for arguments of these shapes. It is reverse
              mode where a function that is called has a pair of yours and no forward rule.
        sparsity   a matrix of shape (m, n), sparse or dense, nonzero where the Jacobian may be;
              or "detect", which finds that out. The argument is then one array of n floats, the
              result one of m, and the Jacobian a `scipy.sparse.csr_array` of shape (m, n); the
              items of arrays with several axes are numbered in C order. It is computed by forward
              mode, from Python only.
        check   False leaves out the check of a sparse Jacobian, which is one more derivative, along
              a random vector. Without it entries outside the pattern are silently added to others.
        The others, what is returned and what is raised are those of `jacrev`; and, with `sparsity`,
        SparsityMismatch if the pattern has the wrong shape, or the check finds nonzero entries
        outside it; MissingExtra if SciPy is not installed.

    Cost      sparse: one derivative along a vector per group of columns without a common row,
              three for a tridiagonal Jacobian of any size, one for the check; four in one run.
              "detect", where a call takes a path with other entries than calls before: some
              multiple of log2(n) derivatives, n if a row is dense.

    >>> tridiagonal = jacobian(lambda x: x[:-1] * x[1:], sparsity="detect")
    >>> tridiagonal(np.array([1.0, 2.0, 3.0])).toarray()
    array([[2., 1., 0.],
           [0., 3., 2.]])
    """
    if not isinstance(mode, str) or mode not in _MODES:
        raise UnknownOption(f"jacobian has no mode {mode!r}", instead=[", ".join(_MODES)])
    if sparsity is not None:
        if mode == "reverse":
            raise NotYetSupported(
                "a sparse Jacobian by reverse mode", instead=['mode="forward"', "jacrev"]
            )
        return SparseFunction("jacobian", function, argnums, sparsity, check, has_aux, options)
    return jacobian_function(_MODES[mode], function, argnums, has_aux, options)


# --- compiled forms ---


@compiled_only
def jacobian_by_size(typing_context, spec, function, *args):
    """The Jacobian at plain arguments, by the mode with fewer sweeps."""
    request = spec.value
    if compiles_for_derivative():
        return jacobian_forward.__wrapped__(typing_context, spec, function, *args)
    if by_lists := by_arrays(typing_context, jacobian_by_size, spec, function, args):
        return by_lists
    argtypes = tuple(map(runtime_type, args))
    dispatcher = dispatcher_of_type(function)
    if request.holomorphic or any(is_complex(argtypes[k]) for k in request.argnums):
        return jacobian_reverse.__wrapped__(typing_context, spec, function, *args)
    inputs = [leaf for k in request.argnums for leaf in carrying(f"x{k}", argtypes[k])]
    if not any(leaf.is_array for leaf in inputs):
        return jacobian_forward.__wrapped__(typing_context, spec, function, *args)
    sweeps = sweeps_of(dispatcher, function, argtypes, request)
    if not any(leaf.is_array for leaf in sweeps.outputs):
        return jacobian_reverse.__wrapped__(typing_context, spec, function, *args)
    if _lacks_forward(dispatcher, argtypes):
        return jacobian_reverse.__wrapped__(typing_context, spec, function, *args)
    names = ", ".join(f"x{k}" for k in range(len(args)))
    blocks = sweeps.arranged(lambda row, x: _forward_block(sweeps, row, x))
    forward = [f" forward = jacobian_forward(spec, function, {names})", f" return {blocks}"]
    if request.deferred:
        forward = [" raise ForwardIsShorter"]
    steps = sweeps.steps([
        f"if {sweeps.count()} > {_forward_sweeps(request, inputs)}:",
        *forward,
        *sweeps.rows(),
        f"return {sweeps.result_text()}",
    ])  # fmt: skip
    return steps_form(typing_context, steps, (spec, function), args)


def _lacks_forward(dispatcher: Any, argtypes: Sequence[types.Type]) -> bool:
    """Whether a function that is called, maybe this one, has a user's pair and no forward rule."""
    if not RULES.any_lacks_forward():
        return False
    # late: they import much
    from activerules.numba_ext.target.capture import capture
    from activerules.pipeline.unserved_calls import lacks_forward

    return lacks_forward(capture(dispatcher, tuple(argtypes), rules=FORWARD_VIEW).followed)


def _forward_sweeps(request: Any, inputs: Sequence[LeafText]) -> str:
    """The expression for the number of runs that forward mode needs."""
    counts = []
    for k in request.argnums:
        own = [leaf for leaf in inputs if leaf.root == f"x{k}"]
        size = size_of(own)
        counts.append(f"({size} + {WIDTH - 1}) // {WIDTH}" if any(x.is_array for x in own) else "1")
    return " + ".join(counts)


def _forward_block(sweeps: Sweeps, row: LeafText, x: LeafText) -> str:
    """A block of the forward Jacobian, with the memory layout of the reverse one."""
    argument = "" if sweeps.request.single else f"[{sweeps.request.argnums.index(int(x.root[1:]))}]"
    text = f"forward{row.path}{argument}{x.path}"
    return f"copy_of_shadow({text})" if row.is_array or x.is_array else text


# --- the functions ---


class _ForwardJacobian(ForwardJacobian):
    kind = "jacobian"


class _Jacobian(DerivedFunction[..., Any]):
    form = staticmethod(jacobian_by_size)
    kind = "jacobian"
    own_options = ("holomorphic",)

    def _run(self, /, *args: Any, **kwargs: Any) -> Any:
        # A stub that is stored on disk, or that compiled callers use, has both modes.
        if self._options.get("cache") or COMPILED.find(self._target, (self._token, False)):
            return super()._run(*args, **kwargs)
        by_forward = COMPILED.get(self._target, (self._token, "by_forward"), dict[Hashable, bool])
        key = (*map(_kind, args), *((name, _kind(x)) for name, x in kwargs.items()))
        if key not in by_forward:
            if len(by_forward) > _MOST_KINDS:
                by_forward.clear()
            by_forward[key] = not kwargs and self._is_forward_shorter(args)
        if not by_forward[key]:
            try:
                return run_compiled(self._dispatcher(deferred=True), *args, **kwargs)
            except ForwardIsShorter:
                by_forward[key] = True
        return self._forward(*args, **kwargs)

    @cached_property
    def _forward(self) -> _ForwardJacobian:
        return _ForwardJacobian(self._function, self._spec.given, options=self._own_options)

    def _is_forward_shorter(self, args: Sequence[Any]) -> bool:
        """Whether a run of the function shows that forward mode needs fewer sweeps."""
        from activerules.numba_ext.target.effects import is_repeatable  # late: imports much

        call_arguments.parameter_names(self._target, len(args))
        varied = [args[k] for k in self._spec.argnums if k < len(args)]
        plain = all(isinstance(x, np.ndarray | Number) for x in args)
        plain = plain and not any(map(np.iscomplexobj, args))
        arrays = any(isinstance(x, np.ndarray) for x in varied)
        if not (plain and arrays and is_repeatable(self._target, call_arguments.types_of(args))):
            return False
        result = self._target(*map(copy_of_argument, args))
        if not isinstance(result, np.ndarray):
            return False
        # If reverse mode turns out to take the entries one by one, `ForwardIsShorter` is raised.
        is_shorter = _runs(result.size) > sum(_runs(np.size(x)) for x in varied)
        return is_shorter and not _lacks_forward(self._target, call_arguments.types_of(args))


def _runs(size: int) -> int:
    return (size + WIDTH - 1) // WIDTH


def _kind(value: Any) -> Hashable:
    """The key under which the choice of a mode is remembered: what the result's size depends on."""
    if isinstance(value, tuple):
        return tuple(map(_kind, value))
    return (value.dtype, value.shape) if isinstance(value, np.ndarray) else type(value)


_MODES: dict[str, type[DerivedFunction[..., Any]]] = {
    "auto": _Jacobian,
    "forward": _ForwardJacobian,
    "reverse": ReverseJacobian,
}


give_factory_form(jacobian)
