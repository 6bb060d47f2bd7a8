"""The tape of split mode as a value: it may be stored, passed on, dropped, and boxed to Python.

A tape is one counted block of memory (an NRT MemInfo) and the arrays it keeps alive. The block
starts with the memory that the engine shares between the sweeps (`CompiledDerivative.memory`
bytes), followed by `HandleFields`. Its destructor releases the contents of the engine's tape, so
that a tape dropped unused leaks nothing.

This relies on data of an NRT block beginning at a multiple of 16, as it does with a header of 48
bytes and malloc; tests/numba_ext/split/test_tape_handle.py checks that.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import NativeValue, box, models, register_model, unbox

from activerules.numba_ext.codegen.protocols import Emit, Value
from activerules.numba_ext.codegen.types import attributes_of, unboxed_struct

I64 = ir.IntType(64)
BLOCK = types.MemInfoPointer(types.voidptr)

FRESH, RUNNING, USED = 0, 1, 2
"""States of a tape: the reverse sweep may run; is running; has run, and the tape is empty."""
USED_TWICE = "a tape is used a second time: its reverse has run"


class TapeType(types.Type):
    """The tape of one derivative, named by the symbol of its functions.

    memory  bytes of its block that belong to the engine
    owned   the types of the arrays it keeps alive
    """

    def __init__(
        self, symbol: str, function: str, memory: int, owned: tuple[types.Type, ...]
    ) -> None:
        self.symbol = symbol
        self.function = function
        self.memory = memory
        self.owned = types.Tuple(owned)
        super().__init__(f"Tape of {function}({symbol}, {self.owned})")


@register_model(TapeType)
class _TapeModel(models.StructModel):
    def __init__(self, dmm: Any, fe_type: TapeType) -> None:
        super().__init__(dmm, fe_type, [("block", BLOCK), ("owned", fe_type.owned)])


class Tape:
    """A tape in Python: an opaque value made by `augmented`, used once by `reverse`."""

    # Numba's dispatchers read the type of an argument from `_numba_type_`
    __slots__ = ("_block", "_numba_type_", "_owned")

    def __init__(self, tape_type: TapeType, block: Any, owned: tuple[Any, ...]) -> None:
        self._numba_type_, self._block, self._owned = tape_type, block, owned

    def __repr__(self) -> str:
        """Name the function that the tape belongs to."""
        return f"<tape of {self._numba_type_.function}>"

    def __reduce__(self) -> Any:
        """Raise `TypeError`: a tape is memory of this process."""
        raise TypeError("a tape cannot be pickled or copied")


@box(TapeType)
def _box_tape(tape: TapeType, value: Any, c: Any) -> Any:
    native = cgutils.create_struct_proxy(tape)(c.context, c.builder, value)
    parts = c.box(BLOCK, native.block), c.box(tape.owned, native.owned)
    result = c.pyapi.call_function_objargs(constant(c, Tape), [constant(c, tape), *parts])
    for part in parts:
        c.pyapi.decref(part)
    return result


def constant(c: Any, value: Any) -> Value:
    """A borrowed reference to an object that boxing code uses; it is stored with the compiled
    function, also on disk.
    """
    return c.env_manager.read_const(c.env_manager.add_const(value))


@unbox(TapeType)
def _unbox_tape(tape: TapeType, value: Any, c: Any) -> NativeValue:
    fields = {"block": BLOCK, "owned": tape.owned}
    return unboxed_struct(c, tape, attributes_of(c, value, fields, prefix="_"))


class HandleFields:
    """Accesses the fields behind the engine's memory, in the function being lowered.

    state      FRESH, RUNNING or USED
    variant    whether the sweeps are those for arguments that overlap
    returned   what the primal returned, and its shadow in each lane
    arguments  the words that identify the arguments the tape was made from
    """

    def __init__(
        self, em: Emit, memory: int, returned: ir.Type, arguments: int, width: int = 1
    ) -> None:
        self.context, self.builder, self._count = em.context, em.builder, 1 + width
        words = ir.ArrayType(I64, arguments)
        self._type = ir.LiteralStructType(
            [cgutils.int32_t, cgutils.int32_t, *[returned] * self._count, words]
        )
        self._start = -(-memory // 16) * 16
        self.memory: Any = None
        self._fields: Any = None

    @property
    def size(self) -> int:
        """Bytes of the whole block."""
        return self._start + self.context.get_abi_sizeof(self._type)

    def at(self, meminfo: Value) -> None:
        """Access the block of a tape from here on."""
        self.memory = self.context.nrt.meminfo_data(self.builder, meminfo)
        start = cgutils.pointer_add(self.builder, self.memory, self._start)
        self._fields = self.builder.bitcast(start, self._type.as_pointer())

    def clear(self) -> None:
        """Make it a fresh, empty tape."""
        cgutils.memset(self.builder, self.memory, cgutils.intp_t(self.size), 0)

    def field(self, index: int) -> Value:
        """A pointer to one of the fields, in the order of the class docstring."""
        zero = cgutils.int32_t(0)
        return self.builder.gep(self._fields, [zero, cgutils.int32_t(index)])

    @property
    def state(self) -> Any:
        """A pointer to the state."""
        return self.field(0)

    @property
    def variant(self) -> Any:
        """A pointer to the variant."""
        return self.field(1)

    @property
    def returned(self) -> list[Any]:
        """Pointers to what the primal returned, and to its shadow in each lane."""
        return [self.field(2 + k) for k in range(self._count)]

    def word(self, number: int) -> Value:
        """A pointer to one word of the arguments."""
        zero = cgutils.int32_t(0)
        path = [zero, cgutils.int32_t(2 + self._count), cgutils.int32_t(number)]
        return self.builder.gep(self._fields, path)

    def change_state(self, old: int, new: int) -> Value:
        """Change the state atomically; true if it was `old`. Of several threads one succeeds."""
        result = self.builder.cmpxchg(
            self.state, cgutils.int32_t(old), cgutils.int32_t(new), "acq_rel", "monotonic"
        )
        return self.builder.extract_value(result, 1)

    def set_state(self, new: int) -> None:
        """Set the state of the tape: FRESH, RUNNING or USED."""
        self.builder.store_atomic(cgutils.int32_t(new), self.state, "release", 4)


def state_of(em: Emit, tape: TapeType, handle: Value) -> HandleFields:
    """The fields of a tape, of which only the state is used: the types of the fields behind it do
    not matter.
    """
    native = cgutils.create_struct_proxy(tape)(em.context, em.builder, handle)
    block = HandleFields(em, tape.memory, cgutils.int8_t, 0)
    block.at(native.block)
    return block
