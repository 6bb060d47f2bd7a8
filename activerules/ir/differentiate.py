"""Differentiate LLVM IR, without Numba: the engine's front door."""

from __future__ import annotations

from collections.abc import Sequence

from activerules.errors import ActivityError, ArityError
from activerules.ir.derive.assemble import assemble, generate, verified
from activerules.ir.derive.plan import make_plan
from activerules.ir.derive.request import Parameter, Request, ReturnKind
from activerules.ir.model import Argument, Module
from activerules.ir.normalise import canonical, exposed, normalise
from activerules.ir.parser import parse_module
from activerules.ir.rulecall import ActivityName


def differentiate(
    llvm_ir: str,
    function: str,
    activities: Sequence[type],
    mode: str = "reverse",
    return_activity: type | None = None,
    name: str | None = None,
) -> str:
    """Add the derivative of a function to its module.

    Arguments
        llvm_ir          text of a module from any front end
        function         name of the function in it
        activities       annotation classes, one per parameter: Const; Active (a float: its
                         derivative is returned); Duplicated (a pointer: it is followed by its
                         shadow, which is added to)
        return_activity  Active or Const; by default Active for a float
        name             stem of the generated names; by default the function's

    Returns
        The text of the module with `<name>.gradient(each parameter, followed by its shadow if
        Duplicated[, seed])`, which returns a struct of the derivatives of the Active parameters in
        order (void if none), and `.augmented` and `.reverse`.

    Raises
        UnsupportedIR    the function cannot be brought to the normal form (N1..N7), or has no
                         derivative
        ActivityError    an activity does not fit its parameter
        ArityError       not one activity per parameter

    Source    Moses and Churavy (2020), Instead of Rewriting Foreign Code for Machine Learning,
              Automatically Synthesize Fast Gradients
    """
    if mode != "reverse":
        raise ActivityError(
            what=f"mode {mode!r} is not supported yet", instead=['use mode="reverse"']
        )
    source = canonical(llvm_ir)
    module = parse_module(normalise(exposed(source), function))
    symbol = function if function in module.functions else f'"{function}"'
    request = read_request(module, symbol, activities, return_activity, name or symbol)
    functions, declarations, _ = generate(make_plan(request))
    for one in functions:
        one.prefix = ""
    return verified(assemble(parse_module(source), functions, declarations, whole=True))


def read_request(
    module: Module, name: str, activities: Sequence[type], return_activity: type | None, stem: str
) -> Request:
    """What is asked for; raises `ArityError` and `ActivityError` as `differentiate` does."""
    function = module.functions[name]
    if len(activities) != len(function.arguments):
        raise ArityError(
            what=f"{name} has {len(function.arguments)} parameters, "
            f"but {len(activities)} activities were given"
        )
    parameters = tuple(
        Parameter(a, _activity(a, cls), group=a.name, private="noalias" in a.attributes.split())
        for a, cls in zip(function.arguments, activities, strict=True)
    )
    returns: ReturnKind = "const"
    wanted = return_activity.__name__ if return_activity is not None else None
    if wanted == "Active" or (wanted is None and function.result.is_float):
        if not function.result.is_float:
            raise ActivityError(what=f"{name} returns {function.result}, which cannot be Active")
        returns = "active"
    return Request(module, function, stem, parameters, returns, disjoint=False, display_name=name)


def _activity(argument: Argument, cls: type) -> ActivityName:
    activity = cls.__name__
    if activity == "Const":
        return "const"
    if activity == "Active" and argument.type.is_float:
        return "active"
    if activity == "Duplicated" and argument.type.is_pointer:
        return "duplicated"
    raise ActivityError(
        what=f"parameter %{argument.name} of type {argument.type} cannot be {activity}",
        why="Active is for floats, Duplicated for pointers, Const for anything",
    )
