"""The `@njit` dispatcher of the function that a user wants to differentiate, and its options.

An `@njit` function, or the result of `grad`, has one already. A plain Python function is compiled;
what Numba knows without compiling it (`math.sin`, a ufunc) is wrapped in a function that calls it.
"""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numba import config, jit, njit
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack
from numba.core.types import Function, NumberClass
from numba.extending import is_jitted
from numba.np.ufunc.gufunc import GUFunc

from activerules.callables import same_function, signature_of
from activerules.errors import NotCompilable, NotYetSupported
from activerules.numba_ext.codegen.made_once import MadeOnce
from activerules.rules.pickled import identity
from activerules.rules.registry import RULES
from activerules.rules.written import function_from

_settings: Any = config  # its attributes are created by name, which pyright does not see
_lock = threading.RLock()
_dispatchers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
# C functions live as long as their modules, and most cannot be referenced weakly.
_of_c: dict[Any, Any] = {}


def dispatcher_of(function: Any) -> Any:
    """Return the `@njit` dispatcher of a function, made on the first call if there is none.

    Raises `NotCompilable` for what Numba neither compiles nor knows.
    """
    own = getattr(function, "dispatcher", function)
    if is_jitted(own):
        return own
    if _settings.DISABLE_JIT:
        raise NotCompilable(
            what="Numba's compiler is turned off: NUMBA_DISABLE_JIT is set",
            why="derivatives are made from compiled code; `njit` now returns plain functions",
            instead=["unset it, and numba.config.DISABLE_JIT, where derivatives are taken"],
        )
    if not callable(function):  # `njit(None)` and `njit("…")` return decorators
        raise _not_a_function(function)
    with _lock:
        try:
            known = _dispatchers if inspect.isfunction(function) else _of_c
            if function not in known:
                known[function] = _new_dispatcher(function)
            return known[function]
        except (TypeError, AttributeError) as error:
            raise _not_a_function(function) from error


def as_compiled(function: Any) -> Any:
    """The function as compiled code sees it, where a `@guvectorize` function returns nothing."""
    return dispatcher_of(function) if isinstance(function, GUFunc) else function


