"""Tables of extents, compared by the function that the checks of a call use."""

import numpy as np
import pytest
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from activerules.numba_ext.codegen import chunks, link
from activerules.numba_ext.codegen.protocols import Emit
from activerules.values import extents
from activerules.values.extent_tables import COMPARE, DEFINITION, MAY_MEET, ExtentTable
from tests.ir.harness import compile_text


@intrinsic
def _any_meet(typing_context, lows, highs):
    """Whether two of the extents from `lows` to `highs`, in one table, have a byte in common."""

    def codegen(context, builder, signature, args):
        link.link_support(context, "tests.extents", lambda _: DEFINITION + chunks.DEFINITION)
        table = ExtentTable(builder)
        low, high = (context.make_array(lows)(context, builder, value) for value in args)
        with cgutils.for_range(builder, low.nitems) as loop:
            ends = [builder.load(builder.gep(one.data, [loop.index])) for one in (low, high)]
            table.push(ends[0], *ends)
        tests = extents.Tests(Emit(context, builder), (), lambda: None)
        number = tests.add(table)
        tests.tell(number, number)
        return tests.emit()

    return types.boolean(lows, highs), codegen


@njit
def any_meet(lows, highs):
    return _any_meet(lows, highs)


@pytest.mark.parametrize("count", [2, 100])
def test_s2_a_row_is_compared_with_the_others_and_not_with_itself(count):
    lows = np.random.default_rng(0).permutation(count) * 8
    highs = lows + 8
    assert not any_meet(lows, highs)
    highs[np.argmin(lows)] += 1
    assert any_meet(lows, highs)


MEET = "define internal i1 @activerules.memory.meet(ptr %a, ptr %b) nounwind {\n"
COUNTED = (
    (DEFINITION + chunks.DEFINITION).replace(
        MEET,
        MEET
        + """\
  %compared.before = load i64, ptr @compared
  %compared.after = add i64 %compared.before, 1
  store i64 %compared.after, ptr @compared
""",
    )
    + """
@compared = internal global i64 0
define i64 @comparisons() {
  %compared = load i64, ptr @compared
  store i64 0, ptr @compared
  ret i64 %compared
}
"""
)


def test_s3_many_rows_that_do_not_overlap_are_not_compared_in_pairs():
    compiled = compile_text(COUNTED, None)
    compare, comparisons = compiled.function(COMPARE), compiled.function("comparisons")

    def comparing(lows, highs):
        rows = np.ascontiguousarray(np.stack([lows, lows, highs], axis=1))
        tables = np.array([[rows.ctypes.data, len(rows)]])
        tests = np.array([[MAY_MEET, 0, 0, 0]], dtype=np.int32)
        met = compare(tables.ctypes.data, 1, tests.ctypes.data, 1)
        return met, comparisons()

    few, many = np.arange(8, dtype=np.int64) * 8, np.random.default_rng(0).permutation(2000) * 8
    assert comparing(few, few + 8) == (0, 8 * 7)
    met, compared = comparing(many, many + 8)
    assert met == 0
    assert compared <= len(many)
    met, _ = comparing(many, many + 9)
    assert met != 0
