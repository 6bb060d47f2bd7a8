"""Functions made by `@vectorize` and `@guvectorize`, for the AD target.

Needs       such a function, the contexts of a session
Gives       `VectorizedTwin`, `GeneralisedTwin`: the same function with its kernel compiled for the
            AD target, so that rules apply in it; `for_each_element`: a function that applies
            another to every element, so that a rule for numbers serves calls with arrays
Invariants  U1  a twin has the loops of its original, and chooses among them as the original does;
                it has no loops for other types
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from numba.np.ufunc import ufuncbuilder
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc, GUFuncLowerer

from activerules.rules.written import function_from

Compiling = Callable[[], AbstractContextManager[Any]]


class KernelDispatcher(ufuncbuilder.UFuncDispatcher):
    """Compiles a kernel for the AD target, once per loop of the original (U1).

    targetdescr     the contexts of the session
    for_ad, for_cpu make context managers within which to compile for either target
    """

    def __init__(
        self,
        original: Any,
        options: dict[str, Any],
        targetdescr: Any,
        for_ad: Compiling,
        for_cpu: Compiling,
    ) -> None:
        self.targetdescr = targetdescr
        self._original = original
        self._for_ad, self._for_cpu = for_ad, for_cpu
        dispatcher = original._dispatcher
        super().__init__(dispatcher.py_func, locals=dict(dispatcher.locals), targetoptions=options)

    def compile(self, *args: Any, **kws: Any) -> Any:
        """Compile the kernel for one loop of a ufunc, for the AD target."""
        with self._for_ad():
            return super().compile(*args, **kws)

    def loop(self, ewise_types: Any) -> tuple[Any, Any]:
        """The signature and the compile result of the loop for given types; (None, None) if the
        original has no such loop.
        """
        chosen, _ = self._original.find_ewise_function(ewise_types)
        if chosen is None:
            return None, None
        if chosen not in self.overloads:
            self.compile(chosen)
        return chosen, self.overloads[chosen]

    def add_loop(self, ewise_types: Any) -> None:
        """Let the original compile a loop."""
        with self._for_cpu():
            self._original._compile_for_argtys(ewise_types)


class VectorizedTwin(DUFunc):
    """A `@vectorize` function whose kernel is compiled for the AD target."""

    @classmethod
    def of(cls, original: Any, kernels: KernelDispatcher) -> Any:
        """The twin of a `@vectorize` function for the AD target."""
        twin: Any = cls.__new__(cls)
        twin._initialize(kernels, original.identity)
        return twin

    def find_ewise_function(self, ewise_types: Any) -> tuple[Any, Any]:
        """Like Numba's, but among the loops of the original."""
        twin: Any = self
        chosen, compiled = twin._dispatcher.loop(ewise_types)
        # The libraries that a call of the twin links.
        if compiled is not None and compiled.library not in twin._lower_me.libs:
            twin._lower_me.libs.append(compiled.library)
        return chosen, compiled

    def _compile_for_argtys(self, argtys: Any, return_type: Any = None) -> Any:
        twin: Any = self
        if twin.find_ewise_function(argtys) == (None, None):
            twin._dispatcher.add_loop(argtys)
        return twin.find_ewise_function(argtys)[1]


class GeneralisedTwin(GUFunc):
    """A `@guvectorize` function whose kernel is compiled for the AD target."""

    @classmethod
    def of(cls, original: Any, kernels: KernelDispatcher, typing: Any, target: Any) -> Any:
        """The twin of a function, known to these contexts."""
        twin: Any = cls.__new__(cls)
        twin.__dict__.update(original.__dict__)
        twin._dispatcher = kernels
        twin._lower_me = GUFuncLowerer(twin)
        twin._install_type(typing)
        twin._install_cg(target)
        return twin

    def find_ewise_function(self, ewise_types: Any) -> tuple[Any, Any]:
        """Like Numba's, but among the loops of the original."""
        twin: Any = self
        return twin._dispatcher.loop(tuple(ewise_types))

    def _compile_for_argtys(self, argtys: Any, return_type: Any = None) -> Any:
        twin: Any = self
        twin._dispatcher.add_loop(argtys)


FOR_EACH = "<for each element>"


def is_for_each(py_func: Any) -> bool:
    """Whether a kernel was made by `for_each_element`, not written by a user."""
    return py_func.__code__.co_filename == FOR_EACH


def for_each_element(function: Any, names: tuple[str, ...]) -> DUFunc:
    """The `@vectorize` function that calls a function of numbers, with these argument names."""
    parameters = ", ".join(names)
    source = f"def call({parameters}): return _function({parameters})"
    names_of = {"_function": function}
    return DUFunc(function_from(source, "call", names_of, module=__name__, file=FOR_EACH))
