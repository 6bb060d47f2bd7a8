"""Comparisons of floats that LLVM must not see through.

Where `x == 2.0` holds, LLVM replaces `x` by `2.0`: the value is the same, but its derivative is
lost. So while LLVM optimises, equalities are calls of unknown functions; afterwards they are
comparisons again. LLVM also makes an equality of `x <= 2.0` and `x >= 2.0`: where it did, the
passes run again, with all comparisons hidden.

Needs       the text of a module
Gives       `hide_comparisons(text)`, `has_new_equality(text)`; `ir/normal/comparisons` restores
            what was hidden
Invariants  Q1  no equality of a float and a constant but zero is left to LLVM; at zero it replaces
                nothing, since -0.0 == 0.0
"""

from __future__ import annotations

import re

HIDDEN_COMPARISON = "activerules.fcmp."
EQUALITIES = "oeq|une|ueq|one"
ALL = f"{EQUALITIES}|olt|ogt|ole|oge|ult|ugt|ule|uge"
_FLOAT = r"(?:half|bfloat|float|double|x86_fp80|fp128)"
_OPERAND = r"(?:<[^>\n]*>|splat \([^)\n]*\)|[^,\n]+)"
_COMPARISON = (
    r"fcmp (?P<flags>(?:\w+ )*?)(?P<predicate>{}) "
    rf"(?P<type><\d+ x {_FLOAT}>|{_FLOAT}) (?P<x>{_OPERAND}), (?P<y>{_OPERAND})"
)
_ZERO = re.compile(r"-?0\.0+e\+00|0x[KHLMR]?8?0+|zeroinitializer")
_INFINITE = re.compile(r"0x[7F]FF0+|0x[HR][7F][CF]?[08]0+|[-+]?inf")
_NAME = re.compile(r"[%@]")


def hide_comparisons(text: str, predicates: str = EQUALITIES) -> str:
    """Replace `fcmp oeq x, y` by a call of an unknown function.

    Comparisons with zero stay as they are.
    """
    used: set[tuple[str, str]] = set()

    def hide(match: re.Match[str]) -> str:
        if any(_ZERO.fullmatch(_operand(match, side)) for side in "xy"):
            return match[0]
        predicate, t = match["predicate"], match["type"]
        used.add((predicate, t))
        return f"call {_outcome(t)} @{_name(predicate, t)}({t} {match['x']}, {t} {match['y']})"

    text = re.sub(_COMPARISON.format(predicates), hide, text)
    declarations = [
        f"declare {_outcome(t)} @{_name(predicate, t)}({t}, {t}) "
        "nounwind willreturn speculatable memory(none)"
        for predicate, t in sorted(used)
    ]
    return "\n".join([text, *declarations, ""])


def has_new_equality(text: str) -> bool:
    """Whether optimised text compares a float for equality with a constant: then LLVM made that
    from comparisons that were not hidden.
    """
    for match in re.finditer(_COMPARISON.format(EQUALITIES), text):
        constants = [o for o in (_operand(match, "x"), _operand(match, "y")) if not _NAME.search(o)]
        if any(not _ZERO.fullmatch(o) and not _INFINITE.fullmatch(o) for o in constants):
            return True
    return False


def _operand(match: re.Match[str], side: str) -> str:
    return match[side].split("!")[0].strip()


def _outcome(t: str) -> str:
    return re.sub(_FLOAT, "i1", t)


def _name(predicate: str, t: str) -> str:
    """The name of the function for a predicate and a type; a vector type is written `v2double`."""
    plain = re.sub(r"<(\d+) x (\w+)>", r"v\1\2", t)
    return f"{HIDDEN_COMPARISON}{predicate}.{plain}"
