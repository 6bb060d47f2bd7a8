"""Second derivatives: `hessian`, and the parts of `hvp`.

Products of the Hessian are reverse over forward. With D the derivative of f along a direction,

    D(x, v) = f'(x) v            by forward mode: code without a tape, to be differentiated again
    H(x) v  = the gradient of D(·, v) at x, by reverse mode

The Hessian itself is forward over reverse, several columns at once, where they can share work
(`hessian_columns`); otherwise a product per column. Gradients inside a function that is
differentiated are computed likewise: see `nested.gradient_rules`.

Source    Pearlmutter (1994), Fast exact multiplication by the Hessian; Griewank and Walther (2008),
          section 5.4
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numba import typed, types
from numba.extending import register_jitable

from activerules.annotations.activity import Active, Duplicated
from activerules.annotations.signature import Reverse
from activerules.annotations.values import make_zero
from activerules.api.autodiff import autodiff
from activerules.api.derived import ArgNums, DerivedFunction, GradientFunction, P
from activerules.api.has_aux import jacobian_function
from activerules.api.hessian_columns import run_of_derivative, run_of_gradient, shared_gradient
from activerules.api.jacobian_blocks import arranged, carrying
from activerules.api.jacobian_columns import Columns, Run, columns_form
from activerules.api.jacobian_forward import (
    differentiated_again,
    names_of,
    tangents_per_run,
)
from activerules.api.jvp import along
from activerules.api.list_arguments import by_arrays
from activerules.api.sparse.matrices import SparseFunction
from activerules.errors import ActivityError
from activerules.numba_ext.calls import call_arguments, error_context
from activerules.numba_ext.calls.factories import give_factory_form
from activerules.numba_ext.calls.intrinsics import compiled_only, dispatcher_of_type
from activerules.numba_ext.calls.refused_kinds import refuse_kind
from activerules.numba_ext.codegen.types import runtime_type
from activerules.numba_ext.codegen.unlinked import to_link
from activerules.numba_ext.codegen.unoptimised import compiles_for_derivative
from activerules.numba_ext.target.derivative import CompiledDerivative
from activerules.rules.pattern import type_name
from activerules.rules.written import function_from
from activerules.values.kinds import gradient_type
from activerules.values.leaf_texts import LeafText, TupleTexts, leaves_at

_CONTAINERS: Any = (typed.List, typed.Dict)


def copy_of_argument(x: Any) -> Any:
    """A copy of an array, with its strides, or of a list; other arguments are returned."""
    if isinstance(x, _CONTAINERS):
        return x.copy()
    if not isinstance(x, np.ndarray):
        return x
    fresh = make_zero(x)
    fresh[...] = x
    return fresh


@overload
def hessian(
    function: Callable[P, Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    sparsity: None = None,
    check: bool = True,
    **options: Any,
) -> DerivedFunction[P, Any]: ...


@overload
def hessian(
    function: Callable[P, Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    *,
    sparsity: Any,
    check: bool = True,
    **options: Any,
) -> SparseFunction: ...


def hessian(
    function: Callable[P, Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    sparsity: Any = None,
    check: bool = True,
    **options: Any,
) -> Any:
    """Return the Hessian of a function that returns one float.

    Arguments
        function  an `@njit` function or a plain one that Numba can compile. It runs several
                  times, with the same random numbers if it draws some.
        argnums   what to differentiate with respect to: an argument by number or name, or a tuple
                  of several. They are floats, arrays of floats, and tuples of these; a
                  `numba.typed.List` of floats counts as an array.
        has_aux=True   the function returns `(value, aux)`, and the result is `(Hessian, aux)`.
        sparsity, check   as in `jacobian`: the Hessian with respect to one array, as a sparse
                  matrix, from one product with a vector per group of columns without a common row,
                  and one for the check. A pattern that is not symmetric is completed.
        options   cache, fastmath, nogil, error_model: as in `numba.njit`.

    Returns
        A function with the signature of `function`, callable from Python and inside `@njit`. Its
        result has the shape `in.shape + in.shape`; with a tuple of `argnums` it is a tuple of
        tuples, entry [i][j] with respect to arguments i and j. It is the Jacobian of the gradient,
        with a further index for the entries of an argument that is a tuple. Arrays that the
        function writes into are copied first.

    Raises
        ActivityError (at the call) for an argument that is not made of floats; and what `grad` and
        `jvp` raise.

    Cost      one product of the Hessian and a vector per number in the input; less where several
              columns share evaluations of mathematical functions, recurrences or divisions: 0.4 to
              0.6 gradients per number.

    >>> hessian(lambda x: x * x * x)(2.0)
    12.0
    """
    if sparsity is not None:
        return SparseFunction("hessian", function, argnums, sparsity, check, has_aux, options)
    return jacobian_function(HessianFunction, function, argnums, has_aux, options)


@compiled_only
def hessian_of(typing_context, spec, function, *args):
    """The Hessian of a function at plain arguments."""
    if by_lists := by_arrays(typing_context, hessian_of, spec, function, args):
        return by_lists
    request = spec.value
    argnums = request.argnums
    dispatcher = dispatcher_of_type(function)
    names = call_arguments.parameter_names(dispatcher, len(args))
    argtypes = tuple(map(runtime_type, args))
    for j in argnums:
        with error_context.of_call(dispatcher):
            _require_hessian(names[j], argtypes[j])
    # what is differentiated is the gradient with respect to all of `argnums`, a tuple
    result = types.Tuple([gradient_type(argtypes[j]) for j in argnums])
    call = _Call(dispatcher, names, argtypes, argnums, carrying("out", result), TupleTexts())
    shared = shared_gradient(dispatcher, names, argtypes, argnums)
    columns, called = _of_derivative(call) if shared is None else _of_gradient(call, shared)
    blocks = arranged(
        call.texts, result, argtypes, request, lambda row, x: columns[x.root].block(row, x)
    )
    blocks += "[0]" * request.single
    before = (spec, function)
    return columns_form(typing_context, before, args, [*columns.values()], blocks, **called)


@dataclass(frozen=True)
class _Call:
    """A call of `hessian(function)`.

    dispatcher, names, argtypes, argnums   the function, its parameters and their types, and with
            respect to which it is differentiated
    rows    the leaves of the gradient
    texts   writes the tuples
    """

    dispatcher: Any
    names: Sequence[str]
    argtypes: Sequence[Any]
    argnums: tuple[int, ...]
    rows: Sequence[LeafText]
    texts: TupleTexts


def _of_gradient(
    call: _Call, shared: CompiledDerivative
) -> tuple[dict[str, Columns], dict[str, Any]]:
    """The columns by forward mode over the gradient, several at once, by the name of the argument;
    and what their lines call.
    """
    columns: dict[str, Columns] = {}
    for j in call.argnums:
        width = tangents_per_run(f"x{j}", call.argtypes[j])
        run = run_of_gradient(shared, j, len(call.argtypes), width)
        columns[f"x{j}"] = _Rows(call, j, run)
    gradient = GradientFunction(call.dispatcher, call.argnums, options={}).dispatcher
    return columns, {"gradient": gradient}


def _of_derivative(call: _Call) -> tuple[dict[str, Columns], dict[str, Any]]:
    """The columns by reverse mode over the derivative along unit tangents, one by one, by the name
    of the argument; and what their lines call.
    """
    columns: dict[str, Columns] = {}
    called: dict[str, Any] = {"begin_row": begin_row}
    dispatcher, names, argtypes = call.dispatcher, call.names, call.argtypes
    for j in call.argnums:
        once = differentiated_again(dispatcher, names, argtypes, j)
        derivative = along(dispatcher, j, len(argtypes))
        if _is_added_up_in_place(argtypes[j], call.argnums) and not any(once.written):
            called[f"g{j}"] = _adding(derivative, j, len(argtypes))
            columns[f"x{j}"] = _RowsInPlace(call, j, f"g{j}", once.draws)
            continue
        columns[f"x{j}"] = _Rows(call, j, run_of_derivative(f"g{j}", names, argtypes, once))
        called[f"g{j}"] = GradientFunction(derivative, call.argnums, options={}).dispatcher
    return columns, called


class HessianFunction(DerivedFunction[..., Any]):
    """What `hessian` returns: a function that computes Hessians."""

    form = staticmethod(hessian_of)
    kind = "hessian"


class _Rows(Columns):
    """Lines that compute the blocks with respect to argument `j`. As the Hessian is symmetric, the
    derivative of the gradient along a unit vector is a column and a row as well.
    """

    def __init__(self, call: _Call, j: int, run: Run) -> None:
        super().__init__(f"x{j}", call.argtypes, run, call.rows, call.texts)
        self._own = f"[{call.argnums.index(j)}]"  # the path of the argument in the gradient

    def _put_block(self, row: LeafText, x: LeafText, columns: Sequence[str]) -> list[str]:
        if not x.is_array or row.path != self._own + x.path:
            return super()._put_block(row, x, columns)
        # The items of a column lie a cache line and more apart: to write them takes longer than to
        # compute them, from some hundred numbers on.
        matrix = self._matrix(row, x)
        return [f"put_row({matrix}, {t}, {self._number(x, c)})" for c, t in enumerate(columns)]


class _RowsInPlace(Columns):
    """Lines that compute the Hessian with respect to argument `j`, a vector. Each gradient is added
    up in its row of the matrix: an array for it, and the copy, would take as long as the gradient
    of a short function.

    add     the name of the function made by `_adding`
    draws   as in `Run`
    """

    def __init__(self, call: _Call, j: int, add: str, draws: bool) -> None:
        arguments = ", ".join(names_of(len(call.argtypes), ()))

        def push(tangents: list[str]) -> str:
            return f"passing({add}, {arguments}, {tangents[0]}, {self._block}[k])"

        super().__init__(f"x{j}", call.argtypes, Run(1, push, draws=draws), call.rows, call.texts)

    @property
    def _block(self) -> str:
        [row], [x] = self._rows, self._leaves
        return self._matrix(row, x)

    @property
    def allocated(self) -> list[str]:
        """The names of the arrays that are allocated before the first run."""
        return [*super().allocated, self._block]

    def begin(self) -> list[str]:
        """Lines that allocate them."""
        allocation = f"{self._block} = new_block({self._root}, {self._root})"
        return [allocation, *super().begin()]

    def _before(self) -> list[str]:
        [x] = self._leaves
        return [f"begin_row({self._block}, e_{x.name}_0, k)", *self._restart()]

    def rest(self) -> list[str]:
        """Lines that compute the rows after the first one."""
        return [
            f"for k in range(1, n_{self._root}):",
            *("    " + line for line in (*self._before(), self._run())),
        ]

    def block(self, row: LeafText, column: LeafText) -> str:
        """The text of the matrix, for use after the lines."""
        del row, column
        return self._block


def _is_added_up_in_place(ty: Any, argnums: Sequence[int]) -> bool:
    """Whether a row of the matrix has the layout of the argument, the only one of `argnums`."""
    is_vector = isinstance(ty, types.Array) and ty.ndim == 1 and ty.layout == "C"
    return is_vector and len(argnums) == 1 and not compiles_for_derivative()


def _adding(derivative: Any, argnum: int, count: int) -> Any:
    """The function `(*args, v, row)`: it adds the gradient of `derivative(*args, v)` with respect
    to an argument to `row`.
    """
    names = [f"x{k}" for k in range(count)]
    annotated = [f"Duplicated({x}, row)" if k == argnum else x for k, x in enumerate(names)]
    source = (
        f"def add({', '.join(names)}, v, row):\n"
        f"    autodiff(Reverse, derivative, Active, {', '.join(annotated)}, v)\n"
    )
    scope = {
        "Active": Active, "Duplicated": Duplicated, "Reverse": Reverse, "autodiff": autodiff,
        "derivative": derivative,
    }  # fmt: skip
    return to_link(function_from(source, "add", scope, module=__name__))


@register_jitable
def begin_row(block, direction, k):
    """Clear row `k` of a block, and turn unit vector `k - 1` into `k`."""
    for i in range(block.shape[1]):
        block[k, i] = 0.0
    if k > 0:
        direction[k - 1] = 0.0
    if k < direction.size:
        direction[k] = 1.0


def _require_hessian(name: str, ty: Any) -> None:
    refuse_kind(name, ty)
    leaves = list(leaves_at("", ty))
    if not all(isinstance(leaf.number, types.Float) for leaf in leaves if leaf.carries) or not any(
        leaf.carries for leaf in leaves
    ):
        raise ActivityError(
            f"`{name}` is {type_name(ty)}: no Hessian with respect to it",
            why="argnums names what to differentiate with respect to: floats, arrays and tuples",
            instead=["another argnums"],
        )


give_factory_form(hessian)
