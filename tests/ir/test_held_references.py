"""References held where a function raises are dropped, and no others."""

import pytest

from activerules.ir.analysis.returns import analyse_returns
from activerules.ir.cfg import control_flow
from activerules.ir.held_known import Holdings
from activerules.ir.normal_form import check
from activerules.ir.printer import print_function
from activerules.ir.reading import read_module

TEXT = """
declare ptr @NRT_MemInfo_alloc_aligned(i64, i32)
declare ptr @NRT_MemInfo_data_fast(ptr)
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
define i32 @f(ptr %retptr, ptr %excinfo, ptr %x, ptr %list, i1 %raises, i1 %flag) {{
entry:
  call void @NRT_incref(ptr %x)
  %made = call ptr @NRT_MemInfo_alloc_aligned(i64 8, i32 32)
  {use}
  br i1 %raises, label %failed, label %fine
failed:
  {failing}
  store ptr null, ptr %excinfo
  br label %end
fine:
  call void @NRT_decref(ptr %x)
  {last}
  br label %end
end:
  %status = phi i32 [ 1, %failed ], [ 0, %fine ]
  ret i32 %status
}}
"""
DROP = "call void @NRT_decref(ptr %made)"


def dropped(last, use="", failing=""):
    """Names of the pointers that are dropped where the function fails."""
    text = TEXT.format(last=last, use=use, failing=failing)
    block = print_function(read_module(text, "f").functions["f"]).split("failed:")[1]
    lines = block.split("fine:")[0].splitlines()
    return sorted(line.split("%")[1].rstrip(")") for line in lines if "decref" in line)


def test_what_a_successful_return_drops_or_hands_over():
    assert dropped(DROP) == ["made", "x"]
    assert dropped("store ptr %made, ptr %retptr") == ["made", "x"]
    assert dropped(DROP, failing=DROP) == ["made", "x"]


def test_what_is_in_memory_or_not_counted_as_expected_stays():
    assert dropped(DROP, use="store ptr %made, ptr %list") == ["x"]
    assert dropped("") == ["x"]
    assert dropped(f"{DROP}\n  {DROP}") == ["x"]


def test_what_is_put_into_memory_is_handed_over():
    both = "store ptr %made, ptr %list\n  call void @NRT_incref(ptr %made)"
    assert dropped(DROP, use=both) == ["made", "x"]
    assert dropped(DROP, failing="store ptr %made, ptr %list") == ["x"]


def test_of_what_comes_from_memory_only_what_is_taken_is_dropped():
    item = "%item = load ptr, ptr %list"
    last = f"{DROP}\n  {DROP.replace('made', 'item')}"
    assert dropped(last, use=f"{item}\n  call void @NRT_incref(ptr %item)") == ["item", "made", "x"]
    assert dropped(last, use=item) == ["made", "x"]


def test_a_choice_is_one_of_two():
    maybe = "%maybe = select i1 %flag, ptr %made, ptr null\n  call void @NRT_decref(ptr %maybe)"
    rest = "%rest = select i1 %flag, ptr null, ptr %made\n  call void @NRT_decref(ptr %rest)"
    assert dropped(f"{maybe}\n  {rest}") == ["made", "x"]
    assert dropped(maybe) == ["x"]


MAYBE = """
declare ptr @NRT_MemInfo_alloc_aligned(i64, i32)
declare void @NRT_decref(ptr)
define i32 @f(ptr %retptr, ptr %excinfo, i1 %flag, i1 %raises) {
entry:
  br i1 %flag, label %some, label %joined
some:
  %made = call ptr @NRT_MemInfo_alloc_aligned(i64 8, i32 32)
  br label %joined
joined:
  %maybe = phi ptr [ %made, %some ], [ null, %entry ]
  %is = phi i1 [ true, %some ], [ false, %entry ]
  br i1 %raises, label %failed, label %fine
failed:
  br label %end
fine:
  br i1 %is, label %drop, label %end
drop:
  call void @NRT_decref(ptr %maybe)
  br label %end
end:
  %status = phi i32 [ 1, %failed ], [ 0, %fine ], [ 0, %drop ]
  ret i32 %status
}
"""


