"""Reference-counted generators: the struct counts the variables that refer to it.

Needs       Numba's model of a generator, a struct on the stack of the function that made it
Gives       `data_models` and `CountingNRT`, for a target context; `CountedDescriptor`, which marks
            counted generators; `is_counted`; `counts_otherwise`: values that must not be passed to
            code that Numba lowers; `refuse_returned`: values that no function can return
Invariants  H1  a generator drops its state and arguments with the last variable that refers to it
            H2  the struct begins as Numba's does
            H3  a copy of the struct owns references to its contents; if the last reference is given
                away, the struct is moved, and no counts change
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel.manager import DataModelManager
from numba.core.datamodel.models import GeneratorModel
from numba.core.datamodel.registry import default_manager
from numba.core.generators import GeneratorDescriptor
from numba.core.runtime.context import NRTContext

from activerules.errors import NotYetSupported
from activerules.numba_ext.codegen.protocols import (
    Builder,
    Context,
    Value,
    call_named,
    entry_builder,
)

_I64 = ir.IntType(64)
COUNT = 3  # after the index, the arguments, and the state


class CountedDescriptor(GeneratorDescriptor):
    """The descriptor of a counted generator; Numba's own are not counted."""

    __slots__ = ()


class CountedGenerator(GeneratorModel):
    """Numba's struct, followed by the number of variables that refer to the generator."""

    def __init__(self, nrt: CountingNRT, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type)
        self._nrt = nrt
        self._be_type = ir.LiteralStructType([*self._be_type.elements, _I64])
        self._be_ptr_type = self._be_type.as_pointer()

    def from_data(self, builder: Builder, value: Value) -> Any:
        """Store the struct in a stack slot, one for each point in the code; returns the slot."""
        slot = cgutils.alloca_once(builder, value.type)
        put(builder, value, slot)
        return slot

    def as_data(self, builder: Builder, value: Value) -> Any:
        """The struct, for a reference that is given away; zeros if there is no generator.

        It is moved with the last reference; before that it is copied, with new references to its
        contents.
        """
        with builder.if_else(cgutils.is_not_null(builder, value)) as (there, nowhere):
            with there:
                self._nrt.move(builder, self._fe_type, value)
                struct = super().as_data(builder, value)
                struct = builder.insert_value(struct, _I64(1), COUNT)
                filled = builder.block
            with nowhere:
                empty = builder.block
        phi = builder.phi(struct.type)
        phi.add_incoming(struct, filled)
        phi.add_incoming(struct.type(None), empty)
        return phi


def put(builder: Builder, value: Value, slot: Value) -> None:
    """Store a generator in a slot that may contain another: variables that refer to the old one now
    refer to this.

    This happens if a call fails and its exception is caught: its variable was never assigned.
    """
    counter = cgutils.gep_inbounds(builder, slot, 0, COUNT)
    count = builder.extract_value(value, COUNT)
    count = builder.select(cgutils.is_null(builder, count), _I64(1), count)
    count = builder.add(count, builder.load(counter))
    builder.store(builder.insert_value(value, count, COUNT), slot)


def data_models(context: Context) -> DataModelManager:
    """Numba's data models with those of counted generators, for a target context and its copies."""
    models = DataModelManager().chain(default_manager)
    # not `context.nrt`, which is another one in each copy, and may be disabled
    models.register(types.Generator, partial(CountedGenerator, CountingNRT(context, True)))
    return models


def counts_otherwise(typ: Any) -> bool:
    """Whether a value contains generators with references, which Numba's code does not count."""
    if not isinstance(typ, types.IteratorType | types.BaseTuple | types.Optional):
        return False
    inner = default_manager[typ].traverse_types()
    return any(isinstance(t, types.Generator) and _holds_references(t) for t in inner)


def _holds_references(typ: types.Generator) -> bool:
    fields = (*typ.arg_types, *typ.state_types)
    return any(default_manager[t].contains_nrt_meminfo() or counts_otherwise(t) for t in fields)


def refuse_returned(typ: Any, function: str) -> None:
    """Raise `NotYetSupported` for a return type that contains a generator: it points to a struct on
    the stack of the function. A generator by itself is copied.
    """
    if not isinstance(typ, types.IteratorType | types.BaseTuple | types.Optional):
        return
    inner = [t for t in default_manager[typ].traverse_types() if t is not typ]
    if any(isinstance(t, types.Generator) for t in inner):
        raise NotYetSupported(
            f"{function} returns {typ}, with a generator in it",
            why="the generator lives in the function that made it: Numba's own function returns "
            "what is no longer there",
            instead=["generators that are made where they are used", "return one generator"],
        )


