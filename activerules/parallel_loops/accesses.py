"""Which part of an array one iteration of a loop accesses, read from subscripts.

Needs       the body of a loop, the name of its index i
Gives       `Access`, `access_of`
Invariants  A1  with an axis, every access of an iteration is at i + first ... i + last on that axis
            A2  `written` everywhere: the iteration reads nothing that it does not write itself

Iterations that run in parallel do not write to the same memory, nor read what others write. So
an array that is written wherever it is accessed is disjoint between iterations, whatever its
subscripts. Other subscripts than `i + constant` say nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_NEUTRAL = frozenset({"shape", "size", "ndim", "dtype", "itemsize", "nbytes", "strides"})


@dataclass(frozen=True)
class Access:
    """How a loop accesses one variable.

    axis          the axis of which an iteration has entries of its own; None if it is not known
    first, last   the smallest and the largest distance from the index on that axis
    written       every access writes, as in `a[k] = ...` and `a[k] += ...`
    never_read    every access is an assignment `a[k] = ...`
    """

    axis: int | None = None
    first: int = 0
    last: int = 0
    written: bool = False
    never_read: bool = False

    @property
    def is_disjoint(self) -> bool:
        """Whether iterations far enough apart access no memory in common."""
        return self.axis is not None or self.written


def access_of(name: str, body: Sequence[ast.stmt], index: str) -> Access:
    """How the statements of a loop with this index access the variable `name`."""
    occurrences = [*_occurrences(name, body)]
    subscripts = [each for each, _ in occurrences if each is not None]
    if not subscripts or len(subscripts) < len(occurrences):
        return Access()
    written = all(kind != "read" for _, kind in occurrences)
    never_read = all(kind == "assigned" for _, kind in occurrences)
    positions = [{*_positions(each, index)} for each in subscripts]
    axes = set.intersection(*({axis for axis, _ in found} for found in positions))
    spans = []
    for axis in axes:
        distances = [d for found in positions for a, d in found if a == axis]
        spans.append((max(distances) - min(distances), axis, min(distances), max(distances)))
    if not spans:
        return Access(written=written, never_read=never_read)
    _, axis, first, last = min(spans)
    return Access(axis, first, last, written, never_read)


def _occurrences(name: str, body: Sequence[ast.stmt]) -> Iterator[tuple[ast.expr | None, str]]:
    """The subscript of each access, and whether it is read or written; None for other uses."""
    for statement in body:
        above = {
            child: node for node in ast.walk(statement) for child in ast.iter_child_nodes(node)
        }
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == name:
                parent = above[node]
                if isinstance(parent, ast.Subscript) and parent.value is node:
                    yield parent.slice, _kind(parent, above[parent])
                elif not _is_neutral(parent):
                    yield None, "read"


def _kind(subscript: ast.Subscript, parent: ast.AST) -> str:
    if isinstance(subscript.ctx, ast.Load):
        return "read"
    return "updated" if isinstance(parent, ast.AugAssign) else "assigned"


def _is_neutral(parent: ast.AST) -> bool:
    if isinstance(parent, ast.Call):
        return isinstance(parent.func, ast.Name) and parent.func.id == "len"
    return isinstance(parent, ast.Attribute) and parent.attr in _NEUTRAL


def _positions(subscript: ast.expr, index: str) -> Iterator[tuple[int, int]]:
    """The axes that a subscript has the index on, each with the distance from it."""
    parts = subscript.elts if isinstance(subscript, ast.Tuple) else [subscript]
    for axis, part in enumerate(parts):
        if isinstance(part, ast.Constant):  # `...` and None take another number of axes
            if not isinstance(part.value, int):
                return
        elif isinstance(part, ast.Starred | ast.Attribute) or _is_name(part, "newaxis"):
            return  # of `np.newaxis`, too, it is not known how many axes it takes
        elif (distance := _distance(part, index)) is not None:
            yield axis, distance


def _is_name(part: ast.expr, name: str) -> bool:
    return isinstance(part, ast.Name) and part.id == name


def _distance(part: ast.expr, index: str) -> int | None:
    """The d of `i`, `i + d`, `d + i`, `i - d`."""
    match part:
        case ast.Name(id=name) if name == index:
            return 0
        case ast.BinOp(left=ast.Name(id=name), op=op, right=ast.Constant(value=int(d))):
            if name == index and isinstance(op, ast.Add | ast.Sub):
                return d if isinstance(op, ast.Add) else -d
        case ast.BinOp(left=ast.Constant(value=int(d)), op=ast.Add(), right=ast.Name(id=name)):
            return d if name == index else None
        case _:
            pass
    return None
