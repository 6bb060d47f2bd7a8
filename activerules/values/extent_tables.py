"""Tables of extents whose length is known at run time, and their comparison.

Gives       `ExtentTable`: extents collected by code that iterates over a list or dictionary
            `DEFINITION`: LLVM functions that compare tables, and that make them longer; linked with
            `chunks`, where `free` is declared
Invariants  S1  a row is {data, low, high}; a table is {ptr to its rows, number of rows}, and the
                k-th row of the table of a shadow belongs to the k-th row of that of its primal
            S2  rows that one table holds are compared with one another, but no row with itself
            S3  many rows that do not overlap are not compared in pairs (a thousand rows make a
                million): they are sorted, and each is compared with the next
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from activerules.numba_ext.codegen.protocols import Builder, call_named

_I64, _I32 = ir.IntType(64), ir.IntType(32)
# how two extents are compared
APART, SHADOWS_ALIKE, ALIKE, MAY_MEET = range(4)
_MANY = 24  # rows of which not all pairs are compared
_ROWS, _COUNT, _CAPACITY, _FAILED = range(4)
PREFIX = "activerules.memory."
"""How the names of the functions below begin: they write into their own tables alone."""
_PUSH, _FREE = f"{PREFIX}push", f"{PREFIX}free"


class ExtentTable:
    """A table of extents collected at run time; call `free` once they have been compared."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.struct = cgutils.alloca_once(builder, ir.ArrayType(_I64, 4))
        builder.store(self.struct.type.pointee(None), self.struct)

    def push(self, data: Any, low: Any, high: Any) -> None:
        """Add a row with the extent of an array to the table."""
        call_named(self.builder, _PUSH, ir.VoidType(), [self._address(), data, low, high])

    @property
    def rows(self) -> Any:
        """The address of its rows, as an integer."""
        return self._field(_ROWS)

    @property
    def count(self) -> Any:
        """The number of rows."""
        return self._field(_COUNT)

    @property
    def failed(self) -> Any:
        """Whether memory ran out while a row was added."""
        return self.builder.icmp_unsigned("!=", self._field(_FAILED), _I64(0))

    def free(self) -> None:
        """Free the memory of the table."""
        call_named(self.builder, _FREE, ir.VoidType(), [self._address()])

    def _address(self) -> Any:
        return self.builder.bitcast(self.struct, cgutils.voidptr_t)

    def _field(self, number: int) -> Any:
        return self.builder.load(self.builder.gep(self.struct, [_I32(0), _I32(number)]))


