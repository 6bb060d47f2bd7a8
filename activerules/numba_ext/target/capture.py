"""Capture: from a Python function and argument types to one module of unoptimised LLVM IR.

Needs       an `@njit` dispatcher or a plain function, Numba argument types, and the rule registry's
            view of callables
Gives       `Captured`: the text of the module, and what later stages must know about it
Invariants  C1  the entry is external; every function it calls is defined, or a runtime function, or
                a marked call
            C2  the semantics are those of the dispatcher's own flags (error_model, boundscheck,
                fastmath, ...), except that `parallel=True` becomes a sequential loop
            C3  a rule registered after a capture is seen by the next one
            C4  the CPU target is left as it was

Capture may be called from several threads, and from inside a compile of Numba.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import lookup_environment
from numba.core.errors import ForceLiteralArg
from numba.core.registry import CPUDispatcher

from activerules.callables import display_name, location_of
from activerules.errors import ActiverulesError, NotCompilable
from activerules.ir.derivatives.rulecall import MARKED_PREFIX
from activerules.ir.text.called_values import with_called_values
from activerules.ir.text.symbols import (
    called,
    globals_named,
    resolved,
    with_definitions,
    with_promises,
    with_results,
    with_statuses,
)
from activerules.numba_ext.codegen.arity import folded, of_count, takes_any_number
from activerules.numba_ext.codegen.link import ENVIRONMENT_PREFIX
from activerules.numba_ext.codegen.made_once import MadeOnce
from activerules.numba_ext.codegen.types import AnnotationType, refused_annotation
from activerules.numba_ext.substitutes.visible import DEFINITIONS, NEEDED
from activerules.numba_ext.target import (
    implementations,  # noqa: F401  (registers what it implements)
    symbols,  # noqa: F401  (what Numba's functions are to the engine)
)
from activerules.numba_ext.target.call_sites import CallAt
from activerules.numba_ext.target.declared import converts
from activerules.numba_ext.target.dispatchers import dispatcher_of
from activerules.numba_ext.target.function_values import may_hold_a_function
from activerules.numba_ext.target.marked_calls import (
    FollowedCall,
    MarkedCall,
)
from activerules.numba_ext.target.rule_function import NUMBA_REFUSES, compile_for_cpu, on_cpu
from activerules.numba_ext.target.target import Session
from activerules.rules.views import RuleView
from activerules.rules.written import replacement_of
from activerules.values.abi import AbiParameter, flatten
from activerules.values.tree_items import advice_on

# What Numba says of a returned value that refers to its caller's stack: the place in a `zip`.
_RETURNED_ITERATOR = "use load_from_data_pointer() instead"
_UNRESOLVED = ".numba.unresolved$"


@dataclass(frozen=True)
class LoweredArgument:
    """One Numba argument: `slots[i]` is LLVM parameter number `parameters[i]` of the entry."""

    name: str
    numba_type: types.Type
    slots: tuple[AbiParameter, ...]
    parameters: tuple[int, ...]


_STATUS = "range(i32 -1, 2147483647)"
"""The range of a function's status, unless its result is Optional or it is a generator: it is never
the status of None. This holds for marked calls, too. LLVM then removes the test for None.
"""


@dataclass(frozen=True)
class Captured:
    """A function captured for given argument types.

    text          LLVM IR of the whole module, unoptimised, with line tables
    symbol        the entry: `i32 (ptr retptr, ptr excinfo, flattened arguments)`
    signature     Numba argument and return types, defaults folded in
    arguments     one per Numba argument, with its LLVM parameters
    marked        calls that were kept opaque, by symbol
    environments  the Numba environments that the module names, kept alive here
    location      "file:line" of the function
    call_at       finds the call at a "file:line" that leads to a symbol: see `call_sites`
    followed      calls of functions with rules whose bodies are differentiated instead
    """

    text: str
    symbol: str
    name: str
    signature: Any
    fndesc: Any
    arguments: tuple[LoweredArgument, ...]
    marked: Mapping[str, MarkedCall]
    environments: tuple[Any, ...]
    location: str
    call_at: CallAt
    followed: tuple[FollowedCall, ...]

    @property
    def argument_names(self) -> tuple[str, ...]:
        """Names of the Numba arguments, in order."""
        return tuple(argument.name for argument in self.arguments)


def capture(
    function: CPUDispatcher | Callable[..., Any],
    argtypes: tuple[types.Type, ...],
    *,
    rules: RuleView,
) -> Captured:
    """Compile `function` for `argtypes` up to unoptimised LLVM IR, with everything it calls.

    Trailing arguments that have defaults may be left out of `argtypes`.
    Raises `NotCompilable`, with Numba's own error as its cause.
    """
    dispatcher = dispatcher_of(function)
    with global_compiler_lock:
        session = _session(rules)
        try:
            entry = _function_to_capture(dispatcher, rules, argtypes)
            # a function that is passed on in code which is captured itself is a twin there
            pysig, argument_types = folded(entry, tuple(map(on_cpu, argtypes)))
            result = session.compile(entry, tuple(argument_types))
        except ActiverulesError:
            raise
        except (*NUMBA_REFUSES, TypeError, NotImplementedError) as error:
            refusal: Exception = error
        else:
            return _captured(session, dispatcher, result, tuple(pysig.parameters))
        # here, where `refusal` is not the context of what Numba raises for the function itself
        if (own := _refusal_for_cpu(dispatcher, argtypes)) is None:
            raise _not_captured(dispatcher, argtypes, refusal) from refusal
        raise _not_compilable(dispatcher, argtypes, own) from own


_calls = MadeOnce()


def _function_to_capture(
    dispatcher: CPUDispatcher, rules: RuleView, argtypes: tuple[types.Type, ...]
) -> Any:
    """The function to capture: `dispatcher`, or a wrapper with one call of it.

    It is wrapped if it has a rule (its body is never differentiated; the call becomes a marked
    call), takes any number of arguments, or converts them to a declared signature.
    """
    plain: Any = dispatcher.py_func
    counted, count = takes_any_number(plain), len(argtypes)
    parameters = of_count(dispatcher, count).parameters.values()
    simple = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    wrapped = counted or rules.carries_rule(dispatcher) or converts(dispatcher, argtypes)
    if not simple or not wrapped:
        return dispatcher

    def make() -> Any:
        names = ", ".join(p.name for p in parameters)
        source = f"def call({names}): return _function({names})"
        call = replacement_of(plain, source, {"_function": dispatcher}, name="call")
        call.__defaults__ = tuple(p.default for p in parameters if p.default is not p.empty) or None
        return numba.njit(call)

    return _calls.get(dispatcher, count if counted else None, make)


_sessions: dict[tuple[int, Hashable], tuple[RuleView, Session]] = {}


def _session(rules: RuleView) -> Session:
    """The session for the registry's current state (C3); debug mode has its own.

    The registry is kept alive so that its id is not reused.
    """
    key = (id(rules), rules.debug)
    known = _sessions.get(key)
    if known is None or known[1].epoch != rules.epoch:
        known = (rules, Session(rules))
        _sessions[key] = known
    return known[1]


def _captured(session: Session, function: Any, result: Any, names: tuple[str, ...]) -> Captured:
    module, text = _with_resolved_recursion(session, result.library._final_module)
    text = with_definitions(text, DEFINITIONS, NEEDED)
    callers = dict.fromkeys((result.fndesc.llvm_func_name, *(f.name for f in module.functions)))
    marked = {name: session.calls.get(name, callers) for name in called(text, MARKED_PREFIX)}
    exchanged = [result.signature, *(call.signature for call in marked.values())]
    text = with_called_values(text, closed=not any(map(_exchanges_functions, exchanged)))
    text = with_results(text, _STATUS, prefix=MARKED_PREFIX)
    text = with_statuses(text, _STATUS, parameter="retptr", unless="-[23]")
    symbol, arguments = result.fndesc.llvm_func_name, _arguments(names, result.signature.args)
    return Captured(
        text=with_promises(text, symbol, _lengths(arguments)),
        symbol=symbol,
        name=display_name(function),
        signature=result.signature,
        fndesc=result.fndesc,
        arguments=arguments,
        marked=marked,
        environments=_environments(text),
        location=location_of(function),
        call_at=session.sites.call_at,
        followed=session.calls.followed_in(callers),
    )


def _exchanges_functions(signature: Any) -> bool:
    """Whether functions that are values may pass from one side of a call to the other."""
    return any(map(may_hold_a_function, (signature.return_type, *signature.args)))


def _arguments(
    names: tuple[str, ...], numba_types: tuple[types.Type, ...]
) -> tuple[LoweredArgument, ...]:
    arguments = []
    start = 2  # after retptr and excinfo
    for name, numba_type in zip(names, numba_types, strict=True):
        slots = flatten(numba_type)
        parameters = tuple(range(start, start + len(slots)))
        arguments.append(LoweredArgument(name, numba_type, slots, parameters))
        start += len(slots)
    return tuple(arguments)


def _lengths(arguments: Sequence[LoweredArgument]) -> dict[int, str]:
    """The lengths of the axes of arrays, as LLVM parameters, with what LLVM cannot know: they are
    not negative.

    Numba clamps the ends of a slice to the length of the axis, a negative one too. Without these
    branches `a[i, :j]` begins where row `i` does, whatever `j` is.
    """
    slots = [each for a in arguments for each in zip(a.parameters, a.slots, strict=True)]
    return {k: f"range({s.llvm} 0, {-(2**63)})" for k, s in slots if s.role == "shape"}


def _environments(text: str) -> tuple[Any, ...]:
    known = map(lookup_environment, globals_named(text, ENVIRONMENT_PREFIX))
    return tuple(environment for environment in known if environment is not None)


def _with_resolved_recursion(
    session: Session, module: llvm.ModuleRef
) -> tuple[llvm.ModuleRef, str]:
    """A module in which mutually recursive functions call each other by name, with its text.

    Without mutual recursion it is `module` itself, which belongs to Numba. Numba compiles one of
    the functions before the other exists, so the call goes through a pointer that Numba's execution
    engine would fill in. Here that pointer becomes a constant, which LLVM folds into a direct call.
    """
    if _UNRESOLVED not in (text := str(module)):
        return module, text
    module = module.clone()
    while missing := _undefined_recursion(module):
        name = missing.pop()
        if name not in session.libraries:
            raise NotCompilable(
                "Numba does not find a recursive function that is called",
                why="Numba calls it by its module, which is not loaded; that of code which `exec` "
                "runs is the global `__name__`",
                instead=["a function of a module, or of `__main__`"],
            )
        # Linked while it is external, as in its own library: the linker would drop a `linkonce`
        # function as unused. The others may be in `module` already (destructors of classes).
        module.link_in(_with_one_external(session.libraries[name]._final_module, name))
        module.get_function(name).linkage = "linkonce_odr"
    return module, resolved(str(module), _UNRESOLVED)


def _with_one_external(module: llvm.ModuleRef, name: str) -> llvm.ModuleRef:
    module = module.clone()
    defined = (f for f in module.functions if not f.is_declaration)
    for function in defined:
        if function.linkage == llvm.Linkage.external and function.name != name:
            function.linkage = "linkonce_odr"
    return module


def _undefined_recursion(module: llvm.ModuleRef) -> set[str]:
    defined = {f.name for f in module.functions if not f.is_declaration}
    pointers = [g.name for g in module.global_variables if g.name.startswith(_UNRESOLVED)]
    return {name.removeprefix(_UNRESOLVED) for name in pointers} - defined


def _refusal_for_cpu(function: Any, argtypes: Any) -> Exception | None:
    """What Numba raises for the function itself: its text names no implementation of the target."""
    try:
        compile_for_cpu(function, tuple(argtypes), {})
    except (*NUMBA_REFUSES, TypeError, NotImplementedError) as refusal:
        return refusal
    return None


def _not_captured(function: Any, argtypes: Any, error: Exception) -> NotCompilable:
    call = f"{display_name(function)}({', '.join(map(str, argtypes))})"
    instead = [
        "call functions by name where they are chosen (`f(x) if c else g(x)`), not from variables",
        "give the function that does so a rule",
    ]
    why = f"each function is compiled anew for that: {str(error).strip()}"
    if _RETURNED_ITERATOR in str(error):
        why = 'functions with inline="always" are called there, and no call returns an iterator'
        instead[0] = "write `zip(…)`, `enumerate(…)` or `iter(…)` in the loop that uses it"
    return NotCompilable(
        f"Numba compiles {call}, but not in the form that is differentiated",
        where=[("while compiling", call, location_of(function))],
        why=why,
        instead=instead,
    )


def _not_compilable(function: Any, argtypes: Any, refusal: Exception) -> ActiverulesError:
    name = display_name(function)
    parameters = of_count(function, len(argtypes)).parameters
    for parameter, ty in zip(parameters, argtypes, strict=False):
        if isinstance(ty, AnnotationType):
            return refused_annotation(parameter, ty)
    call = f"{name}({', '.join(map(str, argtypes))})"
    literal, said = isinstance(refusal, ForceLiteralArg), str(refusal)
    on_its_own = f"first make numba.njit({name}) run on its own with these arguments"
    return NotCompilable(
        f"Numba cannot compile {call} in nopython mode",
        where=[("while compiling", call, location_of(function))],
        why=_reason(refusal),
        instead=[
            *["np.float32"] * (said.strip() == "float16"),
            *[f"a function with the value in it: njit(lambda x: {name}(x, 3))"] * literal,
            *["@njit for the plain functions that it calls"] * _calls_plain_function(said),
            *["import modules above the function, not in it"] * ("IMPORT_NAME" in said),
            *["pass a guvectorize function the array that it writes: f(x, out)"]
            * ("cannot call <numba._GUFunc" in said),
            *(advice_on(argtypes) or [on_its_own] * (not literal)),
        ],
    )


def _calls_plain_function(said: str) -> bool:
    return "Untyped global name" in said and "type of <class 'function'>" in said


def _reason(error: Exception) -> str:
    """What Numba says; of a type that it does not compile, it says the name alone."""
    said = str(error).strip()
    if isinstance(error, ForceLiteralArg):
        return "it asks for the value of an argument, literally(n), where only its type is known"
    return f"Numba compiles no numbers of type {said} for a CPU" if said == "float16" else said
