"""Tables of typed dictionaries in compiled derivatives: their layout, and functions that make them.

Gives       `TABLES`: LLVM functions on Numba's own NB_Dict, opaque to the engine, which make empty
            tables and move entries; `VARIABLES` of the process that they need; the text that loads
            fields of a table
Invariants  K1  the layout is that of numba/cext/dictobject.h: NB_Dict {i64 used, ptr keys}; behind
                `keys` {i64 size, i64 usable, i64 nentries, i64 key_size, i64 val_size,
                i64 entry_size, i64 entry_offset, ptr x 5 methods}, the indices, and entries
                {i64 hash, key, value} from `entry_offset` bytes behind the indices' start on
            K2  the entries of every dictionary that is looked into begin at a multiple of their
                size, counted from `keys`: so values lie at one offset in a period, which the
                engine can tell from the rest. Numba's C code reads the offset from the header, so
                it handles such a dictionary like any other
            K4  threads may read a dictionary while one of them establishes K2: they wait for one
                another, and the table that it replaced is freed when the next one is replaced
"""

from __future__ import annotations

from activerules.values.memory_layout import DICT_KEYS

PREFIX = "activerules.dict."
"""What the names of the functions begin with."""
HEADER = 96
FIELDS = ("size", "usable", "nentries", "key_size", "val_size", "entry_size", "entry_offset")


def load(name: str, of: str = "keys") -> str:
    """The code that loads a field of the table at `%keys` into a value named like the field; of
    another table, with the name of that table before it.
    """
    value = name if of == "keys" else f"{of}.{name}"
    return f"""  %{value}.address = getelementptr i8, ptr %{of}, i64 {8 * FIELDS.index(name)}
  %{value} = load i64, ptr %{value}.address"""


LOAD_KEYS = f"""  %keys.address = getelementptr i8, ptr %d, i64 {DICT_KEYS}
  %keys = load ptr, ptr %keys.address"""
LOAD_FIRST = f"""{load("entry_offset")}
{load("entry_size")}
  %first = add i64 %entry_offset, {HEADER}"""
ENTRY = """  %run = mul i64 %ix, %entry_size
  %at = add i64 %first, %run
  %entry = getelementptr i8, ptr %keys, i64 %at"""
LOAD_ENTRY = f"""{LOAD_FIRST}
{ENTRY}"""

VARIABLES = """
@activerules.dict.moving = common global i64 0
@activerules.dict.moved = common global ptr null
"""
"""For the whole process: whether a table is being replaced, and the one replaced last."""