COMPARE = f"{PREFIX}compare"
DEFINITION = f"""
declare ptr @realloc(ptr, i64)
declare void @qsort(ptr, i64, i64, ptr)

define void @{_PUSH}(ptr %table, i64 %data, i64 %low, i64 %high) noinline nounwind {{
  %count.address = getelementptr i64, ptr %table, i64 {_COUNT}
  %capacity.address = getelementptr i64, ptr %table, i64 {_CAPACITY}
  %count = load i64, ptr %count.address
  %capacity = load i64, ptr %capacity.address
  %rows = load ptr, ptr %table
  %full = icmp eq i64 %count, %capacity
  br i1 %full, label %grow, label %put
grow:
  %twice = shl i64 %capacity, 1
  %more = add i64 %twice, 16
  %bytes = mul i64 %more, 24
  %moved = call ptr @realloc(ptr %rows, i64 %bytes)
  %none = icmp eq ptr %moved, null
  br i1 %none, label %failed, label %grown
failed:
  %failed.address = getelementptr i64, ptr %table, i64 {_FAILED}
  store i64 1, ptr %failed.address
  ret void
grown:
  store ptr %moved, ptr %table
  store i64 %more, ptr %capacity.address
  br label %put
put:
  %all = phi ptr [ %rows, %0 ], [ %moved, %grown ]
  %row = getelementptr [3 x i64], ptr %all, i64 %count
  %low.address = getelementptr i64, ptr %row, i64 1
  %high.address = getelementptr i64, ptr %row, i64 2
  store i64 %data, ptr %row
  store i64 %low, ptr %low.address
  store i64 %high, ptr %high.address
  %next = add i64 %count, 1
  store i64 %next, ptr %count.address
  ret void
}}
define void @{_FREE}(ptr %table) noinline nounwind {{
  %rows = load ptr, ptr %table
  call void @free(ptr %rows)
  ret void
}}
define internal i1 @activerules.memory.meet(ptr %a, ptr %b) nounwind {{
  %low.a.address = getelementptr i64, ptr %a, i64 1
  %high.a.address = getelementptr i64, ptr %a, i64 2
  %low.b.address = getelementptr i64, ptr %b, i64 1
  %high.b.address = getelementptr i64, ptr %b, i64 2
  %low.a = load i64, ptr %low.a.address
  %high.a = load i64, ptr %high.a.address
  %low.b = load i64, ptr %low.b.address
  %high.b = load i64, ptr %high.b.address
  %before = icmp ult i64 %low.a, %high.b
  %behind = icmp ult i64 %low.b, %high.a
  %some.a = icmp ult i64 %low.a, %high.a
  %some.b = icmp ult i64 %low.b, %high.b
  %meet = and i1 %before, %behind
  %some = and i1 %some.a, %some.b
  %result = and i1 %meet, %some
  ret i1 %result
}}
define internal i64 @activerules.memory.total(ptr %tables, i64 %count) \
noinline optnone nounwind {{
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %more ]
  %total = phi i64 [ 0, %entry ], [ %sum, %more ]
  %k.next = add i64 %k, 1
  %is.more = icmp ult i64 %k, %count
  br i1 %is.more, label %more, label %done
more:
  %address = getelementptr [2 x i64], ptr %tables, i64 %k, i64 1
  %rows = load i64, ptr %address
  %sum = add i64 %total, %rows
  br label %head
done:
  ret i64 %total
}}
define internal i32 @activerules.memory.order(ptr %a, ptr %b) nounwind {{
  %low.a.address = getelementptr i64, ptr %a, i64 1
  %low.b.address = getelementptr i64, ptr %b, i64 1
  %low.a = load i64, ptr %low.a.address
  %low.b = load i64, ptr %low.b.address
  %below = icmp ult i64 %low.a, %low.b
  %above = icmp ugt i64 %low.a, %low.b
  %minus = sext i1 %below to i32
  %plus = zext i1 %above to i32
  %sign = add i32 %minus, %plus
  ret i32 %sign
}}
; whether no two of all rows meet; false if there is no memory to sort them
define internal i1 @activerules.memory.apart(ptr %tables, i64 %count, i64 %total) \
noinline optnone nounwind {{
entry:
  %bytes = mul i64 %total, 24
  %all = call ptr @malloc(i64 %bytes)
  %none = icmp eq ptr %all, null
  br i1 %none, label %unknown, label %gather
unknown:
  ret i1 false
gather:
  %k = phi i64 [ 0, %entry ], [ %k.next, %row ]
  %filled = phi i64 [ 0, %entry ], [ %filled.i, %row ]
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k, %count
  br i1 %more, label %table, label %sort
table:
  %table.address = getelementptr [2 x i64], ptr %tables, i64 %k
  %count.address = getelementptr i64, ptr %table.address, i64 1
  %rows = load ptr, ptr %table.address
  %rows.count = load i64, ptr %count.address
  br label %row
row:
  %i = phi i64 [ 0, %table ], [ %i.next, %copy ]
  %filled.i = phi i64 [ %filled, %table ], [ %filled.next, %copy ]
  %i.next = add i64 %i, 1
  %more.i = icmp ult i64 %i, %rows.count
  br i1 %more.i, label %copy, label %gather
copy:
  %from = getelementptr [3 x i64], ptr %rows, i64 %i
  %to = getelementptr [3 x i64], ptr %all, i64 %filled.i
  %extent = load [3 x i64], ptr %from
  store [3 x i64] %extent, ptr %to
  %low = extractvalue [3 x i64] %extent, 1
  %high = extractvalue [3 x i64] %extent, 2
  %some = icmp ult i64 %low, %high
  %one = zext i1 %some to i64
  %filled.next = add i64 %filled.i, %one
  br label %row
sort:
  call void @qsort(ptr %all, i64 %filled, i64 24, ptr @activerules.memory.order)
  br label %next
next:
  %j = phi i64 [ 1, %sort ], [ %j.next, %pair ]
  %j.next = add i64 %j, 1
  %more.j = icmp ult i64 %j, %filled
  br i1 %more.j, label %pair, label %end
pair:
  %before = sub i64 %j, 1
  %end.address = getelementptr [3 x i64], ptr %all, i64 %before, i64 2
  %start.address = getelementptr [3 x i64], ptr %all, i64 %j, i64 1
  %end.before = load i64, ptr %end.address
  %start = load i64, ptr %start.address
  %meet = icmp ult i64 %start, %end.before
  br i1 %meet, label %end, label %next
end:
  %result = phi i1 [ true, %next ], [ false, %pair ]
  call void @free(ptr %all)
  ret i1 %result
}}
define i64 @{COMPARE}(ptr %tables, i64 %tables.count, ptr %tests, i64 %tests.count) \
noinline optnone nounwind {{
entry:
  %total = call i64 @activerules.memory.total(ptr %tables, i64 %tables.count)
  %many = icmp ugt i64 %total, {_MANY}
  br i1 %many, label %screen, label %compare
screen:
  %all.apart = call i1 @activerules.memory.apart(ptr %tables, i64 %tables.count, i64 %total)
  br i1 %all.apart, label %fast, label %compare
fast:
  ret i64 0
compare:
  br label %head
head:
  %k = phi i64 [ 0, %compare ], [ %k.next, %outer ]
  %overlap = phi i64 [ 0, %compare ], [ %overlap.i, %outer ]
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k, %tests.count
  br i1 %more, label %test, label %done
test:
  %test.address = getelementptr [4 x i32], ptr %tests, i64 %k
  %first.address = getelementptr i32, ptr %test.address, i64 1
  %second.address = getelementptr i32, ptr %test.address, i64 2
  %number.address = getelementptr i32, ptr %test.address, i64 3
  %how = load i32, ptr %test.address
  %first = load i32, ptr %first.address
  %second = load i32, ptr %second.address
  %number.32 = load i32, ptr %number.address
  %number = zext i32 %number.32 to i64
  %number.next = add i64 %number, 1
  %other = add i32 %first, 1
  %another = add i32 %second, 1
  %first.table = getelementptr [2 x i64], ptr %tables, i32 %first
  %second.table = getelementptr [2 x i64], ptr %tables, i32 %second
  %first.count.address = getelementptr i64, ptr %first.table, i64 1
  %second.count.address = getelementptr i64, ptr %second.table, i64 1
  %first.count = load i64, ptr %first.count.address
  %second.count = load i64, ptr %second.count.address
  %first.rows = load ptr, ptr %first.table
  %second.rows = load ptr, ptr %second.table
  %within = icmp eq i32 %first, %second
  br label %outer
outer:
  %i = phi i64 [ 0, %test ], [ %i.next, %inner ]
  %overlap.i = phi i64 [ %overlap, %test ], [ %overlap.j, %inner ]
  %i.next = add i64 %i, 1
  %more.i = icmp ult i64 %i, %first.count
  br i1 %more.i, label %row, label %head
row:
  %a = getelementptr [3 x i64], ptr %first.rows, i64 %i
  br label %inner
inner:
  %j = phi i64 [ 0, %row ], [ %j.next, %fine ]
  %overlap.j = phi i64 [ %overlap.i, %row ], [ %overlap.next, %fine ]
  %j.next = add i64 %j, 1
  %more.j = icmp ult i64 %j, %second.count
  br i1 %more.j, label %pair, label %outer
pair:
  %b = getelementptr [3 x i64], ptr %second.rows, i64 %j
  %itself = icmp eq ptr %a, %b
  br i1 %itself, label %skipped, label %compared
skipped:
  br label %fine
compared:
  %met = call i1 @activerules.memory.meet(ptr %a, ptr %b)
  %apart = icmp eq i32 %how, {APART}
  br i1 %apart, label %disjoint, label %together
together:
  %may = icmp eq i32 %how, {MAY_MEET}
  br i1 %may, label %told, label %alike
told:
  %overlap.told = select i1 %met, i64 -1, i64 %overlap.j
  br label %fine
disjoint:
  br i1 %met, label %refused, label %fine
alike:
  %counts = icmp eq i32 %how, {ALIKE}
  %meet = and i1 %met, %counts
  %other.table = getelementptr [2 x i64], ptr %tables, i32 %other
  %another.table = getelementptr [2 x i64], ptr %tables, i32 %another
  %other.rows = load ptr, ptr %other.table
  %another.rows = load ptr, ptr %another.table
  %a.shadow = getelementptr [3 x i64], ptr %other.rows, i64 %i
  %b.shadow = getelementptr [3 x i64], ptr %another.rows, i64 %j
  %shadows = call i1 @activerules.memory.meet(ptr %a.shadow, ptr %b.shadow)
  %either = or i1 %meet, %shadows
  %number.of = select i1 %meet, i64 %number, i64 %number.next
  br i1 %either, label %displaced, label %fine
displaced:
  %data.a = load i64, ptr %a
  %data.b = load i64, ptr %b
  %data.c = load i64, ptr %a.shadow
  %data.d = load i64, ptr %b.shadow
  %here = sub i64 %data.b, %data.a
  %there = sub i64 %data.d, %data.c
  %same = icmp eq i64 %here, %there
  %overlap.likewise = select i1 %within, i64 %overlap.j, i64 -1
  br i1 %same, label %fine, label %refused
fine:
  %overlap.next = phi i64 [ %overlap.j, %disjoint ], [ %overlap.told, %told ],
                          [ %overlap.j, %alike ], [ %overlap.likewise, %displaced ],
                          [ %overlap.j, %skipped ]
  br label %inner
refused:
  %which = phi i64 [ %number, %disjoint ], [ %number.of, %displaced ]
  ret i64 %which
done:
  ret i64 %overlap
}}
"""
"""`i64 compare(tables, their number, tests, their number)`: 0; -1 if extents of two tables overlap
that may; or a refusal's number. LLVM leaves it as it is (`optnone`)."""
