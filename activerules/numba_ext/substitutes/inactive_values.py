"""Values of types that were declared inactive, in code that is differentiated; and other memory of
which lowering tells the engine what the IR does not show.

Needs       which Numba types were declared (`inactive_type`)
Gives       `InactiveValues`, a target context: it wraps the implementations with which Numba's
            lowering makes such values, reads from them, and stores into them
            `NewRecords`, a target context that declares where the floats are in arrays of records
            that compiled code makes (`mark_of`)
Invariants  V1  a float read from such a value, or stored into one, passes `ignore_derivatives`, as
                do the floats that a tuple of such a type is made of
            V2  memory read from one is marked (`INACTIVE_MEMORY`): the engine refuses it if it is
                active, since others that refer to the memory would lose derivatives
            V3  so is an array with a view as floats of another precision (`REINTERPRETED`)
            V4  a view of records as anything else is marked (`VIEWED_RECORDS`): in a module with
                such a view, the engine believes no declaration of new records
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.cpu import CPUContext
from numba.np import arrayobj

from activerules.ir.analysis.memory.declared import mark_of
from activerules.ir.llvm.names import VIEWED_RECORDS
from activerules.numba_ext.codegen.protocols import (
    Builder,
    Context,
    TypingContext,
    Value,
    call_named,
)
from activerules.values.layout import Node, layout_of
from activerules.values.memory_layout import declared_of

IGNORE_FUNCTIONS: dict[ir.Type, str] = {
    ir.DoubleType(): "activerules.ignore.f64",
    ir.FloatType(): "activerules.ignore.f32",
}
"""Functions that the engine treats as identities with a constant result."""

INACTIVE_MEMORY = "activerules.inactive_memory"
"""A function that marks memory to which a value without derivative leads: it must not be active."""
INACTIVE_ARGUMENT = "activerules.inactive_argument"
"""The same for memory to which an argument leads that was declared inactive."""
REINTERPRETED = "activerules.reinterpreted_memory"
"""The same for memory of floats that is viewed as memory of other floats."""

_READS = {"static_getitem", "typed_getitem", "getiter", operator.getitem}
_OF_NUMBA = (types.Array, types.Container, types.ListType, types.DictType)
"""Types whose methods Numba implements; methods of the user are compiled with this context, too."""
_WRITES = {"static_setitem", operator.setitem}
_VIEWS = {"array.view", np.frombuffer}


class InactiveValues(CPUContext):
    """A target context in which no derivative enters or leaves such values."""

    def is_inactive_type(self, ty: Any) -> bool:
        """Whether values of a type were declared to carry no derivative."""
        raise NotImplementedError

    def get_function(self, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
        """The implementation of a call, an operator or a subscript access."""
        implementation = super().get_function(fn, sig, _firstcall)
        receiver = sig.recvr or (sig.args[0] if sig.args else types.none)
        is_method = isinstance(fn, types.BoundFunction) and isinstance(receiver, _OF_NUMBA)
        key = getattr(fn, "typing_key", fn)
        stores = is_method or key in _WRITES
        reads = is_method or key in _READS
        from_inactive = (stores or reads) and self._is_inactive(receiver)
        result = (from_inactive and reads) or self.is_inactive_type(sig.return_type)
        if key in _VIEWS and not from_inactive and not result:
            before, after = map(_precisions, map(layout_of, (receiver, sig.return_type)))
            if before and after and before != after:
                return _Stopped(implementation, False, sig.return_type, REINTERPRETED)
        if not from_inactive and not result:
            return implementation
        returned = sig.return_type if result else None
        return _Stopped(implementation, from_inactive and stores, returned)

    def get_getattr(self, typ: Any, attr: str) -> Any:
        """The implementation of reading an attribute."""
        implementation = super().get_getattr(typ, attr)
        if implementation is None or not self._is_inactive(typ):
            return implementation
        typing_context: TypingContext = self.typing_context
        attribute_type = typing_context.resolve_getattr(typ, attr)

        def read(context: Context, builder: Builder, typ: Any, value: Value, attr: str) -> Any:
            return _stopped(
                builder, attribute_type, implementation(context, builder, typ, value, attr)
            )

        return read

    def get_setattr(self, attr: str, sig: Any) -> Any:
        """The implementation of writing an attribute."""
        implementation: Any = super().get_setattr(attr, sig)
        if not self._is_inactive(sig.args[0]):
            return implementation
        return lambda builder, args: implementation(builder, (args[0], _by_value(builder, args[1])))

    def make_tuple(self, builder: Builder, typ: Any, values: Sequence[Value]) -> Value:
        """Make a tuple; in one of an inactive type, floats become constants."""
        if self.is_inactive_type(typ):
            values = [_stopped(builder, t, v) for t, v in zip(typ, values, strict=True)]
        return super().make_tuple(builder, typ, values)

    def _is_inactive(self, ty: Any) -> bool:
        records = ty.dtype if isinstance(ty, types.Array) else None
        return self.is_inactive_type(ty) or (
            isinstance(records, types.Record) and self.is_inactive_type(records)
        )


def _stopped(builder: Builder, ty: Any, value: Value, name: str = INACTIVE_MEMORY) -> Any:
    """The value with its floats made constants, and its memory marked."""
    marks = layout_of(ty).numbers.any
    return _by_value(builder, value, partial(_mark, name) if marks else None)


def _by_value(
    builder: Builder, value: Value, mark: Callable[[Any, Any], None] | None = None
) -> Value:
    if value.type in IGNORE_FUNCTIONS:
        return call_named(builder, IGNORE_FUNCTIONS[value.type], value.type, [value], "nounwind")
    if isinstance(value.type, ir.PointerType) and mark is not None:
        mark(builder, value)
    if isinstance(value.type, ir.LiteralStructType | ir.ArrayType):
        for k in range(len(value.type)):
            part = builder.extract_value(value, k)
            stopped = _by_value(builder, part, mark)
            if stopped is not part:
                value = builder.insert_value(value, stopped, k)
    return value


def require_inactive(builder: Builder, value: Value) -> None:
    """Mark the memory to which an argument leads that was declared inactive."""
    _by_value(builder, value, partial(_mark, INACTIVE_ARGUMENT))


def _is_value(arg: Any) -> bool:
    return hasattr(arg, "type")


def _mark(name: str, builder: Builder, pointer: Value) -> None:
    memory = builder.bitcast(pointer, cgutils.voidptr_t)
    call_named(builder, name, ir.VoidType(), [memory], "nounwind", "inaccessiblememonly")


def _precisions(array: Node) -> frozenset[int]:
    """The widths of the floats in an array or its records, those of complex numbers included."""
    number = getattr(array.numba_type, "underlying_float", array.numba_type)
    own = {number.bitwidth} if isinstance(number, types.Float) else set[int]()
    return frozenset(own).union(*(_precisions(part) for _, part in array.children))


class _Stopped:
    """An implementation with constants for its arguments (but the first), or for its result."""

    def __init__(
        self, implementation: Any, arguments: bool, returned: Any, name: str = INACTIVE_MEMORY
    ) -> None:
        self._name = name
        self._implementation = implementation
        self._arguments = arguments
        self._returned = returned

    def __getattr__(self, name: str) -> Any:
        return getattr(self._implementation, name)

    def __call__(self, builder: Builder, args: Sequence[Any], loc: Any = None) -> Any:
        if self._arguments:
            # constant subscripts are no LLVM values
            args = [args[0], *(_by_value(builder, a) if _is_value(a) else a for a in args[1:])]
        result = self._implementation(builder, args, loc)
        if self._returned is None:
            return result
        return _stopped(builder, self._returned, result, self._name)


class NewRecords(CPUContext):
    """A target context that declares where floats are in new arrays of records."""

    _of_new_array: Any = None

    def get_preferred_array_alignment(self, ty: Any) -> int:
        """The alignment of an array of this element type: Numba asks right before it allocates."""
        self._of_new_array = ty
        return super().get_preferred_array_alignment(ty)

    def compile_internal(
        self, builder: Any, impl: Any, sig: Any, args: Sequence[Any], locals: Any = None
    ) -> Any:
        """The call of a function that Numba compiles for it."""
        result = super().compile_internal(builder, impl, sig, args, locals)
        if impl is arrayobj._call_allocator and isinstance(self._of_new_array, types.Record):
            layout = declared_of(types.Array(self._of_new_array, 1, "C"))
            if layout is not None and layout.floats:
                _mark(mark_of(layout), builder, result)
        return result

    def get_function(self, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
        """The implementation of a call."""
        implementation = super().get_function(fn, sig, _firstcall)
        if getattr(fn, "typing_key", fn) not in _VIEWS:
            return implementation
        receiver = sig.recvr or sig.args[0]
        kinds = {getattr(ty, "dtype", ty) for ty in (receiver, sig.return_type)}
        if len(kinds) == 1 or not any(isinstance(kind, types.Record) for kind in kinds):
            return implementation
        return _Viewed(implementation)


class _Viewed:
    """An implementation of a view of records as something else, or of something else as records."""

    def __init__(self, implementation: Any) -> None:
        self._implementation = implementation

    def __getattr__(self, name: str) -> Any:
        return getattr(self._implementation, name)

    def __call__(self, builder: Builder, args: Sequence[Any], loc: Any = None) -> Any:
        _mark(VIEWED_RECORDS, builder, ir.Constant(cgutils.voidptr_t, None))
        return self._implementation(builder, args, loc)
