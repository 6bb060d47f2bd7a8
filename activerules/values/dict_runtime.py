"""Keys of typed dictionaries in compiled derivatives: functions that are opaque to the engine.

Gives       `DEFINITIONS`: LLVM functions on Numba's own NB_Dict, which find, add and remove keys,
            with Numba's C functions, and leave values alone
            `link_into`: adds them to what a function that is being lowered links
Invariants  K3  the index of an entry changes only where visible code moves the values
                (`typed_dicts`), or before the first access, to establish K2 of `dict_tables`
"""

from __future__ import annotations

from typing import Any

from activerules.numba_ext.codegen import link
from activerules.numba_ext.codegen.protocols import Context, Emit, call_named
from activerules.numba_ext.codegen.unoptimised import AD_TARGET
from activerules.values.dict_tables import (
    ENTRY,
    LOAD_ENTRY,
    LOAD_FIRST,
    LOAD_KEYS,
    PREFIX,
    TABLES,
    VARIABLES,
    load,
)
from activerules.values.memory_layout import DICT_KEYS

DEFINITIONS = f"""{TABLES}
declare i64 @numba_dict_lookup(ptr, ptr, i64, ptr)
declare i32 @numba_dict_insert(ptr, ptr, i64, ptr, ptr)
declare i32 @numba_dict_delitem(ptr, i64, i64)

; the entry of a key; -1: there is none, less: an error
define i64 @activerules.dict.find(ptr %d, ptr %key, i64 %hash) noinline {{
  %fine = call i1 @activerules.dict.align(ptr %d)
  br i1 %fine, label %look, label %short
look:
{LOAD_KEYS}
{load("val_size")}
  %value = alloca i8, i64 %val_size
  %ix = call i64 @numba_dict_lookup(ptr %d, ptr %key, i64 %hash, ptr %value)
  ret i64 %ix
short:
  ret i64 -3
}}

; entry number ix is this one, counted from `keys` (K2)
define i64 @activerules.dict.slot(ptr %keys, i64 %ix) {{
{LOAD_FIRST}
  %before = udiv i64 %first, %entry_size
  %slot = add i64 %before, %ix
  ret i64 %slot
}}

; the entries that can be added
define i64 @activerules.dict.usable(ptr %d) {{
{LOAD_KEYS}
{load("usable")}
  ret i64 %usable
}}

; add a key that is not there; its entry, with a value of zeros
define i64 @activerules.dict.add(ptr %d, ptr %key, i64 %hash) noinline {{
{LOAD_KEYS}
{load("val_size")}
  %zeros = alloca i8, i64 %val_size
  %old = alloca i8, i64 %val_size
  call void @llvm.memset.p0.i64(ptr %zeros, i8 0, i64 %val_size, i1 false)
  %status = call i32 @numba_dict_insert(ptr %d, ptr %key, i64 %hash, ptr %zeros, ptr %old)
{load("nentries")}
  %ix = sub i64 %nentries, 1
  ret i64 %ix
}}

; the keys of a dictionary into a new, larger table; each keeps its references
define void @activerules.dict.fill(ptr %d, ptr %new, i64 %n) noinline {{
{LOAD_KEYS}
{load("key_size")}
{load("val_size")}
{LOAD_FIRST}
  call void @activerules.dict.begin(ptr %new, i64 %n, i64 %key_size, i64 %val_size, i64 %entry_size)
  %keyless = alloca {{ i64, ptr }}
  store i64 0, ptr %keyless
  %new.address = getelementptr i8, ptr %keyless, i64 {DICT_KEYS}
  store ptr %new, ptr %new.address
  %zeros = alloca i8, i64 %val_size
  %old = alloca i8, i64 %val_size
  call void @llvm.memset.p0.i64(ptr %zeros, i8 0, i64 %val_size, i1 false)
  br label %next
next:
  %from = phi i64 [ 0, %0 ], [ %after, %add ]
  %ix = call i64 @activerules.dict.next(ptr %d, i64 %from)
  %end = icmp slt i64 %ix, 0
  br i1 %end, label %done, label %add
add:
{ENTRY}
  %hash = load i64, ptr %entry
  %key = getelementptr i8, ptr %entry, i64 8
  %status = call i32 @numba_dict_insert(ptr %keyless, ptr %key, i64 %hash, ptr %zeros, ptr %old)
  %after = add i64 %ix, 1
  br label %next
done:
  %methods = getelementptr i8, ptr %keys, i64 56
  %new.methods = getelementptr i8, ptr %new, i64 56
  call void @llvm.memcpy.p0.p0.i64(ptr %new.methods, ptr %methods, i64 40, i1 false)
  ret void
}}

; the first entry from `ix` on that has a key; -1: there is none
define i64 @activerules.dict.next(ptr %d, i64 %start) noinline {{
{LOAD_KEYS}
{load("nentries")}
{LOAD_FIRST}
  br label %look
look:
  %ix = phi i64 [ %start, %0 ], [ %after, %on ]
  %inside = icmp slt i64 %ix, %nentries
  br i1 %inside, label %read, label %end
read:
{ENTRY}
  %hash = load i64, ptr %entry
  %empty = icmp eq i64 %hash, -1
  br i1 %empty, label %on, label %found
on:
  %after = add i64 %ix, 1
  br label %look
found:
  ret i64 %ix
end:
  ret i64 -1
}}

; what an iteration that begins remembers: the table and the number of keys
define i64 @activerules.dict.table(ptr %d) {{
  %fine = call i1 @activerules.dict.align(ptr %d)
{LOAD_KEYS}
  %address = ptrtoint ptr %keys to i64
  %result = select i1 %fine, i64 %address, i64 0
  ret i64 %result
}}

; as `next`; none if the dictionary was changed since
define i64 @activerules.dict.follow(ptr %d, i64 %start, i64 %table, i64 %used) {{
{LOAD_KEYS}
  %address = ptrtoint ptr %keys to i64
  %length = load i64, ptr %d
  %same.table = icmp eq i64 %address, %table
  %same.length = icmp eq i64 %length, %used
  %same = and i1 %same.table, %same.length
  br i1 %same, label %look, label %changed
look:
  %ix = call i64 @activerules.dict.next(ptr %d, i64 %start)
  ret i64 %ix
changed:
  ret i64 -1
}}

; copy the bytes of a key
define void @activerules.dict.key(ptr %d, i64 %ix, ptr %key) {{
{LOAD_KEYS}
{LOAD_ENTRY}
{load("key_size")}
  %origin = getelementptr i8, ptr %entry, i64 8
  call void @llvm.memcpy.p0.p0.i64(ptr %key, ptr %origin, i64 %key_size, i1 false)
  ret void
}}

; remove an entry, the value of which is zeros already
define void @activerules.dict.remove(ptr %d, i64 %hash, i64 %ix) {{
  %status = call i32 @numba_dict_delitem(ptr %d, i64 %hash, i64 %ix)
  ret void
}}

; reorder `other` so that its keys have the indices they have in `d`; false if the keys differ
define i1 @activerules.dict.match(ptr %d, ptr %other) noinline {{
  %none.d = icmp eq ptr %d, null
  %none.other = icmp eq ptr %other, null
  %none.either = or i1 %none.d, %none.other
  %none.both = and i1 %none.d, %none.other
  br i1 %none.either, label %unset, label %set
unset:
  ret i1 %none.both
set:
  %fine = call i1 @activerules.dict.align(ptr %d)
  %used = load i64, ptr %d
  %other.used = load i64, ptr %other
  %same.length = icmp eq i64 %used, %other.used
  %possible = and i1 %fine, %same.length
  br i1 %possible, label %begin, label %unlike
begin:
{LOAD_KEYS}
{load("size")}
{load("nentries")}
{load("val_size")}
{LOAD_FIRST}
  %other.address = getelementptr i8, ptr %other, i64 {DICT_KEYS}
  %old = load ptr, ptr %other.address
{load("nentries", "old")}
{load("entry_offset", "old")}
  %same.count = icmp eq i64 %nentries, %old.nentries
  %same.offset = icmp eq i64 %entry_offset, %old.entry_offset
  %same.layout = and i1 %same.count, %same.offset
  %value.bytes = add i64 %val_size, 7
  %value.run = and i64 %value.bytes, -8
  %value.offset = sub i64 %entry_size, %value.run
  %value = alloca i8, i64 %val_size
  br label %next
next:
  %from = phi i64 [ 0, %begin ], [ %after, %seen ]
  %same = phi i1 [ %same.layout, %begin ], [ %still.same, %seen ]
  %ix = call i64 @activerules.dict.next(ptr %d, i64 %from)
  %end = icmp slt i64 %ix, 0
  br i1 %end, label %known, label %look
look:
{ENTRY}
  %hash = load i64, ptr %entry
  %key = getelementptr i8, ptr %entry, i64 8
  %found = call i64 @numba_dict_lookup(ptr %other, ptr %key, i64 %hash, ptr %value)
  %missing = icmp slt i64 %found, 0
  br i1 %missing, label %unlike, label %seen
seen:
  %in.place = icmp eq i64 %found, %ix
  %still.same = and i1 %same, %in.place
  %after = add i64 %ix, 1
  br label %next
known:
  br i1 %same, label %alike, label %allocate
allocate:
  %bytes = call i64 @activerules.dict.bytes(i64 %size, i64 %entry_size)
  %new = call ptr @malloc(i64 %bytes)
  %none = icmp eq ptr %new, null
  br i1 %none, label %unlike, label %copy
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %keys, i64 %bytes, i1 false)
  br label %more
more:
  %start = phi i64 [ 0, %copy ], [ %following, %move ]
  %number = call i64 @activerules.dict.next(ptr %d, i64 %start)
  %last = icmp slt i64 %number, 0
  br i1 %last, label %done, label %move
move:
  %distance = mul i64 %number, %entry_size
  %address = add i64 %first, %distance
  %source = getelementptr i8, ptr %keys, i64 %address
  %source.hash = load i64, ptr %source
  %source.key = getelementptr i8, ptr %source, i64 8
  %entry.of.other = call i64 @numba_dict_lookup(ptr %other, ptr %source.key, i64 %source.hash, \
ptr %value)
  %value.at = add i64 %address, %value.offset
  %target = getelementptr i8, ptr %new, i64 %value.at
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %value, i64 %val_size, i1 false)
  %following = add i64 %number, 1
  br label %more
done:
  call void @activerules.dict.count(ptr %other, i64 72)
  store ptr %new, ptr %other.address
  call void @activerules.dict.count(ptr %other, i64 64)
  call void @free(ptr %old)
  br label %alike
alike:
  ret i1 true
unlike:
  ret i1 false
}}

; call the method at an offset on each key
define void @activerules.dict.count(ptr %d, i64 %offset) noinline {{
{LOAD_KEYS}
  %address = getelementptr i8, ptr %keys, i64 %offset
  %method = load ptr, ptr %address
  %none = icmp eq ptr %method, null
{LOAD_FIRST}
  br i1 %none, label %done, label %look
look:
  %from = phi i64 [ 0, %0 ], [ %after, %found ]
  %ix = call i64 @activerules.dict.next(ptr %d, i64 %from)
  %end = icmp slt i64 %ix, 0
  br i1 %end, label %done, label %found
found:
{ENTRY}
  %key = getelementptr i8, ptr %entry, i64 8
  call void %method(ptr %key)
  %after = add i64 %ix, 1
  br label %look
done:
  ret void
}}

; how many entries are in use, or were; none in a field that is not set
define i64 @activerules.dict.entries(ptr %d) {{
  %none = icmp eq ptr %d, null
  br i1 %none, label %unset, label %set
set:
  %fine = call i1 @activerules.dict.align(ptr %d)
  br i1 %fine, label %count, label %unset
count:
{LOAD_KEYS}
{load("nentries")}
  ret i64 %nentries
unset:
  ret i64 0
}}

; the first entry is this one, counted from `keys` (K2)
define i64 @activerules.dict.origin(ptr %d) {{
  %none = icmp eq ptr %d, null
  br i1 %none, label %unset, label %set
set:
{LOAD_KEYS}
  %slot = call i64 @activerules.dict.slot(ptr %keys, i64 0)
  ret i64 %slot
unset:
  ret i64 0
}}

; a number that changes when keys, or the indices of their entries, do; establishes K2 first (K3)
define i64 @activerules.dict.fingerprint(ptr %d) noinline {{
  %unset = icmp eq ptr %d, null
  br i1 %unset, label %done, label %set
set:
  %fine = call i1 @activerules.dict.align(ptr %d)
{LOAD_KEYS}
{LOAD_FIRST}
  %address = ptrtoint ptr %keys to i64
  %begin = add i64 %address, %first
  br label %look
look:
  %from = phi i64 [ 0, %set ], [ %after, %found ]
  %sum = phi i64 [ %begin, %set ], [ %sum.next, %found ]
  %ix = call i64 @activerules.dict.next(ptr %d, i64 %from)
  %end = icmp slt i64 %ix, 0
  br i1 %end, label %done, label %found
found:
{ENTRY}
  %hash = load i64, ptr %entry
  %mixed = xor i64 %sum, %hash
  %spread = mul i64 %mixed, 1099511628211
  %sum.next = add i64 %spread, %ix
  %after = add i64 %ix, 1
  br label %look
done:
  %result = phi i64 [ 0, %0 ], [ %sum, %look ]
  ret i64 %result
}}

; the last entry that has a key; -1: there is none, less: an error
define i64 @activerules.dict.last(ptr %d) noinline {{
  %fine = call i1 @activerules.dict.align(ptr %d)
  br i1 %fine, label %begin, label %short
begin:
{LOAD_KEYS}
{load("nentries")}
{LOAD_FIRST}
  br label %look
look:
  %behind = phi i64 [ %nentries, %begin ], [ %ix, %read ]
  %ix = sub i64 %behind, 1
  %none = icmp slt i64 %ix, 0
  br i1 %none, label %end, label %read
read:
{ENTRY}
  %hash = load i64, ptr %entry
  %empty = icmp eq i64 %hash, -1
  br i1 %empty, label %look, label %end
end:
  ret i64 %ix
short:
  ret i64 -2
}}

; remove the last entry, the value of which is zeros already
define void @activerules.dict.pop(ptr %d, i64 %ix) {{
{LOAD_KEYS}
{LOAD_ENTRY}
  %hash = load i64, ptr %entry
  %status = call i32 @numba_dict_delitem(ptr %d, i64 %hash, i64 %ix)
{load("nentries")}
  store i64 %ix, ptr %nentries.address
  ret void
}}
"""


def link_into(context: Context) -> Any:
    """Link these functions into the one that is being lowered; return their library."""
    return link.link_support(context, f"{PREFIX}support", _definitions)


def _definitions(context: Context) -> str:
    link.define(context, f"{PREFIX}variables", VARIABLES)
    return DEFINITIONS


def call(em: Emit, name: str, result: Any, *data: Any) -> Any:
    """Emit a call of one of these functions, given its name without `PREFIX`."""
    if em.context.target_name != AD_TARGET:
        link_into(em.context)
    return call_named(em.builder, f"{PREFIX}{name}", result, data)
