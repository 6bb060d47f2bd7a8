"""Alias scopes: what LLVM may know of memory, so that the sweeps vectorise without checks.

Three kinds of memory never overlap: that of the primal, shadows, and the tape (frame and rows). The
callers' checks state it for arguments (a shadow overlaps no primal), the engine for what it
allocates itself. Shadows may overlap each other, as the arguments they belong to may.
"""

from __future__ import annotations

_BASE = 7_000_000
_DOMAIN, _PRIMAL, _SHADOW, _TAPE = (f"!{_BASE + k}" for k in range(4))
_NOT_PRIMAL, _NOT_SHADOW, _NOT_TAPE = (f"!{_BASE + k}" for k in range(4, 7))
_IN_PRIMAL, _IN_SHADOW, _IN_TAPE = (f"!{_BASE + k}" for k in range(7, 10))

PRIMAL_ACCESS = f", !alias.scope {_IN_PRIMAL}, !noalias {_NOT_PRIMAL}"
SHADOW_ACCESS = f", !alias.scope {_IN_SHADOW}, !noalias {_NOT_SHADOW}"
TAPE_ACCESS = f", !alias.scope {_IN_TAPE}, !noalias {_NOT_TAPE}"

TRAILER = [
    f"{_DOMAIN} = distinct !{{{_DOMAIN}}}",
    *(f"{scope} = distinct !{{{scope}, {_DOMAIN}}}" for scope in (_PRIMAL, _SHADOW, _TAPE)),
    f"{_NOT_PRIMAL} = !{{{_SHADOW}, {_TAPE}}}",
    f"{_NOT_SHADOW} = !{{{_PRIMAL}, {_TAPE}}}",
    f"{_NOT_TAPE} = !{{{_PRIMAL}, {_SHADOW}}}",
    f"{_IN_PRIMAL} = !{{{_PRIMAL}}}",
    f"{_IN_SHADOW} = !{{{_SHADOW}}}",
    f"{_IN_TAPE} = !{{{_TAPE}}}",
]
"""The metadata the accesses refer to; a module needs it once."""
