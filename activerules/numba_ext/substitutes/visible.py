"""Runtime functions made visible: code that the engine can analyse, for Numba's C code.

Gives       `DEFINITIONS`: of C functions, as text, with the declarations NEEDED by them
            `substitute`: the function that replaces one of Numba's intrinsics
"""

from __future__ import annotations

from typing import Any

from activerules.numba_ext.substitutes import typed_dicts, typed_lists

DEFINITIONS = typed_lists.DEFINITIONS
_SUBSTITUTES = {**typed_lists.SUBSTITUTES, **typed_dicts.SUBSTITUTES}
NEEDED = {"malloc": "declare noalias ptr @malloc(i64)"}


def substitute(function: Any) -> Any:
    """The function compiled for the AD target instead of one of Numba's; itself for most."""
    try:
        return _SUBSTITUTES.get(function, function)
    except TypeError:  # not hashable
        return function
