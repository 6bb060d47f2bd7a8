"""The regions of memory that an argument refers to."""

from typing import Any

import numpy as np
import pytest
from numba import float64, int64, njit, types
from numba.experimental import jitclass
from numba.extending import intrinsic
from numba.typed import List

from activerules.numba_ext.codegen.protocols import Emit
from activerules.values.argument import ArgumentSpec
from activerules.values.regions import regions_of


@jitclass([("x", float64[:]), ("k", int64[:])])
class Fields:
    def __init__(self, x, k):
        self.x = x
        self.k = k


def regions(value: Any, *, shadowed: bool) -> dict[str, int]:
    """The names of the regions of an argument, each with the number of its values."""
    named: dict[str, int] = {}

    @intrinsic
    def collect(typing_context: Any, x: Any) -> Any:
        def codegen(context: Any, builder: Any, typed: Any, args: Any) -> Any:
            argument = ArgumentSpec("x", x, "duplicated" if shadowed else "const")
            values = (args[0],) * (1 + shadowed)
            for part, region in regions_of(Emit(context, builder), argument, values):
                named[part.name] = len(region)
            return context.get_dummy_value()

        return types.none(x), codegen

    njit(lambda x: collect(x))(value)
    return named


OBJECT = Fields(np.ones(2), np.arange(2))


def test_g1_a_region_without_numbers_has_no_shadow() -> None:
    pair = (np.ones(2), (np.arange(2), 1.0))
    assert regions(pair, shadowed=True) == {"x[0]": 2, "x[1][0]": 1}
    assert regions(pair, shadowed=False) == {"x[0]": 1, "x[1][0]": 1}
    assert regions(OBJECT, shadowed=True) == {"x": 2, "x.x": 2, "x.k": 1}


@pytest.mark.parametrize("item", [1.0, np.ones(2)])
def test_g2_a_list_is_one_region(item: Any) -> None:
    assert regions(List([item]), shadowed=True) == {"x": 2}
    assert regions(List([item]), shadowed=False) == {"x": 1}
    assert regions(List([1]), shadowed=True) == {}


def test_g3_the_fields_of_a_constant_object_are_no_regions() -> None:
    assert regions(OBJECT, shadowed=False) == {"x": 1}
