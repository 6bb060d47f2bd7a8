"""The releases of Numba and llvmlite whose private API this package was tested with.

Capture and linking rely on attributes that Numba does not document (docs/numba_private.md lists
them). A release outside the tested range might work, but is refused, because failures would show
far from their cause. Whatever differs between supported releases belongs here.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from activerules.errors import UnsupportedVersion

ALLOW_UNTESTED = "ACTIVERULES_ALLOW_UNTESTED"

# Inclusive lower and exclusive upper bound.
TESTED: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "python": ((3, 11), (3, 16)),
    "numba": ((0, 62), (0, 69)),
    "llvmlite": ((0, 45), (0, 51)),
}


def installed() -> dict[str, str]:
    """The versions of this process, by the names used in `TESTED`."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    return {"python": python, "numba": version("numba"), "llvmlite": version("llvmlite")}


def untested(versions: dict[str, str]) -> list[str]:
    """One line for each part of `versions` outside the tested range."""
    return [
        f"{name} {versions[name]} (tested: {_text(low)} up to, not including, {_text(high)})"
        for name, (low, high) in TESTED.items()
        if not low <= _release(versions[name]) < high
    ]


def check(versions: dict[str, str] | None = None) -> None:
    """Raise `UnsupportedVersion` outside the tested range, or warn if the environment allows
    untested releases.
    """
    problems = untested(installed() if versions is None else versions)
    if not problems:
        return
    if os.environ.get(ALLOW_UNTESTED) == "1":
        warnings.warn("activerules is untested with " + ", ".join(problems), stacklevel=2)
        return
    raise UnsupportedVersion(
        "this version of activerules was not tested with " + " and ".join(problems),
        why="It relies on parts of Numba that change between releases without notice.",
        instead=[
            "install a tested release",
            f"set {ALLOW_UNTESTED}=1 to try it nevertheless, and run the test suite",
        ],
    )


def _release(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: "0.68.1rc1" gives (0, 68, 1)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def _text(release: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in release)


# --- what differs ---


_NUMBA = _release(version("numba"))

RELOADS = _NUMBA >= (0, 63)
"""Whether code that Numba caches can say what must be loaded before it runs (`_reload_init`)."""

SUMS_BY_NDITER = _NUMBA < (0, 67)
"""Whether `np.sum` is a loop over `np.nditer`."""

NOT_CAPTURED = frozenset({b"captures(none)", b"nocapture"})
"""How LLVM 22 and 20 write that a function does not capture a pointer; both read the second."""

_LINE = r"(?: ?, !dbg !\d+)?"  # llvmlite writes a blank after a cast
_POINTER_ADD = re.compile(
    rf"(?P<kept> (?P<start>%\S+) = ptrtoint (?P<pointer>[^\n]+) to i64{_LINE}\n"
    rf" +(?P<sum>%\S+) = add i64 (?P=start), (?P<offset>[^,\s]+){_LINE}\n"
    rf" +%\S+ = )inttoptr i64 (?P=sum) to [^\n]+?(?={_LINE}\n)"
)


def in_slice_error(shapes: Sequence[Any]) -> Sequence[Any]:
    """The shapes of a source and a target as Numba names them: before 0.66, in exchange."""
    return shapes if _NUMBA >= (0, 66) else shapes[::-1]


def with_pointers(text: str) -> str:
    """The text of a module as Numba lowers it, with addresses computed from pointers.

    Before 0.67, Numba's `cgutils.pointer_add` goes through integers, from which no memory can be
    inferred; since then it emits the `getelementptr` that is inserted here.
    """
    if _NUMBA >= (0, 67):
        return text
    return _POINTER_ADD.sub(r"\g<kept>getelementptr i8, \g<pointer>, i64 \g<offset>", text)
