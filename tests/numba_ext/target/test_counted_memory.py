"""What generated code takes for granted of memory that Numba's runtime counts."""

import ctypes

from numba.core.registry import cpu_target
from numba.core.runtime import rtsys


def test_c1_the_layout_of_a_meminfo_is_that_of_numba():
    """References, destructor, its argument, data, size, allocator: eight bytes each."""
    rtsys.initialize(cpu_target.target_context)
    memory = rtsys.meminfo_alloc(40)
    fields = (ctypes.c_int64 * 6).from_address(memory.data - 48)
    references, destructor, _, data, size, allocator = fields
    assert (references, data, size) == (memory.refcount, memory.data, 40)
    assert destructor == allocator == 0
