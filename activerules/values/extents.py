"""Tests on the extents of arrays, and the error where one fails, in the IR of the caller.

Needs       the arrays of a call, as Numba has them; what is to be refused
Gives       `extent_of`: the bytes an array may touch
            `share_items`: whether arrays of one layout share bytes, given that their extents do
            `Tests`: collects conditions and tests of pairs of extents; `emit` runs them all
Invariants  X1  the first test that fails, in the order they were collected in, says what is raised

Code grows with the number of arrays, not of pairs: tests are rows of a constant table, which a
function of our own goes through (`extent_tables`). Twelve arrays have a hundred pairs, whose code
took longer to compile than the derivative.

If the caller is itself differentiated, tests are emitted one by one: the engine would take a table
for memory of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import callconv, cgutils

from activerules.errors import NotYetSupported, ShadowMismatch
from activerules.numba_ext.codegen.protocols import Builder, Emit, call_named
from activerules.numba_ext.codegen.unoptimised import compiles_for_derivative
from activerules.values.extent_tables import (
    ALIKE,
    APART,
    COMPARE,
    MAY_MEET,
    SHADOWS_ALIKE,
    ExtentTable,
)

_I64, _I32 = ir.IntType(64), ir.IntType(32)
_FEW = 4  # so few tests are not worth a table
_FIELDS = ("data", "low", "high")
_ROW, _TABLE = ir.ArrayType(_I64, len(_FIELDS)), ir.ArrayType(_I64, 2)


@dataclass(frozen=True)
class Extent:
    """The bytes from `low` up to, not including, `high` that an array may touch.

    An empty array has none: its `low` and `high` are equal.
    """

    data: Any
    low: Any
    high: Any

    def moved(self, data: Any, builder: Builder) -> Extent:
        """The extent of an array with the same shape and strides that begins at `data`."""
        data = builder.ptrtoint(data, cgutils.intp_t)
        distance = builder.sub(data, self.data)
        low, high = (builder.add(end, distance) for end in (self.low, self.high))
        return Extent(data, low, high)

    def meets(self, other: Extent, builder: Builder) -> Any:
        """Whether the two extents have a byte in common."""
        pairs = ((self, other), (other, self), (self, self), (other, other))
        conditions = [builder.icmp_unsigned("<", a.low, b.high) for a, b in pairs]
        return _all(builder, conditions)


def extent_of(builder: Builder, array_type: Any, array: Any) -> Extent:
    """The extent of an array, from its shape and strides."""
    data = builder.ptrtoint(array.data, cgutils.intp_t)
    if array_type.layout in "CF":
        size = builder.mul(array.nitems, array.itemsize)
        return Extent(data, data, builder.add(data, size))
    zero, one = data.type(0), data.type(1)
    low, high = data, builder.add(data, array.itemsize)
    filled = cgutils.true_bit
    shape = cgutils.unpack_tuple(builder, array.shape, array_type.ndim)
    strides = cgutils.unpack_tuple(builder, array.strides, array_type.ndim)
    for length, stride in zip(shape, strides, strict=True):
        reach = builder.mul(builder.sub(length, one), stride)
        backwards = builder.icmp_signed("<", reach, zero)
        low = builder.add(low, builder.select(backwards, reach, zero))
        high = builder.add(high, builder.select(backwards, zero, reach))
        filled = builder.and_(filled, builder.icmp_signed(">", length, zero))
    return Extent(data, builder.select(filled, low, data), builder.select(filled, high, data))


def share_items(builder: Builder, array_type: Any, array: Any, distance: Any) -> Any:
    """Whether an array may share bytes with one of the same shape and strides that begins
    `distance` bytes after it, given that their extents overlap.

    They share none if the items of one are in the gaps of the other, as in `z[::2]` and `z[1::2]`:
    the smallest stride divides all others, and the distance modulo that stride leaves room for the
    items.
    """
    zero, one = distance.type(0), distance.type(1)
    step = zero
    axes = [
        cgutils.unpack_tuple(builder, axis, array_type.ndim)
        for axis in (array.shape, array.strides)
    ]
    lengths = []
    for length, stride in zip(*axes, strict=True):
        backwards = builder.icmp_signed("<", stride, zero)
        size = builder.select(backwards, builder.neg(stride), stride)
        size = builder.select(builder.icmp_signed(">", length, one), size, zero)
        lengths.append(size)
        smaller = builder.icmp_unsigned("<", builder.sub(size, one), builder.sub(step, one))
        step = builder.select(smaller, size, step)
    step = builder.select(builder.icmp_unsigned("==", step, zero), one, step)
    ahead = builder.srem(distance, step)
    backwards = builder.icmp_signed("<", ahead, zero)
    ahead = builder.select(backwards, builder.add(ahead, step), ahead)
    divides = [builder.icmp_unsigned("==", builder.urem(length, step), zero) for length in lengths]
    gaps = [
        builder.icmp_unsigned("<=", array.itemsize, gap)
        for gap in (ahead, builder.sub(step, ahead))
    ]
    return builder.not_(_all(builder, [*divides, *gaps]))


def _all(builder: Builder, conditions: Sequence[Any]) -> Any:
    result = cgutils.true_bit
    for condition in conditions:
        result = builder.and_(result, condition)
    return result


@dataclass(frozen=True)
class Refusal:
    """The text of a `ShadowMismatch` or other error, as the fields of its class."""

    what: str
    why: str
    instead: tuple[str, ...]


@dataclass(frozen=True)
class _Test:
    """A comparison of two extents, or of all in two tables, given by number.

    APART           they must not overlap
    ALIKE           they may overlap only if the next extents (those of their shadows) are displaced
                    by exactly the same distance, and vice versa (second refusal)
    SHADOWS_ALIKE   as ALIKE, but only overlapping shadows are checked
    MAY_MEET        they may overlap, and the result says whether they do
    """

    how: int
    first: int
    second: int
    refusals: tuple[Refusal, ...]


class Tests:
    """Tests of the call at `where`; `release` emits the releases of an error path."""

    def __init__(self, em: Emit, where: tuple[Any, ...], release: Callable[[], None]) -> None:
        self.em, self.builder = em, em.builder
        self.where, self.release = where, release
        self._extents: list[Extent | ExtentTable] = []
        self._conditions: list[tuple[Any, Refusal]] = []
        self._tests: list[_Test] = []

    def add(self, extent: Extent | ExtentTable) -> int:
        """Register an extent or a table; the number by which tests refer to it."""
        self._extents.append(extent)
        return len(self._extents) - 1

    def refuse_if(self, condition: Any, refusal: Refusal) -> None:
        """Refuse the call if the condition holds at run time."""
        self._conditions.append((condition, refusal))

    def keep_apart(self, first: int, second: int, refusal: Refusal) -> None:
        """Refuse the call if two extents overlap."""
        self._tests.append(_Test(APART, first, second, (refusal,)))

    def tell(self, first: int, second: int) -> None:
        """Include in the result of `emit` whether two extents overlap."""
        self._tests.append(_Test(MAY_MEET, first, second, ()))

    def keep_alike(
        self, first: int, second: int, refusals: tuple[Refusal, Refusal], *, shadows_only: bool
    ) -> None:
        """Refuse two extents that overlap (unless `shadows_only`), or whose shadows do, unless both
        pairs are displaced by the same distance. A shadow's number is its primal's plus one.
        """
        how = SHADOWS_ALIKE if shadows_only else ALIKE
        self._tests.append(_Test(how, first, second, refusals))

    def emit(self) -> Any:
        """Emit all tests. The result is true at run time if extents passed to `tell` overlap."""
        if not self._tests and not self._conditions:
            return cgutils.false_bit
        if compiles_for_derivative():
            if any(isinstance(extent, ExtentTable) for extent in self._extents):
                raise NotYetSupported(
                    "a derivative with respect to a list or dictionary of arrays or objects, "
                    "inside a function that is differentiated",
                    why="its items are compared by code that has no derivative",
                    instead=["the arrays in it as arguments of their own"],
                )
            return self._one_by_one()
        return self._by_table()

    # --- one by one ---

    def _one_by_one(self) -> Any:
        overlap = cgutils.false_bit
        for condition, refusal in self._conditions:
            self._leave_if(condition, refusal)
        for test in self._tests:
            meeting, conditions = self._conditions_of(test)
            for condition, refusal in zip(conditions, test.refusals, strict=True):
                self._leave_if(condition, refusal)
            overlap = self.builder.or_(overlap, meeting)
        return overlap

    def _conditions_of(self, test: _Test) -> tuple[Any, tuple[Any, ...]]:
        """Whether an allowed overlap occurs, and the conditions of the test's refusals."""
        builder = self.builder
        first, second = self._extent(test.first), self._extent(test.second)
        meet = first.meets(second, builder)
        if test.how == APART:
            return cgutils.false_bit, (meet,)
        if test.how == MAY_MEET:
            return meet, ()
        if test.how == SHADOWS_ALIKE:
            meet = cgutils.false_bit
        first_shadow, second_shadow = self._extent(test.first + 1), self._extent(test.second + 1)
        shadows_meet = first_shadow.meets(second_shadow, builder)
        displaced = builder.sub(second.data, first.data)
        shadow_displaced = builder.sub(second_shadow.data, first_shadow.data)
        different = builder.icmp_unsigned("!=", displaced, shadow_displaced)
        refused = tuple(builder.and_(c, different) for c in (meet, shadows_meet))
        return builder.or_(meet, shadows_meet), refused

    def _extent(self, number: int) -> Extent:
        extent = self._extents[number]
        assert isinstance(extent, Extent)
        return extent

    def _leave_if(self, condition: Any, refusal: Refusal) -> None:
        self.em.raise_if(condition, ShadowMismatch, self._fields(refusal), self.release)

    def _fields(self, refusal: Refusal) -> tuple[Any, ...]:
        return refusal.what, self.where, refusal.why, refusal.instead

    # --- by a table ---

    def _by_table(self) -> Any:
        """The outcome of all tests: 0, -1 for an allowed overlap, or the number of a refusal."""
        refusals: list[Refusal] = []
        rows = []
        for test in self._tests:
            rows.append((test.how, test.first, test.second, len(refusals) + 1))
            refusals += test.refusals
        tables = [e for e in self._extents if isinstance(e, ExtentTable)]
        by_table = tables or len(rows) > _FEW
        outcome = self._compared(rows) if by_table else self._selected(rows)
        for table in tables:
            table.free()
        for number, (condition, _) in reversed([*enumerate(self._conditions)]):
            failed = _I64(len(refusals) + number + 1)
            outcome = self.builder.select(condition, failed, outcome)
        refusals += [refusal for _, refusal in self._conditions]
        if refusals:
            refused = self.builder.icmp_signed(">", outcome, _I64(0))
            with cgutils.if_unlikely(self.builder, refused):
                self.release()
                self._leave(outcome, refusals)
        return self.builder.icmp_signed("<", outcome, _I64(0))

    def _selected(self, rows: Sequence[tuple[int, ...]]) -> Any:
        """The outcome of a few tests, which are emitted inline."""
        builder = self.builder
        outcome: Any = _I64(0)
        overlap = cgutils.false_bit
        for test, (*_, number) in reversed([*zip(self._tests, rows, strict=True)]):
            meeting, conditions = self._conditions_of(test)
            overlap = builder.or_(overlap, meeting)
            for k, condition in reversed([*enumerate(conditions)]):
                outcome = builder.select(condition, _I64(number + k), outcome)
        fine = builder.icmp_signed("==", outcome, _I64(0))
        return builder.select(builder.and_(fine, overlap), _I64(-1), outcome)

    def _compared(self, rows: Sequence[tuple[int, ...]]) -> Any:
        builder = self.builder
        row_array = cgutils.alloca_once(builder, ir.ArrayType(_ROW, len(self._extents)))
        tables = cgutils.alloca_once(builder, ir.ArrayType(_TABLE, len(self._extents)))
        for number, extent in enumerate(self._extents):
            row = builder.gep(row_array, [_I32(0), _I32(number)])
            table = builder.gep(tables, [_I32(0), _I32(number)])
            if isinstance(extent, Extent):
                self._store(row, [getattr(extent, field) for field in _FIELDS])
                self._store(table, [builder.ptrtoint(row, _I64), _I64(1)])
            else:
                self._store(table, [extent.rows, extent.count])
        entry = ir.ArrayType(_I32, 4)
        constant = ir.Constant(ir.ArrayType(entry, len(rows)), [entry(row) for row in rows])
        tests = cgutils.global_constant(builder, "activerules.tests", constant)
        arguments = [builder.bitcast(p, cgutils.voidptr_t) for p in (tables, tests)]
        counts = [_I64(len(self._extents)), _I64(len(rows))]
        together = [part for pair in zip(arguments, counts, strict=True) for part in pair]
        return call_named(builder, COMPARE, _I64, together)

    def _store(self, address: Any, values: Sequence[Any]) -> None:
        for k, value in enumerate(values):
            self.builder.store(value, self.builder.gep(address, [_I32(0), _I32(k)]))

    def _leave(self, number: Any, refusals: Sequence[Refusal]) -> None:
        """Raise the refusal with that number, counted from 1."""
        builder, convention = self.builder, self.em.context.call_conv
        python = self.em.context.get_python_api(builder)
        errors = [
            python.serialize_object(
                convention.build_excinfo_struct(ShadowMismatch, self._fields(refusal), None, None)
            )
            for refusal in refusals
        ]
        constant = ir.Constant(ir.ArrayType(errors[0].type, len(errors)), errors)
        table = cgutils.global_constant(builder, "activerules.refusals", constant)
        address = builder.gep(table, [_I64(0), builder.sub(number, _I64(1))])
        target = convention._get_excinfo_argument(builder.function)
        store = builder.store(builder.load(address), target)
        store.set_metadata(
            "numba_exception_output", builder.module.add_metadata([ir.IntType(1)(1)])
        )
        convention._return_errcode_raw(builder, callconv.RETCODE_USEREXC)
