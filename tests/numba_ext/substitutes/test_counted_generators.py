"""The struct of a generator that counts the variables that refer to it."""

from numba import float64, int64, types
from numba.core.datamodel.registry import default_manager
from numba.core.registry import cpu_target

from activerules.numba_ext.substitutes.counted_generators import COUNT, data_models

ROW = float64[::1]
ROWS = types.Generator(None, ROW, (ROW, int64), (ROW, float64), has_finalizer=True)


def test_h2_the_struct_begins_as_numbas_does():
    counted = data_models(cpu_target.target_context)[ROWS].get_value_type().pointee
    plain = default_manager[ROWS].get_value_type().pointee
    assert counted.elements[:COUNT] == plain.elements
    assert str(counted.elements[COUNT]) == "i64"
