"""Numbers that are clamped in a branch may become minima and maxima.

Needs       the text of a module before LLVM's passes
Gives       `as_choices`: without the weights of branches that only store other integers
Invariants  K1  nothing but branch weights is removed

Numba clamps the ends of a slice to the length of its axis by branches, which it says are rarely
taken. LLVM keeps rare branches, and nothing is known of the end where they meet. More is known of a
minimum: an entry of `x[:i]` is never one that `x[i] = ...` writes later.
"""

from __future__ import annotations

import re

_CLAMP = re.compile(
    r"(?P<branch>^  br i1 %\S+, label %(?P<rare>[-\w$.]+), label %(?P<next>[-\w$.]+)"
    r"(?:, !dbg !\d+)?), !prof !\d+$"
    r"(?=\n\n(?P=rare):[^\n]*\n"
    r"(?:  %\S+ = getelementptr [^\n]*\n)*+(?:  store i64 [^\n]*\n)++"
    r"  br label %(?P=next)(?:,|$))",
    re.MULTILINE,
)


def as_choices(text: str) -> str:
    """See the module docstring."""
    return _CLAMP.sub(r"\g<branch>", text) if "!prof" in text else text
