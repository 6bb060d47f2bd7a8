"""`checkpoint`: a function whose derivative recomputes it instead of storing intermediate values.

It is a rule like any other. The augmented primal runs the function and stores nothing but those of
its inputs that may be overwritten (`saves`); the reverse calls `autodiff` on the function. The same
rule serves functions with some arguments declared inactive: these are Const in that call.
"""

from __future__ import annotations

import inspect
import types as python_types
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numba import njit, types
from numba.extending import register_jitable

from activerules.annotations.activity import Active, Annotation, Const, Duplicated
from activerules.annotations.signature import ForwardWithPrimal, Reverse
from activerules.annotations.values import make_zero
from activerules.api.autodiff import autodiff
from activerules.api.jacobian_blocks import carrying
from activerules.api.same_draws import exchange_states, states_if_drawn
from activerules.callables import display_name, location_of, python_function
from activerules.errors import ActivityError, RuleDefinitionError
from activerules.numba_ext.calls import call_arguments, error_context
from activerules.numba_ext.calls.factories import give_factory_form
from activerules.numba_ext.calls.intrinsics import dispatcher_of_type
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.made_once import LastMade
from activerules.numba_ext.codegen.on_disk import compiled_stub
from activerules.numba_ext.codegen.stubs import Stub
from activerules.numba_ext.codegen.types import AnnotationType, as_strict
from activerules.numba_ext.codegen.unlinked import linked_form, to_link
from activerules.numba_ext.rules.checks import copied, written_apart
from activerules.numba_ext.target.dispatchers import (
    flags_of,
    require_known,
    with_options,
    without_cache,
)
from activerules.rules.define import augmented_primal, define_on, reverse
from activerules.rules.pattern import type_name
from activerules.rules.protocol import AugmentedReturn, active
from activerules.rules.registry import RULES
from activerules.rules.rule import Rule
from activerules.rules.written import by_name, function_from, replacement_of, tuple_of
from activerules.values.layout import layout_of
from activerules.values.overwriting import overwrite

P = ParamSpec("P")
R = TypeVar("R")


