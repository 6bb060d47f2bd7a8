"""The names in the body of a `prange` loop.

Needs       the syntax tree of a function and of a loop in it
Gives       `Reduction`, `read_names`: what the body is given, what it assigns, what it reduces
Invariants  N1  an iteration reads no name that another one assigned, but for reductions
            N2  nothing that the body assigns is read after the loop, but for reductions

A name that the body assigns belongs to one iteration. Whether it is assigned before it is read is
decided by definite assignment (Gosling et al., The Java Language Specification, chapter 16).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from typing import Literal, NoReturn

Operation = Literal["+", "*", "max", "min"]

_UPDATES: dict[type[ast.operator], Operation] = {ast.Add: "+", ast.Sub: "+", ast.Mult: "*"}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_NO_STATEMENTS = (*_SCOPES, ast.Return, ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom)


_BLOCKS = ("body", "orelse", "finalbody")


class NotParallel(Exception):
    """What a loop does that iterations cannot do in parallel, and what to write instead."""

    def __init__(self, node: ast.AST, what: str, instead: str) -> None:
        super().__init__(what)
        self.line: int = getattr(node, "lineno", 0)
        self.what, self.instead = what, instead


@dataclass(frozen=True)
class Reduction:
    """A variable to which every iteration adds, or of which it takes the maximum.

    in_place    every update is of the kind `s += e`, which changes an array
    """

    name: str
    operation: Operation
    in_place: bool = True


@dataclass(frozen=True)
class Names:
    """The names of one loop.

    index       that of the iteration
    inputs      what the body reads, and does not assign
    reductions  what all iterations reduce
    """

    index: str
    inputs: tuple[str, ...]
    reductions: tuple[Reduction, ...]


def read_names(function: ast.FunctionDef, loop: ast.For, variables: Set[str]) -> Names:
    """The names of a loop in a function with these local variables; raises `NotParallel`."""
    if not isinstance(loop.target, ast.Name):
        _refuse(loop, "the index of the loop is not a name", "for i in prange(n)")
    if loop.orelse:
        _refuse(loop.orelse[0], "the loop has an `else`", "what it does, after the loop")
    for node in _inside(loop.body):
        if isinstance(node, _NO_STATEMENTS):
            _refuse(node, f"the loop has a `{_keyword(node)}` in it", "a function outside, or none")
    for node in _breaks(loop.body):
        _refuse(node, "the loop has a `break` in it", "`continue`, or a `for` over range")
    index = loop.target.id
    reductions = tuple(_reductions(loop, variables))
    reduced = {each.name for each in reductions}
    assigned = _assigned(loop.body) - reduced
    if index in assigned:
        _refuse(loop, f"its index `{index}` is assigned in the loop", "another name there")
    body = _Flow(assigned)
    body.block(loop.body, frozenset())
    outside = _assigned_outside(function, loop)
    for read in body.unassigned:
        if read.id in outside:
            _refuse(
                read,
                f"`{read.id}` may be read before the iteration assigns it",
                f"an assignment of `{read.id}` at the beginning of the loop's body",
            )
    after = _Flow(assigned | {index}, loop)
    after.block(function.body, frozenset(variables))
    for read in after.unassigned:
        _refuse(
            read,
            f"`{read.id}` is assigned in the loop, and read after it",
            "an array with an entry per iteration, or a sum of all (`s += ...`)",
        )
    read = dict.fromkeys(_read(loop.body))
    inputs = (n for n in read if n in variables and n not in assigned | reduced | {index})
    return Names(index, tuple(inputs), reductions)


def _refuse(node: ast.AST, what: str, instead: str) -> NoReturn:
    raise NotParallel(node, what, instead)


def _keyword(node: ast.AST) -> str:
    words = {"FunctionDef": "def", "ClassDef": "class", "YieldFrom": "yield"}
    name = type(node).__name__
    return words.get(name, name.lower())


def _inside(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for statement in statements:
        yield from ast.walk(statement)


def _breaks(statements: Iterable[ast.stmt]) -> Iterator[ast.Break]:
    """The `break` statements that end the loop itself, not one in it."""
    for statement in statements:
        if isinstance(statement, ast.Break):
            yield statement
        inner = ("orelse",) if isinstance(statement, ast.For | ast.While) else _BLOCKS
        for block in inner:
            yield from _breaks(getattr(statement, block, ()))
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from _breaks(part.body)


def _assigned(statements: Iterable[ast.AST]) -> frozenset[str]:
    nodes = _inside(statements)
    return frozenset(n.id for n in nodes if isinstance(n, ast.Name) and not _is_load(n))


def _read(statements: Iterable[ast.AST]) -> list[str]:
    """The names that statements read, in the order of the source."""
    nodes = [n for n in _inside(statements) if isinstance(n, ast.Name) and _is_load(n)]
    return [n.id for n in sorted(nodes, key=lambda n: (n.lineno, n.col_offset))]


def _is_load(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def _assigned_outside(function: ast.FunctionDef, loop: ast.For) -> set[str]:
    """The parameters of a function, and what it assigns outside of a loop."""
    inner = {id(node) for node in ast.walk(loop)}
    nodes = (node for node in ast.walk(function) if id(node) not in inner)
    names = {n.id for n in nodes if isinstance(n, ast.Name) and not _is_load(n)}
    arguments = function.args
    return names | {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _reductions(loop: ast.For, variables: Set[str]) -> Iterator[Reduction]:
    """The names that occur in updates of one operation, and nowhere else in the body."""
    updates: dict[str, list[tuple[Operation, int, bool]]] = {}
    for node in _inside(loop.body):
        if isinstance(node, ast.stmt) and (found := _update(node)) is not None:
            name, operation, occurrences = found
            in_place = isinstance(node, ast.AugAssign)
            updates.setdefault(name, []).append((operation, occurrences, in_place))
    names = [node.id for node in _inside(loop.body) if isinstance(node, ast.Name)]
    for name, all_of_it in updates.items():
        operations: set[Operation] = {operation for operation, _, _ in all_of_it}
        everywhere = sum(n for _, n, _ in all_of_it) == names.count(name)
        if len(operations) == 1 and everywhere and name in variables:
            yield Reduction(name, operations.pop(), all(kind for _, _, kind in all_of_it))


def _update(node: ast.stmt) -> tuple[str, Operation, int] | None:
    """The name that a statement updates, how, and how often the name occurs in it: in `s += e`,
    `s = s + e`, `s = max(s, e)`.
    """
    match node:
        case ast.AugAssign(target=ast.Name(id=name), op=op) if type(op) in _UPDATES:
            return name, _UPDATES[type(op)], 1
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            operation, operands = _operation(value)
            own = [each for each in operands if isinstance(each, ast.Name) and each.id == name]
            return (name, operation, 2) if operation is not None and len(own) == 1 else None
        case _:
            return None


def _operation(value: ast.expr) -> tuple[Operation | None, list[ast.expr]]:
    """The operation of an update, and where in it the variable may stand."""
    match value:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _UPDATES:
            return _UPDATES[type(op)], [left] if isinstance(op, ast.Sub) else [left, right]
        case ast.Call(func=ast.Name(id="max"), args=[one, other]):
            return "max", [one, other]
        case ast.Call(func=ast.Name(id="min"), args=[one, other]):
            return "min", [one, other]
        case _:
            return None, []


Assigned = frozenset[str] | None
"""The names that are assigned wherever a statement ends; None where none is reached."""


class _Flow:
    """Walks statements in the order they run, and collects reads of `names` that may come before
    an assignment. At `loop`, if there is one, what its body assigns is lost.
    """

    def __init__(self, names: Set[str], loop: ast.For | None = None) -> None:
        self._names, self._loop = names, loop
        self.unassigned: list[ast.Name] = []

    def block(self, statements: Iterable[ast.stmt], assigned: Assigned) -> Assigned:
        for statement in statements:
            assigned = self._statement(statement, assigned)
        return assigned

    def _statement(self, node: ast.stmt, assigned: Assigned) -> Assigned:
        if self._loop is not None and node is self._loop:
            self._reads(self._loop.iter, assigned)
            return None if assigned is None else assigned - self._names
        match node:
            case ast.Assign(targets=targets, value=value):
                self._reads(value, assigned)
                return self._stores(targets, assigned)
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                return self._update(node, target, assigned)
            case ast.Continue() | ast.Break():
                return None
            case ast.Raise() | ast.Return():
                self._reads(node, assigned)
                return None
            case ast.If() | ast.For() | ast.While() | ast.Try() | ast.With():
                return self._compound(node, assigned)
            case _:
                return self._reads(node, assigned)

    def _update(
        self, node: ast.AugAssign | ast.AnnAssign, target: ast.expr, assigned: Assigned
    ) -> Assigned:
        if node.value is None:  # a declaration
            return assigned
        self._reads(node.value, assigned)
        if isinstance(node, ast.AugAssign) and isinstance(target, ast.Name):
            self._read(target, assigned)
        return self._stores([target], assigned)

    def _compound(
        self, node: ast.If | ast.For | ast.While | ast.Try | ast.With, assigned: Assigned
    ) -> Assigned:
        match node:
            case ast.If(test=test, body=body, orelse=orelse):
                start = self._reads(test, assigned)
                return _joined(self.block(body, start), self.block(orelse, start))
            case ast.For(target=target, iter=iterated, body=body, orelse=orelse):
                start = self._reads(iterated, assigned)
                self._repeat(body, self._stores([target], start))
                return self.block(orelse, start)
            case ast.While(test=test, body=body, orelse=orelse):
                start = self._reads(test, assigned)
                self._repeat(body, start, test)
                return self.block(orelse, start)
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
                whole = self.block(orelse, self.block(body, assigned))
                for handler in handlers:
                    whole = _joined(whole, self.block(handler.body, assigned))
                self.block(final, assigned)
                return whole
            case ast.With(items=items, body=body):
                for item in items:
                    assigned = self._reads(item, assigned)
                return self.block(body, assigned)

    def _repeat(
        self, body: list[ast.stmt], assigned: Assigned, test: ast.expr | None = None
    ) -> None:
        """A loop's body, the first time and later ones: the second pass finds what the first, with
        the loop in it, lost.
        """
        after = self.block(body, assigned)
        again = _joined(assigned, after) if after is not None else assigned
        if test is not None:
            self._reads(test, again)
        self.block(body, again)

    def _stores(self, targets: Iterable[ast.expr], assigned: Assigned) -> Assigned:
        for target in targets:
            self._reads(target, assigned)
        return None if assigned is None else assigned | _assigned(targets)

    def _reads(self, node: ast.AST, assigned: Assigned) -> Assigned:
        """The reads of an expression; what it assigns itself, as comprehensions do, is assigned."""
        own = _assigned([node])
        known = None if assigned is None else assigned | own
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and _is_load(each):
                self._read(each, known)
        return known

    def _read(self, name: ast.Name, assigned: Assigned) -> None:
        if assigned is not None and name.id in self._names and name.id not in assigned:
            self.unassigned.append(name)


def _joined(one: Assigned, other: Assigned) -> Assigned:
    if one is None or other is None:
        return other if one is None else one
    return one & other
