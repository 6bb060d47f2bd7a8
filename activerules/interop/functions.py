"""A compiled function of arrays, and the functions that its derivatives are: what the bridges to
JAX, PyTorch and PyTensor have in common.

An `ArrayFunction` is for arguments of fixed dtypes and numbers of dimensions. It takes and returns
NumPy arrays, those without dimensions for numbers. `pushforward` and `pullback` are array functions
again, each linear in its last arguments and the transpose of the other, so that derivatives of any
order exist, as far as the engine has them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numba import from_dtype, njit, types

from activerules.annotations.signature import SplitSpec
from activerules.api.jvp import jvp
from activerules.api.vjp import spec_of, stub_of, vjp
from activerules.callables import display_name, location_of
from activerules.errors import ForeignArrayError, NotAFloatReturn, NotCompilable, ShadowMismatch
from activerules.interop.tapes import TAPES
from activerules.numba_ext.calls import call_arguments
from activerules.numba_ext.calls.error_context import run_compiled
from activerules.numba_ext.target.dispatchers import dispatcher_of
from activerules.numba_ext.target.readonly import only_reads_arrays
from activerules.numba_ext.target.rule_function import NUMBA_REFUSES
from activerules.rules.pattern import type_name
from activerules.rules.written import function_from

Kind = tuple[np.dtype[Any], int]
"""The dtype and the number of dimensions of an array."""

_DIFFERENTIABLE = frozenset({"float64", "complex128"})
_CONSTANT = re.compile(r"bool|u?int(8|16|32|64)")


def kind_of(name: str, dtype: str, ndim: int) -> Kind:
    """The kind of an argument; `ForeignArrayError` if its precision is not double.

    dtype   its name, which is none of NumPy's for some
    """
    if dtype in _DIFFERENTIABLE or _CONSTANT.fullmatch(dtype):
        return np.dtype(dtype), ndim
    raise ForeignArrayError(
        f"`{name}` is an array of {dtype}",
        why="derivatives across the bridge are in double precision",
        instead=["an array of float64, or complex128", "integers or booleans: they are constant"],
    )


def carries(kind: Kind) -> bool:
    """Whether an array of this kind has a derivative."""
    return kind[0].kind in "fc"


class Specialised:
    """A user's function, and the array function of it for each signature.

    conjugated   a pullback is the transpose of the pushforward, as in JAX, and not its adjoint, as
                 here and in PyTorch: the conjugate of the cotangents for the conjugate of theirs
    """

    def __init__(self, function: Any, *, conjugated: bool = False) -> None:
        self.target = dispatcher_of(function)
        self._conjugated = conjugated
        self._signature = inspect.signature(self.target.py_func)
        self._names: dict[int, tuple[str, ...]] = {}
        self._known: dict[tuple[Kind, ...], ArrayFunction] = {}

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name; `ArityError` if they do not fit."""
        if kwargs:
            call_arguments.require_call(self.target, args, kwargs)
            binding = self._signature.bind(*args, **kwargs)
            binding.apply_defaults()  # one before a keyword argument, too
            args = binding.args
        names = self._names.get(len(args))
        if names is None:
            call_arguments.require_call(self.target, args, {})
            names = self._names[len(args)] = call_arguments.parameter_names(self.target, len(args))
        return dict(zip(names, args, strict=True))

    def of(self, kinds: Sequence[Kind]) -> ArrayFunction:
        """The function for arguments of these kinds; always the same object."""
        key = tuple(kinds)
        function = self._known.get(key)
        if function is None:
            function = _Wrapped(self.target, key, self._conjugated)
            _ = function.results  # raises here, not at the first call
            self._known[key] = function
        return function