def checkpoint(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    """Return a function that does what `function` does, and whose derivative needs no tape.

    Arguments
        function  an `@njit` function or a plain one, of floats and arrays; positional parameters.
                  Where it draws from `np.random` or `random`, the reverse sweep draws the same.
        options   cache, fastmath, nogil, error_model: as in `numba.njit`.

    Returns
        An `@njit` function of the same signature; for the same function and options the same one.
        In reverse mode its inputs are stored (copied if they may be overwritten) instead of its
        intermediate values.

    Raises
        RuleDefinitionError for parameters that are not positional; at the first derivative,
        NotYetSupported if `function` draws from a NumPy generator, an argument; and what
        `autodiff` raises for it.

    Cost      time: the function runs once more per reverse sweep. Memory: a loop of n steps, in
              segments of √n checkpointed steps, needs O(√n) instead of O(n).

    Source    Griewank and Walther, Evaluating Derivatives (2nd ed., 2008), chapter 12.

    >>> checkpoint(lambda x: x * x)(3.0)
    9.0
    """
    require_known(options)
    key = tuple(sorted(options.items()))
    made = _made.find(function, key)
    return _made.put(function, key, _checkpointed(function, options)) if made is None else made


_made = LastMade()


def _checkpointed(function: Any, options: dict[str, Any]) -> Any:
    target, options = with_options(function, options)
    target = linked_form(without_cache(target))
    names = _positional(target)
    plain = python_function(target)
    listed = ", ".join(names)
    source = f"def f({listed}):\n    _plain(_call, {listed})\n    return _call({listed})"
    scope = {"_call": Stub(target) if options.get("cache") else target, "_plain": _require_plain}
    checkpointed = replacement_of(plain, source, scope, name="f")
    checkpointed.__defaults__ = plain.__defaults__
    checkpointed.__name__ = plain.__name__
    checkpointed.__qualname__ = f"{plain.__qualname__}.checkpointed"  # for `repr`
    checkpointed.__doc__ = plain.__doc__
    result = compiled_stub(checkpointed, target, options)
    result.__wrapped__ = plain
    result.in_derivatives = linked_form(result)
    halves = _rule_of(target, names)
    augmented_primal(result, saves=names)(halves["augmented_primal"])
    reverse(result)(halves["reverse"])
    return result


def recomputing_rule(function: Any) -> Rule:
    """The rule for a function that has inactive arguments and no rule: it differentiates the body
    with those arguments Const.
    """
    copy = to_link(_function_copy(function.py_func), **flags_of(function.targetoptions))
    names = _positional(function)
    read = {
        which: define_on(function, which, written, saves=names)
        for which, written in _rule_of(copy, names).items()
    }
    rule, _ = read["reverse"]
    location = f"its body, computed again: {location_of(function)}"
    halves = {which: replace(half, location=location) for which, (_, half) in read.items()}
    return Rule(rule.name, rule.arguments, rule.result, halves)


RULES.recompute_with(recomputing_rule)


def _rule_of(target: Any, names: tuple[str, ...]) -> dict[Any, Any]:
    """The functions of a rule that differentiates `target` by running it again."""
    listed = ", ".join(names)
    values = ", ".join(f"{name}.val" for name in names)
    annotated = ", ".join(f"{name}: _Annotation" for name in names)
    into = f"def f(_out, {listed}):\n    _put(_out, _target({listed}))"
    silent = f"def f({listed}):\n    _target({listed})"
    before, after = written_apart(names)
    scope = {
        "_target": target,
        "_before": before,
        "_after": after,
        "_into": njit(_from_source(into, _target=target)),
        "_silent": njit(_from_source(silent, _target=target)),
    }
    sources = {
        "augmented_primal": f"""def f(config, ret: _Annotation, {annotated}):
    _states = _states_if_drawn(_target, ({values}{"," * bool(names)}))
    _copies = _before(config, {tuple_of(names)})
    _y = _target({values})
    _after(config, {tuple_of(names)}, _copies)
    return _AugmentedReturn(_y, _shadow_of(_y), _states)""",
        "reverse": f"""def f(config, dret: _Annotation, tape, {annotated}):
    _mode = _as_strict(_Reverse, config)
    _states = _exchange_states(tape)
    if _active(dret):
        _out, _seed = _seeds(dret)
        _found = _autodiff(_mode, _into, _Const, _Duplicated(_out, _seed), {listed})[1:]
    else:
        _found = _autodiff(_mode, _silent, _Const, {listed})
    _exchange_states(_states)
    return _found""",
        "forward": f"""def f(config, ret: _Annotation, {annotated}):
    _mode = _as_strict(_ForwardWithPrimal, config)
    if config.needs_shadow:
        _tangent, _y = _autodiff(_mode, _target, _Duplicated, {listed})
        return _y, _tangent
    else:
        return _autodiff(_mode, _target, _Const, {listed})[1]""",
    }
    return {which: _from_source(source, **scope) for which, source in sources.items()}


def _positional(function: Any) -> tuple[str, ...]:
    parameters = inspect.signature(function.py_func).parameters.values()
    if any(p.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD for p in parameters):
        raise RuleDefinitionError(
            f"{display_name(function)} takes more than positional arguments",
            instead=["a function of named positional parameters"],
        )
    return tuple(p.name for p in parameters)


def _function_copy(plain: Any) -> Any:
    """A copy that is another function to the registry, so that calls of it have no rule."""
    return python_types.FunctionType(
        plain.__code__, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__
    )


def _from_source(source: str, **names: Any) -> Any:
    """The function `f` that a source text defines; for parameters that must have names."""
    scope = {
        **by_name(_put, _seeds, _shadow_of),
        **by_name(exchange_states, states_if_drawn, prefix="_"),
        **by_name(active, as_strict, autodiff, prefix="_"),
        **by_name(Annotation, AugmentedReturn, Const, Duplicated, prefix="_"),
        "_Reverse": Reverse,
        "_ForwardWithPrimal": ForwardWithPrimal,
        **names,
    }
    return function_from(source, "f", scope, module=__name__)


# --- called by the checkpointed function and by the functions of its rule ---


@chosen_by_types
def _require_plain(function, *args):
    """Raise `ActivityError` for an annotation: a checkpointed function takes what the function
    itself takes, and its derivative is that of any function.
    """
    dispatcher = dispatcher_of_type(function)
    names = call_arguments.parameter_names(dispatcher, len(args))
    for name, ty in zip(names, args, strict=True):
        if isinstance(ty, AnnotationType):
            with error_context.of_call(dispatcher):
                raise ActivityError(
                    f"`{name}` is {type_name(ty)}, an annotation",
                    why="a checkpointed function is called as the function itself, with values; "
                    "annotations are given to its derivative",
                    instead=[f"`{name}` itself", "autodiff(mode, checkpoint(f), activity, ...)"],
                )
    return lambda function, *args: None


@chosen_by_types
def _put(out, y):  # noqa: ARG001
    """Write the result `y` into `out`, which `_seeds` allocated."""
    if isinstance(y, types.BaseTuple):
        paths = [leaf.path for leaf in carrying("y", y)]
        lines = "; ".join(f"_put(out[{k}], y{path})" for k, path in enumerate(paths))
        return _from_source(f"def f(out, y): {lines or 'pass'}")
    if isinstance(y, types.Array):
        return lambda out, y: overwrite(out, y)
    if isinstance(y, types.Number):

        def of_number(out, y):
            out[0] = y

        return of_number
    return lambda out, y: None


@chosen_by_types
def _shadow_of(y):
    """The shadow that the augmented primal returns together with the result `y`."""
    return (lambda y: make_zero(y)) if layout_of(y).carried.by_reference else lambda y: None


@chosen_by_types
def _seeds(dret):
    """Memory for a result, and its shadow, which holds the cotangent."""
    if not isinstance(dret, AnnotationType):
        return None
    if isinstance(dret.val, types.BaseTuple):
        return _seeds_of_tuple(dret)
    if dret.kind is Active:
        return lambda dret: _of_number(dret.val)
    return lambda dret: _of_array(dret.dval)


def _seeds_of_tuple(dret: AnnotationType) -> Any:
    """The code of `_seeds` for a tuple: an array for each number or array in it."""
    bars = "dret.val" if dret.kind is Active else "dret.dval"
    leaves = carrying(bars, dret.val)
    pairs = [f"of_{'array' if leaf.is_array else 'number'}({leaf.text})" for leaf in leaves]
    assignments = [f"out{k}, seed{k} = {pair}" for k, pair in enumerate(pairs)]
    outs, seeds = (
        "".join(f"{name}{k}, " for k, _ in enumerate(leaves)) for name in ("out", "seed")
    )
    lines = "\n    ".join([*assignments, f"return ({outs}), ({seeds})"])
    return _from_source(f"def f(dret):\n    {lines}", of_array=_of_array, of_number=_of_number)


@register_jitable
def _of_number(bar):
    seed = np.full(1, bar)
    return np.zeros_like(seed), seed


@register_jitable
def _of_array(bar):
    seed = copied(bar)
    return make_zero(seed), seed


give_factory_form(checkpoint)
