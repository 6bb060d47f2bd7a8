"""Places: where pointers point, and which of them cannot share a byte."""

from activerules.ir.analysis.memory.addresses import address_of, before_loops, divisor
from activerules.ir.llvm.parser import parse_module
from activerules.numba_ext.target import symbols  # noqa: F401  (declares the runtime)

MODULE = """
%pair = type { double, i64 }
declare ptr @NRT_MemInfo_new_varsize(i64)
declare ptr @NRT_MemInfo_data_fast(ptr)
define void @f(ptr %a, i64 %i, i64 %j) {
entry:
  %field = getelementptr inbounds %pair, ptr %a, i64 0, i32 1
  %row = getelementptr %pair, ptr %a, i64 %i
  %second = getelementptr i8, ptr %row, i64 8
  %other = getelementptr %pair, ptr %a, i64 %j
  %bytes = getelementptr i8, ptr %a, i64 %i
  %list = call ptr @NRT_MemInfo_new_varsize(i64 64)
  %data = call ptr @NRT_MemInfo_data_fast(ptr %list)
  %again = call ptr @NRT_MemInfo_data_fast(ptr %list)
  %items = getelementptr i8, ptr %again, i64 24
  %item = getelementptr double, ptr %items, i64 %i
  %size = getelementptr i8, ptr %data, i64 8
  br label %behind
behind:
  %renamed = phi ptr [ %field, %entry ]
  ret void
}
"""


DIVIDED = """
define void @f(i64 %i, i1 %c) {
  %rest24 = urem i64 %i, 24
  %whole24 = sub i64 %i, %rest24
  %masked8 = and i64 %i, -8
  %chosen8 = select i1 %c, i64 %masked8, i64 %whole24
  %both4 = or i64 %chosen8, 12
  %other1 = sub i64 %rest24, %i
  %of1 = and i64 %rest24, 7
  %n = trunc i64 %i to i32
  %product3 = mul nsw i32 %n, 3
  %signed3 = sext i32 %product3 to i64
  %wide1 = zext i32 %product3 to i64
  %natural3 = zext nneg i32 %product3 to i64
  %wrapped4 = mul i32 %n, 12
  %other.wrapped4 = sext i32 %wrapped4 to i64
  br label %loop
loop:
  %lowered4 = phi i64 [ 12, %0 ], [ %without.bit4, %loop ]
  %grown12 = phi i64 [ 12, %0 ], [ %next12, %loop ]
  %without1 = add i64 %lowered4, -1
  %without.bit4 = and i64 %lowered4, %without1
  %next12 = add i64 %grown12, 24
  br i1 %c, label %loop, label %end
end:
  ret void
}
"""


def test_divisors_of_lengths_and_subscripts():
    for i in parse_module(DIVIDED).functions["f"].instructions():
        if i.name and i.name[-1].isdigit() and not i.name.startswith("rest"):
            assert i.name.endswith(str(divisor(i, {}))), i


def places():
    module = parse_module(MODULE)
    function = module.functions["f"]
    return {
        i.name: address_of(i, module.types)
        for b in function.blocks
        for i in b.instructions
        if i.name
    }


def test_o1_o2_offsets_strides_and_bases():
    found = places()
    assert (found["field"].offset, found["field"].stride) == (8, 0)
    assert (found["second"].offset, found["second"].stride) == (8, 16)
    assert found["bytes"].stride == 1
    assert found["renamed"] == found["field"]
    assert found["item"].through
    assert (found["item"].low, found["item"].stride) == (24, 8)
    assert found["item"].base is found["size"].base


def test_fields_of_records_in_different_rows_are_apart():
    found = places()
    assert not found["second"].may_overlap(8, found["other"], 8)
    assert found["row"].may_overlap(8, found["other"], 8)
    assert found["second"].may_overlap(16, found["other"], 8), "it reaches into the next row"
    assert found["bytes"].may_overlap(8, found["other"], 8)


