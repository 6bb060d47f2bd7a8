"""Rules for the Fourier transforms of `numpy.fft`, which `rocket_fft` brings to Numba.

`from activerules.interop import rocket_fft` defines them: for `fft`, `ifft`, `rfft`, `irfft`, and
for `fft2`, `ifft2`, `fftn`, `ifftn` with neither `s` nor `axes`, all without `out`; the other
transforms are refused. Transforms are linear: a tangent is transformed as the value is, a cotangent
by the adjoint, which is the inverse transform with the other normalisation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload, register_jitable

from activerules import extras
from activerules.annotations.activity import Const, Duplicated
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.unoptimised import AD_TARGET
from activerules.numba_ext.target import implementations  # noqa: F401  (registers the target)
from activerules.rules.define import augmented_primal, forward, inactive, reverse
from activerules.rules.protocol import AugmentedReturn, accumulate
from activerules.values.kinds import is_absent

extras.load("rocket_fft", "rocket-fft", "its transforms are to be differentiated")

inactive(np.fft.fftfreq, np.fft.rfftfreq)

# Rules take them by number; the adjoint of number k has number 2 - k.
_NORMS = ("backward", "ortho", "forward")


@register_jitable
def _resized(g, shape):
    """Return `g` in another shape: axes are cut, or filled with zeros."""
    if g.shape == shape:
        return g
    resized = np.zeros(shape, g.dtype)
    for index in np.ndindex(g.shape):
        inside = True
        for k in range(g.ndim):
            inside = inside and index[k] < shape[k]
        if inside:
            resized[index] = g[index]
    return resized


# --- the transforms as functions of (a, length, axis, number of the normalisation) ---


def _along(transform: Any) -> Any:
    """A transform along one axis."""

    def along(a, n, axis, norm):
        return transform(a, n, axis, _NORMS[norm])

    return _named_after(transform, along)


def _whole(transform: Any, axes: Any) -> Any:
    """A transform along several axes, which ignores the length and the number of an axis."""

    def whole(a, n, axis, norm):
        return transform(a, None, axes, _NORMS[norm])

    return _named_after(transform, whole)


def _named_after(transform: Any, function: Any) -> Any:
    function.__name__ = function.__qualname__ = transform.__name__
    return njit(function)


_ahead, _back = _along(np.fft.fft), _along(np.fft.ifft)
_real_ahead, _real_back = _along(np.fft.rfft), _along(np.fft.irfft)
_plane_ahead, _plane_back = _whole(np.fft.fft2, (-2, -1)), _whole(np.fft.ifft2, (-2, -1))
_whole_ahead, _whole_back = _whole(np.fft.fftn, None), _whole(np.fft.ifftn, None)


@njit
def _real_part(g, n, axis, norm):
    """The adjoint of `_real_ahead`, of `g` filled with zeros to the whole spectrum."""
    return _back(g, n, axis, norm).real


@njit
def _doubled(g, n, axis, norm):
    """The adjoint of `_real_back`: doubled where an entry stands for two of the whole spectrum."""
    spectrum = _real_ahead(g, n, axis, norm)
    for index in np.ndindex(spectrum.shape):
        k = index[axis % g.ndim]
        if k > 0 and 2 * k != n:
            spectrum[index] *= 2.0
    return spectrum


def _define(transform: Any, adjoint: Any) -> None:
    """The rules of a transform whose adjoint is `adjoint` with the other normalisation."""

    @augmented_primal(transform, keeps_shadow=False)
    def _augmented(config, ret: Duplicated, a: Duplicated, n: Const, axis: Const, norm: Const):
        y = transform(a.val, n.val, axis.val, norm.val)
        return AugmentedReturn(y, np.zeros_like(y), None)

    @reverse(transform)
    def _reverse(config, dret: Duplicated, tape, a: Duplicated, n: Const, axis: Const, norm: Const):
        """ā is cut, or filled with zeros, to the length of `a`."""
        g = adjoint(dret.dval, n.val, axis.val, 2 - norm.val)
        accumulate(a, _resized(g, a.val.shape))

    @forward(transform)
    def _forward(config, ret: Duplicated, a: Duplicated, n: Const, axis: Const, norm: Const):
        y = transform(a.val, n.val, axis.val, norm.val)
        return y, transform(a.dval, n.val, axis.val, norm.val)


_define(_real_ahead, _real_part)
_define(_real_back, _doubled)
for _one, _other in ((_ahead, _back), (_plane_ahead, _plane_back), (_whole_ahead, _whole_back)):
    _define(_one, _other)
    _define(_other, _one)


# --- what code compiled for a derivative calls ---


def _serves(a: Any, *absent: Any) -> bool:
    dtypes = (types.float64, types.complex128)
    return isinstance(a, types.Array) and a.dtype in dtypes and all(map(is_absent, absent))


@chosen_by_types
def _number(norm):
    """The number of a normalisation."""
    if is_absent(norm):
        return lambda norm: 0

    def of_name(norm):
        for k in range(3):
            if norm == _NORMS[k]:
                return k
        raise ValueError("Invalid norm value; should be backward, ortho or forward")

    return of_name


@chosen_by_types
def _length(a, n, axis):
    """The length of a transform, by default that of the axis."""
    return (lambda a, n, axis: a.shape[axis]) if is_absent(n) else lambda a, n, axis: n


@chosen_by_types
def _real_length(a, n, axis):
    """The length of a transform to real numbers, by default an even one."""
    return (lambda a, n, axis: 2 * (a.shape[axis] - 1)) if is_absent(n) else lambda a, n, axis: n


def _of_one_axis(function: Any, transform: Any, length: Any = _length) -> None:
    @overload(function, target=AD_TARGET)
    def _served(a, n=None, axis=-1, norm=None, out=None):
        if not _serves(a, out):
            return None
        return lambda a, n=None, axis=-1, norm=None, out=None: transform(
            np.ascontiguousarray(a), length(a, n, axis), axis, _number(norm)
        )


_of_one_axis(np.fft.fft, _ahead)
_of_one_axis(np.fft.ifft, _back)
_of_one_axis(np.fft.rfft, _real_ahead)
_of_one_axis(np.fft.irfft, _real_back, _real_length)


def _of_several_axes(function: Any, transform: Any, default: Any) -> None:
    @overload(function, target=AD_TARGET)
    def _served(a, s=None, axes=default, norm=None, out=None):
        value = None if is_absent(axes) else getattr(axes, "value", axes)
        if not _serves(a, s, out) or value != default:
            return None
        return lambda a, s=None, axes=default, norm=None, out=None: transform(
            np.ascontiguousarray(a), 0, 0, _number(norm)
        )


_of_several_axes(np.fft.fft2, _plane_ahead, (-2, -1))
_of_several_axes(np.fft.ifft2, _plane_back, (-2, -1))
_of_several_axes(np.fft.fftn, _whole_ahead, None)
_of_several_axes(np.fft.ifftn, _whole_back, None)
