"""Functions whose results are positions, counts, truth values and numbers of threads: the
derivative is zero wherever it exists.

Floor, ceil, sign and comparisons are not here: they are single instructions, which the engine
knows.
"""

from __future__ import annotations

import numba
import numpy as np

from activerules.rules.define import inactive

inactive(
    np.argmax,
    np.argmin,
    np.argsort,
    np.argwhere,
    np.searchsorted,
    np.digitize,
    np.nonzero,
    np.flatnonzero,
    np.count_nonzero,
    np.any,
    np.all,
    np.allclose,
    np.array_equal,
    numba.get_num_threads,
    numba.set_num_threads,
    numba.get_thread_id,  # pyright: ignore[reportPrivateImportUsage]
)
