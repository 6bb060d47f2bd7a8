"""Functions that LLVM's machine code calls although the IR does not name them.

`llvm.powi`, which fast-math makes of `pow(x, float(n))`, becomes a call of `__powidf2`. Compilers
link it from their runtime library; Numba does not, and a process that reaches the call ends. It is
taken from `libgcc_s` here, once per process.
"""

from __future__ import annotations

import ctypes

import llvmlite.binding as llvm

NAMES = ("__powidf2", "__powisf2")


def provide() -> None:
    """Make the functions known to LLVM where the platform has them."""
    try:
        library = ctypes.CDLL("libgcc_s.so.1")
    except OSError:
        return
    for name in NAMES:
        if hasattr(library, name):
            llvm.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)


def missing(text: str) -> tuple[str, ...]:
    """The runtime functions that the machine code of an IR text needs and nothing defines."""
    if "llvm.powi." not in text:
        return ()
    return tuple(name for name in NAMES if llvm.address_of_symbol(name) is None)
