"""References held where a function raises are dropped, and no others."""

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
