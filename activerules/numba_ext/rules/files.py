"""Files that compiled rules are kept in.

Needs       a path, and a key of 32 characters that says what the file is to hold
Gives       `read`, `write`: what the engine is told of a rule, and its bitcode
Invariants  F1  a file that cannot be read, is truncated or damaged, or has another key, counts as
                missing: only what was written under its digest is unpickled
            F2  a file is replaced atomically: a process that reads while another one writes finds
                the whole new file or the whole old one
"""

from __future__ import annotations

import hashlib
import os
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

# A file is this, the key, a digest of all that follows it, and a pickle.
_MAGIC = b"activerules rule\n"


def _head(key: str, content: bytes) -> bytes:
    return _MAGIC + key.encode() + hashlib.sha256(content).digest()


def read(path: str, key: str) -> tuple[Any, bytes] | None:
    """What was written under the key; None if there is no such file (F1)."""
    try:
        written = Path(path).read_bytes()
    except OSError:
        return None
    content = written[len(_head(key, b"")) :]
    return pickle.loads(content) if written == _head(key, content) + content else None


def write(path: str, key: str, told: Any, bitcode: bytes) -> None:
    """Write a file (F2), or leave it where that is not possible."""
    content = pickle.dumps((told, bitcode))
    unfinished = f"{path}.{os.getpid()}.{uuid4().hex}"
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            Path(unfinished).write_bytes(_head(key, content) + content)
            os.replace(unfinished, path)
        finally:
            Path(unfinished).unlink(missing_ok=True)
