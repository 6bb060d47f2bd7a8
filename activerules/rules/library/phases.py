"""Phases of complex eigenvectors and singular vectors.

A complex eigenvector may be multiplied by any phase, and so may a pair of singular vectors. LAPACK
reduces the matrix to a real tridiagonal or bidiagonal one by reflections that leave one first row
alone: that of the eigenvectors, that of V for a square or tall matrix, that of U for a wide one. So
the first entries of these vectors are real, and the derivative is that of vectors which keep them
real. Where such an entry is zero (or not real, in another implementation), the phase is that of
rounding, and a function of it has no derivative. Reverse mode refuses such a function; forward mode
does not know whether a phase matters, and refuses any use of the vector.

Real vectors have no phases: of these, the functions here return their last argument.
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from activerules.rules.library.matrices import conj, of_complex
from activerules.rules.library.repeated import precision, refuse_phase


@register_jitable
def _fixes_phase(vector):
    """Whether the first entry of a complex vector of length 1 is real and not zero."""
    limit = 25 * precision(vector)
    return abs(vector[0]) > limit and abs(vector[0].imag) <= limit


@register_jitable
def _turns(V, V_dot):
    """Return the phases that tangents of the columns of V would turn their first entries by; NaN
    where these do not fix the phases.
    """
    turns = np.empty(V.shape[1])
    for k in range(V.shape[1]):
        turns[k] = V_dot[0, k].imag / V[0, k].real if _fixes_phase(V[:, k]) else np.nan
    return turns


@register_jitable
def _turned_back(V, V_dot, turns):
    """Return `V_dot - i V turns`."""
    result = V_dot.copy()
    for i in range(V.shape[0]):
        for k in range(V.shape[1]):
            result[i, k] -= V[i, k] * (1j * turns[k])
    return result


@of_complex
def phases_kept(V, V_dot):
    """Return tangents of eigenvectors without what makes first entries complex; NaN where these do
    not fix the phases, which `repeated.vectors_of` refuses.
    """
    return _turned_back(V, V_dot, _turns(V, V_dot))


@of_complex
def joint_phases_kept(U, V, tangents):
    """Return tangents of singular vectors, both factors, likewise: they turn together."""
    U_dot, V_dot = tangents
    turns = _turns(V, V_dot) if U.shape[0] >= V.shape[0] else _turns(U, U_dot)
    return _turned_back(U, U_dot, turns), _turned_back(V, V_dot, turns)


@of_complex
def phases_marked(V, values_dot):
    """Return tangents of the values, with the imaginary part NaN where the first entry of a vector
    does not fix its phase.
    """
    result = values_dot.copy()
    for k in range(V.shape[1]):
        unknown = 0.0 if _fixes_phase(V[:, k]) else np.nan
        result[k] = complex(values_dot[k].real, unknown)
    return result


# --- the same for cotangents ---


@register_jitable
def _turning(V, V_bar):
    """Return Im(V̄ᴴ V) of each column, and a bound of its terms."""
    turning, sizes = np.zeros(V.shape[1]), np.zeros(V.shape[1])
    for i in range(V.shape[0]):
        for k in range(V.shape[1]):
            turning[k] += (conj(V_bar[i, k]) * V[i, k]).imag
            sizes[k] += abs(V_bar[i, k])
    return turning, sizes


@register_jitable
def _at_first_entries(V, V_bar, turning, sizes):
    """Return V̄ with what turns a vector moved to its first entry: <v̄, -i v Im(u₀)/v₀> is
    <i z/v₀, u₀>, where z = Im(v̄ᴴ v). Refuses a phase that matters and is not fixed.
    """
    result = V_bar.copy()
    limit = 25 * precision(V[0])
    for k in range(V.shape[1]):
        if _fixes_phase(V[:, k]):
            result[0, k] += 1j * (turning[k] / V[0, k].real)
        elif not abs(turning[k]) <= limit * sizes[k]:
            refuse_phase()
    return result


@of_complex
def phases_kept_transposed(V, V_bar):
    """Return the cotangents of `V_dot` in `phases_kept`."""
    turning, sizes = _turning(V, V_bar)
    return _at_first_entries(V, V_bar, turning, sizes)


@of_complex
def joint_phases_kept_transposed(U, V, cotangents):
    """Return the cotangents of `tangents` in `joint_phases_kept`."""
    U_bar, V_bar = cotangents
    turning, sizes = _turning(U, U_bar)
    of_v, sizes_of_v = _turning(V, V_bar)
    turning += of_v
    sizes += sizes_of_v
    if U.shape[0] >= V.shape[0]:
        return U_bar.copy(), _at_first_entries(V, V_bar, turning, sizes)
    return _at_first_entries(U, U_bar, turning, sizes), V_bar.copy()
