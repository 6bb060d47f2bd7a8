"""What Numba's errors about a rule say to its author.

Needs       the text of an error of Numba that refuses a function of a rule
Gives       `explained`: why, and what to write instead; `speaks_of_tape`
"""

from __future__ import annotations

import linecache
import re
from typing import Any

from activerules.callables import python_function
from activerules.values.kinds import leaves_of

_OF_RECORD = r"use load_from_data_pointer\(\) instead"
_ADVICE = {
    r"\.dval = ": "add into a shadow: x.dval[:] += …",
    r"'dval' of type Active": "return the derivative of an Active argument; `dret.val` is the "
    "cotangent of an Active result",
    r"'dval' of type Const": "a Const argument has no shadow: ar.accumulate(x, …) does nothing "
    "for it, and ar.active(x) is False",
    r"(>{3} \w+\(.*|' of type )\b(Active|Const|(Batch|Mixed)?Duplicated)\(": "arguments of a rule "
    "are annotations: `x.val` is the value, `x.dval` the shadow",
    r"Untyped global name .*Cannot determine Numba type of <class 'function'>": "@njit for the "
    "functions that the rule calls",
    r"Untyped global name .*Cannot determine Numba type of <class 'type'>": "a tuple of entries "
    "for the Tangent[…] of an object: compiled code cannot name its class",
    r">{3} \w+\(.*\b(Zero|No)Tangent\(": "a tangent or cotangent may be a symbolic zero, which "
    "operators, t.conjugate(), t.real, np.sum, np.dot, np.vdot and np.outer take",
    _OF_RECORD: "the fields of a record, where a tuple or list (a tape, say) has the record itself",
    r"failed to unpack ": "a pair where a pair is expected: an frule returns (value, tangent)",
}
"""What to write instead, by what Numba says."""


def explained(said: str) -> tuple[str, list[str]]:
    """The reason and the advice. A message that activerules itself gave to Numba comes first."""
    own = re.search(r"TypingError: (.+)\n\s*raised from \S*/activerules/", said)
    if own:
        return f"{own[1]}\n{said}", []
    return said, [advice for about, advice in _ADVICE.items() if re.search(about, said)][:1]


def speaks_of_tape(said: str, reverse: Any, tape: Any) -> bool:
    """Whether Numba's error is about a use of the tape: at a line with its name, or a name that it
    is unpacked into, on its type or that of an item.

    Errors of `accumulate` give their own reason, and there is advice for a record on the tape.
    """
    of_type = "wrong tuple length" in said or any(str(t) in said for t in (tape, *leaves_of(tape)))
    if not of_type or "accumulate" in said or re.search(_OF_RECORD, said):
        return False
    code = python_function(reverse).__code__
    name = code.co_varnames[2]
    first, last = code.co_firstlineno, max(line or 0 for *_, line in code.co_lines())
    source = "".join(linecache.getlines(code.co_filename)[first - 1 : last])
    unpacked = re.search(rf"^ +\(?([\w, ]+)\)? = {name}$", source, re.MULTILINE)
    names = [name, *re.findall(r"\w+", unpacked[1] if unpacked else "")]
    numbers = {int(n) for n in re.findall(r'", line (\d+):', said)}
    lines = (linecache.getline(code.co_filename, n) for n in numbers - {first})
    return any(re.search(rf"\b({'|'.join(names)})\b", line) for line in lines)
