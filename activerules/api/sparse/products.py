"""Products of a Jacobian or Hessian with the columns of a matrix, from which sparse ones are read.

`seeds @ J.T`, with a tangent per row of `seeds`, several of them per run, as in `jacobian_forward`
and `hessian`; there the tangents are unit vectors.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numba import types
from numba.extending import register_jitable

from activerules.api.derived import ArgNums, DerivedFunction, GradientFunction
from activerules.api.hessian_columns import run_of_derivative, run_of_gradient, shared_gradient
from activerules.api.jacobian_blocks import carrying, rows_of
from activerules.api.jacobian_columns import Columns, columns_form
from activerules.api.jacobian_forward import (
    WIDTH,
    derivative_along,
    differentiated_again,
    run_along,
)
from activerules.api.jvp import along
from activerules.errors import ActivityError, NotYetSupported
from activerules.numba_ext.calls import call_arguments
from activerules.numba_ext.calls.intrinsics import compiled_only, dispatcher_of_type
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.types import runtime_type
from activerules.rules.pattern import type_name
from activerules.rules.written import by_name
from activerules.values.kinds import gradient_type
from activerules.values.leaf_texts import LeafText, TupleTexts
from activerules.values.overwriting import overwrite

SEEDS = "x0"


class _Products(Columns):
    """Lines that compute the products: a row for each row of the seeds."""

    def counts(self) -> list[str]:
        """A line for the number of columns."""
        return [f"n_{self._root} = {SEEDS}.shape[0]", "k = 0"]

    @property
    def product(self) -> str:
        """The text of the products, for use after the lines."""
        return self._matrix(self._rows[0], self._leaves[0])

    @property
    def _takes_seeds(self) -> bool:
        """Whether rows of the seeds are tangents as they are, and stay unchanged."""
        own, seeds = self._type, self._args[0]
        is_alike = own.ndim == 1 and own.layout == seeds.layout == "C" and own.dtype == seeds.dtype
        return is_alike and int(self._root[1:]) not in self._copies

    def _allocation(self, x: LeafText, lane: int) -> str:
        return "" if self._takes_seeds else super()._allocation(x, lane)

    def _set(self, x: LeafText, lane: int) -> str:
        if self._takes_seeds:
            return f"e_{x.name}_{lane} = row_of({SEEDS}, {self._number(x, lane)})"
        return f"set_row(e_{x.name}_{lane}, {SEEDS}, {self._number(x, lane)})"

    def _new(self, x: LeafText, column: str) -> str:
        return f"new_products({column}, {SEEDS})"

    def _put_block(self, row: LeafText, x: LeafText, columns: Sequence[str]) -> list[str]:
        put = "put_row" if row.is_array else "put_item"
        matrix = self._matrix(row, x)
        return [f"{put}({matrix}, {col}, {self._number(x, c)})" for c, col in enumerate(columns)]

    def _number(self, x: LeafText, lane: int) -> str:
        return f"k + {lane}"


# --- compiled forms ---


@compiled_only
def jacobian_products(typing_context, spec, function, *args):
    """`seeds @ J.T`; the first of `args` is `seeds`."""
    i, dispatcher, names, argtypes = _read(spec, function, args)
    derivative = derivative_along(dispatcher, names, argtypes[1:], i)
    result = rows_of(derivative.result_type)
    rows = carrying("out", result)
    if len(rows) != 1 or rows[0].path or not isinstance(rows[0].number, types.Float):
        raise ActivityError(
            f"a sparse Jacobian of {dispatcher.py_func.__name__}, which returns "
            f"{type_name(result)}",
            why="its rows are those of an array of floats",
            instead=["a function that returns one array", "jacobian without sparsity"],
        )
    run = run_along(names, argtypes[1:], i, derivative, first=1)
    products = _Products(f"x{i + 1}", argtypes, run, rows, TupleTexts())
    return _form(typing_context, (spec, function), argtypes, products)


@compiled_only
def hessian_products(typing_context, spec, function, *args):
    """`seeds @ H.T`; the first of `args` is `seeds`."""
    i, dispatcher, names, argtypes = _read(spec, function, args)
    rows = carrying("out", gradient_type(argtypes[i + 1]))
    shared = shared_gradient(dispatcher, names, argtypes[1:], (i,))
    if shared is not None:
        run, differentiated = run_of_gradient(shared, i, len(names), WIDTH, first=1), dispatcher
    else:
        once = differentiated_again(dispatcher, names, argtypes[1:], i)
        run = run_of_derivative("gradient", names, argtypes[1:], once, first=1)
        differentiated = along(dispatcher, i, len(names))
    products = _Products(f"x{i + 1}", argtypes, run, rows, TupleTexts())
    gradient = GradientFunction(differentiated, i, options={}).dispatcher
    return _form(typing_context, (spec, function), argtypes, products, gradient=gradient)


def _read(spec: Any, function: Any, args: Sequence[Any]) -> tuple[int, Any, Any, tuple[Any, ...]]:
    """The argument, the function, the names of its parameters, and the types of `args`."""
    argtypes = tuple(map(runtime_type, args))
    dispatcher = dispatcher_of_type(function)
    names = call_arguments.parameter_names(dispatcher, len(argtypes) - 1)
    [i] = spec.value.argnums
    ty = argtypes[i + 1]
    if not isinstance(ty, types.Array) or not isinstance(ty.dtype, types.Float):
        raise ActivityError(
            f"`{names[i]}` is {type_name(ty)}: no sparse derivative with respect to it",
            why="its columns are the items of an array of floats",
            instead=["a function of an array", "jacobian or hessian without sparsity"],
        )
    return i, dispatcher, names, argtypes


def _form(
    typing_context: Any,
    before: tuple[Any, Any],
    argtypes: tuple[Any, ...],
    products: _Products,
    **more: Any,
) -> Any:
    called = {**by_name(new_products, put_item, row_of, set_row), **more}
    return columns_form(typing_context, before, argtypes, [products], products.product, **called)


# --- the functions ---


class JacobianProducts(DerivedFunction[..., Any]):
    """The function `(seeds, *args) -> seeds @ J.T`.

    The argument to differentiate with respect to is an array of floats, of n items in C order, and
    the result one of m, or a float: `seeds` has the shape (k, n), what is returned (k, m).
    """

    form = staticmethod(jacobian_products)
    kind = "jacobian"
    suffix = "_products"

    def __init__(
        self, function: Any, argnums: ArgNums, *, with_value: bool = False, options: dict[str, Any]
    ) -> None:
        super().__init__(function, argnums, with_value=with_value, options=options)
        if not self._spec.single:
            raise NotYetSupported(
                f"a sparse {self.kind.capitalize()} with respect to several arguments",
                instead=["argnums=0, or another number or name", "a function of one array"],
            )

    @property
    def argnum(self) -> int:
        """The argument to differentiate with respect to."""
        return self._spec.argnums[0]

    def _require_call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        super()._require_call(args[1:], kwargs)

    def _own_signature(self, signature: inspect.Signature) -> inspect.Signature:
        seeds = inspect.Parameter("seeds", inspect.Parameter.POSITIONAL_ONLY)
        rest = [
            p.replace(kind=p.POSITIONAL_ONLY) if p.kind is p.POSITIONAL_OR_KEYWORD else p
            for p in signature.parameters.values()
        ]
        return signature.replace(parameters=[seeds, *rest])


class HessianProducts(JacobianProducts):
    """The function `(seeds, *args) -> seeds @ H.T`; `seeds` is as in `JacobianProducts`."""

    form = staticmethod(hessian_products)
    kind = "hessian"


# --- called by the generated code ---


@register_jitable
def row_of(seeds, k):
    """A row of `seeds`, the last one if there is no such row: what is made of it is not used."""
    return seeds[min(k, seeds.shape[0] - 1)]


@register_jitable
def set_row(direction, seeds, k):
    """Fill an array with a row of `seeds`; with zeros if there is no such row."""
    if k < seeds.shape[0]:
        overwrite(direction, seeds[k].reshape(direction.shape))
    else:
        direction[...] = 0.0


@chosen_by_types
def new_products(column, seeds):  # noqa: ARG001
    """Memory for products: a row per row of `seeds`, as long as `column`."""
    if isinstance(column, types.Array):
        return lambda column, seeds: np.empty((seeds.shape[0], column.size), column.dtype)
    return lambda column, seeds: np.empty((seeds.shape[0], 1), type(column))


@register_jitable
def put_item(block, item, k):
    """Write the only item of row `k` of a block; do nothing if there is no such row."""
    if k < block.shape[0]:
        block[k, 0] = item