def test_o3_items_are_behind_the_header_only_where_there_is_one():
    found = places()
    assert not found["item"].may_overlap(8, found["size"], 8, header=True)
    assert not found["size"].may_overlap(8, found["item"], 8, header=True)
    assert found["item"].may_overlap(8, found["size"], 8)


def test_addresses_relative_to_known_addresses():
    module = parse_module(MODULE)
    known = {}
    for i in module.functions["f"].instructions():
        if i.type.is_pointer:
            found = address_of(i, module.types, known=known)
            assert found == address_of(i, module.types)
            known[i] = found
    assert len(known) > 10


ADVANCED = """
define void @f(ptr %a, ptr %b, i64 %i, i1 %c) {
entry:
  %first = getelementptr i8, ptr %a, i64 8
  br label %outer
outer:
  %row = phi ptr [ %first, %entry ], [ %row.next, %inner ]
  br label %inner
inner:
  %item = phi ptr [ %row, %outer ], [ %item.next, %inner ]
  %either = phi ptr [ %a, %outer ], [ %b, %inner ]
  %field = getelementptr i8, ptr %item, i64 4
  %item.next = getelementptr { i64, i64 }, ptr %item, i64 %i
  %row.next = getelementptr i8, ptr %row, i64 48
  br i1 %c, label %inner, label %outer
}
"""


def test_o1_pointers_that_loops_advance():
    function = parse_module(ADVANCED).functions["f"]
    named = {i.name: i for i in function.instructions() if i.name}

    def start(name):
        return before_loops(address_of(named[name], {}), lambda pointer: address_of(pointer, {}))

    field = start("field")
    assert (field.base.name, field.offset, field.stride) == ("a", 12, 16)
    assert start("row").stride == 48
    assert start("either").base is named["either"]


ROWS = """
define void @f(ptr %a, i64 %i, i64 %n) {
entry:
  %record = getelementptr [32 x i8], ptr %a, i64 %i
  %field = getelementptr i8, ptr %record, i64 24
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %loop ]
  %p = phi ptr [ %record, %entry ], [ %p.next, %loop ]
  %q = phi ptr [ %record, %entry ], [ %q.next, %loop ]
  %r = phi ptr [ %field, %entry ], [ %r.next, %loop ]
  %item = getelementptr double, ptr %record, i64 %k
  %beyond = getelementptr i8, ptr %item, i64 8
  %any = getelementptr double, ptr %item, i64 %n
  %before = getelementptr i8, ptr %record, i64 4
  %far = mul i64 %k, 12
  %third = getelementptr i8, ptr %before, i64 %far
  %p.next = getelementptr i8, ptr %p, i64 8
  %q.next = getelementptr i8, ptr %q, i64 12
  %r.next = getelementptr i8, ptr %r, i64 -8
  %k.next = add i64 %k, 1
  %out = icmp eq i64 %k.next, 3
  br i1 %out, label %end, label %loop
end:
  ret void
}
"""


def test_o4_a_loop_over_an_array_inside_a_record_keeps_to_it():
    function = parse_module(ROWS).functions["f"]
    named = {i.name: i for i in function.instructions() if i.name}

    def meets(name, size=8, field="field"):
        address, other = (
            before_loops(address_of(named[n], {}), lambda p: address_of(p, {}))
            for n in (name, field)
        )
        assert address.may_overlap(size, other, 4) == other.may_overlap(4, address, size)
        return address.may_overlap(size, other, 4)

    assert not meets("item")
    assert meets("item", 9)
    assert meets("beyond")
    assert meets("any")
    assert not meets("p")
    assert meets("p.next")
    assert meets("q")
    assert meets("r")
    assert meets("r", 8, "item")
    assert meets("third", 5, "record")
    assert not meets("third", 4, "record"), "4, 16 and 28"
    assert not meets("third", 8, "field")
    assert meets("third", 9, "field")
