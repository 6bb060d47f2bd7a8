"""Shadows of constant memory: of globals to which a pointer may point instead of active memory.

`x = TABLE if flag else a` gives a pointer to either a constant array of the module or active
memory. With a shadow of zeros, the first can be treated like the second: what the reverse sweep
adds to that shadow is never read, and in forward mode it stays zero. The shadow is a global of the
derivative, so no call has to allocate or release it.

Invariants  C1  only globals that are constant and hold no pointers have such a shadow
            C2  no shadow that is returned to the caller is one of them (ir/analysis/activity.py)
"""

from __future__ import annotations

from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.llvm.builder import suffixed
from activerules.ir.llvm.model import Constant, GlobalRef, Value
from activerules.ir.llvm.types import PTR
from activerules.ir.llvm.verbatim import type_of_numbers, with_names
from activerules.ir.plan.facts import Facts

_NULL = Constant(PTR, "null")


def shadow_of_constant(value: Value, facts: Facts, declarations: dict[str, str]) -> Value | None:
    """The shadow of a constant pointer: that of a constant global, or null for other globals, which
    are never active. None for any other value.
    """
    if isinstance(value, Constant) and not value.globals:
        return value
    if not isinstance(value, Constant | GlobalRef):
        return None
    names = value.globals if isinstance(value, Constant) else (value.name,)
    shadows = {name: _shadow_name(name, facts) for name in names if _has_shadow(name, facts)}
    if len(shadows) != len(names):
        return _NULL
    for name, shadow in shadows.items():
        declarations.setdefault(shadow, _definition(shadow, facts.request.module.globals[name]))
    if isinstance(value, GlobalRef):
        return GlobalRef(shadows[value.name])
    return Constant(value.type, with_names(value.text, shadows), tuple(shadows.values()))


def _has_shadow(name: str, facts: Facts) -> bool:
    return MemoryObject("global", name) in facts.activity.active_memory


def _shadow_name(name: str, facts: Facts) -> str:
    owner = facts.request.name.strip('"')
    return suffixed(name if name.startswith('"') else f'"{name}"', f".shadow.{owner}")


def _definition(shadow: str, line: str) -> str:
    numbers = type_of_numbers(line)
    assert numbers is not None, f"C1: {line}"
    return f"@{shadow} = internal global {numbers} zeroinitializer, align 16"
