"""Tests on the extents of arrays, and the error where one fails, in the IR of the caller.

Needs       the arrays of a call, as Numba has them; what is to be refused
Gives       `extent_of`: the bytes an array may touch
            `Tests`: collects conditions and tests of pairs of extents; `emit` runs them all
Invariants  X1  the first test that fails, in the order they were collected in, says what is raised
            X2  code grows with the number of arrays, not of pairs: tests are rows of a constant
                table, which a function of our own goes through (it stands as it is: `optnone`).
                Of twelve arrays there are a hundred pairs, whose code took longer to compile than
                their derivative.

Where the caller is differentiated itself, tests are emitted one by one: a table would be memory of
the program to the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import callconv, cgutils
from numba.core.target_extension import current_target

from activerules.errors import ShadowMismatch
from activerules.numba_ext.unoptimised import AD_TARGET

_I64, _I32 = ir.IntType(64), ir.IntType(32)
_FEW = 4  # tests that are not worth a table
_FIELDS = ("data", "low", "high")
# how two extents are compared
_APART, _SHADOWS_ALIKE, _ALIKE, _MAY_MEET = range(4)


@dataclass(frozen=True)
class Extent:
    """The bytes from `low` up to, not including, `high` that an array may touch.

    An empty array has none: its `low` and `high` are equal.
    """

    data: Any
    low: Any
    high: Any

    def moved(self, data: Any, builder: Any) -> Extent:
        """The extent of an array of the same shape and strides that begins at `data`."""
        data = builder.ptrtoint(data, cgutils.intp_t)
        distance = builder.sub(data, self.data)
        low, high = (builder.add(end, distance) for end in (self.low, self.high))
        return Extent(data, low, high)

    def meets(self, other: Extent, builder: Any) -> Any:
        """Whether the two have a byte in common."""
        pairs = ((self, other), (other, self), (self, self), (other, other))
        conditions = [builder.icmp_unsigned("<", a.low, b.high) for a, b in pairs]
        return _all(builder, conditions)


def extent_of(builder: Any, array_type: Any, array: Any) -> Extent:
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


def _all(builder: Any, conditions: Sequence[Any]) -> Any:
    result = cgutils.true_bit
    for condition in conditions:
        result = builder.and_(result, condition)
    return result


@dataclass(frozen=True)
class Refusal:
    """The fields of an error."""

    what: str
    why: str
    instead: tuple[str, ...]


@dataclass(frozen=True)
class _Test:
    """A comparison of two extents, by their numbers.

    _APART          they may not meet
    _ALIKE          nor may they, unless the extents behind them (those of their shadows) are
                    displaced by exactly as much; nor may the extents behind them (second refusal)
    _SHADOWS_ALIKE  only the extents behind them are compared
    _MAY_MEET       they may, which is told
    """

    how: int
    first: int
    second: int
    refusals: tuple[Refusal, ...]


class Tests:
    """Tests of one call; `where` says which, and `release` emits what an error path releases."""

    def __init__(
        self, context: Any, builder: Any, where: tuple[Any, ...], release: Callable[[], None]
    ) -> None:
        self.context, self.builder = context, builder
        self.where, self.release = where, release
        self._extents: list[Extent] = []
        self._conditions: list[tuple[Any, Refusal]] = []
        self._tests: list[_Test] = []

    def add(self, extent: Extent) -> int:
        """The number of an extent, by which tests name it."""
        self._extents.append(extent)
        return len(self._extents) - 1

    def refuse_if(self, condition: Any, refusal: Refusal) -> None:
        """A condition under which the call is refused."""
        self._conditions.append((condition, refusal))

    def keep_apart(self, first: int, second: int, refusal: Refusal) -> None:
        """Refuse two extents that meet."""
        self._tests.append(_Test(_APART, first, second, (refusal,)))

    def tell(self, first: int, second: int) -> None:
        """Tell where two extents meet that may."""
        self._tests.append(_Test(_MAY_MEET, first, second, ()))

    def keep_alike(
        self, first: int, second: int, refusals: tuple[Refusal, Refusal], *, shadows_only: bool
    ) -> None:
        """Refuse two extents that meet (unless `shadows_only`), or whose shadows do, if not both
        are displaced alike. The extent of a shadow has the number behind that of its primal.
        """
        how = _SHADOWS_ALIKE if shadows_only else _ALIKE
        self._tests.append(_Test(how, first, second, refusals))

    def emit(self) -> Any:
        """Emit all tests; the value returned is true where extents that may meet do."""
        if not self._tests and not self._conditions:
            return cgutils.false_bit
        if current_target() == AD_TARGET:
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
        """Whether the extents meet and may, and the conditions of the test's refusals."""
        builder = self.builder
        first, second = self._extents[test.first], self._extents[test.second]
        meet = first.meets(second, builder)
        if test.how == _APART:
            return cgutils.false_bit, (meet,)
        if test.how == _MAY_MEET:
            return meet, ()
        if test.how == _SHADOWS_ALIKE:
            meet = cgutils.false_bit
        other, another = self._extents[test.first + 1], self._extents[test.second + 1]
        shadows_meet = other.meets(another, builder)
        displaced = builder.sub(second.data, first.data)
        different = builder.icmp_unsigned("!=", displaced, builder.sub(another.data, other.data))
        refused = tuple(builder.and_(c, different) for c in (meet, shadows_meet))
        return builder.or_(meet, shadows_meet), refused

    def _leave_if(self, condition: Any, refusal: Refusal) -> None:
        with cgutils.if_unlikely(self.builder, condition):
            self.release()
            convention = self.context.call_conv
            convention.return_user_exc(self.builder, ShadowMismatch, self._fields(refusal))

    def _fields(self, refusal: Refusal) -> tuple[Any, ...]:
        return refusal.what, self.where, refusal.why, refusal.instead

    # --- by a table ---

    def _by_table(self) -> Any:
        """One number says how it went: 0, -1 for an overlap that may be, or which refusal."""
        refusals: list[Refusal] = []
        rows = []
        for test in self._tests:
            rows.append((test.how, test.first, test.second, len(refusals) + 1))
            refusals += test.refusals
        outcome = self._compared(rows) if len(rows) > _FEW else self._selected(rows)
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
        """The outcome of a few tests: they are code here."""
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
        row = ir.ArrayType(_I64, len(_FIELDS))
        table = cgutils.alloca_once(builder, ir.ArrayType(row, len(self._extents)))
        for number, extent in enumerate(self._extents):
            for place, field in enumerate(_FIELDS):
                target = builder.gep(table, [_I32(0), _I32(number), _I32(place)])
                builder.store(getattr(extent, field), target)
        entry = ir.ArrayType(_I32, 4)
        constant = ir.Constant(ir.ArrayType(entry, len(rows)), [entry(row) for row in rows])
        tests = cgutils.global_constant(builder, "activerules.tests", constant)
        arguments = [builder.bitcast(p, cgutils.voidptr_t) for p in (table, tests)]
        function_type = ir.FunctionType(_I64, [*(a.type for a in arguments), _I64])
        function = cgutils.get_or_insert_function(builder.module, function_type, COMPARE)
        return builder.call(function, [*arguments, _I64(len(rows))])

    def _leave(self, number: Any, refusals: Sequence[Refusal]) -> None:
        """Raise the refusal of that number, from 1."""
        builder, convention = self.builder, self.context.call_conv
        python = self.context.get_python_api(builder)
        errors = [
            python.serialize_object(
                convention.build_excinfo_struct(ShadowMismatch, self._fields(refusal), None, None)
            )
            for refusal in refusals
        ]
        constant = ir.Constant(ir.ArrayType(errors[0].type, len(errors)), errors)
        table = cgutils.global_constant(builder, "activerules.refusals", constant)
        place = builder.gep(table, [_I64(0), builder.sub(number, _I64(1))])
        target = convention._get_excinfo_argument(builder.function)
        store = builder.store(builder.load(place), target)
        store.set_metadata(
            "numba_exception_output", builder.module.add_metadata([ir.IntType(1)(1)])
        )
        convention._return_errcode_raw(builder, callconv.RETCODE_USEREXC)


