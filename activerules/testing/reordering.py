"""Whether a program, or any function it calls, allows its arithmetic to be reordered.

Gives       `may_reorder(f)`: then the primal inside a derivative is equal up to rounding only
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, ModuleType
from typing import Any

from activerules.rules.fingerprint import captured


def may_reorder(f: Any) -> bool:
    """Whether `f`, or a compiled function it refers to, is compiled with `fastmath` or `parallel`,
    or takes a derivative: sums of cotangents may be reordered.

    Each is compiled with its own flags, so those of callees matter as much as those of `f`.
    """
    seen: set[int] = set()
    work = [f]
    while work:
        function = work.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        options = _options(function) or {}
        if options.get("fastmath") or options.get("parallel") or _is_derivative(function):
            return True
        work.extend(_referred(_python_function(function)))
    return False


def _options(function: Any) -> Any:
    """The options of an `@njit`, `@vectorize` or `@guvectorize` function; None for others."""
    kernel = getattr(function, "_dispatcher", function)
    # those of a `@guvectorize` function are not handed on to the dispatcher of its kernel
    return getattr(getattr(function, "gufunc_builder", kernel), "targetoptions", None)


def _is_derivative(value: Any) -> bool:
    """Whether this is `grad`, `autodiff` or the like, or what one of them returns."""
    modules = (getattr(x, "__module__", None) for x in (value, type(value)))
    return any(str(module).startswith("activerules.api.") for module in modules)


def _python_function(function: Any) -> Any:
    return getattr(function, "py_func", getattr(function, "__wrapped__", function))


def _referred(plain: Any) -> Iterator[Any]:
    """The compiled functions that the code of a function names: captured, global, in a module."""
    code = getattr(plain, "__code__", None)
    if not isinstance(code, CodeType):
        return
    names = set(_names(code))
    values = [plain.__globals__[name] for name in names if name in plain.__globals__]
    values += captured(plain).values()
    modules = [value for value in values if isinstance(value, ModuleType)]
    values += [getattr(module, name, None) for module in modules for name in names]
    yield from (v for v in values if _options(v) is not None or _is_derivative(v))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