class CountingNRT(NRTContext):
    """Counts references to generators, too (H1)."""

    def incref(self, builder: Builder, typ: Any, value: Value) -> None:
        """Count a reference to each generator in a value."""
        super().incref(builder, typ, value)
        for ty, slot in self._generators(builder, typ, value):
            builder.call(self._counting(builder, ty, "take", 1), [slot])

    def decref(self, builder: Builder, typ: Any, value: Value) -> None:
        """Drop a reference to each generator in a value."""
        super().decref(builder, typ, value)
        for ty, slot in self._generators(builder, typ, value):
            builder.call(self._counting(builder, ty, "drop", -1), [slot])

    def retain(self, builder: Builder, typ: Any, value: Value) -> None:
        """Take references to the contents of a value that is a bitwise copy."""
        super().incref(builder, typ, value)
        for ty, slot in self._generators(builder, typ, value):
            self._context.get_generator_impl(ty)  # links it
            builder.call(self._retaining(builder.module, ty), [slot])

    def move(self, builder: Builder, typ: Any, slot: Value) -> None:
        """Give away a reference to a generator, whose struct the caller copies next."""
        if not is_counted(self._context, typ):
            return
        counter = cgutils.gep_inbounds(builder, slot, 0, COUNT)
        count = builder.load(counter)
        with builder.if_then(builder.icmp_signed(">", count, _I64(1))):
            self.retain(builder, typ, slot)
        builder.store(builder.sub(count, _I64(1)), counter)

    def clear(self, builder: Builder, typ: Any, slot: Value) -> None:
        """Drop the generator in a stack slot, if there is one; used if its variables are gone."""
        builder.call(self._clearing(builder, typ), [slot])

    def _generators(self, builder: Builder, typ: Any, value: Value) -> Iterator[tuple[Any, Any]]:
        if isinstance(typ, types.Generator):
            if is_counted(self._context, typ):
                yield typ, value
        elif may_hold_generators(self._context, typ):
            for inner, get in self._context.data_model_manager[typ].traverse(builder):
                if may_hold_generators(self._context, inner):
                    yield from self._generators(builder, inner, get(value))

    def _counting(self, builder: Builder, typ: Any, verb: str, change: int) -> Any:
        """The function that changes the count; it accepts null for a generator."""
        function, exists = self._function(builder, typ, verb)
        if exists:
            return function
        b = entry_builder(function)
        (slot,) = function.args
        with b.if_then(cgutils.is_not_null(b, slot)):
            counter = cgutils.gep_inbounds(b, slot, 0, COUNT)
            count = b.add(b.load(counter), _I64(change))
            b.store(count, counter)
            if change < 0:
                with b.if_then(cgutils.is_null(b, count)):
                    self._finalize(b, typ, slot)
        b.ret_void()
        return function

    def _clearing(self, builder: Builder, typ: Any) -> Any:
        function, exists = self._function(builder, typ, "clear")
        if exists:
            return function
        b = entry_builder(function)
        (slot,) = function.args
        count = b.load(cgutils.gep_inbounds(b, slot, 0, COUNT))
        with b.if_then(b.icmp_signed(">", count, _I64(0))):
            self._finalize(b, typ, slot)
        b.ret_void()
        return function

    def lower_retaining(self, typ: Any, module: Any, each_owned: Any) -> None:
        """Emit the function that takes references to the contents of a copied generator."""
        function = self._retaining(module, typ)
        function.attributes.add("alwaysinline")
        builder = entry_builder(function)
        each_owned(builder, function.args[0], self.retain)

    def _retaining(self, module: ir.Module, typ: Any) -> ir.Function:
        function_type = ir.FunctionType(ir.VoidType(), [self._context.get_value_type(typ)])
        name = f"hold_{self._context.get_generator_desc(typ).mangled_name}"
        return cgutils.get_or_insert_function(module, function_type, name)

    def _finalize(self, builder: Builder, typ: Any, slot: Value) -> None:
        name = self._context.get_generator_desc(typ).llvm_finalizer_name
        call_named(builder, name, ir.VoidType(), [slot])

    def _function(self, builder: Builder, typ: Any, verb: str) -> tuple[Any, bool]:
        """A function of this module, and whether it already existed."""
        self._context.get_generator_impl(typ)  # links it
        name = f"activerules.generator.{verb}.{self._context.get_generator_desc(typ).mangled_name}"
        known = builder.module.globals.get(name)
        if known is not None:
            return known, True
        function_type = ir.FunctionType(ir.VoidType(), [self._context.get_value_type(typ)])
        function = cgutils.get_or_insert_function(builder.module, function_type, name)
        function.linkage = "linkonce_odr"
        function.attributes.add("alwaysinline")
        return function, False


def is_counted(context: Context, typ: Any) -> bool:
    """Whether generators of a type were lowered by this target."""
    known = context._generators.get(typ)
    return known is not None and isinstance(known[0], CountedDescriptor)


_holders: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def may_hold_generators(context: Context, typ: Any) -> bool:
    """Whether values of a type may contain a generator."""
    if typ not in _holders:
        members = context.data_model_manager[typ].traverse(None)
        inner = (may_hold_generators(context, member) for member, _ in members)
        _holders[typ] = isinstance(typ, types.Generator) or any(inner)
    return _holders[typ]