COMPARE = "activerules.memory.compare"
DEFINITION = f"""
define internal i1 @activerules.memory.meet(ptr %extents, i32 %a, i32 %b) \
noinline optnone nounwind {{
  %low.a.place = getelementptr [3 x i64], ptr %extents, i32 %a, i32 1
  %high.a.place = getelementptr [3 x i64], ptr %extents, i32 %a, i32 2
  %low.b.place = getelementptr [3 x i64], ptr %extents, i32 %b, i32 1
  %high.b.place = getelementptr [3 x i64], ptr %extents, i32 %b, i32 2
  %low.a = load i64, ptr %low.a.place
  %high.a = load i64, ptr %high.a.place
  %low.b = load i64, ptr %low.b.place
  %high.b = load i64, ptr %high.b.place
  %before = icmp ult i64 %low.a, %high.b
  %behind = icmp ult i64 %low.b, %high.a
  %some.a = icmp ult i64 %low.a, %high.a
  %some.b = icmp ult i64 %low.b, %high.b
  %meet = and i1 %before, %behind
  %some = and i1 %some.a, %some.b
  %result = and i1 %meet, %some
  ret i1 %result
}}
define i64 @{COMPARE}(ptr %extents, ptr %tests, i64 %count) noinline optnone nounwind {{
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %fine ]
  %overlap = phi i64 [ 0, %entry ], [ %overlap.next, %fine ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %test, label %done
test:
  %test.place = getelementptr [4 x i32], ptr %tests, i64 %k
  %first.place = getelementptr i32, ptr %test.place, i64 1
  %second.place = getelementptr i32, ptr %test.place, i64 2
  %number.place = getelementptr i32, ptr %test.place, i64 3
  %how = load i32, ptr %test.place
  %first = load i32, ptr %first.place
  %second = load i32, ptr %second.place
  %number.32 = load i32, ptr %number.place
  %number = zext i32 %number.32 to i64
  %number.next = add i64 %number, 1
  %met = call i1 @activerules.memory.meet(ptr %extents, i32 %first, i32 %second)
  %apart = icmp eq i32 %how, {_APART}
  br i1 %apart, label %disjoint, label %together
together:
  %may = icmp eq i32 %how, {_MAY_MEET}
  br i1 %may, label %told, label %alike
told:
  %overlap.told = select i1 %met, i64 -1, i64 %overlap
  br label %fine
disjoint:
  br i1 %met, label %refused, label %fine
alike:
  %counts = icmp eq i32 %how, {_ALIKE}
  %meet = and i1 %met, %counts
  %other = add i32 %first, 1
  %another = add i32 %second, 1
  %shadows = call i1 @activerules.memory.meet(ptr %extents, i32 %other, i32 %another)
  %either = or i1 %meet, %shadows
  %number.of = select i1 %meet, i64 %number, i64 %number.next
  br i1 %either, label %displaced, label %fine
displaced:
  %first.data = getelementptr [3 x i64], ptr %extents, i32 %first
  %second.data = getelementptr [3 x i64], ptr %extents, i32 %second
  %other.data = getelementptr [3 x i64], ptr %extents, i32 %other
  %another.data = getelementptr [3 x i64], ptr %extents, i32 %another
  %a = load i64, ptr %first.data
  %b = load i64, ptr %second.data
  %c = load i64, ptr %other.data
  %d = load i64, ptr %another.data
  %here = sub i64 %b, %a
  %there = sub i64 %d, %c
  %same = icmp eq i64 %here, %there
  br i1 %same, label %fine, label %refused
fine:
  %overlap.next = phi i64 [ %overlap, %disjoint ], [ %overlap.told, %told ],
                          [ %overlap, %alike ], [ -1, %displaced ]
  %next = add i64 %k, 1
  br label %head
refused:
  %which = phi i64 [ %number, %disjoint ], [ %number.of, %displaced ]
  ret i64 %which
done:
  ret i64 %overlap
}}
"""
"""`i64 compare(extents, tests, count)`: 0; -1 if extents meet that may; or a refusal's number."""
