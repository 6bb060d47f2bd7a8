"""Compile the derivative for a `DerivativeSpec`, once for each state of the rules."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any

from activerules.numba_ext.codegen.made_once import COMPILED
from activerules.numba_ext.codegen.unlinked import without_performance_warnings
from activerules.numba_ext.target.capture import as_dispatcher
from activerules.numba_ext.target.derivative import CompiledDerivative, DerivativeSpec
from activerules.pipeline.forward import derive_forward
from activerules.pipeline.reverse import derive
from activerules.pipeline.unserved_calls import warn_followed, warn_unserved
from activerules.rules.views import FORWARD_VIEW, REVERSE_VIEW, SECOND_VIEW


def compile_derivative(function: Any, spec: DerivativeSpec) -> CompiledDerivative:
    """The derivative of a function, ready to be linked and called; cached by spec.

    Warns of rules that are not used although data may bypass them (`UndeclaredDataWarning`), and of
    functions with rules for the other mode only (`MissingForwardWarning`, `MissingReverseWarning`).

    Raises what capture, the analyses and the rule compiler raise: see `activerules.errors`.
    """
    dispatcher = as_dispatcher(function)
    # a derivative with both versions also serves callers that need only one
    for known in (replace(spec, deferred=False), spec):
        if derivative := COMPILED.find(dispatcher, known):
            return derivative
    with _few_collections(), without_performance_warnings():
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


@contextmanager
def _few_collections() -> Generator[None]:
    """Make Python collect garbage less often. A compilation creates many objects and keeps most of
    them, so full collections would take time and free next to nothing.
    """
    thresholds = gc.get_threshold()
    if thresholds[0]:
        gc.set_threshold(max(thresholds[0], _NEW_OBJECTS), *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


_NEW_OBJECTS = 50_000  # the threshold of generation 0; Python's default is 700


def _served(spec: DerivativeSpec, derivative: CompiledDerivative) -> Iterator[DerivativeSpec]:
    """The specs that a derivative serves: unless a rule depends on `needs_primal`, both those that
    ask for the value and those that do not.
    """
    needs = {spec.needs_primal} if derivative.returns_of_rule else {True, False}
    again = {spec.again}
    if spec.mode == "reverse" and not derivative.ordinary:
        again.add(False)  # as made for any caller
    for width, needs_primal, is_again in product({spec.width, derivative.width}, needs, again):
        yield replace(
            spec,
            width=width,
            deferred=derivative.deferred,
            needs_primal=needs_primal,
            again=is_again,
        )
