"""What the processor can do that Numba compiles for: this one, or what NUMBA_CPU_NAME says."""

from __future__ import annotations

from functools import cache

from activerules.numba_ext.codegen.unlinked import cpu_context


@cache
def has_feature(name: str) -> bool:
    """Whether it has a feature, by LLVM's name of it (`avx2`)."""
    features = cpu_context().codegen().magic_tuple()[2]
    return f"+{name}" in features.split(",")


@cache
def selects_floats_by_branches() -> bool:
    """Whether LLVM makes a branch of a select of floats: on x86 without mask registers."""
    is_x86 = cpu_context().codegen().magic_tuple()[0].startswith(("x86", "i686"))
    return is_x86 and not has_feature("avx512f")
