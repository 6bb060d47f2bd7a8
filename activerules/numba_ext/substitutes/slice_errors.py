"""The exception of a slice assignment with mismatched shapes.

Needs       `raise_with_shape_context`, which Numba lets each target implement
Gives       the AD target's implementation
Invariants  S1  class and text of the exception are those of Numba's own implementation

Numba builds the text in compiled code, with string formatting and concatenation that is inlined at
every assignment; that was most of the code of a stencil of slices. Here the text is built in
Python, together with the exception.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import overload
from numba.np.arrayobj import raise_with_shape_context

from activerules.numba_ext.codegen.numba_versions import in_slice_error
from activerules.numba_ext.codegen.unoptimised import AD_TARGET


class SliceMismatch(ValueError):
    """The exception in compiled code; Python sees a plain `ValueError`."""

    def __new__(cls, *shapes: object) -> Any:
        """The exception for two shapes: of the source, and of the target."""
        source, target = in_slice_error(shapes)
        return ValueError(f"cannot assign slice of shape {target} from input of shape {source}")


@overload(raise_with_shape_context, target=AD_TARGET)
def _raise_with_shape_context(src_shapes, index_shape):
    if not all(
        isinstance(shape, types.UniTuple) and isinstance(shape.dtype, types.Integer)
        for shape in (src_shapes, index_shape)
    ):
        return None

    def raising(src_shapes, index_shape):
        raise SliceMismatch(src_shapes, index_shape)

    return raising
