"""Thunks in a pullback, for compiled code.

    t = Thunk(lambda: E)                    def t(): return E
    return NoTangent(), t, Thunk(lambda: F)         ->      return NoTangent(), t(), F

A thunk is computed only if it is used. In a converted rule each returned entry is in a branch on
the activity of its argument already, so a thunk is replaced by its expression, and a thunk with a
name by a local function that is called where it is used.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from activerules.annotations.thunks import InplaceableThunk, Thunk, extern, unthunk
from activerules.rules.closures.source import own_nodes, written_function

Resolve = Callable[[ast.AST], Any]


def inline_thunks(body: Sequence[ast.stmt], resolve: Resolve) -> list[ast.stmt]:
    """The statements of a pullback, with its thunks replaced."""
    inliner = _Inliner(resolve, _thunk_names(body, resolve))
    return [inliner.visit(statement) for statement in body]


def _thunk_names(body: Sequence[ast.stmt], resolve: Resolve) -> frozenset[str]:
    """Names that are bound once, to a thunk."""
    stores: dict[str, list[ast.AST]] = {}
    for node in own_nodes(body):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name):
                stores.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            stores.setdefault(node.target.id, []).append(node)
    return frozenset(
        name
        for name, values in stores.items()
        if len(values) == 1 and _thunk_body(values[0], resolve) is not None
    )


def _thunk_body(
    node: ast.AST, resolve: Resolve, names: frozenset[str] = frozenset()
) -> ast.expr | None:
    """The expression of `Thunk(lambda: E)` or `InplaceableThunk(add, Thunk(lambda: E))`.

    A name in place of a lambda is a function without parameters, or one of the thunks `names`.
    """
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    thunk_type = resolve(node.func)
    if thunk_type is InplaceableThunk and len(node.args) == 2:
        value = node.args[1]
        return _delayed(value, names) or _thunk_body(value, resolve, names)
    return _delayed(node.args[0], names) if thunk_type is Thunk and len(node.args) == 1 else None


def _delayed(node: ast.AST, names: frozenset[str]) -> ast.expr | None:
    """E of `lambda: E`; for a name, a call of it (a thunk's becomes a call where it is read)."""
    if isinstance(node, ast.Name):
        return node if node.id in names else ast.Call(node, [], [])
    return node.body if isinstance(node, ast.Lambda) and not node.args.args else None


class _Inliner(ast.NodeTransformer):
    def __init__(self, resolve: Resolve, names: frozenset[str]) -> None:
        self.resolve = resolve
        self.names = names

    def visit_Assign(self, node: ast.Assign) -> Any:
        target = node.targets[0]
        if not (isinstance(target, ast.Name) and target.id in self.names):
            return self.generic_visit(node)
        value = _thunk_body(node.value, self.resolve, self.names)
        assert value is not None
        function = written_function(target.id, (), [ast.Return(self.visit(value))])
        return ast.fix_missing_locations(ast.copy_location(function, node))

    def visit_Call(self, node: ast.Call) -> Any:
        value = _thunk_body(node, self.resolve, self.names)
        if value is not None:
            return self.visit(value)
        if self.resolve(node.func) in (unthunk, extern) and len(node.args) == 1:
            return self.visit(node.args[0])
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> Any:
        if isinstance(node.ctx, ast.Load) and node.id in self.names:
            called = ast.Call(node, [], [])
            return ast.fix_missing_locations(ast.copy_location(called, node))
        return node
