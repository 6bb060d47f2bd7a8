"""Lanes: N tangents of one float are carried as one SIMD vector.

`LaneBuilder` applies rows of the derivative table, which are written for scalars, to vectors: in an
operation on a vector and a scalar, the scalar is broadcast. With N = 1 a packed tangent is the
scalar itself, and no code is added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from activerules.ir.llvm.builder import Builder, Flags, Namer
from activerules.ir.llvm.model import Block, Constant, Instruction, Value
from activerules.ir.llvm.types import I1, I32, FloatType, Type, VectorType

# Outside of vectors LLVM then writes a branch, which is not on the path of the value.
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

        Where the slope is finite the term is left alone, although it is zero, too: this code may be
        differentiated again, and the derivative of a constant 0 would not be that of the term.
        """
        mask = VectorType(self.width, I1) if isinstance(tangent.type, VectorType) else I1
        operands = [tangent, self.const(tangent.type, 0.0)]
        unmoved = self.emit("fcmp", mask, operands, predicate="oeq")
        undefined = self.emit("fcmp", mask, [term, term], predicate="uno")
        both = super().binary("and", unmoved, undefined)
        chosen = super().select(both, self.const(term.type, 0.0), term)
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
        one = self.emit("insertelement", t, first)
        return self.emit("shufflevector", t, [one, Constant(t, "poison"), everywhere])


def per_lane(width: int, make: Callable[[int], Value]) -> tuple[Value, ...]:
    """The results of `make` for each lane."""
    return tuple(make(k) for k in range(width))


def _repeated(x: Constant, t: VectorType) -> Constant:
    if x.text in {"undef", "poison"}:
        return Constant(t, x.text)
    return Constant(t, "<" + ", ".join([f"{x.type} {x.text}"] * t.length) + ">")


def _like(x: Value, t: Type) -> Type:
    if isinstance(x.type, VectorType) and isinstance(t, FloatType):
        return VectorType(x.type.length, t)
    return t
