"""The values of one function, split: every struct, array or vector is replaced by its leaves.

Needs       a function in normal form except for N7, which may be changed; the functions of the
            module that have a version for scalars
Gives       `Scalariser.run`: the same function on scalars; raises `CannotSplit`
Invariants  S1 and S2 of `scalarise`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from activerules.ir.llvm.builder import Builder, Namer, at_offset, suffix_of, suffixed
from activerules.ir.llvm.cfg import reverse_postorder
from activerules.ir.llvm.constant_parts import CannotSplit, ScalarPart, leaves_of, parts_of_constant
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import (
    BINARY_FLOAT,
    BINARY_INT,
    CASTS,
    Argument,
    Constant,
    Function,
    GlobalRef,
    Instruction,
    Module,
    Value,
    accessed_type,
)
from activerules.ir.llvm.types import (
    PTR,
    VOID,
    ArrayType,
    NamedType,
    NamedTypes,
    StructType,
    Type,
    VectorType,
    bits_of,
    body_of,
    size_of,
)
from activerules.ir.llvm.vector_parts import (
    REDUCING,
    REDUCTIONS,
    VECTOR_SUFFIX,
    is_on_lanes,
    recast,
)

_LANEWISE = BINARY_FLOAT | BINARY_INT | CASTS | {"fneg", "icmp", "fcmp", "getelementptr", "freeze"}


def is_composite(t: Type) -> bool:
    """Whether a value of the type is split into leaves."""
    return isinstance(t, StructType | ArrayType | VectorType | NamedType)


class PartsSignature:
    """The name of the version of a function that takes scalars, and the leaves of its result."""

    def __init__(self, function: Function, module: Module) -> None:
        self.name = suffixed(function.name, ".parts")
        self.result = function.result
        self.returns_parts = is_composite(self.result)
        self.leaves = leaves_of(self.result, module.types) if self.returns_parts else []


class Scalariser:
    """Works on a copy of one function; both are discarded if a value cannot be split."""

    def __init__(
        self,
        function: Function,
        module: Module,
        split: dict[str, PartsSignature],
        own: PartsSignature | None,
    ) -> None:
        self.function, self.module, self.split, self.own = function, module, split, own
        self.named = module.types
        self.namer = Namer("part", function.local_names())
        self.out: list[Instruction] = []
        self.b = Builder(self.out, self.namer)
        self.parts: dict[Value, list[Value]] = {}
        self.values: dict[Value, Value] = {}
        self.phis: list[tuple[Instruction, list[Instruction]]] = []
        self.allocas: list[Instruction] = []
        self.result = Argument(self.namer("result"), PTR)

    def run(self) -> Function:
        """The changed function; if `CannotSplit` is raised, it is left half done."""
        entry = self.function.entry
        prologue = self._arguments()
        for block in reverse_postorder(self.function.entry):
            self.out.clear()
            for i in block.instructions:
                self._instruction(i)
            block.instructions = list(self.out)
        for phi, leaves in self.phis:
            for k, leaf in enumerate(leaves):
                leaf.operands = [self._parts(o)[k] for o in phi.operands]
                leaf.blocks = list(phi.blocks)
        entry.instructions = [*self.allocas, *prologue, *entry.instructions]
        for block in self.function.blocks:
            for i in block.instructions:
                i.parent = block
                i.operands = [self._scalar(o) for o in i.operands]
        return self.function

    # --- signature ---

    def _arguments(self) -> list[Instruction]:
        """The leaves of the parameters: new parameters, or extracted from the parameter (S1)."""
        self.out.clear()
        arguments: list[Argument] = []
        for argument in self.function.arguments:
            if not is_composite(argument.type):
                arguments.append(argument)
                if self.own is not None:
                    argument.attributes = ""  # its calls have none
            elif self.own is not None:
                leaves = [
                    Argument(self.namer(argument.name.strip('"')), leaf.type)
                    for leaf in leaves_of(argument.type, self.named)
                ]
                self.parts[argument] = list(leaves)
                arguments += leaves
            else:
                self.parts[argument] = self._unpacked(argument)
                arguments.append(argument)
        if self.own is not None:
            self.function.name = self.own.name
            self.function.prefix, self.function.suffix = "", ""
            if self.own.returns_parts:
                self.function.result = VOID
                arguments.append(self.result)
        self.function.arguments = arguments
        return list(self.out)

    def _unpacked(self, value: Value) -> list[Value]:
        """The leaves of a struct or array that stays a value."""
        if isinstance(value.type, VectorType):
            raise CannotSplit
        return [
            self.b.emit("extractvalue", leaf.type, [value], indices=leaf.path)
            for leaf in leaves_of(value.type, self.named)
        ]

    def _packed(self, t: Type, parts: list[Value]) -> Value:
        if isinstance(t, VectorType):
            raise CannotSplit
        value: Value = Constant(t, "poison")
        for leaf, part in zip(leaves_of(t, self.named), parts, strict=True):
            value = self.b.emit("insertvalue", t, [value, part], indices=leaf.path)
        return value

    # --- values ---

    def _parts(self, value: Value) -> list[Value]:
        if value in self.parts:
            return self.parts[value]
        if isinstance(value, Constant):
            return parts_of_constant(value, self.named)
        raise CannotSplit

    def _scalar(self, value: Value) -> Value:
        while value in self.values:
            value = self.values[value]
        return value

    def _keep(self, i: Instruction, leaves: list[Value]) -> None:
        """Note that `leaves` are the leaves of `i`, or its one replacement."""
        if is_composite(i.type):
            self.parts[i] = leaves
        else:
            (self.values[i],) = leaves

    # --- instructions ---

    def _instruction(self, i: Instruction) -> None:
        composite = is_composite(i.type) or any(is_composite(o.type) for o in i.operands)
        if i.opcode == "call" and (composite or i.callee_name in self.split):
            self._call(i)
        elif not composite:
            self.out.append(i)
        elif i.opcode in _LANEWISE:
            self._lanewise(i)
        else:
            handler = self._HANDLERS.get(i.opcode)
            if handler is None:
                raise CannotSplit
            handler(self, i)

    def _like(self, i: Instruction, t: Type, operands: list[Value], **changed: object) -> Value:
        """A copy of the instruction for one leaf."""
        attributes = {k: v for k, v in i.attributes.items() if k != "metadata"} | changed
        name = self.namer((i.name or "").strip('"')) if t != VOID else None
        return self.b.append(
            Instruction(i.opcode, t, operands, name, i.flags, [], i.callee, attributes)
        )

    def _lanewise(self, i: Instruction) -> None:
        if i.opcode == "bitcast":
            self._keep(i, self._bitcast(i))
            return
        widths = [len(self._parts(o)) for o in i.operands if is_composite(o.type)]
        elements = leaves_of(i.type, self.named) if is_composite(i.type) else []
        if any(w != len(elements) for w in widths):
            raise CannotSplit
        leaves: list[Value] = []
        for k, leaf in enumerate(elements):
            operands = [self._parts(o)[k] if is_composite(o.type) else o for o in i.operands]
            leaves.append(self._like(i, leaf.type, operands))
        self._keep(i, leaves)

    def _bitcast(self, i: Instruction) -> list[Value]:
        """Cast lane by lane, or split or join integers."""
        (x,), t = i.operands, i.type
        parts = self._parts(x) if is_composite(x.type) else [x]
        types = [leaf.type for leaf in leaves_of(t, self.named)] if is_composite(t) else [t]
        if len(parts) != len(types):
            return recast(self.b, parts, types)
        return [
            part if part.type == to else self._like(i, to, [part])
            for part, to in zip(parts, types, strict=True)
        ]

    def _phi(self, i: Instruction) -> None:
        leaves: list[Instruction] = []
        for leaf in leaves_of(i.type, self.named):
            phi = self._like(i, leaf.type, [])
            assert isinstance(phi, Instruction)
            leaves.append(phi)
        self.parts[i] = list(leaves)
        self.phis.append((i, leaves))

    def _select(self, i: Instruction) -> None:
        condition, x, y = i.operands
        conditions = self._parts(condition) if is_composite(condition.type) else None
        self.parts[i] = [
            self._like(i, a.type, [conditions[k] if conditions else condition, a, b])
            for k, (a, b) in enumerate(zip(self._parts(x), self._parts(y), strict=True))
        ]

    # --- memory ---

    def _address(self, pointer: Value, leaf: ScalarPart) -> Value:
        return at_offset(self.b, pointer, leaf.offset)

    def _load(self, i: Instruction) -> None:
        self._ordinary(i)
        leaves: list[Value] = []
        for leaf in leaves_of(i.type, self.named):
            address = self._address(i.operands[0], leaf)
            leaves.append(self._like(i, leaf.type, [address], align=_aligned(i, leaf)))
        self.parts[i] = leaves

    def _store(self, i: Instruction) -> None:
        self._ordinary(i)
        value, pointer = i.operands
        for leaf, part in zip(leaves_of(value.type, self.named), self._parts(value), strict=True):
            if isinstance(part, Constant) and part.text in {"undef", "poison"}:
                continue
            address = self._address(pointer, leaf)
            self._like(i, VOID, [part, address], align=_aligned(i, leaf))

    def _ordinary(self, i: Instruction) -> None:
        if not i.is_ordinary:
            raise CannotSplit
        if _has_packed_lanes(accessed_type(i), self.named):
            raise CannotSplit

    # --- parts of values ---

    def _range(self, t: Type, indices: Iterable[int]) -> tuple[int, int]:
        """The range of leaves of an index path: the first, and one past the last."""
        path = tuple(indices)
        matching = [
            k for k, leaf in enumerate(leaves_of(t, self.named)) if leaf.path[: len(path)] == path
        ]
        return (matching[0], matching[-1] + 1) if matching else (0, 0)

    def _extractvalue(self, i: Instruction) -> None:
        first, end = self._range(i.operands[0].type, i.attributes["indices"])
        if i.operands[0] not in self.parts and not isinstance(i.operands[0], Constant):
            self.parts[i.operands[0]] = self._unpacked(i.operands[0])
        self._keep(i, self._parts(i.operands[0])[first:end])

    def _insertvalue(self, i: Instruction) -> None:
        aggregate, value = i.operands
        first, end = self._range(aggregate.type, i.attributes["indices"])
        new = self._parts(value) if is_composite(value.type) else [value]
        old = self._parts(aggregate)
        self.parts[i] = [*old[:first], *new, *old[end:]]

    def _extractelement(self, i: Instruction) -> None:
        vector, index = i.operands
        lanes, number = self._parts(vector), integer_of(index)
        if number is not None:
            self.values[i] = lanes[number] if number < len(lanes) else Constant(i.type, "poison")
            return
        chosen = lanes[0]
        for k, lane in enumerate(lanes[1:], 1):
            chosen = self.b.select(self._is_lane(index, k), lane, chosen)
        self.values[i] = chosen

    def _insertelement(self, i: Instruction) -> None:
        vector, value, index = i.operands
        lanes, number = list(self._parts(vector)), integer_of(index)
        for k, lane in enumerate(lanes):
            if number is None:
                lanes[k] = self.b.select(self._is_lane(index, k), value, lane)
            elif number == k:
                lanes[k] = value
        self.parts[i] = lanes

    def _is_lane(self, index: Value, k: int) -> Value:
        return self.b.icmp("eq", index, self.b.const(index.type, k))

    def _shufflevector(self, i: Instruction) -> None:
        x, y, mask = i.operands
        lanes = [*self._parts(x), *self._parts(y)]
        leaves: list[Value] = []
        for chosen in self._parts(mask):
            number = integer_of(chosen)
            leaves.append(
                lanes[number] if number is not None else Constant(lanes[0].type, "poison")
            )
        self.parts[i] = leaves

    def _ret(self, i: Instruction) -> None:
        (value,) = i.operands
        if self.own is None:
            i.operands = [self._packed(value.type, self._parts(value))]
            self.out.append(i)
            return
        for leaf, part in zip(self.own.leaves, self._parts(value), strict=True):
            self.b.store(part, self._address(self.result, leaf))
        i.operands = []
        self.out.append(i)

    # --- calls ---

    def _call(self, i: Instruction) -> None:
        name = i.callee_name or ""
        if name in self.split:
            self._call_of_parts(i, self.split[name])
        elif name.startswith(REDUCING):
            self._reduction(i, name.split(".")[3])
        elif name.startswith("llvm.") and VECTOR_SUFFIX.search(name):
            self._intrinsic(i, name)
        else:
            self._opaque(i)

    def _opaque(self, i: Instruction) -> None:
        """Any other call: aggregates are passed and returned whole."""
        i.operands = [
            self._packed(o.type, self._parts(o)) if is_composite(o.type) else o for o in i.operands
        ]
        self.out.append(i)
        if is_composite(i.type):
            self.parts[i] = self._unpacked(i)

    def _call_of_parts(self, i: Instruction, signature: PartsSignature) -> None:
        operands: list[Value] = []
        for o in i.operands:
            operands += self._parts(o) if is_composite(o.type) else [o]
        attributes = {k: v for k, v in i.attributes.items() if k in {"location", "metadata"}}
        callee = GlobalRef(signature.name)
        if not signature.returns_parts:
            call = Instruction("call", i.type, operands, i.name, i.flags, [], callee, attributes)
            self.b.append(call)
            self.values[i] = call
            return
        address = Instruction(
            "alloca", PTR, [], self.namer("parts"), attributes={"allocated": signature.result}
        )
        self.allocas.append(address)
        self.b.append(
            Instruction("call", VOID, [*operands, address], None, i.flags, [], callee, attributes)
        )
        self.parts[i] = [
            self.b.load(leaf.type, self._address(address, leaf)) for leaf in signature.leaves
        ]

    def _intrinsic(self, i: Instruction, name: str) -> None:
        if not is_on_lanes(name) or not isinstance(i.type, VectorType):
            raise CannotSplit
        scalar = VECTOR_SUFFIX.sub(".", name)
        self.parts[i] = [
            self._scalar_call(
                scalar,
                i.type.element,
                [self._parts(o)[k] if is_composite(o.type) else o for o in i.operands],
                i,
            )
            for k in range(i.type.length)
        ]

    def _scalar_call(self, name: str, t: Type, operands: list[Value], i: Instruction) -> Value:
        self.module.declare(name, t, operands)
        return self.b.append(
            Instruction("call", t, operands, self.namer(), i.flags, [], GlobalRef(name))
        )

    def _reduction(self, i: Instruction, kind: str) -> None:
        operation = REDUCTIONS.get(kind)
        if operation is None:
            raise CannotSplit
        *start, vector = i.operands
        lanes = [*start, *self._parts(vector)]
        total = lanes[0]
        for lane in lanes[1:]:
            if operation.startswith("llvm."):
                name = f"{operation}.{suffix_of(i.type)}"
                total = self._scalar_call(name, i.type, [total, lane], i)
            else:
                total = self.b.binary(operation, total, lane, i.flags)
        self.values[i] = total

    _HANDLERS: ClassVar[dict[str, Callable[[Scalariser, Instruction], None]]] = {
        "phi": _phi,
        "select": _select,
        "load": _load,
        "store": _store,
        "extractvalue": _extractvalue,
        "insertvalue": _insertvalue,
        "extractelement": _extractelement,
        "insertelement": _insertelement,
        "shufflevector": _shufflevector,
        "ret": _ret,
    }


def _has_packed_lanes(t: Type, named: NamedTypes) -> bool:
    """Whether there are lanes of vectors in a type that do not begin at multiples of their size."""
    match t:
        case NamedType():
            return _has_packed_lanes(body_of(t, named), named)
        case VectorType(_, element):
            return 8 * size_of(element) != bits_of(element)
        case ArrayType(_, element):
            return _has_packed_lanes(element, named)
        case StructType(elements):
            return any(_has_packed_lanes(element, named) for element in elements)
        case _:
            return False


def _aligned(i: Instruction, leaf: ScalarPart) -> int:
    """The alignment of a leaf: that of the whole as far as the offset keeps it."""
    whole = i.attributes.get("align", 1)
    return whole if leaf.offset == 0 else min(whole, leaf.offset & -leaf.offset)
