"""The LLVM IR of the functions that any derivative may call: `TEXT`.

Imported when the first derivative is linked, as some of its parts import Numba's implementations of
NumPy, which takes time.
"""

from activerules.ir.tape.runtime import STACK_TEXT
from activerules.numba_ext.calls import memory
from activerules.numba_ext.calls.overloads import IGNORE_DEFINITIONS
from activerules.numba_ext.codegen import chunks
from activerules.numba_ext.substitutes import complex_math, integer_powers, single_points
from activerules.values import extent_tables

TEXT = "\n".join(
    [
        IGNORE_DEFINITIONS,
        complex_math.POWER_DEFINITIONS,
        integer_powers.DEFINITIONS,
        single_points.DEFINITIONS,
        memory.RELEASE_DEFINITION,
        extent_tables.DEFINITION,
        chunks.DEFINITION,
        STACK_TEXT,
    ]
)