def test_what_may_be_none_goes_by_its_flag():
    block = print_function(read_module(MAYBE, "f").functions["f"]).split("failed:")[1]
    assert "select i1 %is, ptr %maybe, ptr null" in block.split("fine:")[0]


def test_what_is_freed_is_read_before():
    read = "%data = call ptr @NRT_MemInfo_data_fast(ptr %made)\n  %first = load i64, ptr %data"
    text = TEXT.format(last=DROP, use="", failing=read)
    block = print_function(read_module(text, "f").functions["f"]).split("failed:")[1]
    assert block.index("%first") < block.index("%made)", block.index("%first"))
    assert dropped(DROP, failing=read) == ["made", "x"]


def test_what_is_held_more_than_once_is_read_behind():
    """Another way leads to the read, too, with as many references as are dropped there."""
    taken = "call void @NRT_incref(ptr %made)"
    use = f"br i1 %flag, label %on, label %joined\non:\n  %late = freeze i1 %raises\n  {taken}"
    read = "%data = call ptr @NRT_MemInfo_data_fast(ptr %made)\n  %first = load i64, ptr %data"

    failing = f"br label %joined\njoined:\n  {read}\n  {DROP}"
    text = TEXT.format(last=f"{DROP}\n  {DROP}", use=use, failing=failing)
    text = text.replace("[ 1, %failed ]", "[ 1, %joined ]")
    for known in ("%late", "%raises"):  # of an argument it is known before it is taken
        found = drops(text.replace("br i1 %raises", f"br i1 {known}"))
        blocks = [block for block, name in found if name != "x"]
        assert blocks[:3] == ["failed", "joined", "fine"]


CAUGHT = """
declare ptr @NRT_MemInfo_alloc_aligned(i64, i32)
declare ptr @NRT_MemInfo_data_fast(ptr)
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
define i32 @f(ptr %retptr, ptr %excinfo, i64 %n, i1 %raises) {{
entry:
  br label %round
round:
  %k = phi i64 [ 0, %entry ], [ %next, %last ]
  %made = call ptr @NRT_MemInfo_alloc_aligned(i64 8, i32 32)
  %data = call ptr @NRT_MemInfo_data_fast(ptr %made)
  br i1 %raises, label %caught, label %fine
caught:
  br label %joined
fine:
  {fine}
  br label %joined
joined:
  %failed = phi i1 [ true, %caught ], [ false, %fine ]
  %next = add i64 %k, 1
  {joined}
  br label %last
last:
  %more = icmp slt i64 %next, %n
  br i1 %more, label %round, label %end
end:
  ret i32 0
}}
"""


def drops(text):
    """Where references are dropped, and of what."""
    printed = print_function(read_module(text, "f").functions["f"])
    found, block = [], ""
    for line in printed.splitlines():
        block = line.split(":")[0] if line.endswith(":") else block
        if "@NRT_decref(" in line:
            found.append((block, line.split("%")[1].rstrip(")")))
    return found


def test_what_a_caught_exception_leaves_over_is_dropped():
    assert drops(CAUGHT.format(fine=DROP, joined="")) == [("caught", "made"), ("fine", "made")]
    read = "%first = load double, ptr %data"  # nowhere is it held, and not read any more
    assert drops(CAUGHT.format(fine=DROP, joined=read)) == [("fine", "made")]


