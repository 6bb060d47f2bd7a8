"""Sparse Jacobians and Hessians: `jacobian(f, sparsity=…)` and `hessian(f, sparsity=…)`.

`patterns` plans which columns are computed together, `products` computes the products. A
pattern cannot be proved: the subscripts of an array are known when a program runs, and only on the
path that it takes. So each matrix is checked against one more product, with a random vector.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Sequence
from typing import Any, NoReturn

import numpy as np
from numba.extending import typeof_impl

from activerules.api.derived import ArgNums, imitate
from activerules.api.sparse.patterns import Plan, detected, pattern_of, scipy_sparse
from activerules.api.sparse.products import HessianProducts, JacobianProducts
from activerules.callables import location_of
from activerules.errors import ActivityError, NotYetSupported, SparsityMismatch, UnknownOption
from activerules.numba_ext.calls import call_arguments
from activerules.numba_ext.target.dispatchers import dispatcher_of
from activerules.rules.registry import with_rules

_DETECT = "detect"
_REMEMBERED = 64  # patterns; integers are part of what they depend on, and may count steps
_SHOWN = 4


class SparseFunction:
    """What `jacobian` and `hessian` return with `sparsity=`: a function of the same parameters,
    callable from Python, whose result is a `scipy.sparse.csr_array`.
    """

    def __init__(
        self,
        kind: str,
        function: Any,
        argnums: ArgNums,
        sparsity: Any,
        check: bool,
        has_aux: bool,
        options: dict[str, Any],
    ) -> None:
        if has_aux:
            raise NotYetSupported(
                f"a sparse {kind.capitalize()} with has_aux",
                instead=["a function that returns the value alone"],
            )
        self._made_from = kind, function, argnums, sparsity, check, has_aux, options
        products_class = HessianProducts if kind == "hessian" else JacobianProducts
        self._products = products_class(function, argnums, options=options)
        self._kind, self._check = kind, check
        self._target = target = dispatcher_of(function)
        self._argnum = self._products.argnum
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._given: Plan | None = None
        scipy_sparse()
        if not isinstance(sparsity, str):
            pattern = pattern_of(sparsity, square=kind == "hessian")
            self._given = self._planned(pattern)
        elif sparsity != _DETECT:
            raise UnknownOption(
                f"{kind} has no sparsity {sparsity!r}", instead=[f"a pattern, or {_DETECT!r}"]
            )
        plain = target.py_func
        imitate(self, plain, inspect.signature(plain))
        self.__name__ = f"sparse_{kind}_{plain.__name__}"
        parameters = list(inspect.signature(plain).parameters)
        name = parameters[min(self._argnum, len(parameters) - 1)]  # `*args` is the last
        what = f"The sparse {self._noun} of `{plain.__name__}` with respect to `{name}`."
        self.__doc__ = "\n\n".join(filter(None, [what, plain.__doc__]))

    @property
    def _noun(self) -> str:
        return self._kind.capitalize()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """The matrix at these arguments."""
        args = self._bound(args, kwargs)
        x = args[self._argnum]
        if not isinstance(x, np.ndarray):
            raise ActivityError(
                f"argument {self._argnum} of {self._target.py_func.__name__} is "
                f"{type(x).__name__}: no sparse {self._noun} with respect to it",
                why="its columns are the items of an array of floats",
                instead=["a function of an array", f"{self._kind} without sparsity"],
            )
        key = tuple(map(_kind, args))
        plan = self._given or self._plans.pop(key, None)
        if plan is not None:
            matrix, wrong = self._computed(plan, args)
            if self._given is None:
                self._remember(key, plan)
            if not len(wrong):
                return matrix
            if self._given is not None:
                self._raise_outside(plan, args, wrong)
        plan = self._detected(args, plan)
        self._remember(key, plan)
        matrix, wrong = self._computed(plan, args)
        if len(wrong):
            self._raise_outside(plan, args, wrong)
        return matrix

    def _remember(self, key: tuple[Any, ...], plan: Plan) -> None:
        """Keep a plan as the one used last, and of all no more than `_REMEMBERED`."""
        self._plans.pop(key, None)
        self._plans[key] = plan
        for oldest in [*self._plans][:-_REMEMBERED]:
            self._plans.pop(oldest, None)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The positional arguments for a call."""
        if not kwargs and len(args) > self._argnum:
            return args
        call_arguments.require_call(self._target, args, kwargs)
        bound = inspect.signature(self._target.py_func).bind(*args, **kwargs)
        bound.apply_defaults()  # an argument before one with a keyword, too
        return bound.args

    def _computed(self, plan: Plan, args: Sequence[Any]) -> tuple[Any, Sequence[int]]:
        """The matrix, and the rows that fail the check."""
        m, n = plan.pattern.shape
        size = args[self._argnum].size
        if size != n:
            self._raise_shape(plan, f"the argument has {size} items")
        products = self._products(plan.seeds, *args)
        if products.shape[1] != m:
            self._raise_shape(plan, f"the result has {products.shape[1]} items")
        matrix = plan.matrix(products)
        return matrix, plan.wrong_rows(matrix, products).tolist() if self._check else []

    def _planned(self, pattern: Any) -> Plan:
        if self._kind == "hessian":
            pattern = (pattern + pattern.T).tocsr()
        return Plan.of(pattern, check=self._check)

    def _detected(self, args: Sequence[Any], known: Plan | None) -> Plan:
        """The plan for the pattern detected at some arguments, united with the one known before."""
        n = args[self._argnum].size
        m = self._products(np.zeros((1, n)), *args).shape[1]  # raises what the function raises
        try:
            pattern = detected(lambda seeds: self._products(seeds, *args), (m, n))
        except (ArithmeticError, ValueError) as error:
            raise SparsityMismatch(
                "the sparsity pattern cannot be found",
                where=self._where,
                why=f"the function is run with NaN as tangents, and something in it refuses them:\n"
                f"{type(error).__name__}: {error}",
                instead=["sparsity=, a pattern"],
            ) from error
        return self._planned(pattern if known is None else pattern + known.pattern)

    @property
    def _where(self) -> list[tuple[str, str, str]]:
        name = self._target.py_func.__name__
        return [(f"in the sparse {self._noun} of", name, location_of(self._target))]

    def _raise_shape(self, plan: Plan, fault: str) -> NoReturn:
        raise SparsityMismatch(
            f"the sparsity pattern has the shape {plan.pattern.shape}, and {fault}",
            where=self._where,
            why="it has a row per item of the result and a column per item of the argument",
        )

    def _raise_outside(self, plan: Plan, args: Sequence[Any], wrong: Sequence[int]) -> NoReturn:
        try:
            detected = self._detected(args, None).pattern
            missing = (detected > plan.pattern).nonzero()
        except SparsityMismatch:
            missing = (), ()
        entries = [f"({i}, {j})" for i, j in zip(*missing, strict=True)]
        rows = ", ".join(map(str, wrong[:_SHOWN])) + ", …" * (len(wrong) > _SHOWN)
        shown = ", ".join(entries[:_SHOWN]) + ", …" * (len(entries) > _SHOWN)
        raise SparsityMismatch(
            f"the {self._noun} has entries outside the sparsity pattern, in rows {rows}",
            where=self._where,
            why="its product with a random vector is not that of the sparse matrix"
            + (f";\nmissing from the pattern are {shown}" if entries else ""),
            instead=["a pattern with these entries", f'sparsity="{_DETECT}"'],
        )

    def __repr__(self) -> str:
        """Return how the function is made."""
        sparsity = self._given.pattern.shape if self._given else _DETECT
        name = self._target.py_func.__name__
        return (
            f"{self._kind}({name}, sparsity={sparsity!r}) with respect to argument {self._argnum}"
        )

    def __reduce__(self) -> Any:
        """Pickle what the function was made from; it is recompiled when it is unpickled."""
        return with_rules(SparseFunction, self._made_from)


def _kind(value: Any) -> Hashable:
    """The key under which a pattern is remembered: the value of an integer or a text, the shape of
    an array, the length of a list.
    """
    match value:
        case tuple():
            return tuple(map(_kind, value))
        case int() | np.integer() | np.bool_() | str():
            return value
        case np.ndarray():
            return value.shape
        case _:
            return type(value), len(value) if hasattr(value, "__len__") else 0


@typeof_impl.register(SparseFunction)
def _typeof_sparse_function(value: SparseFunction, _context: Any) -> Any:
    raise NotYetSupported(
        f"{value!r} inside a compiled function",
        why="Numba has no type for sparse matrices",
        instead=["a call of it from Python", "the dense matrix: the same without sparsity"],
    )