TABLES = f"""{VARIABLES}
declare noalias ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.ctlz.i64(i64, i1)

; the size of a table for `keys` keys that needs no resize
define i64 @activerules.dict.size(i64 %keys) {{
  %half = lshr i64 %keys, 1
  %most = add i64 %keys, %half
  %zeros = call i64 @llvm.ctlz.i64(i64 %most, i1 false)
  %bits = sub i64 64, %zeros
  %power = shl i64 1, %bits
  %few = icmp ule i64 %keys, 5
  %size = select i1 %few, i64 8, i64 %power
  ret i64 %size
}}

; the size of the table that a full one is replaced by
define i64 @activerules.dict.larger(ptr %d) {{
  %used = load i64, ptr %d
  %wanted = mul i64 %used, 3
  %most = sub i64 %wanted, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %most, i1 false)
  %bits = sub i64 64, %zeros
  %power = shl i64 1, %bits
  %few = icmp ule i64 %wanted, 8
  %size = select i1 %few, i64 8, i64 %power
  ret i64 %size
}}

; the offset of the entries of a table of `size`, from its start; with K2
define i64 @activerules.dict.first(i64 %size, i64 %entry_size) {{
  %short = icmp ult i64 %size, 65535
  %byte = icmp ult i64 %size, 255
  %long = icmp uge i64 %size, 4294967295
  %wide = select i1 %long, i64 8, i64 4
  %narrow = select i1 %short, i64 2, i64 %wide
  %width = select i1 %byte, i64 1, i64 %narrow
  %indices = mul i64 %size, %width
  %end = add i64 %indices, {HEADER}
  %above = add i64 %end, %entry_size
  %last = sub i64 %above, 1
  %over = urem i64 %last, %entry_size
  %first = sub i64 %last, %over
  ret i64 %first
}}

define i64 @activerules.dict.bytes(i64 %size, i64 %entry_size) {{
  %first = call i64 @activerules.dict.first(i64 %size, i64 %entry_size)
  %double = shl i64 %size, 1
  %usable = udiv i64 %double, 3
  %run = mul i64 %usable, %entry_size
  %bytes = add i64 %first, %run
  ret i64 %bytes
}}

; write the header of an empty table, and the marks of empty entries
define void @activerules.dict.begin(ptr %keys, i64 %n, i64 %key.bytes, i64 %value.bytes, \
i64 %entry.bytes) {{
  call void @llvm.memset.p0.i64(ptr %keys, i8 0, i64 {HEADER}, i1 false)
  %first = call i64 @activerules.dict.first(i64 %n, i64 %entry.bytes)
  %offset = sub i64 %first, {HEADER}
  %double = shl i64 %n, 1
  %capacity = udiv i64 %double, 3
{load("usable")}
{load("key_size")}
{load("val_size")}
{load("entry_size")}
{load("entry_offset")}
  store i64 %n, ptr %keys
  store i64 %capacity, ptr %usable.address
  store i64 %key.bytes, ptr %key_size.address
  store i64 %value.bytes, ptr %val_size.address
  store i64 %entry.bytes, ptr %entry_size.address
  store i64 %offset, ptr %entry_offset.address
  %indices = getelementptr i8, ptr %keys, i64 {HEADER}
  %run = mul i64 %capacity, %entry.bytes
  %rest = add i64 %offset, %run
  call void @llvm.memset.p0.i64(ptr %indices, i8 -1, i64 %rest, i1 false)
  ret void
}}

; K2, K4; whether there was memory for it
define i1 @activerules.dict.align(ptr %d) noinline {{
{LOAD_KEYS}
{LOAD_FIRST}
  %over = urem i64 %first, %entry_size
  %aligned = icmp eq i64 %over, 0
  br i1 %aligned, label %fine, label %wait
wait:
  %others = atomicrmw xchg ptr @activerules.dict.moving, i64 1 acquire
  %mine = icmp eq i64 %others, 0
  br i1 %mine, label %move, label %wait
move:
  %made = call i1 @activerules.dict.move(ptr %d)
  store atomic i64 0, ptr @activerules.dict.moving release, align 8
  ret i1 %made
fine:
  ret i1 true
}}

; the same under the lock: meanwhile another thread may have moved the table
define i1 @activerules.dict.move(ptr %d) noinline {{
{LOAD_KEYS}
{LOAD_FIRST}
  %over = urem i64 %first, %entry_size
  %aligned = icmp eq i64 %over, 0
  br i1 %aligned, label %fine, label %move
move:
{load("size")}
  %bytes = call i64 @activerules.dict.bytes(i64 %size, i64 %entry_size)
  %new = call ptr @malloc(i64 %bytes)
  %none = icmp eq ptr %new, null
  br i1 %none, label %short, label %copy
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %keys, i64 %first, i1 false)
  %new.first = call i64 @activerules.dict.first(i64 %size, i64 %entry_size)
  %new.offset = sub i64 %new.first, {HEADER}
  %new.address = getelementptr i8, ptr %new, i64 {8 * FIELDS.index("entry_offset")}
  store i64 %new.offset, ptr %new.address
  %old.entries = getelementptr i8, ptr %keys, i64 %first
  %new.entries = getelementptr i8, ptr %new, i64 %new.first
  %run = sub i64 %bytes, %new.first
  call void @llvm.memcpy.p0.p0.i64(ptr %new.entries, ptr %old.entries, i64 %run, i1 false)
  store atomic ptr %new, ptr %keys.address release, align 8
  %before = load ptr, ptr @activerules.dict.moved
  store ptr %keys, ptr @activerules.dict.moved
  call void @free(ptr %before)
  br label %fine
fine:
  ret i1 true
short:
  ret i1 false
}}
"""
