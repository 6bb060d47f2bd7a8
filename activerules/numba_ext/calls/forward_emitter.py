"""The call of a forward derivative, emitted into the function that is being lowered.

Needs       a `ForwardCall`; per argument its primal, and its tangent or shadow in each lane
Gives       `ForwardEmitter.emit`: what the primal returned, and its tangent in each lane
Invariants  W1  primal and tangent of the result are new references, as of any call
            W2  if a returned array does not depend on active data, its tangent is a new array of
                zeros
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numba.core import cgutils, types
from numba.core.typing.templates import signature

from activerules.errors import ActivityError
from activerules.numba_ext.calls import memory
from activerules.numba_ext.calls.emitter import DerivativeCall, Emitter, link_derivative
from activerules.numba_ext.codegen.protocols import Emit, Value
from activerules.numba_ext.target.derivative import CompiledDerivative
from activerules.rules.pattern import type_name
from activerules.values.argument import ArgumentSpec
from activerules.values.kinds import is_number, is_number_array, optional_leaf
from activerules.values.layout import Node, Number, Optional, layout_of, map_type, shadow_of_leaf
from activerules.values.shadows import zero_shadow
from activerules.values.walk import rebuild

Lanes = Sequence[Value]  # tangents, one per lane


@dataclass(frozen=True)
class ForwardCall(DerivativeCall):
    """A typed call of a forward derivative.

    shadows   Numba types of the tangents given for each argument, one per lane; empty if Const
    batched   whether the result is a tuple with a tangent per lane
    """

    shadows: tuple[tuple[Any, ...], ...] = ()
    batched: bool = False

    @property
    def wanted(self) -> bool:
        """Whether the result has a tangent."""
        return self.gradient.return_activity == "duplicated"

    @property
    def tangent_type(self) -> Any:
        """The Numba type of the tangent that a call returns."""
        if not self.wanted:
            return types.none
        tangent = tangent_of(self.gradient.result_type)
        return types.UniTuple(tangent, self.gradient.width) if self.batched else tangent


def tangent_of(ty: Any) -> Any:
    """The type of a tangent: that of the value, with None for parts without a derivative."""
    return map_type(layout_of(ty), _tangent_of_leaf)


def _tangent_of_leaf(leaf: Node) -> Any:
    ty = leaf.numba_type
    if is_number(ty) or is_number_array(ty):
        return shadow_of_leaf(leaf)
    inner = optional_leaf(ty)
    tangent = types.none if inner is None else tangent_of(inner)
    return types.none if tangent == types.none else types.Optional(tangent)


class ForwardEmitter(Emitter):
    """Emits one call of a forward derivative."""

    def __init__(self, em: Emit, call: ForwardCall) -> None:
        super().__init__(em, call)
        self.call = call

    def push(self, fields: Sequence[tuple[Any, Lanes]]) -> tuple[Any, Any]:
        """Emit checks and call; returns what the primal returned, and its tangent of type
        `tangent_type`.

        `fields` are the primals, with a tangent per lane unless Const.
        """
        per_argument = zip(self.arguments, fields, self.call.shadows, strict=True)
        fields = [self._as_value(*argument) for argument in per_argument]
        fields = self._with_scratch(fields)

        def release() -> None:
            self._release(fields, everything=False)

        memory.check_lanes(
            self.em,
            self.arguments,
            fields,
            self.gradient,
            self.gradient.width,
            release,
        )
        link_derivative(self.context, self.gradient)
        returned, excinfo = self._result_memory(), self._excinfo()
        status = self._run([*self._parameters(fields, returned, excinfo)], cgutils.false_bit)
        self._propagate(status, excinfo, release)
        release()
        primal, *tangents = [
            self.context.get_returned_value(
                self.builder, self.gradient.result_type, self.builder.load(address)
            )
            for address in returned
        ]
        return primal, self._result(primal, tangents)

    # --- arguments ---

    def _as_value(
        self, argument: ArgumentSpec, field: tuple[Any, Lanes], shadows: tuple[Any, ...]
    ) -> tuple[Any, Lanes]:
        """The tangents of an argument, converted to the primal's type."""
        primal, lanes = field
        node = layout_of(argument.numba_type)

        def cast(em: Emit, leaves: tuple[Node, Node], primal: Value, tangent: Any) -> Any:
            """The tangent of a leaf, of the primal's type; if there is none, the primal."""
            leaf, given = (leaf.numba_type for leaf in leaves)
            if isinstance(leaves[0], Number):
                return em.context.cast(em.builder, tangent, given, leaf)
            if leaves[0].has_shadow:
                return tangent
            if isinstance(leaf, types.Number | types.Boolean):
                item = leaf, primal
                require_nothing_lost(self.em, self.gradient, argument, given, tangent, item)
            return primal

        return primal, [
            rebuild(self.em, (node, layout_of(ty)), (primal, lane), cast)
            for ty, lane in zip(shadows, lanes, strict=True)
        ]

    # --- results ---

    def _result_memory(self) -> list[Any]:
        """Memory for the result, and for its tangent in each lane, which starts at zero."""
        ty = self.context.call_conv.get_return_type(self.gradient.result_type).pointee
        count = self.gradient.width if self.call.wanted else 0
        return [self._stored(ty(None)) for _ in range(1 + count)]

    def _result(self, primal: Value, tangents: Lanes) -> Any:
        if not self.call.wanted:
            return self.context.get_dummy_value()
        ty = self.gradient.result_type
        results = [
            rebuild(self.em, layout_of(ty), (primal, tangent), _tangent, _tangent_of_leaf)
            for tangent in tangents
        ]
        if not self.call.batched:
            return results[0]
        return self.context.make_tuple(self.builder, self.call.tangent_type, results)