def test_ways_are_told_apart_by_what_a_phi_is():
    fine = (
        DROP
        + """
  %other = call ptr @NRT_MemInfo_alloc_aligned(i64 8, i32 32)
  %stops = icmp eq i64 %n, 7
  br i1 %stops, label %end, label %kept
kept:"""
    )
    joined = """%maybe = phi ptr [ undef, %caught ], [ %other, %kept ]
  %status = phi i32 [ 1, %caught ], [ 0, %kept ]
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %drop, label %on
drop:
  call void @NRT_decref(ptr %maybe)
  br label %on
on:"""
    text = CAUGHT.replace("%failed = phi i1 [ true, %caught ], [ false, %fine ]", "{joined}")
    text = text.replace("%next = add i64 %k, 1\n  {joined}", "%next = add i64 %k, 1")
    expected = [("made", "caught"), ("made", "fine"), ("maybe", "drop"), ("other", "dropped.held0")]
    assert sorted(d[::-1] for d in drops(text.format(fine=fine, joined=joined))) == expected


def test_a_scratch_is_handed_nothing():
    stored = "%slot = alloca ptr\n  store ptr %made, ptr %slot\n  " + DROP
    assert drops(CAUGHT.format(fine=stored, joined="")) == [("caught", "made"), ("fine", "made")]


def test_what_is_read_on_some_ways_is_dropped_behind():
    """In a loop behind the failing edge, and on one way only."""
    reads = """%data = call ptr @NRT_MemInfo_data_fast(ptr %made)
  br i1 %flag, label %loop, label %joined
loop:
  %k = phi i64 [ 0, %failed ], [ %next, %loop ]
  %place = getelementptr i64, ptr %data, i64 %k
  %next = load i64, ptr %place
  %more = icmp slt i64 %next, 9
  br i1 %more, label %loop, label %joined
joined:"""
    text = TEXT.format(last=DROP, use="", failing=reads).replace("[ 1, %failed ]", "[ 1, %joined ]")
    found = [block for block, name in drops(text) if name == "made"]
    assert [block.split(".")[0] for block in found] == ["dropped", "dropped", "fine"]


def test_what_a_set_exchanges_its_memory_with_is_known():
    room = """%data = call ptr @NRT_MemInfo_data_fast(ptr %made)
  %old = load ptr, ptr %data
  %room = call ptr @NRT_MemInfo_varsize_alloc(ptr %made, i64 64)
  store ptr %room, ptr %data
  call void @NRT_MemInfo_varsize_free(ptr %made, ptr %old)"""
    declared = """declare ptr @NRT_MemInfo_varsize_alloc(ptr, i64)
declare void @NRT_MemInfo_varsize_free(ptr, ptr)
"""
    text = declared + TEXT.format(last=DROP, use=room, failing="")
    assert [block for block, name in drops(text) if name == "made"] == ["failed", "fine"]


LEFT = """
declare ptr @NRT_MemInfo_alloc_aligned(i64, i32)
declare void @NRT_decref(ptr)
define i32 @f(ptr %retptr, ptr %excinfo, i1 %flag) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %more ]
  %made = call ptr @NRT_MemInfo_alloc_aligned(i64 8, i32 32)
  %k1 = add i64 %k, 1
  br i1 %flag, label %out, label %more
more:
  call void @NRT_decref(ptr %made)
  %again = icmp slt i64 %k1, 9
  br i1 %again, label %loop, label %out
out:
  %last = phi i64 [ %k, %loop ], [ %k1, %more ]
  store i64 %last, ptr %retptr
  ret i32 0
}
"""


def test_only_a_loop_reaches_what_is_behind_it():
    function = read_module(LEFT, "f").functions["f"]
    assert print_function(function).count("@NRT_decref(ptr %made)") == 2
    check(function, control_flow(function), function.blocks)


