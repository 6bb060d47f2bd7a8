"""What a caller declares of memory, against every byte of it."""

import random

import pytest

from activerules.errors import NotYetSupported
from activerules.ir.analysis.memory.addresses import Address
from activerules.ir.analysis.memory.declared import Declared, layout_in, mark_of
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.llvm.model import Constant
from activerules.ir.llvm.types import DOUBLE, FLOAT, I8, I32, I64, PTR, size_of
from activerules.ir.plan.request import Pointee
from tests.ir.plan.planned import analyses_of

PERIODS = 6
START = Constant(PTR, "null")


@pytest.mark.parametrize("seed", range(4))
def test_d1_bytes_without_a_declared_float_are_not_met(seed):
    """An access meets a float if one of its bytes may be a byte of a float; else it meets none."""
    rng = random.Random(seed)
    met = 0
    for _ in range(150):
        period = rng.choice([8, 16, 24, 40])
        offsets = [offset for offset in range(0, period, 8) if rng.random() < 0.4]
        floats = [(offset, rng.choice([DOUBLE, FLOAT])) for offset in offsets]
        declared = Declared(tuple(floats), period)
        bytes_of_floats = {
            start + offset + k
            for start in range(-PERIODS * period, PERIODS * period, period)
            for offset, t in floats
            for k in range(size_of(t, {}))
        }
        t, offset = rng.choice([I8, I32, I64]), rng.randrange(period)
        stride = rng.choice([0, 1, 8, 12, period])
        starts = [offset + k * stride for k in range(-PERIODS, PERIODS)]
        starts = [s for s in starts if abs(s) < (PERIODS - 1) * period]
        touches = any(s + k in bytes_of_floats for s in starts for k in range(size_of(t, {})))
        found = declared.meets_float(t, Address(START, offset, stride), {})
        assert found or not touches
        if stride in {0, period}:
            assert found == touches
        met += found
    assert met > 10


@pytest.mark.parametrize(("period", "start"), [(40, 8), (40, 48), (0, 8)])
def test_d3_a_subscript_stays_in_an_array_of_integers(period, start):
    declared = Declared(((0, DOUBLE), (24, DOUBLE)), period, tables=frozenset({(8, I64)}))

    def meets(t, offset, stride):
        return declared.meets_float(t, Address(START, offset, stride), {})

    assert not meets(I64, start, 8)
    assert meets(I32, start, 8)
    assert meets(I64, start - 8, 8)
    assert not meets(I64, start, 0)
    assert layout_in(mark_of(declared)) == declared


THROUGH_POINTER = """
define double @f(ptr %p, i64 %k) {
  %start = load ptr, ptr %p
  %at = getelementptr i8, ptr %p, i64 OFFSET
  store ptr null, ptr %at
  %v = load double, ptr %start
  ret double %v
}
"""


def through_pointer(offset, activity="const"):
    """The analyses of a function that stores a pointer there, and the data it reads through the
    declared pointer at the start of `p`.
    """
    holder = MemoryObject("argument", "p")
    data = Pointee(holder, ((0, "start"),), activity, "data", declared=Declared.array_of(DOUBLE))
    text = THROUGH_POINTER.replace("OFFSET", str(offset))
    known = analyses_of(text, {"p": Declared()}, (data,))
    known.drop_changed_pointees()
    start = next(i for i in known.request.function.instructions() if i.opcode == "load")
    return known, set(known.memory.objects(start)), data.memory


def test_d2_pointers_are_declared_where_none_of_them_is_changed():
    known, found, data = through_pointer(8)
    assert found == {data}
    assert known.request.pointees


@pytest.mark.parametrize("offset", [0, 4, "%k"])
def test_d2_no_targets_are_declared_where_a_pointer_may_be_changed(offset):
    known, found, data = through_pointer(offset)
    assert found.isdisjoint({data})
    assert not known.request.pointees
    with pytest.raises(NotYetSupported, match="is replaced or removed"):
        through_pointer(offset, "duplicated")