def require_nothing_lost(
    em: Emit,
    gradient: CompiledDerivative,
    argument: ArgumentSpec,
    ty: Any,
    tangent: Value,
    item: tuple[Any, Value] | None = None,
) -> None:
    """Emit a check that the tangent of an integer is zero; any other would be silently dropped.

    item  the type and the value of the integer, if it is in a tuple; its tangent may then also be
          the integer itself, as in what `make_zero` returns
    """
    if not isinstance(ty, types.Number | types.Boolean):
        return
    context, builder = em.context, em.builder
    equal = context.get_function(operator.eq, signature(types.boolean, ty, ty))
    kept = equal(builder, (tangent, context.get_constant_null(ty)))
    if item is None:
        what, instead = f"is {type_name(argument.numba_type)}", f"a float for `{argument.name}`"
    else:
        part, primal = item
        what, instead = f"has an item of type {type_name(part)}", "a float"
        if isinstance(ty, types.Boolean) <= isinstance(part, types.Boolean):
            same = equal(builder, (tangent, context.cast(builder, primal, part, ty)))
            kept = builder.or_(kept, same)
    fields = (
        f"`{argument.name}` {what}, and its tangent is not zero",
        (gradient.requested,) if gradient.requested else (),
        "tangents are of floats, of arrays of floats, and of tuples of these",
        (instead, "None as its tangent"),
    )
    em.raise_if(builder.not_(kept), ActivityError, fields)


def _tangent(em: Emit, leaf: Node, primal: Value, tangent: Any) -> Any:
    """The tangent of a part of the result, read from the shadow of the result."""
    if isinstance(leaf, Number):
        return tangent
    if _tangent_of_leaf(leaf) == types.none:
        em.context.nrt.decref(em.builder, leaf.numba_type, tangent)
        return em.context.get_dummy_value()
    make = _optional_tangent if isinstance(leaf, Optional) else _array_tangent
    return make(em, leaf, primal, tangent)


def _optional_tangent(em: Emit, leaf: Node, primal: Value, tangent: Any) -> Value:
    """The tangent of an optional value: None if the primal is None."""
    context, builder, ty = em.context, em.builder, leaf.numba_type
    values, tangents = (context.make_helper(builder, ty, v) for v in (primal, tangent))
    result = context.make_helper(builder, _tangent_of_leaf(leaf))
    result.valid = values.valid
    with builder.if_then(cgutils.as_bool_bit(builder, values.valid)):
        result.data = _tangent(em, layout_of(ty.type), values.data, tangents.data)
    return result._getvalue()


def _array_tangent(em: Emit, leaf: Node, primal: Value, tangent: Any) -> Value:
    """An array with the layout of the primal over the memory of its shadow; else zeros (W2)."""
    context, builder, ty = em.context, em.builder, leaf.numba_type
    shadow = em.array(ty, tangent)
    array_type = shadow_of_leaf(leaf)
    result = cgutils.alloca_once(builder, context.get_value_type(array_type))
    with builder.if_else(cgutils.is_null(builder, shadow.data)) as (nowhere, there):
        with nowhere:
            zeros = zero_shadow(em, ty, primal)
            builder.store(zeros, result)
        with there:
            array = em.array(array_type, primal)
            array.meminfo, array.parent = shadow.meminfo, shadow.parent
            array.data = shadow.data
            builder.store(array._getvalue(), result)
    return builder.load(result)
