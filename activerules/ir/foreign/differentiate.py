"""Differentiate LLVM IR, without Numba: the engine's front door."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from activerules.errors import (
    ActiverulesError,
    ActivityError,
    ArityError,
    FloatBitsInInteger,
    MixedActivity,
    UnknownCall,
    UnsupportedIR,
)
from activerules.ir.derivatives.rulecall import ActivityName
from activerules.ir.foreign.aliases import own_names, unaliased
from activerules.ir.foreign.allocators import by_malloc
from activerules.ir.foreign.by_value import copies_at_entry
from activerules.ir.foreign.complex_calls import by_parts
from activerules.ir.foreign.indirect import call_by_name
from activerules.ir.foreign.library_calls import with_one_result
from activerules.ir.foreign.masked import lane_by_lane
from activerules.ir.foreign.never_returning import declared_if_never_returning
from activerules.ir.foreign.plain_names import PlainNames, printed
from activerules.ir.foreign.scalable import refuse_scalable
from activerules.ir.generate.assemble import assemble, generate, generate_forward, with_missing
from activerules.ir.generate.widen import widened
from activerules.ir.llvm.constant_parts import CannotSplit, leaves_of
from activerules.ir.llvm.model import Argument, Function, Module
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.llvm.types import Type
from activerules.ir.llvm.verbatim import attribute_groups, of_machine, spelt_out
from activerules.ir.llvm.verify import verified
from activerules.ir.normal.reading import read_module
from activerules.ir.plan.forward_plan import make_forward_plan
from activerules.ir.plan.planning import make_plan
from activerules.ir.plan.request import (
    Caller,
    Parameter,
    PassedMemory,
    Request,
    Returned,
    ReturnKind,
)
from activerules.ir.text.normalise import canonical, exposed, inline_all, normalise

_ROUNDS = 4
_MAY_BE_INLINED = (UnsupportedIR, UnknownCall, FloatBitsInInteger, MixedActivity)
_RETURNED = {"reverse": "Active", "forward": "Duplicated"}
_FITTING = {
    "reverse": "Active is for floats, Duplicated for pointers, Const for anything",
    "forward": "Duplicated is for floats and pointers, Const for anything",
}


def differentiate(
    llvm_ir: str,
    function: str,
    activities: Sequence[type],
    mode: str = "reverse",
    return_activity: type | None = None,
    name: str | None = None,
    width: int = 1,
) -> str:
    """Add the derivative of a function to its module.

    Functions marked `noinline` stay calls; where no derivative can be made so, they are inlined.
    Those that the linker may replace (`weak`, `linkonce`) count as functions without code.

    Arguments
        llvm_ir          text of a module from any front end
        function         name of the function in it
        activities       annotation classes, one per parameter: Const; Active (reverse only, a
                         float: its derivative is returned); Duplicated (a pointer that is followed
                         by its shadow; forward only: a float that is followed by its tangent)
        mode             "reverse" or "forward"
        return_activity  reverse: Active or Const; forward: Duplicated or Const. By default a float
                         has a derivative; a struct of floats must be Const
        name             stem of the generated names; by default the function's
        width            how many tangents or shadows follow each Duplicated parameter

    Returns
        The text of the module with
        reverse  `<name>.gradient(each parameter, followed by its shadow if Duplicated[, seed])`,
                 which adds to the shadows and returns a struct of the derivatives of the Active
                 parameters in order (void if none), and `.augmented` and `.reverse`; with a
                 `width` there are as many shadows, seeds, and derivatives of each parameter
        forward  `<name>.forward(each parameter, followed by its tangent or shadow if Duplicated)`,
                 which returns the tangent of the result (void if that is Const or nothing; a struct
                 of `width` tangents if there are several) and leaves in shadows the tangents of
                 what it leaves in memory

        Both compute the primal, too. To differentiate twice, begin with forward mode, since it
        needs no tape: a gradient that has one is refused (FloatBitsInInteger).

    Memory
        Parameters may point to memory that overlaps, unless they are declared `noalias` (C:
        `restrict`); then shadows overlap likewise. Otherwise shadows are separate memory.
        Memory of a Const parameter does not overlap memory of a Duplicated one. Memory that is
        accessed only as integers is assumed to hold no floats there; memory that is only copied, to
        hold floats where the copies begin. A float that is partly overwritten, by an integer or a
        copy, has no derivative: the program is refused, or the derivative is NaN if this is known
        only at run time.

    Raises
        UnsupportedIR    the function cannot be brought to the normal form (N1..N7), or has no
                         derivative
        ActivityError    an activity does not fit its parameter
        ArityError       not one activity per parameter

    Source    Moses and Churavy (2020), Instead of Rewriting Foreign Code for Machine Learning,
              Automatically Synthesize Fast Gradients
    """
    if mode not in ("reverse", "forward"):
        raise ActivityError(what=f"there is no mode {mode!r}", instead=["reverse", "forward"])

    def derived(text: str, module: Module, symbol: str, stem: str) -> str:
        stem = printed(name) if name else stem
        request = read_request(
            module, symbol, activities, return_activity, stem, mode=mode, width=width
        )
        return _derivative(text, module, request, mode)

    return of_module(llvm_ir, function, derived)


def of_module(llvm_ir: str, function: str, make: Callable[[str, Module, str, str], str]) -> str:
    """What `make(text, module, symbol, stem)` returns, with the names that the module has.

    Arguments of `make`
        text     the text of the module, with plain names
        module   what the analyses start from; all functions are inlined if `make` refuses it so
        symbol   the function's name in it
        stem     the stem of the names of its derivatives

    Raises what `make` raises for the module as it is.
    """
    text_of_module = canonical(llvm_ir)
    names = PlainNames.of(text_of_module)
    source, function = names.plain(text_of_module), names.plain_name(function)
    target = own_names(source).get(printed(function))
    named = function if target is None else target.strip('"')

    def attempt(text: str) -> str:
        module, symbol = read(text, named)
        stem = symbol if named == function else printed(function)
        return names.restored(make(source, module, symbol, stem))

    with names.in_errors():
        try:
            return attempt(source)
        except _MAY_BE_INLINED as error:
            inlined = inline_all(source)
            if inlined != source:
                with suppress(ActiverulesError):
                    return attempt(inlined)
            raise error


def _derivative(source: str, module: Module, request: Request, mode: str) -> str:
    """The text of the module `source` with the derivative of a function of `module`."""
    if mode == "forward":
        functions, declarations = generate_forward(make_forward_plan(request))
    else:
        plan = widened(make_plan(request), request.width)
        assert plan is not None, "D1: there are no rules here"
        functions, declarations, _ = generate(plan)
    for function in functions:
        function.prefix = ""
    whole = with_missing(parse_module(source), functions, module)
    target = _target_of(request.function.name, whole)
    for function in functions:
        function.suffix = " ".join([function.suffix, *target]).strip()
    return verified(assemble(whole, functions, declarations, whole=True))


def _target_of(function: str, module: Module) -> list[str]:
    """The attributes that say which machine a function is compiled for.

    Without them the derivative would be compiled for another machine, and LLVM would not inline the
    function into it.
    """
    return of_machine(spelt_out(module.functions[function].suffix, attribute_groups(module)))


def read(source: str, function: str) -> tuple[Module, str]:
    """The module that the analyses start from, and the name of the function in it.

    Calls through tables become calls by name; then LLVM may inline them, which may reveal more.
    """
    text = refuse_scalable(declared_if_never_returning(unaliased(source), function), function)
    text = by_malloc(copies_at_entry(exposed(text), function))
    text = lane_by_lane(with_one_result(by_parts(text)))
    for rounds_left in reversed(range(_ROUNDS)):
        module = read_module(normalise(text, function), function)
        symbol = function if function in module.functions else f'"{function}"'
        if not call_by_name(module, symbol) or not rounds_left:
            return module, symbol
        text = print_module(module)
    raise AssertionError


def read_request(
    module: Module,
    name: str,
    activities: Sequence[type],
    return_activity: type | None,
    stem: str,
    *,
    mode: str = "reverse",
    width: int = 1,
) -> Request:
    """What `differentiate` asks of the engine; raises `ActivityError` and `ArityError`."""
    function = module.functions[name]
    if len(activities) != len(function.arguments):
        raise ArityError(
            what=f"{name} has {len(function.arguments)} parameters, "
            f"but {len(activities)} activities were given"
        )
    if width < 1:
        raise ActivityError(what=f"a width of {width}", instead=["a positive width"])
    parameters = tuple(
        Parameter(
            a,
            _activity(a, cls, mode),
            group=a.name,
            passed=PassedMemory(private="noalias" in a.attributes.split()),
        )
        for a, cls in zip(function.arguments, activities, strict=True)
    )
    returned = Returned(_returns(function, module, return_activity, mode))
    caller = Caller(disjoint=False)
    return Request(
        module, function, stem, parameters, returned, caller=caller, width=width, display_name=name
    )


def _returns(function: Function, module: Module, wanted: type | None, mode: str) -> ReturnKind:
    result, differentiable = function.result, _RETURNED[mode]
    activity = wanted.__name__ if wanted is not None else differentiable
    if activity == "Const" or (wanted is None and not _has_floats(result, module)):
        return "const"
    if activity != differentiable or not result.is_float:
        raise ActivityError(
            what=f"{function.name} returns {result}, which cannot be {activity}",
            why=f"in {mode} mode the return is {differentiable} (a float) or Const",
            instead=["store the numbers in memory that is Duplicated", "return_activity=Const"],
        )
    return "active"


def _has_floats(t: Type, module: Module) -> bool:
    with suppress(CannotSplit):
        return any(leaf.type.is_float for leaf in leaves_of(t, module.types))
    return True


def _activity(argument: Argument, cls: type, mode: str) -> ActivityName:
    activity = getattr(cls, "__name__", repr(cls))
    if activity == "Const":
        return "const"
    if activity == "Active" and argument.type.is_float and mode == "reverse":
        return "active"
    if activity == "Duplicated" and (
        argument.type.is_pointer or (argument.type.is_float and mode == "forward")
    ):
        return "duplicated"
    raise ActivityError(
        what=f"parameter %{argument.name} of type {argument.type} cannot be {activity} "
        f"in {mode} mode",
        why=_FITTING[mode],
    )
