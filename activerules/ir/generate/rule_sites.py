"""Which call of the source a rule was run for, told where the rule fails.

A rule raises as any compiled function does: its exception knows the line of the rule, and nothing
of the program. Where the rule of a call returns with a status, the derivative hands the exception
on with the site of that call. Nothing is added to the path on which a rule succeeds, but for the
site itself, a constant.
"""

from __future__ import annotations

import hashlib

from activerules.ir.generate.sweep import null
from activerules.ir.llvm.builder import Builder
from activerules.ir.llvm.model import GlobalRef, Value
from activerules.ir.llvm.types import VOID
from activerules.ir.normal.effects import FAILED_AT

_SITE = "activerules.site."


def add_site(b: Builder, site: str | None, excinfo: Value, status: Value) -> None:
    """Add the site of a call to the exception that its rule has left with `status`."""
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
