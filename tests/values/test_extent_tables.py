"""Tables of extents, compared by the function that the checks of a call use."""

import numpy as np
import pytest
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from activerules.numba_ext.codegen import chunks, link
from activerules.values import extents
from activerules.values.extent_tables import DEFINITION, ExtentTable


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
        tests = extents.Tests(context, builder, (), lambda: None)
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
