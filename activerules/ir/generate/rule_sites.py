"""The site of a call, added to the exception that a rule for it raises.

A rule raises as any compiled function does: its exception names the line of the rule, and no line
of the program. Where a rule fails, the derivative adds the site of the call to the exception. The
path on which a rule succeeds is unchanged; the site itself is a constant.
"""

from __future__ import annotations

import hashlib

from activerules.ir.generate.sweep import null
from activerules.ir.llvm.builder import Builder
from activerules.ir.llvm.model import GlobalRef, Value
from activerules.ir.llvm.names import FAILED_AT
from activerules.ir.llvm.types import VOID

_SITE = "activerules.site."


def add_site(b: Builder, site: str | None, excinfo: Value, status: Value) -> None:
    """Add the site of a call to the exception that its rule raised, returning `status`."""
    if site is None:
        return
    data = site.encode() + b"\0"
    name = f"{_SITE}{hashlib.sha256(data).hexdigest()[:16]}"
    text = "".join(map(_character, data))
    constant = f'@{name} = private unnamed_addr constant [{len(data)} x i8] c"{text}"'
    b.declarations.setdefault(name, constant)
    b.call(FAILED_AT, VOID, [null(), excinfo, status, GlobalRef(name)])


def _character(byte: int) -> str:
    """A byte in a string of LLVM IR."""
    return chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:02X}"
