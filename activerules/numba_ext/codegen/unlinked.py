"""CPU code that is only ever linked into other code: no entry point, no machine code.

Needs       a Python function, options of `@njit`, argument types
Gives       `to_link`: a dispatcher for it, for compiled callers; `linked_form`: such a
            dispatcher of a dispatcher's function; `compile_to_link`: its compile result;
            `single_call`: such a dispatcher of one call of a function; `in_order`: the
            arguments a call names in the order of a function's parameters; `cpu_context`;
            `compiling_for_cpu`, `uninherited_flags`: around such a compile inside of another;
            `without_performance_warnings`: around the compile of a derivative; `refresh`
Invariants  U1  Numba's errors pass through unchanged
            U2  a dispatcher compiles once per tuple of types
            U3  a function with a `with` block is compiled by Numba as usual: an `objmode` block
                is called from Python, and inherits the flags of the function around it

Numba makes machine code of every function it compiles, and wrappers that convert its arguments from
Python objects. Rules, and the one-line functions around what carries a rule, need neither: they are
optimised again where they are linked.
"""

from __future__ import annotations

import dis
import inspect
import warnings
import weakref
from collections import ChainMap
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from types import CodeType
from typing import Any

import numba
from numba.core.compiler import Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaPerformanceWarning
from numba.core.registry import cpu_target
from numba.core.target_extension import target_override
from numba.core.targetconfig import ConfigStack

from activerules.callables import parameters_of, same_function
from activerules.numba_ext.codegen.link import leave_to_caller, make_no_code, publish_environment
from activerules.numba_ext.codegen.unoptimised import NeverCalled
from activerules.rules.written import function_from


def cpu_context() -> Any:
    """The CPU's target context as it is inside a compile, with reference counting."""
    context: Any = cpu_target.target_context
    return context.subtarget(enable_nrt=True)


@contextmanager
def compiling_for_cpu() -> Generator[None, None, None]:
    """A context in which Numba compiles for the CPU, as for a call from Python."""
    with target_override("cpu"), uninherited_flags():
        yield