def inherited(dispatcher: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options for functions derived from `dispatcher`: those given, and its own `cache` and
    `nogil`.
    """
    own = {
        "cache": dispatcher.stats.cache_path is not None,
        "nogil": bool(dispatcher.targetoptions.get("nogil")),
    }
    return {name: True for name, is_set in own.items() if is_set} | dict(options)


OPTIONS = ("cache", "fastmath", "nogil", "error_model", "boundscheck")
"""The options of `numba.njit` that derivatives accept."""


def require_known(
    options: Mapping[str, Any],
    more: Sequence[str] = (),
    instead: str = "in the call of what is returned, as in grad(f)(x, {name}=...)",
) -> None:
    """Raise `TypeError` for an option other than `OPTIONS` and `more`; `instead` says where an
    argument of the function belongs.
    """
    accepted = (*OPTIONS, *more)
    unknown = set(options) - set(accepted)
    if unknown:
        name = min(unknown)
        raise TypeError(
            f"no option {name!r}; there are {', '.join(accepted)}. An argument of the function "
            f"belongs {instead.format(name=name)}"
        )
    for name, option in options.items():
        require_flag(name, option)


def require_flag(name: str, given: Any) -> bool:
    """A flag that users give; raises `TypeError` for an array, whose place is elsewhere."""
    if isinstance(given, np.ndarray):
        raise TypeError(
            f"{name} is an array; arguments of the function belong in the call of what is "
            "returned, as in grad(f)(x)"
        )
    return bool(given)


# The flags that change what code computes; in Numba a callee without them inherits its caller's.
_FLAGS = ("boundscheck", "error_model", "fastmath")


def flags_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a function that change what its code computes."""
    return {name: options[name] for name in _FLAGS if options.get(name) is not None}


def named_flags(options: Mapping[str, Any]) -> str:
    """The flags as text; equal flags give equal texts."""
    return "".join(f"_{name}_{_word(flag)}" for name, flag in flags_of(options).items())


def _word(flag: Any) -> str:
    names = sorted(map(str, flag)) if isinstance(flag, set | frozenset) else [str(flag)]
    return "_".join(names)


def explicit_options(options: dict[str, Any], *, checked: bool) -> dict[str, Any]:
    """The `@njit` options that a twin is compiled with.

    Every flag is set, so that none is inherited (T4); code is sequential and has no full debug
    info. `checked` turns bounds checks on, whatever the options say.
    """
    inherited = ConfigStack.top_or_none()
    explicit = dict(options)
    debug = explicit.pop("debug", False)
    explicit["parallel"] = explicit["debug"] = False
    if checked or explicit.get("boundscheck") is None:
        explicit["boundscheck"] = checked or bool(debug)
    if explicit.get("error_model") is None:
        explicit["error_model"] = inherited.error_model if inherited else "python"
    if explicit.get("fastmath") is None:
        explicit["fastmath"] = inherited.fastmath if inherited else False
    return explicit


def with_flags(dispatcher: Any, options: Mapping[str, Any]) -> Any:
    """A dispatcher of the same function with the flags in `options` that it does not set itself."""
    own = dispatcher.targetoptions
    more = {name: flag for name, flag in flags_of(options).items() if own.get(name) is None}
    return _variant(dispatcher, more) if more else dispatcher


def with_options(function: Any, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The dispatcher of a function that a derivative with these options is made of, and the options
    with those that it inherits.
    """
    dispatcher = dispatcher_of(function)
    own = inherited(dispatcher, options)
    return with_flags(dispatcher, own), own


def without_cache(dispatcher: Any) -> Any:
    """A dispatcher of the same function with the same options, but `cache`.

    Numba finds the code of a cached function on disk even if a function that it calls, in another
    module, has changed; a derivative made now would not belong to that code.
    """
    return dispatcher if dispatcher.stats.cache_path is None else _variant(dispatcher, {})


def _variant(dispatcher: Any, more: Mapping[str, Any]) -> Any:
    """A dispatcher of the same function with more options, whose code is not on disk."""

    def make() -> Any:
        unchanged = {
            "locals": dispatcher.locals,
            "pipeline_class": dispatcher._compiler.pipeline_class,
        }
        plain = same_function(dispatcher.py_func)
        return jit(**{**dispatcher.targetoptions, **unchanged, **more})(plain)

    return _variants.get(dispatcher, named_flags(more), make)


_variants = MadeOnce()


def _new_dispatcher(function: Any) -> Any:
    count = _known_arity(function)
    if count is None:
        return njit(function)
    names = _parameters_of(function, count)
    name = function.__name__
    source = f"def call({names}): return _function({names})"
    call = function_from(source, "call", {"_function": function}, module=__name__)
    call.__name__ = call.__qualname__ = name if name.isidentifier() else "function"
    return njit(call)


def _parameters_of(function: Any, count: int) -> str:
    """Names for the arguments: those of the kernel, if there is one, as errors mention them."""
    kernel = getattr(function, "__wrapped__", None)  # of `@vectorize` and `@guvectorize`
    if inspect.isfunction(kernel):
        return ", ".join(kernel.__code__.co_varnames[:count])
    return ", ".join(("x", "y", "z")[:count] if count <= 3 else (f"x{k}" for k in range(count)))


def _known_arity(function: Any) -> int | None:
    """The number of arguments of a function that Numba knows without compiling it, else None."""
    try:
        typing_context: Any = cpu_target.typing_context
        typing_context.refresh()
        known = typing_context.resolve_value_type(function)
    except (NumbaError, ValueError):
        return None
    if not isinstance(known, Function) or isinstance(known, NumberClass):
        return None
    if isinstance(getattr(function, "nin", None), int):
        # In compiled code a generalised ufunc takes its output arrays as arguments.
        return function.nin + (function.nout if isinstance(function, GUFunc) else 0)
    try:
        parameters = signature_of(function).parameters.values()
    except ValueError:
        parameters = ()
    count = sum(p.default is p.empty and p.kind in _POSITIONAL for p in parameters)
    if count == 0:  # `math.hypot`, from Python 3.15 on with the signature `(*coordinates)`
        cases = (case for each in known.templates for case in getattr(each, "cases", ()))
        counts = {len(case.args) for case in cases}
        count = counts.pop() if len(counts) == 1 else 0
    return count or None


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def not_compiled(block: Any) -> NotYetSupported:
    """The error for an objmode block, given as Numba's dispatcher of it."""
    code = block.func_ir
    function, name, what = code.func_id.func, code.func_id.func_name, "its derivative"
    for ruled in RULES.functions():
        for rule in RULES.rules_for(ruled):
            if any(identity(half.function) == identity(function) for half in rule.halves.values()):
                name, what = f"{name}, of a rule for {rule.name}", "a derivative of the rule"
    instead = "put the block into a function of its own and give that a rule"
    if halves := {half for rule in RULES.rules_for(function) for half in rule.halves}:
        lacking = ("augmented_primal", "reverse") if "forward" in halves else ("forward",)
        instead = f"write the rule that {name} lacks in this mode: "
        instead += " and ".join(f"@ar.{half}({name})" for half in lacking)
    return NotYetSupported(
        "a function with an objmode block has no derivative",
        where=[("the block", name, f"{code.loc.filename}:{code.loc.line}")],
        why=f"the code of the block runs in the interpreter, and {what} is asked for",
        instead=[
            instead,
            "where it only prints or logs, or gives integers, declare that function "
            "inactive: ar.inactive(f)",
        ],
    )


def _not_a_function(function: Any) -> NotCompilable:
    name = getattr(function, "__name__", type(function).__name__)
    instead = [f"an @njit function that calls {name}"]
    why = ""
    if inspect.ismethod(function) or hasattr(function, "func"):
        why = "the object and the arguments bound to it are unknown to compiled code"
        instead = ["an @njit function that takes them as arguments, or captures them"]
    elif not callable(function):
        instead = ["an @njit function"]
    return NotCompilable(
        f"{function!r} is not a Python function that Numba compiles", why=why, instead=instead
    )
