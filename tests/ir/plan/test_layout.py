"""Where the tape keeps what, for random programs."""

import itertools
import random

import pytest

from activerules.annotations.activity import Active
from activerules.ir.analysis.nodes import CalleeFrame, Link
from activerules.ir.llvm.types import PTR
from activerules.ir.plan.layout import TapeSlot, make_array_layout, make_layout, without_rows
from tests.ir.nests import Nest, ReadingNest
from tests.ir.plan.planned import plan_of, random_plans
from tests.ir.test_nests import planned

LAYOUTS = [(plan, make_layout(plan)) for plan, _ in random_plans()]


def apart(slots):
    """Whether no two slots share a byte."""
    ends = sorted((slot.offset, slot.offset + slot.size) for slot in slots)
    return all(end <= start for (_, end), (start, _) in itertools.pairwise(ends))


def test_t1_a_node_of_a_loop_is_in_a_row_of_that_loop():
    assert any(layout.rows for _, layout in LAYOUTS)
    for plan, layout in LAYOUTS:
        for node in plan.cache.kept:
            home = plan.home(node)
            there = layout.frame if home is None else layout.rows[home].fields
            assert node in there
        for loop, row in layout.rows.items():
            assert row.loop is loop
            assert all(plan.home(node) is loop for node in row.fields)


def test_t2_the_rows_of_a_loop_are_found_from_the_row_around():
    for _, layout in LAYOUTS:
        for loop in layout.rows:
            around = layout.rows[loop.parent].fields if loop.parent else layout.frame
            assert Link(loop) in around


def test_t3_in_rows_of_known_length_fields_are_side_by_side():
    rows = [row for _, layout in LAYOUTS for row in layout.rows.values() if row.known_length]
    assert rows
    for row in rows:
        assert apart(row.fields.values())
        assert max(slot.offset + slot.size for slot in row.fields.values()) <= row.size


def test_t4_a_row_of_unknown_length_begins_with_a_pointer():
    rows = [row for _, layout in LAYOUTS for row in layout.rows.values() if not row.known_length]
    assert rows
    for row in rows:
        assert apart(row.fields.values())
        assert min((slot.offset for slot in row.fields.values()), default=8) >= 8
        assert row.size >= 8


def test_t5_a_table_is_found_by_an_address_in_the_slot_of_its_value():
    plans = [planned(ReadingNest(random.Random(seed)).text, False)[1] for seed in range(20)]
    found = 0
    for plan in plans:
        layout = make_layout(plan)
        for node, keeping in plan.keeping.items():
            if keeping.table is not None:
                assert layout.field(node, keeping.table.loop.parent).type is PTR
                found += 1
    assert found


def test_t6_in_arrays_each_node_of_a_loop_has_one_of_its_own():
    nests = [planned(Nest(random.Random(seed)).text, False)[1] for seed in range(20)]
    found = 0
    for plan in [*nests, *(plan for plan, _ in LAYOUTS)]:
        layout = make_array_layout(without_rows(plan))
        if layout is None or layout.arrays is None:
            continue
        arrays, found = layout.arrays, found + len(layout.arrays.entries)
        assert not layout.rows
        kept_in_loops = {node for node in plan.cache.kept if plan.home(node) is not None}
        assert arrays.entries.keys() == kept_in_loops
        addresses = [offset for offset, _ in (*arrays.entries.values(), *arrays.owned.values())]
        addresses += [extent.offset for extent in arrays.extents.values()]
        assert apart([*layout.frame.values(), *(TapeSlot(offset, 8, PTR) for offset in addresses)])
        assert all(offset + 8 <= layout.frame_size for offset in addresses)
        for node, (_, slot) in arrays.entries.items():
            assert slot.type.is_float or slot.type.is_int
            around = set(plan.home(node).ancestors())
            assert around <= arrays.loops
            assert {loop for loop in around if loop.parent is not None} <= arrays.extents.keys()
    assert found > 20


CALLS = """
define internal double @first(double %x) #0 {{
  %y = fmul double %x, %x
  %z = fmul double %y, %x
  ret double %z
}}

define internal double @second(double %x) #0 {{
  %y = fmul double %x, %x
  ret double %y
}}

define double @f(double %x) {{
  %a = call double @{0}(double %x)
  %b = call double @{1}(double %a)
  %c = call double @{0}(double %b)
  ret double %c
}}

attributes #0 = {{ noinline }}
"""


def shown(layout):
    rows = [(loop.header.name, row.fields) for loop, row in layout.rows.items()]
    return [
        (name, [(repr(node), slot.offset) for node, slot in fields.items()])
        for name, fields in (("frame", layout.frame), *rows)
    ]


def test_t7_the_same_function_has_the_same_layout():
    again = [make_layout(plan) for plan, _ in random_plans.__wrapped__()]
    assert list(map(shown, again)) == [shown(layout) for _, layout in LAYOUTS]


@pytest.mark.parametrize("names", [("first", "second"), ("second", "first")])
def test_t7_names_of_functions_that_are_called_change_no_layout(names):
    plan = plan_of(CALLS.format(*names), [Active])
    frames = [node for node in make_layout(plan).frame if isinstance(node, CalleeFrame)]
    calls = plan.request.function.blocks[0].instructions
    assert [node.call for node in frames] == calls[:3]
