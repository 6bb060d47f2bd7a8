"""The call of a forward derivative, in the IR of the function that is being lowered.

Needs       a `ForwardCall`; per argument its primal, and its tangent or shadow in each lane
Gives       `ForwardEmitter.emit`: what the primal returned, and its tangent in each lane
Invariants  W1  primal and tangent of the result are new references, as of any call
            W2  the tangent of a returned array that does not depend on anything that varies is a
                new array of zeros
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numba.core import cgutils, types

from activerules.numba_ext.calls import checks, memory
from activerules.numba_ext.calls.emitter import DerivativeCall, Emitter, link_derivative
from activerules.numba_ext.target.derivative import Gradient
from activerules.values.argument import ArgumentSpec
from activerules.values.kinds import has_shadow, optional_leaf
from activerules.values.kinds import shadow_type as shadow_type_of
from activerules.values.shadows import zero_shadow

Lanes = Sequence[Any]  # tangents, one per lane


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
        """The Numba type of what a call gives as tangent."""
        if not self.wanted:
            return types.none
        one = tangent_of(self.gradient.result_type)
        return types.UniTuple(one, self.gradient.width) if self.batched else one


def tangent_of(found: Any) -> Any:
    """The type of a tangent: that of the value, with None in place of what has no derivative."""
    if isinstance(found, types.Float | types.Complex):
        return found
    if isinstance(found, types.Array) and isinstance(found.dtype, types.Float | types.Complex):
        return shadow_type_of(found)
    if isinstance(found, types.BaseTuple):
        items = tuple(map(tangent_of, checks.items_of(found)))
        return types.BaseTuple.from_types(items, getattr(found, "instance_class", None))
    inner = tangent_of(optional_leaf(found)) if optional_leaf(found) is not None else types.none
    return types.none if inner == types.none else types.Optional(inner)


class ForwardEmitter(Emitter):
    """Emits one call of a forward derivative; `owns_shadows` as in `Emitter`."""

    def __init__(
        self, context: Any, builder: Any, call: ForwardCall, *, owns_shadows: bool = False
    ) -> None:
        super().__init__(context, builder, call, owns_shadows=owns_shadows)
        self.call = call

    def push(self, fields: Sequence[tuple[Any, Lanes]]) -> tuple[Any, Any]:
        """Check, link, call; returns what the primal returned, and the tangent as `tangent_type`.

        `fields` are the primals, with a tangent per lane unless Const. Shadows the emitter owns are
        not checked.
        """
        given = zip(self.arguments, fields, self.call.shadows, strict=True)
        fields = [self._as_value(*one) for one in given]
        fields = self._with_scratch(fields)

        def release() -> None:
            self._release(fields, everything=self.owns_shadows)

        if not self.owns_shadows:
            memory.check_lanes(
                self.context,
                self.builder,
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
        self._release(fields, everything=False)
        primal, *tangents = [
            self.context.get_returned_value(
                self.builder, self.gradient.result_type, self.builder.load(place)
            )
            for place in returned
        ]
        return primal, self._result(primal, tangents)

    # --- arguments ---

    def _as_value(
        self, argument: ArgumentSpec, field: tuple[Any, Lanes], shadows: tuple[Any, ...]
    ) -> tuple[Any, Lanes]:
        """The tangents with the type of the primal."""
        primal, lanes = field
        found = argument.numba_type
        return primal, [
            self._cast(found, primal, ty, lane) for ty, lane in zip(shadows, lanes, strict=True)
        ]

    def _cast(self, found: Any, primal: Any, ty: Any, tangent: Any) -> Any:
        if isinstance(found, types.Float | types.Complex):
            return self.context.cast(self.builder, tangent, ty, found)
        if isinstance(found, types.BaseTuple):
            items = checks.items_of(found)
            primals = cgutils.unpack_tuple(self.builder, primal, len(items))
            tangents = cgutils.unpack_tuple(self.builder, tangent, len(items))
            parts = zip(items, primals, checks.items_of(ty), tangents, strict=True)
            return self.context.make_tuple(self.builder, found, [self._cast(*p) for p in parts])
        return tangent if has_shadow(found) else primal

    # --- results ---

    def _result_memory(self) -> list[Any]:
        """Memory for the result, and for its tangent in each lane, which starts at zero."""
        ty = self.context.call_conv.get_return_type(self.gradient.result_type).pointee
        count = self.gradient.width if self.call.wanted else 0
        return [self._stored(ty(None)) for _ in range(1 + count)]

    def _result(self, primal: Any, tangents: Lanes) -> Any:
        if not self.call.wanted:
            return self.context.get_dummy_value()
        found = self.gradient.result_type
        results = [self._tangent(found, primal, tangent) for tangent in tangents]
        if not self.call.batched:
            return results[0]
        return self.context.make_tuple(self.builder, self.call.tangent_type, results)

    def _tangent(self, found: Any, primal: Any, tangent: Any) -> Any:
        """The tangent of a part of the result, from what lies in the shadow of the result."""
        if isinstance(found, types.Float | types.Complex):
            return tangent
        if isinstance(found, types.BaseTuple):
            items = checks.items_of(found)
            primals = cgutils.unpack_tuple(self.builder, primal, len(items))
            inside = cgutils.unpack_tuple(self.builder, tangent, len(items))
            parts = [self._tangent(*p) for p in zip(items, primals, inside, strict=True)]
            return self.context.make_tuple(self.builder, tangent_of(found), parts)
        if tangent_of(found) == types.none:
            self.context.nrt.decref(self.builder, found, tangent)
            return self.context.get_dummy_value()
        if isinstance(found, types.Optional):
            return self._optional_tangent(found, primal, tangent)
        return self._array_tangent(found, primal, tangent)

    def _optional_tangent(self, found: Any, primal: Any, tangent: Any) -> Any:
        """The tangent of a value that may be None: None where the primal is None."""
        context, builder = self.context, self.builder
        values, tangents = (context.make_helper(builder, found, one) for one in (primal, tangent))
        result = context.make_helper(builder, tangent_of(found))
        result.valid = values.valid
        with builder.if_then(cgutils.as_bool_bit(builder, values.valid)):
            result.data = self._tangent(found.type, values.data, tangents.data)
        return result._getvalue()

    def _array_tangent(self, found: Any, primal: Any, tangent: Any) -> Any:
        """The layout of the primal, the memory of its shadow; zeros where there is none (W2)."""
        builder = self.builder
        shadow = self.context.make_array(found)(self.context, builder, tangent)
        array_type = shadow_type_of(found)
        result = cgutils.alloca_once(builder, self.context.get_value_type(array_type))
        with builder.if_else(cgutils.is_null(builder, shadow.data)) as (nowhere, there):
            with nowhere:
                zeros = zero_shadow(self.context, builder, found, primal)
                builder.store(zeros, result)
            with there:
                made = self.context.make_array(array_type)(self.context, builder, primal)
                made.meminfo, made.parent = shadow.meminfo, shadow.parent
                made.data = shadow.data
                builder.store(made._getvalue(), result)
        return builder.load(result)


__all__ = ["ForwardCall", "ForwardEmitter", "Gradient", "tangent_of"]
