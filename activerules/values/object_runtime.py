"""Runtime functions that change a caller's objects during a derivative, hidden from the engine.

Gives       `DEFINITIONS`: LLVM functions that count references and copy bytes; to the engine, calls
            of them (by `PREFIX`) have no effect on anything it reads
            `link_into`: links them into the function being lowered
            `call`: emits the call of one of them
Invariants  O1  they are called after the last read from the object, by the function or, since its
                structs are declared to change, by the reverse sweep
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from activerules.numba_ext.codegen import link
from activerules.numba_ext.codegen.protocols import Builder, Context, Value, call_named
from activerules.values.memory_layout import LIST_ITEMS

PREFIX = "activerules.object."
"""The prefix of the names of the functions."""

DEFINITIONS = f"""
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare noalias ptr @malloc(i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
declare i32 @numba_list_setitem(ptr, i64, ptr)
declare i32 @numba_list_append(ptr, ptr)
declare i32 @numba_list_delete_slice(ptr, i64, i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @{PREFIX}keep(ptr %meminfo) {{
  call void @NRT_incref(ptr %meminfo)
  ret void
}}

define void @{PREFIX}leave(ptr %meminfo) {{
  call void @NRT_decref(ptr %meminfo)
  ret void
}}

define void @{PREFIX}write(ptr %target, ptr %source, i64 %size) {{
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %size, i1 false)
  ret void
}}

; the items of a list become those of another, as far as both have some
define void @{PREFIX}items(ptr %items, ptr %other.items, ptr %l, ptr %other) noinline {{
  %own = load i64, ptr %l
  %its = load i64, ptr %other
  %fewer = icmp slt i64 %own, %its
  %count = select i1 %fewer, i64 %own, i64 %its
  br label %next
next:
  %k = phi i64 [ 0, %0 ], [ %after, %set ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %set, label %done
set:
  %item = call ptr @{PREFIX}item(ptr %other, i64 %k)
  %status = call i32 @numba_list_setitem(ptr %l, i64 %k, ptr %item)
  %after = add i64 %k, 1
  br label %next
done:
  ret void
}}

; a list becomes as long as another, with the other's items at the end
define void @{PREFIX}length(ptr %l, ptr %other) noinline {{
  %own = load i64, ptr %l
  %its = load i64, ptr %other
  %longer = icmp sgt i64 %own, %its
  br i1 %longer, label %cut, label %next
cut:
  %done.status = call i32 @numba_list_delete_slice(ptr %l, i64 %its, i64 %own, i64 1)
  ret void
next:
  %k = phi i64 [ %own, %0 ], [ %after, %add ]
  %more = icmp slt i64 %k, %its
  br i1 %more, label %add, label %done
add:
  %item = call ptr @{PREFIX}item(ptr %other, i64 %k)
  %status = call i32 @numba_list_append(ptr %l, ptr %item)
  %after = add i64 %k, 1
  br label %next
done:
  ret void
}}

define internal ptr @{PREFIX}item(ptr %l, i64 %k) {{
  %size.address = getelementptr i8, ptr %l, i64 8
  %size = load i64, ptr %size.address
  %items.address = getelementptr i8, ptr %l, i64 {LIST_ITEMS}
  %items = load ptr, ptr %items.address
  %offset = mul i64 %size, %k
  %item = getelementptr i8, ptr %items, i64 %offset
  ret ptr %item
}}

; notes: {{count, capacity, rows}}, rows of {{groups, away from, low, high}}
define i64 @{PREFIX}notes() noinline {{
  %notes = call ptr @malloc(i64 24)
  %rows = call ptr @malloc(i64 256)
  %capacity.address = getelementptr i64, ptr %notes, i64 1
  %rows.address = getelementptr i64, ptr %notes, i64 2
  store i64 0, ptr %notes
  store i64 8, ptr %capacity.address
  store ptr %rows, ptr %rows.address
  %number = ptrtoint ptr %notes to i64
  ret i64 %number
}}

define void @{PREFIX}note(i64 %number, i64 %groups, i64 %away.from, i64 %low, i64 %high) noinline {{
  %notes = inttoptr i64 %number to ptr
  %count = load i64, ptr %notes
  %capacity.address = getelementptr i64, ptr %notes, i64 1
  %capacity = load i64, ptr %capacity.address
  %rows.address = getelementptr i64, ptr %notes, i64 2
  %rows = load ptr, ptr %rows.address
  %full = icmp eq i64 %count, %capacity
  br i1 %full, label %enlarge, label %put
enlarge:
  %double = shl i64 %capacity, 1
  %bytes = shl i64 %double, 5
  %larger = call ptr @realloc(ptr %rows, i64 %bytes)
  store i64 %double, ptr %capacity.address
  store ptr %larger, ptr %rows.address
  br label %put
put:
  %to = phi ptr [ %rows, %0 ], [ %larger, %enlarge ]
  %row = getelementptr [4 x i64], ptr %to, i64 %count
  %away.from.address = getelementptr i64, ptr %row, i64 1
  %low.address = getelementptr i64, ptr %row, i64 2
  %high.address = getelementptr i64, ptr %row, i64 3
  store i64 %groups, ptr %row
  store i64 %away.from, ptr %away.from.address
  store i64 %low, ptr %low.address
  store i64 %high, ptr %high.address
  %more = add i64 %count, 1
  store i64 %more, ptr %notes
  ret void
}}

; whether two rows meet that must not; the notes are given back
define i1 @{PREFIX}meet(i64 %number) noinline {{
  %notes = inttoptr i64 %number to ptr
  %count = load i64, ptr %notes
  %rows.address = getelementptr i64, ptr %notes, i64 2
  %rows = load ptr, ptr %rows.address
  br label %first
first:
  %i = phi i64 [ 0, %0 ], [ %i.after, %first.next ]
  %found = phi i1 [ false, %0 ], [ %found.so, %first.next ]
  %i.more = icmp slt i64 %i, %count
  br i1 %i.more, label %look, label %done
look:
  %row = getelementptr [4 x i64], ptr %rows, i64 %i
  %away.from.address = getelementptr i64, ptr %row, i64 1
  %low.address = getelementptr i64, ptr %row, i64 2
  %high.address = getelementptr i64, ptr %row, i64 3
  %away.from = load i64, ptr %away.from.address
  %low = load i64, ptr %low.address
  %high = load i64, ptr %high.address
  %any = icmp ne i64 %away.from, 0
  br i1 %any, label %second, label %first.next
second:
  %j = phi i64 [ 0, %look ], [ %j.after, %second.next ]
  %found.here = phi i1 [ %found, %look ], [ %found.now, %second.next ]
  %j.more = icmp slt i64 %j, %count
  br i1 %j.more, label %second.next, label %first.next
second.next:
  %other = getelementptr [4 x i64], ptr %rows, i64 %j
  %other.low.address = getelementptr i64, ptr %other, i64 2
  %other.high.address = getelementptr i64, ptr %other, i64 3
  %groups = load i64, ptr %other
  %other.low = load i64, ptr %other.low.address
  %other.high = load i64, ptr %other.high.address
  %common = and i64 %groups, %away.from
  %concerned = icmp ne i64 %common, 0
  %begins = icmp ult i64 %low, %other.high
  %ends = icmp ult i64 %other.low, %high
  %filled = icmp ult i64 %low, %high
  %other.filled = icmp ult i64 %other.low, %other.high
  %another = icmp ne i64 %i, %j
  %both = and i1 %begins, %ends
  %full = and i1 %filled, %other.filled
  %near = and i1 %both, %full
  %relevant = and i1 %concerned, %another
  %meets = and i1 %near, %relevant
  %found.now = or i1 %found.here, %meets
  %j.after = add i64 %j, 1
  br label %second
first.next:
  %found.so = phi i1 [ %found, %look ], [ %found.here, %second ]
  %i.after = add i64 %i, 1
  br label %first
done:
  call void @free(ptr %rows)
  call void @free(ptr %notes)
  ret i1 %found
}}
"""


def link_into(context: Context) -> Any:
    """Link the functions into the one being lowered; returns their library."""
    return link.link_support(context, f"{PREFIX}support", lambda _: DEFINITIONS)


def call(builder: Builder, name: str, *data: Any, result: Any = None) -> Value:
    """Emit the call of one of the functions, given by its name after `PREFIX`."""
    return call_named(builder, f"{PREFIX}{name}", result or ir.VoidType(), data)
