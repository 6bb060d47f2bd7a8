"""`make_zero` of objects that Python knows by reference only: jitclass instances, StructRefs, typed
lists and dictionaries of numbers.
"""

from __future__ import annotations

from typing import Any

from numba import njit
from numba.extending import intrinsic, overload

from activerules.annotations.values import make_zero, use_compiled
from activerules.numba_ext.fields import is_collection, is_instance
from activerules.numba_ext.kinds import has_shadow
from activerules.values.shadows import zero_shadow


@overload(make_zero)
def _make_zero(x):
    made = is_instance(x) or is_collection(x)
    return (lambda x: _zero_instance(x)) if made else None  # pyright: ignore[reportCallIssue]


@intrinsic
def _zero_instance(typing_context, x):
    """A new object of the same class: zeros in place of floats, the rest as it is."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if not has_shadow(x):
            context.nrt.incref(builder, x, args[0])
        return zero_shadow(context, builder, x, args[0])

    return x(x), codegen


@njit
def _zero_of(x):
    return make_zero(x)


use_compiled(_zero_of)
