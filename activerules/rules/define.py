"""The decorators that define rules.

    @augmented_primal(f)
    def _(config, ret: Active, x: Active, n: Const): ...

    @reverse(f)
    def _(config, dret: Active, tape, x: Active, n: Const): ...

Rules are dispatched on the annotations; a parameter without one admits any activity, but no batch.
The two halves are paired by equal annotations.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace as replace_fields
from functools import partial
from importlib import import_module
from types import FrameType, MethodDescriptorType
from typing import Any, TypeVar

import numpy as np

from activerules.annotations.activity import (
    BATCHED,
    BY_NAME,
    KINDS,
    Active,
    Annotation,
    Const,
    Duplicated,
    is_annotation_class,
)
from activerules.callables import display_name, location_of, python_function, signature_of
from activerules.errors import RuleDefinitionError
from activerules.rules import pattern as patterns
from activerules.rules.consistent import refuse_keyword_only, refuse_other_count, refuse_other_order
from activerules.rules.fingerprint import captured
from activerules.rules.listing import Rules
from activerules.rules.pattern import Pattern, canonical_type, pattern_of
from activerules.rules.registry import RULES
from activerules.rules.rule import RESULT, Half, Rule, RuleHalf

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Names = Iterable[str] | str

_LEADING: dict[Half, tuple[str, ...]] = {
    "augmented_primal": ("config", "ret"),
    "reverse": ("config", "dret", "tape"),
    "forward": ("config", "ret"),
}


_UNANNOTATED: dict[Half, Any] = {
    "augmented_primal": Annotation,
    "reverse": Annotation,
    "forward": Const | Duplicated,  # no batches: a rule that does not name them runs once per lane
}


def augmented_primal(
    function: Any,
    *,
    replace: bool = False,
    saves: Iterable[str] | str = (),
    keeps_shadow: bool = True,
    sends: Names | None = None,
    receives: Names | None = None,
) -> Callable[[F], F]:
    """Define the half of a reverse rule that runs the function: `(config, ret, *args)`.

    It returns `AugmentedReturn(primal, shadow, tape)`. Arguments are annotations (`x.val`,
    `x.dval`). `function` is an `@njit` function, a NumPy or math function, an operator or a ctypes
    function. `saves` names the arrays whose values `reverse` reads: it finds them unchanged, and
    only those that may be overwritten in between are copied. `keeps_shadow=False` promises that no
    shadow (`x.dval`) is on the tape, and that a returned shadow is new zeros: one run then serves
    several shadows per argument.

    `sends` and `receives` name arguments whose data leaves, or enters, other than through the
    arguments and the result (by a queue, a socket, shared memory), with `"ret"` for the result;
    `()` declares that none does. Both halves then run at every call, whatever is active.

    Raises `RuleDefinitionError` and `AmbiguousRule`; `replace=True` replaces another module's rule.
    """
    options = {"keeps_shadow": keeps_shadow, "sends": sends, "receives": receives}
    return _decorator(function, "augmented_primal", replace, saves, options)


def reverse(
    function: Any, *, replace: bool = False, saves: Iterable[str] | str = ()
) -> Callable[[F], F]:
    """Define the half of a reverse rule that runs backwards: `(config, dret, tape, *args)`.

    It adds to the shadows of Duplicated arguments with `accumulate`, and returns a tuple with the
    derivative for each Active argument and None for the others; with one Active argument the
    derivative alone will do, with none, None. `saves`, `replace` and errors are those of
    `augmented_primal`.
    """
    return _decorator(function, "reverse", replace, saves)


def forward(
    function: Any,
    *,
    replace: bool = False,
    sends: Names | None = None,
    receives: Names | None = None,
) -> Callable[[F], F]:
    """Define the forward rule of a function: `(config, ret, *args)`.

    Arguments with a derivative are Duplicated, floats too: `x.dval` is the tangent. It returns
    `(primal, tangent)`; if `config` asks for one of them only, that one alone will do, and None if
    it asks for neither. With several tangents at once it runs once per lane, unless its arguments
    are BatchDuplicated. `sends`, `receives` and errors are those of `augmented_primal`.
    """
    return _decorator(function, "forward", replace, (), {"sends": sends, "receives": receives})


def inactive(
    *functions: Any, args: Iterable[str | int] | str | int | None = None, replace: bool = False
) -> Any:
    """Declare that the result of a function has no derivative or, with `args`, none with respect to
    these arguments.

    `args` are names or positions; the function needs no rule. Also a decorator: returns the first
    function. Raises `RuleDefinitionError` for anything but functions, and for an argument that the
    function does not have.

    If there is also a rule for the function, the later of the two wins (without `args`);
    `AmbiguousRule` if they are from different packages, unless `replace` is set.
    """
    library_first()
    module = frame_of_caller(2).f_globals.get("__name__", "")
    names = (args,) if isinstance(args, (str, int)) else args
    names = None if names is None else tuple(names)
    for function in functions:
        require_function(function, "inactive")
        _require_arguments(function, names or ())
        RULES.declare_inactive(function, names, module, replace=replace)
    return functions[0] if functions else None


def inactive_type(numba_type: T) -> T:
    """Declare that values of a Numba type (or of a class of Numba types) carry no derivative; a
    jitclass stands for the type of its instances.

    Such arguments of a differentiated function are Const: any other annotation is an
    `ActivityError`, and `vjp` returns None for them. A function with rules takes and returns them
    as constants, whatever they hold. Inside differentiated functions, values read from or stored
    into such a value lose their derivative; active arrays in one are refused. Also a decorator of a
    class.
    """
    try:
        if numba_type is None:
            raise TypeError("None stands for all types")
        declared = canonical_type(numba_type)
    except TypeError as error:
        raise RuleDefinitionError(
            f"inactive_type takes a type: {error}", instead=["numba.typeof(value)"]
        ) from error
    RULES.declare_inactive_type(declared)
    return numba_type


def refuse(*functions: Any, why: str) -> None:
    """Declare that differentiating the bodies of functions gives wrong derivatives.

    Their calls are served by rules; a derivative that no rule computes is refused with
    `NoRuleForActivity`, which says `why`.
    """
    library_first()
    for function in functions:
        RULES.refuse(function, why)


def noalias(function: F) -> F:
    """Promise that the results of a function and of its rules never share memory with arguments.

    Without the promise every call checks this: the engine assumes that a rule returns new memory.
    """
    library_first()
    require_function(function, "noalias")
    RULES.promise_noalias(function)
    return function


def opt_out(function: Any, *signature: Any, mode: str = "both") -> None:
    """Let the body of a function be differentiated where the types of its arguments fit.

    `signature` has an annotation per argument, as in a rule: `opt_out(f, Active[float64], Const)`.
    A rule for more specific types still serves its calls. For a function with several arguments
    that can have derivatives, the activities at the call decide, too: its body then acts as a rule
    that computes the function once more. Otherwise (one such argument; NumPy's functions) the types
    decide. Without a signature the body is differentiated at every call.

    `mode="forward"`, without a signature, declares that differentiating the body is correct in
    forward mode, and in second derivatives: for a function with only a reverse pair it silences the
    warning, and rules for that mode are not used. Likewise `mode="reverse"`.
    """
    if mode not in ("both", "forward", "reverse") or (mode != "both" and signature):
        raise RuleDefinitionError(
            f"opt_out of {display_name(function)} takes annotations, or mode='forward', 'reverse'",
            why=f"mode is {mode!r}, and there are {len(signature)} annotations",
            instead=[f'opt_out({display_name(function)}, mode="forward")'],
        )
    library_first()
    if mode == "forward" or mode == "reverse":
        RULES.trust_body(mode, function)
        return
    require_function(function, "opt_out")
    admitted = tuple(
        _pattern(a, f"argument {i}", opt_out, "opt_out") for i, a in enumerate(signature)
    )
    if admitted:
        refuse_other_count(function, len(admitted), [], "opt_out")
    RULES.opt_out(function, admitted or None)


def require_function(function: Any, what: str) -> None:
    """Refuse an object that compiled code never calls; `what` is the declaration about it."""
    if isinstance(function, MethodDescriptorType):
        name = function.__name__
        raise RuleDefinitionError(
            f"{what} of {function.__qualname__}: compiled code has no such function",
            why="Numba compiles methods for each type of object",
            instead=[f"np.{name}, which is `x.{name}()` of an array, too"]
            if function.__objclass__ is np.ndarray and hasattr(np, name)
            else ["an @njit function that calls the method"],
        )
    if inspect.ismethod(function) and not _is_of_module(function):
        raise RuleDefinitionError(
            f"{what} of {function.__qualname__}, which is bound to one object",
            instead=[f"{function.__qualname__}, as an attribute of the class"],
        )
    if isinstance(function, partial) or function is partial:
        raise RuleDefinitionError(
            f"{what} takes a function that @njit functions can call, not {function!r}",
            instead=["the function itself", "an @njit function that calls it"],
        )
    if not (callable(function) or hasattr(function, "__wrapper_address__")):
        raise RuleDefinitionError(f"{what} takes a function, not {function!r}")


def _is_of_module(method: Any) -> bool:
    """Whether it is a function to its users, as `random.gauss` is, a method of a hidden object."""
    return getattr(inspect.getmodule(method), method.__name__, None) == method


def _require_arguments(function: Any, names: Iterable[str | int]) -> None:
    try:
        parameters = list(signature_of(function).parameters)
    except (TypeError, ValueError):
        return
    for name in names:
        known = name in parameters if isinstance(name, str) else 0 <= name < len(parameters)
        if not known:
            raise RuleDefinitionError(
                f"{display_name(function)} has no argument {name!r}",
                why=f"its arguments are {', '.join(parameters)}",
            )


def rules_for(function: Any) -> Rules:
    """Return the rules of a function, a tuple in the order of their definition.

    `print` shows a line per rule, and a notebook a table. Functions that the engine differentiates
    itself, such as `math.sin`, have none.
    """
    library_first()
    return Rules(RULES.rules_for(function))


def has_rule(function: Any, *activities: type[Annotation] | str) -> bool:
    """Return whether a function has a rule; with activities, whether one admits exactly these."""
    rules = rules_for(function)
    if not activities:
        return bool(rules) or RULES.is_inactive(function)
    kinds = list(map(_kind, activities))
    return any(_admits(rule.arguments, kinds) for rule in rules)


def _kind(activity: Any) -> type[Annotation]:
    kind: Any = BY_NAME.get(activity) if isinstance(activity, str) else activity
    if not is_annotation_class(kind):
        raise RuleDefinitionError(
            f"has_rule takes activities, not {activity!r}",
            instead=["Const, Active, Duplicated, or their names in lower case"],
        )
    return kind


def library_first() -> None:
    """Load the rules of the library: users' are defined after them, and may replace them."""
    import_module("activerules.rules.library")


def _admits(arguments: tuple[Pattern, ...], kinds: list[type[Annotation]]) -> bool:
    return len(arguments) == len(kinds) and all(
        any(alternative.kind is kind for alternative in pattern)
        for pattern, kind in zip(arguments, kinds, strict=True)
    )


def _decorator(
    function: Any, which: Half, replace: bool, saves: Names = (), options: Mapping[str, Any] = {}
) -> Callable[[F], F]:
    require_function(function, f"@{which}")
    if inspect.isfunction(function) and _leads(which, inspect.signature(function).parameters):
        raise RuleDefinitionError(
            f"@{which} takes the function that the rule is for",
            where=[("the rule", f"@{which}", location_of(function))],
            instead=[f"@{which}(f)"],
        )
    library_first()
    names = frame_of_caller(3).f_locals
    saved = _listed(saves)

    def decorate(written: F) -> F:
        rule, half = _read_rule(function, which, written, names)
        half = with_options(half, saves=saved, **options)
        plain = getattr(function, "py_func", None)
        if plain is not None:
            parameters = tuple(inspect.signature(plain).parameters)
            refuse_other_order(rule.name, parameters, half, which)
        RULES.add(function, which, rule, half, replace)
        return written

    return decorate


def _leads(which: Half, parameters: Iterable[str]) -> bool:
    """Whether parameters begin with those of a half of a rule."""
    leading = _LEADING[which]
    return tuple(parameters)[: len(leading)] == leading


def frame_of_caller(levels: int) -> FrameType:
    """The frame of the caller so many levels up: annotations in strings may name its variables."""
    return sys._getframe(levels)  # pyright: ignore[reportPrivateUsage]


def define_on(
    function: Any, which: Half, written: Any, saves: tuple[str, ...] = (), keeps_shadow: bool = True
) -> tuple[Rule, RuleHalf]:
    """Read a rule function without registering it."""
    rule, half = _read_rule(function, which, written, {})
    return rule, with_options(half, saves=saves, keeps_shadow=keeps_shadow)


def with_options(
    half: RuleHalf,
    *,
    saves: tuple[str, ...] = (),
    keeps_shadow: bool = True,
    sends: Names | None = None,
    receives: Names | None = None,
) -> RuleHalf:
    """A half of a rule with its options; `RuleDefinitionError` for an argument that it does not
    have.
    """
    sent = None if sends is None else _listed(sends)
    received = None if receives is None else _listed(receives)
    names = half.argument_names
    _require_known("saves", saves, names, half)
    _require_known("sends", sent or (), names, half)
    _require_known("receives", received or (), (*names, RESULT), half)
    return replace_fields(
        half, saves=saves, keeps_shadow=keeps_shadow, sends=sent, receives=received
    )


def _listed(names: Names) -> tuple[str, ...]:
    if isinstance(names, Iterable):
        return (names,) if isinstance(names, str) else tuple(names)
    raise RuleDefinitionError(f"a rule's options name its arguments: {names!r} is not a name")


def _require_known(
    option: str, named: Iterable[str], known: tuple[str, ...], half: RuleHalf
) -> None:
    for name in named:
        if name not in known:
            raise RuleDefinitionError(
                f"{option} names {name!r}, which is not an argument of the rule",
                where=[("the rule", half.function.__name__, half.location)],
                instead=[f"one of {', '.join(known)}"],
            )


def _read_rule(
    function: Any, which: Half, written: Any, names: Mapping[str, Any]
) -> tuple[Rule, RuleHalf]:
    """The rule and the half that a function's signature defines."""
    plain = python_function(written)
    if not inspect.isfunction(plain):
        raise RuleDefinitionError(f"@{which} decorates a Python function, not {written!r}")
    location = location_of(plain)
    parameters = list(inspect.signature(plain).parameters.values())
    leading = _LEADING[which]
    where = [("the rule", f"@{which}({display_name(function)})", location)]
    starred = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
    if len(parameters) < len(leading) or any(
        p.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD for p in parameters
    ):
        shown = ", ".join([*leading, "x: Active", *(f"{name}: Active" for name in starred)])
        raise RuleDefinitionError(
            f"{plain.__name__} is not a function of ({', '.join(leading)}, arguments ...)",
            where=where,
            why="a rule has a parameter for each argument; `*args` of a function is one, a tuple"
            if starred
            else "",
            instead=[f"def {plain.__name__}({shown}): ..."],
        )
    values = evaluated(plain, parameters, names)
    admitted = {name: _UNANNOTATED[which] if v is None else v for name, v in values.items()}
    arguments = parameters[len(leading) :]
    rule = Rule(
        name=display_name(function),
        arguments=tuple(_pattern(admitted[p.name], p.name, plain, location) for p in arguments),
        result=_pattern(admitted[parameters[1].name], parameters[1].name, plain, location),
    )
    _refuse_hopeless(function, which, rule, where)
    tape_type = values[parameters[2].name] if which == "reverse" else None
    if _is_activity(tape_type):
        raise RuleDefinitionError(
            f"`{parameters[2].name}` is the tape of a reverse, and has no activity",
            where=where,
            instead=[f"def {plain.__name__}({', '.join(leading)}, …): ..."],
        )
    half = RuleHalf(
        function=written,
        module=plain.__module__ or "",
        location=location,
        argument_names=tuple(p.name for p in arguments),
        tape_type=tape_type,
    )
    return rule, half


def _refuse_hopeless(
    function: Any, which: Half, rule: Rule, where: list[tuple[str, str, str]]
) -> None:
    """Refuse a rule that can never serve a call."""
    for pattern in rule.signature:
        if which == "forward" and all(a.kind is Active for a in pattern):
            raise RuleDefinitionError(
                "in forward mode nothing is Active",
                where=where,
                instead=["Duplicated: `x.dval` is the tangent, of floats too"],
            )
        if which != "forward" and all(a.kind in BATCHED for a in pattern):
            raise RuleDefinitionError(
                "in reverse mode a rule has one shadow at a time",
                where=where,
                why="several cotangents are several calls of `reverse`: no call has a batch",
                instead=["Duplicated"],
            )
        for alternative in pattern:
            ty = alternative.type
            is_any = {a.kind for a in pattern if a.type == ty} == {*KINDS}  # `Annotation[ty]`
            if alternative.kind is Active and hasattr(ty, "layout") and not is_any:
                name = patterns.type_name(ty)
                raise RuleDefinitionError(
                    f"an array is never Active: Active[{name}]",
                    where=where,
                    instead=[f"Duplicated[{name}]"],
                )
            if (
                alternative.kind is not Const
                and patterns.is_discrete(getattr(ty, "dtype", ty))
                and not is_any
            ):
                name = patterns.type_name(ty)
                raise RuleDefinitionError(
                    f"{name} carries no derivative: {alternative.kind.__name__}[{name}]",
                    where=where,
                    instead=[f"Const[{name}]"],
                )
    refuse_keyword_only(function, where)
    leading = f"`{', '.join(_LEADING[which])}`"
    refuse_other_count(function, len(rule.arguments), where, leading=leading)


def evaluated(
    plain: Any, parameters: Sequence[inspect.Parameter], names: Mapping[str, Any]
) -> dict[str, Any]:
    """The annotations of the parameters of a function, evaluated if they are strings, or strings
    in quotes; None where there is none. `names` are local variables where it is defined.
    """
    scope = {**plain.__globals__, **names, **captured(plain)}
    values: dict[str, Any] = {}
    for parameter in parameters:
        annotation = parameter.annotation
        try:
            for _ in range(2):
                annotation = eval(annotation, scope) if isinstance(annotation, str) else annotation
        except Exception as error:
            raise RuleDefinitionError(
                f"the annotation of `{parameter.name}` cannot be evaluated: {error}",
                where=[("the rule", parameter.annotation, location_of(plain))],
            ) from error
        values[parameter.name] = None if annotation is inspect.Parameter.empty else annotation
    return values


def _is_activity(annotation: Any) -> bool:
    try:
        return bool(pattern_of(annotation))
    except TypeError:
        return False


def _pattern(annotation: Any, name: str, plain: Any, location: str) -> Pattern:
    try:
        return pattern_of(annotation)
    except TypeError as error:
        raise RuleDefinitionError(
            f"the annotation of `{name}` in {plain.__name__}: {error}",
            where=[("the rule", plain.__name__, location)],
            instead=["Const, Active, Duplicated, one of them with a type (Active[float64]), or |"],
        ) from error