@contextmanager
def without_performance_warnings() -> Generator[None, None, None]:
    """A context without Numba's warnings that products of contiguous arrays are faster. Compiling
    the function itself gives these warnings; its derivative would repeat them, for lines of ours.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaPerformanceWarning)
        yield


def refresh() -> None:
    """Let Numba load what was registered since it began to type: the function being typed may be
    the first to mention activerules. If Numba is not typing, it loads that before it compiles.
    """
    if global_compiler_lock.is_locked():
        context: Any = cpu_target.typing_context
        context.refresh()


def uninherited_flags() -> AbstractContextManager[Any]:
    """A context in which a compile starts from Numba's default flags: it inherits none from a
    compile in progress.
    """
    flags: Any = Flags()
    flags.nrt = True
    return ConfigStack().enter(flags)


def to_link(function: Callable[..., Any], *, optimised: bool = False, **options: Any) -> Any:
    """Return a dispatcher whose code is only linked into callers, never made machine code alone.

    A call from Python, as of a rule that runs directly, compiles the function once more.

    `optimised`: by itself, so that it can be seen what LLVM proves of the function.
    """
    jit: Any = numba.njit
    if _has_with(function.__code__):
        return jit(**options)(function)
    dispatcher = jit(**{**options, "no_cpython_wrapper": True, "no_cfunc_wrapper": True})(function)
    dispatcher._compiler._customize_flags = _without_machine_code
    finish = make_no_code if optimised else leave_to_caller
    for_python = cache(lambda: jit(**options)(function))
    dispatcher._compiler.compile = partial(_compiled, dispatcher._compiler.compile, for_python)
    dispatcher.add_overload = partial(_add_linked, dispatcher, finish)
    return dispatcher


class _EntryForPython(NeverCalled):
    """Stands for the executable of a function that has none; calls another one of it."""

    def __init__(self, environment: Any, library: Any, made: Callable[[], Any]) -> None:
        super().__init__(environment, library)
        self._made = made

    def __call__(self, *args: Any) -> Any:
        return self._made()(*args)


def _compiled(
    compile_: Callable[[Any, Any], Any], for_python: Callable[[], Any], args: Any, returned: Any
) -> Any:
    """A compile result; its entry point is for calls from Python alone."""
    result = compile_(args, returned)
    entry = _EntryForPython(result.environment, result.library, for_python)
    return result._replace(entry_point=entry)


def _add_linked(dispatcher: Any, finish: Callable[[Any], None], result: Any) -> None:
    """Record a compile result."""
    context, library = result.target_context, result.library
    # As Numba does with the entry point: the function finds its constants there.
    publish_environment(context, result.fndesc, result.environment, library._final_module)
    finish(library)
    context.insert_user_function(result.entry_point, result.fndesc, [library])
    dispatcher.overloads[tuple(result.signature.args)] = result


_linked: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def linked_form(dispatcher: Any) -> Any:
    """A dispatcher of the same function for compiled callers, by `to_link`, optimised; what the
    dispatcher has compiled is not compiled again.
    """
    if not dispatcher._can_compile:  # a declared signature converts arguments
        return dispatcher
    made = _linked.get(dispatcher)
    return _linked_form(dispatcher) if made is None else made


@global_compiler_lock
def _linked_form(dispatcher: Any) -> Any:
    if dispatcher not in _linked:
        own = {"locals": dispatcher.locals, "pipeline_class": dispatcher._compiler.pipeline_class}
        options = {**dispatcher.targetoptions, **own}
        options.pop("nopython", None)
        linked = to_link(same_function(dispatcher.py_func), optimised=True, **options)
        linked.overloads = ChainMap({}, dispatcher.overloads)
        _linked[dispatcher] = linked
    return _linked[dispatcher]


def _has_with(code: CodeType) -> bool:
    """Whether there is a `with` block in a function, or in one that is defined in it."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    own = {instruction.opname for instruction in dis.get_instructions(code)}
    return not own.isdisjoint(_WITH) or any(map(_has_with, inner))


# Of Python up to 3.13, and from 3.14.
_WITH = ("BEFORE_WITH", "LOAD_SPECIAL")


def _without_machine_code(flags: Any) -> Any:
    flags.no_compile = True
    return flags


def compile_to_link(dispatcher: Any, args: tuple[Any, ...]) -> Any:
    """Return Numba's compile result of a dispatcher made by `to_link`."""
    dispatcher.compile(args)
    return dispatcher.overloads[args]


def in_order(function: Any, keywords: dict[str, Any]) -> dict[str, Any]:
    """Arguments that a call names, in the order of the function's parameters."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return keywords
    position = {name: i for i, name in enumerate(names)}
    return dict(sorted(keywords.items(), key=lambda named: position.get(named[0], len(names))))


_stubs: dict[tuple[int, int, tuple[str, ...]], Any] = {}


def single_call(function: Any, count: int, keywords: tuple[str, ...]) -> Any:
    """A function that makes one call of `function`."""
    key = (id(function), count, keywords)
    if key not in _stubs:
        _stubs[key] = to_link(_make_stub(function, count, keywords))
    return _stubs[key]


def _make_stub(function: Any, count: int, keywords: tuple[str, ...]) -> Callable[..., Any]:
    positional = _positional_names(function, count, keywords)
    parameters = ", ".join((*positional, *keywords))
    arguments = ", ".join((*positional, *(f"{name}={name}" for name in keywords)))
    source = f"def stub({parameters}):\n    return _function({arguments})\n"
    # The stub holds `function`, so that the id in the key of `_stubs` stays taken.
    return function_from(source, "stub", {"_function": function}, module=__name__)


def _positional_names(function: Any, count: int, keywords: tuple[str, ...]) -> tuple[str, ...]:
    """The function's own parameter names where they can be determined: rules and errors refer to
    arguments by name.
    """
    names = parameters_of(function)[:count]
    usable = len(names) == count and not set(names) & set(keywords)
    return names if usable else tuple(f"argument_{i}" for i in range(count))
