"""Compile the derivative for a `DerivativeSpec`, once for each state of the rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from activerules.numba_ext.codegen.made_once import COMPILED
from activerules.numba_ext.codegen.unlinked import without_performance_warnings
from activerules.numba_ext.target.derivative import CompiledDerivative, DerivativeSpec
from activerules.numba_ext.target.dispatchers import dispatcher_of
from activerules.pipeline.forward import derive_forward
from activerules.pipeline.reverse import derive
from activerules.pipeline.unserved_calls import warn_followed, warn_unserved
from activerules.process_memory import few_collections
from activerules.rules.views import FORWARD_VIEW, REVERSE_VIEW, SECOND_VIEW


def compile_derivative(function: Any, spec: DerivativeSpec) -> CompiledDerivative:
    """The derivative of a function, ready to be linked and called; cached by spec.

    Warns of rules that are not used although data may bypass them (`UndeclaredDataWarning`), and of
    functions with rules for the other mode only (`MissingForwardWarning`, `MissingReverseWarning`).

    Raises what capture, the analyses and the rule compiler raise: see `activerules.errors`.
    """
    dispatcher = dispatcher_of(function)
    # a derivative with both versions also serves callers that need only one
    for known in (replace(spec, deferred=False), spec):
        if derivative := COMPILED.find(dispatcher, known):
            return derivative
    with few_collections(), without_performance_warnings():
        if spec.mode == "forward":
            view = SECOND_VIEW if spec.again else FORWARD_VIEW
            derivation = derive_forward(dispatcher, spec, view=view)
        else:
            derivation = derive(dispatcher, spec, view=REVERSE_VIEW)
        warn_unserved(derivation.plan, derivation.module, derivation.captured.marked)
        warn_followed(derivation.captured.followed)
    derivative = derivation.gradient
    for served in _served(spec, derivative):
        COMPILED.put(dispatcher, served, derivative)
    return derivative


def _served(spec: DerivativeSpec, derivative: CompiledDerivative) -> Iterator[DerivativeSpec]:
    """The specs that a derivative serves: unless a rule depends on `needs_primal`, both those that
    ask for the value and those that do not.
    """
    needs = {spec.needs_primal} if derivative.returns_of_rule else {True, False}
    again = {spec.again}
    if spec.mode == "reverse" and not derivative.again.ordinary:
        again.add(False)  # as made for any caller
    for width, needs_primal, is_again in product({spec.width, derivative.width}, needs, again):
        yield replace(
            spec,
            width=width,
            deferred=derivative.versions.deferred,
            needs_primal=needs_primal,
            again=is_again,
        )
