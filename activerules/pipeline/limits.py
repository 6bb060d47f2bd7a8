"""How much memory the tape of a derivative may take, and how much stack its recursion."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_USUAL_STACK = 8 << 20
_STACK_WITHOUT_LIMITS = 1 << 20
_NO_TAPE_LIMIT = (1 << 63) - 1
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def stack_limit() -> int:
    """The stack that a derivative may use for recursion: seven eighths of that of a thread."""
    if find_spec("resource") is None:  # Windows
        return _STACK_WITHOUT_LIMITS // 8 * 7
    resource: Any = import_module("resource")
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return (soft if 0 < soft < _USUAL_STACK else _USUAL_STACK) // 8 * 7


def tape_limit() -> int:
    """Three quarters of the machine's memory, or of this process's limit.

    A larger tape is refused before the machine starts to swap or kills the process.
    """
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", ()):  # Windows
        return _NO_TAPE_LIMIT
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if _CGROUP_LIMIT.exists() and (text := _CGROUP_LIMIT.read_text().strip()).isdigit():
        memory = min(memory, int(text))
    return memory // 4 * 3
