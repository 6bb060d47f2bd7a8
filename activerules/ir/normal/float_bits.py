"""Integers that hold the bits of floats become floats again.

Needs       a module in normal form
Gives       the module, changed in place: a float made from the bits of an integer (`bitcast`) is
            computed as a float if the integer comes from memory, another float or a literal, by
            copies (phi, select, freeze), sign arithmetic, and shifts and masks that extract halves;
            a store of such an integer stores floats
Invariants  B1  every value has the bits it had; memory is read and written at the same addresses
            B2  any other integer stays as it was
                (`ir/analysis/soundness.py` refuses it if it carries a derivative)
Assumes     little-endian memory

Front ends copy, negate and select floats as integers of the same size, and pass small structs of
floats in one integer: this is really arithmetic on floats.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import ClassVar

from activerules.ir.llvm.builder import Builder, Namer, at_offset
from activerules.ir.llvm.constants import float_of_bits, integer_of
from activerules.ir.llvm.model import (
    Block,
    Constant,
    Function,
    GlobalRef,
    Instruction,
    Module,
    Value,
    backward_slice,
)
from activerules.ir.llvm.types import DOUBLE, FLOAT, IntType, Type, size_of

_FLOATS = (DOUBLE, FLOAT)
_REMOVABLE = frozenset("load bitcast phi select freeze trunc zext lshr shl and or xor".split())


class _NotFloat(Exception):
    """The integer is computed in a way that has no float counterpart."""


def restore_floats(module: Module) -> None:
    """Rewrite the functions of a module; see the module docstring."""
    for function in module.defined():
        casts = [i for i in function.instructions() if i.opcode == "bitcast"]
        if casts:
            _Restorer(function, module).run([i for i in casts if _is_from_bits(i)])


def _is_from_bits(i: Instruction) -> bool:
    return i.type in _FLOATS and i.operands[0].type.is_int


def _width(value: Value) -> int:
    assert isinstance(value.type, IntType)
    return value.type.bits


class _Restorer:
    """Rewrites one function.

    twins    (integer, float type, shift) -> the float with these bits of the integer
    after    per instruction, the new instructions to insert after it
    """

    def __init__(self, function: Function, module: Module) -> None:
        self.function, self.module = function, module
        self.namer = Namer("bits", function.local_names())
        self.twins: dict[tuple[Value, Type, int], Value] = {}
        self.after: dict[Instruction, list[Instruction]] = defaultdict(list)
        self.values: dict[Value, Value] = {}
        self.replaced: dict[Instruction, list[Instruction]] = {}

    def run(self, casts: list[Instruction]) -> None:
        """Replace integer operations on the bits of floats by float operations where possible."""
        for cast in casts:
            twin = self._attempt(lambda c=cast: self._twin(c.operands[0], c.type, 0))
            if twin is not None:
                self.values[cast] = twin
        for store in [i for i in self.function.instructions() if _stores_integer(i)]:
            self._store(store)
        if self.values or self.replaced:
            self._rebuild()
            touched = [key[0] for key in self.twins if isinstance(key[0], Instruction)]
            self.function.remove_unused([i for i in touched if i.opcode in _REMOVABLE])

    def _attempt(self, make: Callable[[], Value]) -> Value | None:
        """The result of `make`; None if it fails, with all its changes undone."""
        twins = dict(self.twins)
        after = {i: list(inserted) for i, inserted in self.after.items()}
        try:
            return make()
        except _NotFloat:
            self.twins, self.after = twins, defaultdict(list, after)
            return None

    # --- stores ---

    def _store(self, store: Instruction) -> None:
        """Store floats instead of an integer that is known to be made of floats of one type."""
        value, pointer = store.operands
        for t in _FLOATS:
            size = 8 * size_of(t)
            if _width(value) % size or not self._is_known(value, t):
                continue
            stores: list[Instruction] = []
            b = Builder(stores, self.namer)

            def parts(t: Type = t, size: int = size, b: Builder = b) -> Value:
                for shift in range(0, _width(value), size):
                    twin = self._twin(value, t, shift)
                    b.store(twin, at_offset(b, pointer, shift // 8), align=_aligned(store, shift))
                return value

            if self._attempt(parts) is not None:
                self.replaced[store] = stores
                return

    def _is_known(self, value: Value, t: Type) -> bool:
        """Whether the value contains a float of this type, or a load that is also one."""

        def shows(i: Instruction) -> bool:
            from_float = i.opcode == "bitcast" and i.operands[0].type is t
            return from_float or any(key[0] is i and key[1] is t for key in self.twins)

        def goes_on(i: Instruction) -> bool:
            return i.opcode in _REMOVABLE and i.opcode != "load"

        return any(map(shows, backward_slice(value, goes_on)))

    # --- floats ---

    def _twin(self, value: Value, t: Type, shift: int) -> Value:
        """The float whose bits are those of `value` from `shift` on."""
        if isinstance(value, Constant):
            return _literal(value, t, shift)
        if not isinstance(value, Instruction) or not value.type.is_int:
            raise _NotFloat
        key = (value, t, shift)
        if key not in self.twins:
            make = self._TWINS.get(value.opcode)
            if make is None:
                raise _NotFloat
            twin = make(self, value, t, shift)
            self.twins[key] = twin
        return self.twins[key]

    def _at(self, anchor: Instruction) -> Builder:
        return Builder(self.after[anchor], self.namer)

    def _bitcast(self, i: Instruction, t: Type, shift: int) -> Value:
        if i.operands[0].type is not t or shift:
            raise _NotFloat
        return self.values.get(i.operands[0], i.operands[0])

    def _load(self, i: Instruction, t: Type, shift: int) -> Value:
        if not i.is_ordinary or shift % 8 or _width(i) % 8:
            raise _NotFloat
        b = self._at(i)
        load = b.load(t, at_offset(b, i.operands[0], shift // 8), align=_aligned(i, shift))
        load.attributes |= {k: v for k, v in i.attributes.items() if k == "location"}
        return load

    def _phi(self, i: Instruction, t: Type, shift: int) -> Value:
        phi = self._at(i).phi(t)
        self.twins[i, t, shift] = phi
        phi.operands = [self._twin(o, t, shift) for o in i.operands]
        phi.blocks = list(i.blocks)
        return phi

    def _select(self, i: Instruction, t: Type, shift: int) -> Value:
        condition, x, y = i.operands
        twins = self._twin(x, t, shift), self._twin(y, t, shift)
        return self._at(i).select(condition, *twins)

    def _freeze(self, i: Instruction, t: Type, shift: int) -> Value:
        return self._at(i).emit("freeze", t, [self._twin(i.operands[0], t, shift)])

    def _trunc(self, i: Instruction, t: Type, shift: int) -> Value:
        return self._twin(i.operands[0], t, shift)

    def _zext(self, i: Instruction, t: Type, shift: int) -> Value:
        return self._part(i.operands[0], t, shift)

    def _lshr(self, i: Instruction, t: Type, shift: int) -> Value:
        return self._part(i.operands[0], t, shift + _amount(i))

    def _shl(self, i: Instruction, t: Type, shift: int) -> Value:
        if shift >= _amount(i):
            return self._twin(i.operands[0], t, shift - _amount(i))
        if _is_zero(i, shift, 8 * size_of(t)):
            return Constant(t, "0.000000e+00")
        raise _NotFloat

    def _part(self, value: Value, t: Type, shift: int) -> Value:
        """The same for an integer that is extended with zeros."""
        if shift + 8 * size_of(t) <= _width(value):
            return self._twin(value, t, shift)
        if shift >= _width(value):
            return Constant(t, "0.000000e+00")
        raise _NotFloat

    def _masked(self, i: Instruction, t: Type, shift: int) -> Value:
        """`and`, `or`, `xor`: sign arithmetic, or halves that are joined."""
        size = 8 * size_of(t)
        for x, y in (i.operands, i.operands[::-1]):
            mask = integer_of(y)
            if mask is not None:
                return self._with_mask(i, x, mask >> shift & ((1 << size) - 1), t, shift)
            if i.opcode in {"or", "xor"} and _is_zero(y, shift, size):
                return self._twin(x, t, shift)
            if i.opcode == "or" and _has_no_sign(x, shift, size) and _is_sign(y, shift, size):
                operands = [self._twin(x, t, shift), self._twin(y, t, shift)]
                return self._intrinsic(i, "llvm.copysign", t, operands)
        raise _NotFloat

    def _with_mask(self, i: Instruction, x: Value, mask: int, t: Type, shift: int) -> Value:
        sign = 1 << (8 * size_of(t) - 1)
        all_ones = 2 * sign - 1
        match i.opcode, mask:
            case ("and", 0):
                return Constant(t, "0.000000e+00")
            case ("or" | "xor", 0):
                return self._twin(x, t, shift)
            case ("and", bits) if bits == all_ones:
                return self._twin(x, t, shift)
            case ("and", bits) if bits == sign - 1:
                return self._intrinsic(i, "llvm.fabs", t, [self._twin(x, t, shift)])
            case ("and", bits) if bits == sign:
                zero = Constant(t, "0.000000e+00")
                return self._intrinsic(i, "llvm.copysign", t, [zero, self._twin(x, t, shift)])
            case ("xor", bits) if bits == sign:
                return self._at(i).fneg(self._twin(x, t, shift))
            case ("or", bits) if bits == sign:
                size = self._intrinsic(i, "llvm.fabs", t, [self._twin(x, t, shift)])
                return self._at(i).fneg(size)
            case _:
                raise _NotFloat

    def _intrinsic(self, i: Instruction, name: str, t: Type, operands: list[Value]) -> Value:
        call = self._at(i).intrinsic(name, t, operands)
        assert isinstance(call.callee, GlobalRef)
        self.module.declare(call.callee.name, t, operands)
        return call

    # --- the function ---

    def _rebuild(self) -> None:
        for block in self.function.blocks:
            block.instructions = self._rebuilt(block)
            for i in block.instructions:
                i.parent = block
        for i in self.function.instructions():
            i.operands = [self._final(o) for o in i.operands]

    def _rebuilt(self, block: Block) -> list[Instruction]:
        phis: list[Instruction] = []
        body: list[Instruction] = []
        for i in block.instructions:
            to = phis if i.opcode == "phi" else body
            if i not in self.values:
                to += self.replaced.get(i, [i])
            for instruction in self.after.get(i, ()):
                (phis if instruction.opcode == "phi" else body).append(instruction)
        return [*phis, *body]

    def _final(self, value: Value) -> Value:
        while value in self.values:
            value = self.values[value]
        return value

    _TWINS: ClassVar[dict[str, Callable[[_Restorer, Instruction, Type, int], Value]]] = {
        "bitcast": _bitcast,
        "load": _load,
        "phi": _phi,
        "select": _select,
        "freeze": _freeze,
        "trunc": _trunc,
        "zext": _zext,
        "lshr": _lshr,
        "shl": _shl,
        "and": _masked,
        "or": _masked,
        "xor": _masked,
    }


def _stores_integer(i: Instruction) -> bool:
    return i.opcode == "store" and i.operands[0].type.is_int and i.is_ordinary


def _literal(value: Constant, t: Type, shift: int) -> Constant:
    if value.text in {"undef", "poison"}:
        return Constant(t, value.text)
    number = integer_of(value)
    literal = None if number is None else float_of_bits(t, number >> shift)
    if literal is None:
        raise _NotFloat
    return literal


def _amount(shift: Instruction) -> int:
    number = integer_of(shift.operands[1])
    if number is None:
        raise _NotFloat
    return number


def _aligned(access: Instruction, bits: int) -> int:
    whole = access.attributes.get("align", 1)
    return min(whole, bits // 8 & -(bits // 8)) if bits else whole


def _bits_that_may_be_set(value: Value) -> int:
    """A mask of all bits that can be one."""
    everything = (1 << _width(value)) - 1
    if isinstance(value, Constant):
        number = integer_of(value)
        return everything if number is None else number & everything
    if not isinstance(value, Instruction):
        return everything
    x = value.operands[0] if value.operands else value
    amount = integer_of(value.operands[1]) if value.opcode in {"shl", "lshr"} else None
    match value.opcode:
        case "zext":
            return _bits_that_may_be_set(x)
        case "shl" if amount is not None:
            return _bits_that_may_be_set(x) << amount & everything
        case "lshr" if amount is not None:
            return _bits_that_may_be_set(x) >> amount
        case "and":
            return _bits_that_may_be_set(x) & _bits_that_may_be_set(value.operands[1])
        case "or" | "xor":
            return _bits_that_may_be_set(x) | _bits_that_may_be_set(value.operands[1])
        case _:
            return everything


def _is_zero(value: Value, shift: int, size: int) -> bool:
    return not _bits_that_may_be_set(value) >> shift & ((1 << size) - 1)


def _has_no_sign(value: Value, shift: int, size: int) -> bool:
    return _is_zero(value, shift + size - 1, 1)


def _is_sign(value: Value, shift: int, size: int) -> bool:
    return _is_zero(value, shift, size - 1)