RETURNED = """
declare ptr @NRT_MemInfo_alloc_aligned(i64, i32)
declare ptr @NRT_MemInfo_data_fast(ptr)
declare void @NRT_decref(ptr)
declare i32 @activerules.rule.known(ptr "activerules.counted"="8", ptr)
define i32 @new(ptr %retptr, ptr %excinfo) noinline {
  %made = call ptr @NRT_MemInfo_alloc_aligned(i64 8, i32 32)
  %data = call ptr @NRT_MemInfo_data_fast(ptr %made)
  %second = getelementptr i8, ptr %retptr, i64 8
  store ptr %data, ptr %retptr
  store ptr %made, ptr %second
  ret i32 0
}
define i32 @f(ptr %retptr, ptr %excinfo, i1 %raises) {
entry:
  %place = alloca { ptr, ptr }
  %status = call i32 CALLEE(ptr %place, ptr %excinfo)
  %at = getelementptr i8, ptr %place, i64 8
  %data = load ptr, ptr %place
  %owner = load ptr, ptr %at
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %has, label %failed
has:
  br i1 %raises, label %raised, label %fine
raised:
  br label %failed
fine:
  %second = getelementptr i8, ptr %retptr, i64 8
  store ptr %data, ptr %retptr
  store ptr %owner, ptr %second
  br label %failed
failed:
  %code = phi i32 [ %status, %entry ], [ 1, %raised ], [ 0, %fine ]
  ret i32 %code
}
"""


@pytest.mark.parametrize("callee", ["@new", "@activerules.rule.known"])
def test_a_result_that_is_handed_on_is_held_until_then(callee):
    assert drops(RETURNED.replace("CALLEE", callee)) == [("raised", "owner")]


def test_of_unknown_results_nothing_is_said():
    text = RETURNED.replace(' "activerules.counted"="8"', "")
    assert drops(text.replace("CALLEE", "@activerules.rule.known")) == []


CONTAINERS = """
declare ptr @NRT_MemInfo_new_varsize_dtor(i64, ptr)
declare ptr @NRT_MemInfo_data_fast(ptr)
declare void @NRT_decref(ptr)
declare ptr @malloc(i64)
declare void @dtor(ptr)
define i32 @f(ptr %retptr, ptr %excinfo, i64 %n, ptr %from, i1 %raises) {
entry:
  %list = call ptr @NRT_MemInfo_new_varsize_dtor(i64 64, ptr @dtor)
  %early = call ptr @malloc(i64 8)
  %items = call ptr @NRT_MemInfo_data_fast(ptr %list)
  store i64 0, ptr %items
  br label %move
move:
  %k = phi i64 [ 0, %entry ], [ %next, %move ]
  %next = add i64 %k, 1
  %at = getelementptr ptr, ptr %items, i64 %k
  %item = load ptr, ptr %from
  store ptr %item, ptr %at
  %all = icmp eq i64 %next, %n
  br i1 %all, label %between, label %move
between:
  br label %program
program:
  %j = phi i64 [ 0, %between ], [ %after, %on ]
  %after = add i64 %j, 1
  store ptr null, ptr %items
  br i1 %raises, label %failed, label %on
on:
  %late = call ptr @malloc(i64 8)
  store ptr null, ptr %items
  %last = icmp eq i64 %after, %n
  br i1 %last, label %fine, label %program
failed:
  call void @NRT_decref(ptr %list)
  br label %end
fine:
  call void @NRT_decref(ptr %list)
  br label %end
end:
  %status = phi i32 [ 1, %failed ], [ 0, %fine ]
  ret i32 %status
}
"""


def test_a_container_is_destroyed_only_where_it_is_whole():
    module = read_module(CONTAINERS, "f")
    function = module.functions["f"]
    flow = control_flow(function)
    held = Holdings(function, module, flow, analyse_returns(function, flow, status=True))
    named = {i.name: i for i in function.instructions()}

    def dropped_before(at):
        found = {one.value: one.by for one in held.before(at, begun=False)}
        return {name: found[i] for name, i in named.items() if i in found}

    assert dropped_before(named["early"]) == {"list": "activerules.drop_new"}
    assert dropped_before(named["items"]) == {"early": "free"}  # nothing is in the list yet
    assert dropped_before(named["list"].owner.terminator) == {}
    assert dropped_before(named["next"]) == {}  # an item may be there twice
    assert dropped_before(named["after"]) == {"list": "NRT_decref"}
    behind = named["late"].owner.instructions[1]
    assert dropped_before(behind) == {"list": "NRT_decref", "late": "free"}
