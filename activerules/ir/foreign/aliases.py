"""Second names of functions and variables (`@f = alias double (double), ptr @g`).

Needs       the text of a module, as LLVM prints it
Gives       the text with aliases replaced by the names they stand for; and these names
Invariants  I1  a name that another module may redefine (`weak`, `linkonce`) stays
            I2  the definitions of the aliases stay: other modules may use them
"""

from __future__ import annotations

import re

from activerules.ir.llvm.verbatim import may_be_replaced

_ALIAS = re.compile(
    r"^@(?P<name>\"[^\"]*\"|[-\w.$]+) = (?P<linkage>[^=\n]*?)\balias [^@\n]*, "
    r"ptr @(?P<target>\"[^\"]*\"|[-\w.$]+)(?:, partition .*)?$",
    re.MULTILINE,
)
_USED = re.compile(r"c\"[^\"]*\"|(?<!^)@(\"[^\"]*\"|[-\w.$]+)", re.MULTILINE)
"""A name that is not what its line defines; texts in constants are passed over."""


def own_names(text: str) -> dict[str, str]:
    """The names that the aliases of a module stand for."""
    if " alias " not in text:
        return {}
    direct = {
        alias["name"]: alias["target"]
        for alias in _ALIAS.finditer(text)
        if not may_be_replaced(alias["linkage"])
    }
    names: dict[str, str] = {}
    for name, target in direct.items():
        while target in direct:
            target = direct[target]
        names[name] = target
    return names


def unaliased(text: str) -> str:
    """The text in which second names of functions and variables are replaced by the first."""
    names = own_names(text)
    if not names:
        return text
    return _USED.sub(lambda use: f"@{names[use[1]]}" if use[1] in names else use[0], text)
