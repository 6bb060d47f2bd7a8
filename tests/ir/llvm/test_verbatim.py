"""What is asked of the text that the model keeps."""

import pytest

from activerules.ir.llvm import verbatim
from activerules.ir.llvm.parser import parse_module

TEXT = """
@table = internal unnamed_addr constant [3 x double] zeroinitializer, align 16
@functions = private constant [2 x ptr] [ptr @f, ptr @"g h"]
@state = external global i64

declare void @f() #0
declare void @"g h"() #1

define void @h(ptr %p) #2 {
entry:
  call void %p(), !callees !0
  ret void
}

attributes #0 = { nounwind memory(none) }
attributes #1 = { nounwind "target-cpu"="znver4" }
attributes #2 = { }

!0 = !{ptr @f, ptr @"g h"}
"""
MODULE = parse_module(TEXT)


@pytest.mark.parametrize(
    ("name", "constant", "numbers", "mentions"),
    [
        ("table", True, "[3 x double]", ["table"]),
        ("functions", True, None, ["functions", "f", '"g h"']),
        ("state", False, None, ["state"]),
    ],
)
def test_v1_names_in_lines_of_globals_are_those_of_the_model(name, constant, numbers, mentions):
    line = MODULE.globals[name]
    assert verbatim.is_constant(line) == constant
    assert verbatim.type_of_numbers(line) == numbers
    assert verbatim.names_in(line) == mentions


def test_constants_with_other_names():
    text = "getelementptr (i8, ptr @a, i64 ptrtoint (ptr @a.b to i64))"
    renamed = verbatim.with_names(text, {"a": "c"})
    assert renamed == "getelementptr (i8, ptr @c, i64 ptrtoint (ptr @a.b to i64))"


def test_groups_of_attributes_are_spelt_out():
    groups = verbatim.attribute_groups(MODULE)
    assert groups == {
        "#0": "nounwind memory(none)",
        "#1": 'nounwind "target-cpu"="znver4"',
        "#2": "",
    }
    assert verbatim.spelt_out("local_unnamed_addr #0 #2", groups).split() == [
        "local_unnamed_addr",
        "nounwind",
        "memory(none)",
    ]
    assert verbatim.promises_no_memory(verbatim.spelt_out("#0", groups))
    assert not verbatim.promises_no_memory(verbatim.spelt_out("#1", groups))
    assert verbatim.of_machine(groups["#1"]) == ['"target-cpu"="znver4"']


def test_metadata():
    call = next(iter(MODULE.functions["h"].instructions()))
    metadata = str(call.attributes["metadata"])
    assert verbatim.listed_callees(metadata, MODULE.trailer) == {"f", '"g h"'}
    assert verbatim.listed_callees("!dbg !7", MODULE.trailer) == set()
    assert verbatim.without_location("#0 !dbg !12") == "#0"