class ArrayFunction:
    """A function for arguments of some kinds, made of an `@njit` function.

    wrapped  that function of the user; `name` and `location` are those of it
    kinds    of the arguments
    linear   the number of last arguments that it is linear in
    """

    linear = 0

    def __init__(self, wrapped: Any, kinds: Sequence[Kind], conjugated: bool) -> None:
        self.wrapped, self.kinds, self.conjugated = wrapped, tuple(kinds), conjugated
        self.name, self.location = wrapped.py_func.__name__, location_of(wrapped)
        self._derivatives: dict[Any, ArrayFunction] = {}
        self._specs: dict[tuple[int, ...], SplitSpec] = {}

    @cached_property
    def dispatcher(self) -> Any:
        """The `@njit` function of numbers and arrays, which is needed to differentiate it."""
        raise NotImplementedError(f"{self.name} has no compiled form")

    @property
    def single(self) -> bool:
        """Whether it returns one number or array, and no tuple."""
        return False

    @cached_property
    def results(self) -> tuple[Kind, ...]:
        """The kinds of the results."""
        raise NotImplementedError

    @cached_property
    def written(self) -> tuple[bool, ...]:
        """Which arguments it may write into: they are copied."""
        raise NotImplementedError

    @cached_property
    def _argument_types(self) -> tuple[Any, ...]:
        return tuple(map(_type_of, self.kinds))

    @cached_property
    def varied(self) -> tuple[int, ...]:
        """The arguments that carry derivatives."""
        return tuple(k for k, kind in enumerate(self.kinds) if carries(kind))

    @cached_property
    def useful(self) -> tuple[int, ...]:
        """The results that carry derivatives."""
        return tuple(k for k, kind in enumerate(self.results) if carries(kind))

    def run(self, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """The results, in memory that no argument has."""
        return self.apart(self._run(self._prepared(arrays)), arrays)

    def _run(self, args: Sequence[Any]) -> Any:
        out = run_compiled(self.dispatcher, *args)
        return (out,) if self.single else out

    def run_with_pullback(
        self, arrays: Sequence[Any], wrt: tuple[int, ...]
    ) -> tuple[list[np.ndarray[Any, Any]], Callable[[Sequence[Any]], list[np.ndarray[Any, Any]]]]:
        """The results, and a function from cotangents of the useful ones to those of `wrt`."""
        args = self._prepared(arrays)
        out, pull = self.record(args, wrt)
        results = self.apart((out,) if self.single else out, arrays)

        def pulled(cotangents: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
            bars = pull(self._seed(arguments(cotangents)))
            return [np.asarray(bars[k]) for k in wrt]

        return results, pulled

    def record(self, args: Sequence[Any], wrt: tuple[int, ...]) -> tuple[Any, Any]:
        """What the function returns, and its pullback."""
        spec = self._specs.get(wrt)
        if spec is None:
            spec = self._specs[wrt] = spec_of(self.dispatcher, self._argument_types, wrt)
        return run_compiled(stub_of(self.dispatcher, spec), *args)

    def _seed(self, cotangents: Sequence[Any]) -> Any:
        """Cotangents of the useful results as the cotangent of what the function returns."""
        seeds: list[Any] = [None] * len(self.results)
        for k, cotangent in zip(self.useful, cotangents, strict=True):
            seeds[k] = cotangent
        return seeds[0] if self.single else tuple(seeds)

    def _prepared(self, arrays: Sequence[Any]) -> list[Any]:
        """Arguments for compiled code: the arrays themselves, unless they have to be copied."""
        return arguments(arrays, self.written)

    def apart(self, out: Sequence[Any], arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """The results, copied where they lie in the memory of `arrays`."""
        results = [np.asarray(value) for value in out]
        return [
            y.copy() if y.ndim and any(np.may_share_memory(y, x) for x in arrays) else y
            for y in results
        ]

    def pushforward(self, wrt: tuple[int, ...]) -> ArrayFunction:
        """The function of the arguments and of tangents of those in `wrt`, whose results are the
        tangents of the useful results.
        """
        return self.derivative("push", wrt, lambda: _Pushforward(self, wrt))

    def pullback(self, wrt: tuple[int, ...]) -> ArrayFunction:
        """The function of the arguments and of cotangents of the useful results, whose results are
        the cotangents of the arguments in `wrt`.
        """
        return self.derivative("pull", wrt, lambda: Pullback(self, wrt))

    def batched(self) -> ArrayFunction:
        """The function of arrays with one more axis in front, along which it is run."""
        return self.derivative("batched", (), lambda: Batched(self))

    @property
    def transposed(self) -> ArrayFunction:
        """The transpose with respect to the last arguments, those it is linear in."""
        raise NotImplementedError(f"{self.name} is not linear")

    def derivative(
        self, kind: str, wrt: tuple[int, ...], make: Callable[[], ArrayFunction]
    ) -> ArrayFunction:
        """The function that `make` returns; for the same kind and arguments always the same one."""
        key = kind, wrt
        if key not in self._derivatives:
            self._derivatives[key] = make()
        return self._derivatives[key]

    def require_shapes(self, results: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> None:
        """Raise `ShadowMismatch` if a result does not have the shape that the caller gave."""
        returned = tuple(np.shape(result) for result in results)
        if returned != tuple(shapes):
            raise self.wrong_shapes(tuple(shapes), f"they have the shapes {returned}")

    def wrong_shapes(self, shapes: Sequence[Any], fault: str = "") -> ShadowMismatch:
        """The error for given shapes that are not those of the results."""
        counts = [ndim for _, ndim in self.results]
        fault = fault or f"their numbers of dimensions are {', '.join(map(str, counts))}"
        return ShadowMismatch(
            f"`shape` gives the results of {self.name} the shapes {tuple(shapes)}",
            where=[("in the function", self.name, self.location)],
            why=fault,
            instead=["wrap(f, shape=…): a tuple, or a function of the arguments' shapes"],
        )


class _Wrapped(ArrayFunction):
    """The `@njit` function itself."""

    def __init__(self, wrapped: Any, kinds: Sequence[Kind], conjugated: bool) -> None:
        super().__init__(wrapped, kinds, conjugated)
        call_arguments.parameter_names(wrapped, len(self.kinds))

    @cached_property
    def dispatcher(self) -> Any:
        """The function that was wrapped."""
        return self.wrapped

    @cached_property
    def _compiled(self) -> Any:
        return compiled_call(self.wrapped, self._argument_types)

    @property
    def _result_type(self) -> Any:
        return self._compiled.signature.return_type

    @property
    def single(self) -> bool:
        """Whether it returns one number or array, and no tuple."""
        return not isinstance(self._result_type, types.BaseTuple)

    @cached_property
    def results(self) -> tuple[Kind, ...]:
        """The kinds of the results; `NotAFloatReturn` if there are others than arrays."""
        result = self._result_type
        kinds = [_result_kind(value) for value in ([result] if self.single else result)]
        if not kinds or None in kinds:
            raise NotAFloatReturn(
                f"{self.name} returns {type_name(result)}",
                where=[("in the function", self.name, self.location)],
                why="the other package knows numbers and arrays of them",
                instead=["return a number, an array of numbers, or a tuple of these"],
            )
        return tuple(kind for kind in kinds if kind is not None)

    @cached_property
    def written(self) -> tuple[bool, ...]:
        """Which arguments it may write into."""
        return tuple(
            ndim > 0 and not only_reads_arrays(self._compiled, k)
            for k, (_, ndim) in enumerate(self.kinds)
        )


class Derived(ArrayFunction):
    """A function made of another one; it returns a tuple."""

    def __init__(
        self, origin: ArrayFunction, kinds: Sequence[Kind], results: Sequence[Kind]
    ) -> None:
        super().__init__(origin.wrapped, kinds, origin.conjugated)
        self.origin, self._results = origin, tuple(results)

    @cached_property
    def results(self) -> tuple[Kind, ...]:
        """The kinds of the results."""
        return self._results


class _Linear(Derived):
    """A function of the arguments of `primal` and of vectors, in which it is linear."""

    def __init__(self, primal: ArrayFunction, wrt: tuple[int, ...]) -> None:
        self.primal, self.wrt = primal, wrt
        vectors, results = self._sides()
        super().__init__(primal, (*primal.kinds, *vectors), results)
        self.linear = len(vectors)

    def _sides(self) -> tuple[list[Kind], list[Kind]]:
        """The kinds of the vectors and of the results."""
        raise NotImplementedError

    @cached_property
    def dispatcher(self) -> Any:
        """The function in compiled form, which is needed to differentiate it."""
        primals, vectors = self._texts
        scope = {"primal": self.primal.dispatcher, "jvp": jvp, "vjp": vjp, "conj": np.conj}
        source = f"def derivative({primals}{vectors}):\n    {self._lines()}\n"
        function = function_from(source, "derivative", scope, module=__name__)
        function.__name__ = f"{type(self).__name__.lower()}_{self.name}"
        return njit(function)

    def _lines(self) -> str:
        """The body of the compiled form."""
        raise NotImplementedError

    @property
    def _texts(self) -> tuple[str, str]:
        count = len(self.primal.kinds)
        primals = "".join(f"x{k}, " for k in range(count))
        return primals, "".join(f"v{k}, " for k in range(self.linear))


class _Pushforward(_Linear):
    def _sides(self) -> tuple[list[Kind], list[Kind]]:
        primal = self.primal
        return [primal.kinds[k] for k in self.wrt], [primal.results[k] for k in primal.useful]

    @cached_property
    def written(self) -> tuple[bool, ...]:
        """What the function writes into, and the tangents of it."""
        own = self.primal.written
        return (*own, *(own[k] for k in self.wrt))

    @property
    def transposed(self) -> ArrayFunction:
        """The pullback, which is the transpose of the pushforward."""
        return self.primal.pullback(self.wrt)

    def _run(self, args: Sequence[Any]) -> Any:
        count = len(self.primal.kinds)
        tangents: list[Any] = [None] * count
        for k, tangent in zip(self.wrt, args[count:], strict=True):
            tangents[k] = tangent
        tangent = jvp(self.primal.dispatcher, tuple(args[:count]), tuple(tangents))[1]
        return [tangent] if self.primal.single else [tangent[k] for k in self.primal.useful]

    def _lines(self) -> str:
        names = {k: f"v{i}" for i, k in enumerate(self.wrt)}
        tangents = "".join(f"{names.get(k)}, " for k, _ in enumerate(self.primal.kinds))
        paths = [""] if self.primal.single else [f"[{k}]" for k in self.primal.useful]
        tangent = "".join(f"t{path}, " for path in paths)
        return f"t = jvp(primal, ({self._texts[0]}), ({tangents}))[1]\n    return ({tangent})"


class Pullback(_Linear):
    """See `ArrayFunction.pullback`."""

    def _sides(self) -> tuple[list[Kind], list[Kind]]:
        primal = self.primal
        return [primal.results[k] for k in primal.useful], [primal.kinds[k] for k in self.wrt]

    @cached_property
    def written(self) -> tuple[bool, ...]:
        """What the function writes into."""
        return (*self.primal.written, *(False,) * self.linear)

    @property
    def transposed(self) -> ArrayFunction:
        """The pushforward, which is the transpose of the pullback."""
        return self.primal.pushforward(self.wrt)

    def _run(self, args: Sequence[Any]) -> Any:
        primal, count = self.primal, len(self.primal.kinds)
        pull = primal.record(args[:count], self.wrt)[1]
        turned = [self._is_conjugated(k) for k in range(count, len(self.kinds))]
        cotangents = [
            np.conj(bar) if turn else bar for bar, turn in zip(args[count:], turned, strict=True)
        ]
        bars = pull(primal._seed(cotangents))
        return [np.conj(bars[k]) if self._is_conjugated(k) else bars[k] for k in self.wrt]

    def _is_conjugated(self, k: int) -> bool:
        """Whether argument `k`, or the derivative with respect to it, is conjugated."""
        return self.conjugated and self.kinds[k][0].kind == "c"

    def _lines(self) -> str:
        primal = self.primal

        def text(cotangent: str, k: int) -> str:
            return f"conj({cotangent})" if self._is_conjugated(k) else cotangent

        count = len(primal.kinds)
        names = {k: text(f"v{i}", count + i) for i, k in enumerate(primal.useful)}
        seeds = [str(names.get(k)) for k, _ in enumerate(primal.results)]
        seed = seeds[0] if primal.single else f"({', '.join(seeds)},)"
        bars = "".join(f"{text(f'bars[{k}]', k)}, " for k in self.wrt)
        return f"bars = vjp(primal, {self._texts[0]})[1]({seed})\n    return ({bars})"


class Batched(Derived):
    """A function run along the first axis of its arguments."""

    def __init__(self, item: ArrayFunction) -> None:
        super().__init__(item, *([(d, n + 1) for d, n in k] for k in (item.kinds, item.results)))
        self.linear = item.linear

    def run(self, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """The results along the first axis; `ShadowMismatch` if their shapes differ."""
        with TAPES.shared():  # one that is not batched serves all rows
            rows = [self.origin.run(each) for each in zip(*arrays, strict=True)]
        if not rows:
            raise ShadowMismatch(
                f"{self.name} is mapped along an axis of length 0",
                why="the shapes of its results are known when it has run",
            )
        for row in rows:
            self.origin.require_shapes(row, [np.shape(entry) for entry in rows[0]])
        return [np.stack(column) for column in zip(*rows, strict=True)]

    def run_with_pullback(
        self, arrays: Sequence[Any], wrt: tuple[int, ...]
    ) -> tuple[list[np.ndarray[Any, Any]], Callable[[Sequence[Any]], list[np.ndarray[Any, Any]]]]:
        """The results along the first axis; a pullback is computed again."""

        def pulled(cotangents: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
            return self.pullback(wrt).run([*arrays, *cotangents])

        return self.run(arrays), pulled

    def pushforward(self, wrt: tuple[int, ...]) -> ArrayFunction:
        """That of the function, along the axis."""
        return self.origin.pushforward(wrt).batched()

    def pullback(self, wrt: tuple[int, ...]) -> ArrayFunction:
        """That of the function, along the axis."""
        return self.origin.pullback(wrt).batched()

    @property
    def transposed(self) -> ArrayFunction:
        """That of the function, along the axis."""
        return self.origin.transposed.batched()


def compiled_call(dispatcher: Any, argtypes: tuple[Any, ...]) -> Any:
    """Numba's compile result of a call of the function, which may have declared signatures."""
    names = ", ".join(f"x{k}" for k, _ in enumerate(argtypes))
    source = f"def call({names}): return function({names})"
    call: Any = njit(function_from(source, "call", {"function": dispatcher}, module=__name__))
    try:
        run_compiled(call.compile, argtypes)
    except NUMBA_REFUSES as error:
        name = display_name(dispatcher)
        raise NotCompilable(
            f"Numba cannot compile {name}({', '.join(map(str, argtypes))}) in nopython mode",
            where=[("the function", name, location_of(dispatcher))],
            why=str(error).strip(),
            instead=[f"first make numba.njit({name}) run on its own with these arguments"],
        ) from error
    return call.overloads[argtypes]


def _type_of(kind: Kind) -> Any:
    number = from_dtype(kind[0])
    return types.Array(number, kind[1], "C") if kind[1] else number


def _result_kind(ty: Any) -> Kind | None:
    """The kind of a result of this type, None if it is neither a number nor an array of them."""
    number = ty.dtype if isinstance(ty, types.Array) else ty
    if not isinstance(number, types.Number | types.Boolean):
        return None
    return np.dtype(str(types.unliteral(number))), getattr(ty, "ndim", 0)


def arguments(arrays: Sequence[Any], written: Sequence[bool] = ()) -> list[Any]:
    """Numbers, and arrays in C order, that compiled code of one type takes."""
    return [_argument(np.asarray(x), bool(written) and written[k]) for k, x in enumerate(arrays)]


def _argument(x: np.ndarray[Any, Any], written: bool) -> Any:
    if x.ndim == 0:
        return x[()]
    flags = x.flags
    if written or not (flags.c_contiguous and flags.writeable and flags.aligned):
        return np.array(x, order="C")
    return x
