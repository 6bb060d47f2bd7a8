"""Lanes: N tangents of one float are carried as one SIMD vector, or as N scalars.

`LaneBuilder` applies rows of the derivative table, which are written for scalars, to vectors: in an
operation on a vector and a scalar, the scalar is broadcast. With N = 1 a packed tangent is the
scalar itself, and no code is added.

Needs       of `with_scalars`: a generated function, the builder of its vectors, and some of its
            blocks
Gives       `with_scalars`: these blocks compute on scalars
Invariants  I1  other blocks stay as they are; a vector that they use is packed where it was made
            I2  each lane computes what it did as part of the vector, in the same order
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from activerules.ir.llvm.builder import Builder, Flags, Namer, add_incoming
from activerules.ir.llvm.model import Block, Constant, Function, Instruction, Value
from activerules.ir.llvm.types import I1, I32, FloatType, Type, VectorType

# For scalars LLVM then makes a branch, which does not delay the value as a select does.
RARELY = ', !prof !{!"branch_weights", i32 1, i32 1000000}'


class LaneBuilder(Builder):
    """A builder of code for `width` tangents at once."""

    def __init__(
        self,
        target: Block | list[Instruction],
        width: int,
        namer: Namer | None = None,
        declarations: dict[str, str] | None = None,
    ) -> None:
        super().__init__(target, namer, declarations)
        self.width = width

    def packed(self, t: Type) -> Type:
        """The type of `width` tangents of type `t`."""
        return t if self.width == 1 else VectorType(self.width, t)

    def pack(self, lanes: Sequence[Value]) -> Value:
        """One value from the tangents of all lanes."""
        if self.width == 1:
            return lanes[0]
        vector: Value = Constant(self.packed(lanes[0].type), "poison")
        for k, lane in enumerate(lanes):
            operands = [vector, lane, super().const(I32, k)]
            vector = self.emit("insertelement", vector.type, operands)
        return vector

    def lane(self, value: Value, k: int) -> Value:
        """The tangent in lane `k`."""
        if not isinstance(value.type, VectorType):
            return value
        return self.emit("extractelement", value.type.element, [value, super().const(I32, k)])

    def zero(self, t: Type) -> Value:
        """The tangent of a value that is not varied."""
        return self.const(self.packed(t), 0.0)

    def zero_where_zero(self, tangent: Value, term: Value) -> Value:
        """`term`, but zero in the lanes where `tangent` is zero and the slope infinite or NaN.

        Where the slope is finite, the term is zero anyway, and is used as it is: this code may be
        differentiated again, and the derivative of a constant 0 is not that of the term.
        """
        mask = VectorType(self.width, I1) if isinstance(tangent.type, VectorType) else I1
        operands = [tangent, self.const(tangent.type, 0.0)]
        unmoved = self.emit("fcmp", mask, operands, predicate="oeq")
        undefined = self.emit("fcmp", mask, [term, term], predicate="uno")
        unmoved_and_undefined = super().binary("and", unmoved, undefined)
        chosen = super().select(unmoved_and_undefined, self.const(term.type, 0.0), term)
        chosen.attributes["metadata"] = RARELY
        return chosen

    # --- rows of the derivative table, on vectors ---

    def const(self, t: Type, number: float | None) -> Constant:
        """A literal; one of a vector has the number in every lane."""
        if not isinstance(t, VectorType):
            return super().const(t, number)
        return _repeated(super().const(t.element, number), t)

    def binary(self, op: str, x: Value, y: Value, flags: Flags = (), hint: str = "") -> Instruction:
        """The operation on every lane; a scalar operand beside a vector is broadcast."""
        return super().binary(op, *self._alike(x, y), flags, hint)

    def select(
        self, condition: Value, x: Value, y: Value, flags: Flags = (), hint: str = ""
    ) -> Instruction:
        """`x` or `y` in all lanes alike: the condition is a scalar of the primal."""
        return super().select(condition, *self._alike(x, y), flags, hint)

    def cast(self, op: str, x: Value, t: Type, flags: Flags = (), hint: str = "") -> Instruction:
        """The cast to `t` in every lane."""
        return super().cast(op, x, _like(x, t), flags, hint)

    def call(
        self,
        callee: str | Value,
        result: Type,
        arguments: Sequence[Value],
        flags: Flags = (),
        hint: str = "",
        attributes: str | None = None,
    ) -> Instruction:
        """A call with vectors among its arguments becomes one call per lane."""

        def call_lane(k: int | None) -> Instruction:
            lanes = [self.lane(a, k) if k is not None else a for a in arguments]
            t = result.element if isinstance(result, VectorType) else result
            return Builder.call(self, callee, t, lanes, flags, hint, attributes)

        if not any(isinstance(a.type, VectorType) for a in arguments):
            return call_lane(None)
        vector = self.pack([call_lane(k) for k in range(self.width)])
        assert isinstance(vector, Instruction)
        return vector

    def _alike(self, x: Value, y: Value) -> tuple[Value, Value]:
        if isinstance(x.type, VectorType) == isinstance(y.type, VectorType):
            return x, y
        return self._repeat(x), self._repeat(y)

    def _repeat(self, x: Value) -> Value:
        if isinstance(x.type, VectorType):
            return x
        t = VectorType(self.width, x.type)
        if isinstance(x, Constant):
            return _repeated(x, t)
        first = [Constant(t, "poison"), x, super().const(I32, 0)]
        everywhere = Constant(VectorType(self.width, I32), "zeroinitializer")
        single = self.emit("insertelement", t, first)
        return self.emit("shufflevector", t, [single, Constant(t, "poison"), everywhere])


def per_lane(width: int, make: Callable[[int], Value]) -> tuple[Value, ...]:
    """The results of `make` for each lane."""
    return tuple(make(k) for k in range(width))


def with_scalars(function: Function, blocks: Collection[Block], b: LaneBuilder) -> None:
    """Replace the vectors in `blocks`, in each of which a definition stands before its uses."""
    if blocks:
        _Splitter(function, blocks, b).run()


class _Splitter:
    def __init__(self, function: Function, blocks: Collection[Block], b: LaneBuilder) -> None:
        self.function, self.blocks, self.b = function, blocks, b
        outside = [
            i for block in function.blocks if block not in blocks for i in block.instructions
        ]
        self.used_outside = {o for i in outside for o in i.operands}
        # the lanes of each vector that was replaced; the replacements of other values
        self.lanes: dict[Value, tuple[Value, ...]] = {}
        self.replaced: dict[Value, Value] = {}

    def run(self) -> None:
        """Replace the vectors, then what refers to them."""
        phis: list[Instruction] = []
        for block in self.function.blocks:
            if block in self.blocks:
                phis += [phi for phi in block.phis if isinstance(phi.type, VectorType)]
                self._split(block)
        for phi in phis:
            self._connect(phi)
        for i in self.function.instructions():
            i.operands = [self.replaced.get(o, o) for o in i.operands]

    def _split(self, block: Block) -> None:
        old, block.instructions[:] = list(block.instructions), []
        self.b.target = block
        packed: list[Instruction] = []
        for i in old:
            if packed and i.opcode != "phi":
                self._pack(packed)
            if isinstance(i.type, VectorType):
                self.lanes[i] = self._scalars(i)
                packed += [i] * (i in self.used_outside)
            elif i.opcode == "extractelement":
                vector, k = i.operands
                self.replaced[i] = self._lane(vector, int(k.ref))
            else:
                block.instructions.append(i)

    def _pack(self, vectors: list[Instruction]) -> None:
        for vector in vectors:
            self.replaced[vector] = self.b.pack(self.lanes[vector])
        vectors.clear()

    def _scalars(self, i: Instruction) -> tuple[Value, ...]:
        if i.opcode == "insertelement":
            vector, number, k = i.operands
            lanes = per_lane(self.b.width, lambda k: self._lane(vector, k))
            at = int(k.ref)
            return *lanes[:at], self.replaced.get(number, number), *lanes[at + 1 :]
        if i.opcode == "shufflevector":  # one number to all lanes
            return (self._lane(i.operands[0], 0),) * self.b.width
        return per_lane(self.b.width, lambda k: self._scalar(i, k))

    def _scalar(self, i: Instruction, k: int) -> Value:
        assert isinstance(i.type, VectorType)
        operands = [] if i.opcode == "phi" else [self._lane(o, k) for o in i.operands]
        return self.b.emit(i.opcode, i.type.element, operands, flags=i.flags, **i.attributes)

    def _lane(self, value: Value, k: int) -> Value:
        if value in self.lanes:
            return self.lanes[value][k]
        return self.b.lane(self.replaced.get(value, value), k)

    def _connect(self, phi: Instruction) -> None:
        """Set what comes into the lanes of a phi."""
        for value, source in zip(phi.operands, phi.blocks, strict=True):
            *before, end = source.instructions
            source.instructions[:] = before
            self.b.target = source
            for k, lane in enumerate(self.lanes[phi]):
                assert isinstance(lane, Instruction)
                add_incoming(lane, self._lane(value, k), source)
            source.instructions.append(end)


def _repeated(x: Constant, t: VectorType) -> Constant:
    if x.text in {"undef", "poison"}:
        return Constant(t, x.text)
    return Constant(t, "<" + ", ".join([f"{x.type} {x.text}"] * t.length) + ">")


def _like(x: Value, t: Type) -> Type:
    if isinstance(x.type, VectorType) and isinstance(t, FloatType):
        return VectorType(x.type.length, t)
    return t
