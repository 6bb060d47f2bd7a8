"""What the processor can do that Numba compiles for: this one, or what NUMBA_CPU_NAME says."""

from __future__ import annotations

from functools import cache

from activerules.numba_ext.codegen.unlinked import cpu_context


def processor() -> tuple[str, str, str]:
    """The target triple, the name of the processor, and its features."""
    triple, name, features = cpu_context().codegen().magic_tuple()
    return str(triple), str(name), str(features)


@cache
def has_feature(name: str) -> bool:
    """Whether it has a feature, by LLVM's name of it (`avx2`)."""
    return f"+{name}" in processor()[2].split(",")


@cache
def selects_floats_by_branches() -> bool:
    """Whether LLVM makes a branch of a select of floats: on x86 without mask registers."""
    is_x86 = processor()[0].startswith(("x86", "i686"))
    return is_x86 and not has_feature("avx512f")
