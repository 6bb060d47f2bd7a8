"""The vector functions of this machine's C library, for `Mode.vector_math` and `Mode.fast`.

glibc has them in a separate library, libmvec. If it is missing, or the processor has no AVX2, there
are none, and the options have no effect. Where Numba has Intel's SVML, LLVM uses that for the
functions as Numba emits them, and libmvec is left alone.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from llvmlite import binding
from numba.core import config

from activerules.errors import UnknownCall
from activerules.ir.llvm.names import SCALAR
from activerules.numba_ext.codegen.numba_versions import RELOADS
from activerules.numba_ext.codegen.on_disk import pass_on
from activerules.numba_ext.codegen.processor import has_feature

_NAMES = (
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "atan2"),
    *("asinh", "acosh", "atanh", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p"),
    *("pow", "hypot", "erf", "erfc"),
)
_OF_TWO = {"atan2", "pow", "hypot"}
# of the x86 vector function ABI: its letter, the feature of the processor, doubles per register
_REGISTERS = (("d", "avx2", 4), ("e", "avx512f", 8))
_ORDERED = "-force-ordered-reductions"


@cache
def _library() -> ctypes.CDLL | None:
    """The library, loaded so that compiled code finds its symbols; None if there is none."""
    try:
        library = ctypes.CDLL("libmvec.so.1", mode=ctypes.RTLD_GLOBAL)
        scalar = ctypes.CDLL("libm.so.6")
    except OSError:
        return None
    for name in (name + suffix for name in _NAMES for suffix in ("", "f")):
        if hasattr(scalar, name):
            address = ctypes.cast(getattr(scalar, name), ctypes.c_void_p).value
            binding.add_symbol(SCALAR + name, address)
    return library


def load() -> None:
    """Load the library in a process that runs code cached by Numba, which calls its functions.

    Raises `UnknownCall` where it is missing: LLVM would end the process.
    """
    if _library() is None:
        raise UnknownCall(
            "cached code calls vector functions of libmvec, which this system does not have",
            why="It was compiled with `.vector_math()` or `.fast()` on a system that has them.",
            instead=["remove what Numba cached (`__pycache__`, or NUMBA_CACHE_DIR), and run again"],
        )
    pass_on(load)


@cache
def vector_forms() -> dict[str, list[tuple[int, str]]]:
    """For each function of the C library (`sin`, `sinf`), how many numbers its vector forms take at
    once, and their symbols; none where code that Numba caches could not ask for the library.
    """
    svml = getattr(config, "USING_SVML", False)
    if svml or not RELOADS or (library := _library()) is None:
        return {}
    forms: dict[str, list[tuple[int, str]]] = {}
    for letter, feature, doubles in _REGISTERS:
        for name in _NAMES if has_feature(feature) else ():
            for suffix, lanes in (("", doubles), ("f", 2 * doubles)):
                parameters = "vv" if name in _OF_TWO else "v"
                symbol = f"_ZGV{letter}N{lanes}{parameters}_{name}{suffix}"
                if hasattr(library, symbol):
                    forms.setdefault(name + suffix, []).append((lanes, symbol))
    return forms


def link_vector_math(library: Any) -> None:
    """Let a code library call vector functions: one that Numba caches loads them before it runs.

    LLVM vectorises the loops of the library that sum floats, too, in the order of the program. It
    has that only as an option of the process, which is set while the library is optimised: other
    code in it keeps its results bit for bit.
    """
    if vector_forms():
        library._reload_init.add(load)
    if "_optimize_final_module" not in vars(library):
        library._optimize_final_module = _in_order(library._optimize_final_module)


def _in_order(optimise: Any) -> Any:
    def in_order() -> None:
        # Every thread optimises under Numba's lock, which `finalize` requires; what this package
        # runs of LLVM outside of it vectorises nothing.
        binding.set_option("", f"{_ORDERED}=1")
        try:
            optimise()
        finally:
            binding.set_option("", f"{_ORDERED}=0")

    return in_order
