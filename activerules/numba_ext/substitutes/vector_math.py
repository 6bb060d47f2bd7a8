"""The vector functions of this machine's C library, for `Mode.fast`.

glibc has them in a separate library, libmvec. If it is missing, or the processor has no AVX2, there
are none, and the option has no effect.
"""

from __future__ import annotations

import ctypes
from functools import cache

from llvmlite import binding

from activerules.numba_ext.codegen.numba_versions import RELOADS

_NAMES = (
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "atan2"),
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "hypot", "cbrt", "erf"),
)
_OF_TWO = {"atan2", "pow", "hypot"}


@cache
def load() -> ctypes.CDLL | None:
    """Load the library, so that compiled code finds its symbols; None if there is none.

    A process that runs code cached by Numba has to load it, too.
    """
    try:
        return ctypes.CDLL("libmvec.so.1", mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return None


@cache
def vector_forms() -> dict[str, str]:
    """The symbols for vectors of four doubles, by the name of the scalar function; none where code
    that Numba caches could not ask for the library.
    """
    library = load() if RELOADS else None
    if library is None or not binding.get_host_cpu_features().get("avx2"):
        return {}
    symbols = {name: f"_ZGVdN4{'vv' if name in _OF_TWO else 'v'}_{name}" for name in _NAMES}
    return {name: symbol for name, symbol in symbols.items() if hasattr(library, symbol)}
