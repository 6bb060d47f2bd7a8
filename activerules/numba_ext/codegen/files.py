"""Files that hold compiled code: a key, a digest of the rest, and a pickle.

Needs       a path, and a key: a digest of all that the code depends on
Gives       `read_file`, `write_file`; `settings`, what compiled code depends on beside its source
Invariants  F1  a file that cannot be read, is truncated or damaged, or has another key, counts as
                missing: only what was written under its digest is unpickled
            F2  a file is replaced atomically: a process that reads while another one writes finds
                the whole new file or the whole old one
            F3  a file that cannot be written is not, and nothing is raised
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import llvmlite
import numba
import numpy as np
from numba.core import config
from numba.core.serialize import dumps

from activerules.numba_ext.codegen.unlinked import cpu_context

VERSIONS = (numba.__version__, llvmlite.__version__, np.__version__)

# A file consists of this header, the key, a digest of what follows, and a pickle.
_MAGIC = b"activerules compiled\n"


def digest_of(names: Iterable[str]) -> str:
    """A digest of some texts in their order, of 32 characters."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:32]


def settings() -> tuple[object, ...]:
    """Everything but the source that Numba's code depends on."""
    codegen = cpu_context().codegen().magic_tuple()
    return codegen, *(getattr(config, name) for name in ("OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT"))


def read_file(path: str, key: str) -> Any:
    """What was written under the key; None if there is no such file (F1)."""
    try:
        written = Path(path).read_bytes()
    except OSError:
        return None
    content = written[len(_head(key, b"")) :]
    return pickle.loads(content) if written == _head(key, content) + content else None


def write_file(path: str, key: str, value: Any) -> None:
    """Write a file (F2, F3)."""
    content = dumps(value)
    unfinished = f"{path}.{os.getpid()}.{uuid4().hex}"
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            Path(unfinished).write_bytes(_head(key, content) + content)
            os.replace(unfinished, path)
        finally:
            Path(unfinished).unlink(missing_ok=True)


def _head(key: str, content: bytes) -> bytes:
    return _MAGIC + key.encode() + hashlib.sha256(content).digest()
