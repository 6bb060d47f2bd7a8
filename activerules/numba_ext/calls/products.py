"""Products of matrices that compiled rules add to an array in place, computed by BLAS.

Gives       `add_product`, and the compiled forms of `accumulate_product` and its variants
Invariants  B1  an operand of BLAS has unit stride along an axis, and along the other one a multiple
                of it that BLAS takes; any other operand is multiplied as before, by `np.dot`
            B2  a rule that is itself differentiated gets `np.dot`, which has a derivative

Source    Dongarra et al. (1990), "A set of level 3 basic linear algebra subprograms", for `gemm`;
          docs/decisions/0076 for what a product costs that is made first and added afterwards
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload, register_jitable
from numba.np import linalg
from numba.np.numpy_support import as_dtype

from activerules.annotations.activity import Const
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.unoptimised import AD_TARGET
from activerules.rules.protocol import (
    accumulate,
    accumulate_adjoint_product,
    accumulate_product,
    accumulate_product_adjoint,
)
from activerules.rules.written import function_from

PLAIN, ADJOINT = ord("n"), ord("c")
_TRANSPOSED, _NONE = ord("t"), 0

# Number of multiplications from which BLAS beats loops.
_SMALL_PRODUCT = 256


@chosen_by_types
def add_product(C, factor, A, of_A, B, of_B):
    """Add `factor` times a product to C in place; return whether BLAS could.

    `of_A` and `of_B` are PLAIN or ADJOINT: A or Aᴴ. All three are matrices of one type, and C
    shares no entry with the others.
    """
    if not (A.dtype == B.dtype == C.dtype and isinstance(C.dtype, types.Float | types.Complex)):
        return lambda C, factor, A, of_A, B, of_B: False
    linalg.ensure_blas()
    kind = ord(linalg.get_blas_kind(C.dtype, "product"))
    gemm = linalg._BLAS().numba_xxgemm(C.dtype)
    is_complex = isinstance(C.dtype, types.Complex)

    def compiled(C, factor, A, of_A, B, of_B):
        k = A.shape[1] if of_A == PLAIN else A.shape[0]
        if C.size == 0 or k == 0:
            return True
        by_rows, ldc = _order(C)
        of_A, lda = _operand(A, of_A, by_rows, is_complex)
        of_B, ldb = _operand(B, of_B, by_rows, is_complex)
        if ldc == 0 or of_A == _NONE or of_B == _NONE:
            return False
        m, n = C.shape
        a, b = A.ctypes, B.ctypes
        if by_rows:  # to BLAS, which goes along columns, C is Cᵀ = Bᵀ Aᵀ
            m, n, of_A, a, lda, of_B, b, ldb = n, m, of_B, b, ldb, of_A, a, lda
        factors = np.empty(2, C.dtype)
        factors[0], factors[1] = factor, 1
        alpha, beta = factors.ctypes, factors[1:].ctypes
        gemm(kind, of_A, of_B, m, n, k, alpha, a, lda, b, ldb, beta, C.ctypes, ldc)
        linalg._dummy_liveness_func([A.size, B.size, C.size])
        return True

    return compiled


@register_jitable
def _order(A):
    """Whether a matrix is stored row by row, and its leading dimension: the distance in entries
    between two rows, or columns. That is zero for a matrix that is stored in neither way, and where
    the distance is not a whole number, as in an array of records.
    """
    size = A.itemsize
    by_rows = A.strides[1] == size and A.strides[0] >= A.shape[1] * size
    if by_rows or (A.strides[0] == size and A.strides[1] >= A.shape[0] * size):
        stride = A.strides[0] if by_rows else A.strides[1]
        return by_rows, stride // size if stride % size == 0 else 0
    return True, 0


@register_jitable
def _operand(A, of_A, by_rows, is_complex):
    """The transposition flag of a factor for BLAS, and its leading dimension."""
    is_by_rows, width = _order(A)
    same = is_by_rows == by_rows
    if width == 0 or (is_complex and of_A == ADJOINT and not same):
        return _NONE, width
    if of_A == ADJOINT:
        return (ADJOINT if same else PLAIN), width
    return (PLAIN if same else _TRANSPOSED), width


# --- in rules ---


@overload(accumulate_product)
def _accumulate_product(x, a, b):
    return _added_product(x, a, b, {})


@overload(accumulate_adjoint_product)
def _accumulate_adjoint_product(x, a, b):
    return _added_product(x, a, b, {"a": a})


@overload(accumulate_product_adjoint)
def _accumulate_product_adjoint(x, a, b):
    return _added_product(x, a, b, {"b": b})


@chosen_by_types
def _added_in_place(C, A, of_A, B, of_B):
    return lambda C, A, of_A, B, of_B: add_product(C, 1, A, of_A, B, of_B)


@overload(_added_in_place, target=AD_TARGET)
def _added_in_place_nowhere(C, A, of_A, B, of_B):
    return lambda C, A, of_A, B, of_B: False


def _added_product(x: Any, a: Any, b: Any, adjoints: dict[str, Any]) -> Any:
    """A function that adds the product of `a` and `b`, or their adjoints, to the shadow of `x`."""
    if x.kind is Const:
        return lambda x, a, b: None
    is_real = isinstance(a.dtype, types.Complex) and not isinstance(x.dval.dtype, types.Complex)
    is_matrix = b.ndim == 2
    axes = {"a": (0, 1), "b": (0, 1), **{name: (1, 0) for name in adjoints}}
    whole = {"a": "a", "b": "b"}
    item = {"a": "a[i, k]", "b": "b[k, j]" if is_matrix else "b[k]"}
    for name, factor in adjoints.items():
        conjugate = "np.conj({})" if isinstance(factor.dtype, types.Complex) else "{}"
        whole[name] = conjugate.format(name) + ".T"
        item[name] = conjugate.format({"a": "a[k, i]", "b": "b[j, k]"}[name])
    columns = f"b.shape[{axes['b'][1]}]"
    of_a, of_b = (ADJOINT if name in adjoints else PLAIN for name in "ab")
    fits = f" and {columns} == shadow.shape[1]" * is_matrix
    # written out, without functions and tuples, because rules of products are used the most
    source = f"""def impl(x, a, b):
    shadow = x.dval
    rows, inner = a.shape[{axes["a"][0]}], a.shape[{axes["a"][1]}]
    fits = inner == b.shape[{axes["b"][0]}] and rows == shadow.shape[0]{fits}
    if fits and inner * shadow.size <= limit:
        for i in range(rows):
            {f"for j in range({columns}):" if is_matrix else "if True:"}
                total = zero
                for k in range(inner):
                    total += {item["a"]} * {item["b"]}
                shadow[{"i, j" if is_matrix else "i"}] += total{".real" * is_real}
    elif not ({f"fits and added_in_place(shadow, a, {of_a}, b, {of_b})" if is_matrix else False}):
        accumulate(x, np.dot({whole["a"]}, {whole["b"]}))
"""
    zero = as_dtype(a.dtype).type(0)
    scope = {"added_in_place": _added_in_place, "zero": zero}
    scope |= {"accumulate": accumulate, "limit": _SMALL_PRODUCT, "np": np}
    return function_from(source, "impl", scope, module=__name__)
