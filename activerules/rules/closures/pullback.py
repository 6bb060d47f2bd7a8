"""Finding the pullback that a rule returns, and the variables it captures.

Needs       the body of a rule
Gives       `PullbackFinder.find`: the one `PullbackSource` that every return of the rule ends in
Invariants  B1  two returns with different pullbacks are refused: a tape has one reader
            B2  a pullback that is used for anything but being returned is refused
            B3  captured variables are sorted by name; captured functions are moved with the
                pullback
"""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from activerules.errors import RuleDefinitionError
from activerules.rules.closures.source import (
    Definition,
    bound_names,
    definition_of,
    free_names,
    location,
    own_nodes,
)
from activerules.rules.fingerprint import captured

_UNKNOWN = object()


def refuse(
    rule: Any, node: ast.AST | None, what: str, why: str = "", *instead: str
) -> RuleDefinitionError:
    """The error for a rule that cannot be converted, at the line of `node`."""
    text = ast.unparse(node).splitlines()[0] if node is not None else rule.__name__
    return RuleDefinitionError(
        what,
        where=[("in the rule", text[:60], location(rule, node))],
        why=why,
        instead=instead,
    )


@dataclass
class PullbackSource:
    """A pullback as it is written.

    definitions   all its definitions, which are the same text
    captured      the variables of the rule that it uses, without functions
    defaults      its parameters with a default, and the names of the defaults on the tape
    helpers       local functions of the rule that it uses, to be defined before it
    """

    rule: Any
    definitions: list[Definition]
    captured: tuple[str, ...] = ()
    defaults: dict[str, str] = field(default_factory=dict[str, str])
    helpers: list[ast.stmt] = field(default_factory=list[ast.stmt])

    @property
    def node(self) -> Definition:
        """The first definition in the rule."""
        return self.definitions[0]

    @property
    def parameter(self) -> str:
        """The name of the cotangent."""
        return self.node.args.args[0].arg

    @property
    def body(self) -> list[ast.stmt]:
        """Its statements; a lambda's value is returned."""
        node = self.node
        if isinstance(node, ast.FunctionDef):
            return node.body
        return [ast.copy_location(ast.Return(node.body), node.body)]

    def entries(self, node: ast.Return, count: int) -> list[ast.expr] | None:
        """The entries of a return for the arguments, without the one for the function itself.

        None if it returns anything but a literal tuple.
        """
        value = node.value
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            raise refuse(self.rule, node, "the pullback returns nothing here")
        if _is_number(value):
            raise self._wrong_count(node, "one value", count)
        if not isinstance(value, ast.Tuple) or any(isinstance(e, ast.Starred) for e in value.elts):
            return None
        if len(value.elts) != count + 1:
            raise self._wrong_count(node, f"{len(value.elts)} entries", count)
        return value.elts[1:]

    def _wrong_count(self, node: ast.Return, found: str, count: int) -> RuleDefinitionError:
        arguments = f"each of its {count} arguments" if count != 1 else "its argument"
        return refuse(
            self.rule,
            node,
            f"the pullback returns {found}, expected {count + 1} entries",
            f"one for the function itself, which is NoTangent(), and one for {arguments}",
        )


def _is_number(value: ast.expr) -> bool:
    """Whether an expression is plainly a single value: arithmetic without a tuple in it."""
    match value:
        case ast.Constant() | ast.UnaryOp() | ast.Compare():
            return True
        case ast.BinOp(_, op, _):
            return not isinstance(op, ast.Add) and not any(
                isinstance(part, ast.Tuple) for part in ast.walk(value)
            )
        case _:
            return False


class PullbackFinder:
    """Reads the returns of a rule."""

    def __init__(self, rule: types.FunctionType, body: Sequence[ast.stmt]) -> None:
        self.rule = rule
        self.nodes = list(own_nodes(body))
        self.scope = {*rule.__code__.co_cellvars, *bound_names(self.nodes)}
        self.cells = rule.__code__.co_cellvars
        # statements that only name the pullback, pair it with the result, or move with it
        self.aliases: list[ast.stmt] = []
        self.pairs: list[ast.stmt] = []
        self.moved: list[ast.stmt] = []
        self._names: set[str] = set()
        self._sources: dict[str, set[str]] = {}

    def find(self) -> PullbackSource:
        """Return the one pullback; refuse rules that have none or several."""
        returns = [node for node in self.nodes if isinstance(node, ast.Return)]
        if not returns:
            raise refuse(self.rule, None, "the rule returns nothing; it returns (y, pullback)")
        definitions: list[Definition] = []
        for node in returns:
            definitions += self._definitions(self._pair(node).elts[1], node)
        self._check_same(definitions)
        pullback = PullbackSource(self.rule, definitions)
        self._read(pullback)
        return pullback

    def primal_of(self, node: ast.Return) -> ast.expr:
        """The result in `return y, pullback`; if the pair has a name, that name."""
        return node.value if isinstance(node.value, ast.Name) else self._pair(node).elts[0]

    # --- from a return to the definition ---

    def _pair(self, node: ast.Return) -> ast.Tuple:
        value = node.value
        if isinstance(value, ast.Name):
            bound = self._bindings(value.id)
            if len(bound) == 1 and isinstance(bound[0], ast.Assign):
                value = bound[0].value
                self.pairs.append(bound[0])
        if isinstance(value, ast.Tuple) and len(value.elts) == 2:
            return value
        raise refuse(
            self.rule,
            node,
            "the rule does not return (y, pullback) here",
            "both are written in the return, or in one assignment to the name that is returned",
        )

    def _definitions(self, reference: ast.expr, at: ast.AST) -> list[Definition]:
        """The definitions of a pullback; there may be one per branch."""
        if isinstance(reference, ast.Lambda):
            return [reference]
        if isinstance(reference, ast.Name):
            bound = self._bindings(reference.id)
            if bound:
                self._names.add(reference.id)
                return [d for b in bound for d in self._bound_definitions(b, at)]
        outside = self.resolve(reference)
        if _is_without_closure(outside) and outside.__globals__ is self.rule.__globals__:
            return [definition_of(outside)]
        raise self._no_definition(reference)

    def _bound_definitions(self, binding: ast.stmt, at: ast.AST) -> list[Definition]:
        if isinstance(binding, ast.FunctionDef):
            for decorator in binding.decorator_list:
                raise refuse(
                    self.rule,
                    decorator,
                    "the pullback has a decorator",
                    "the body of the pullback is the reverse half of a rule: nothing is decorated",
                    "do in the pullback what the decorator does",
                )
            return [binding]
        if isinstance(binding, ast.Assign):
            self.aliases.append(binding)
            return self._definitions(binding.value, at)
        raise self._no_definition(binding)

    def _no_definition(self, node: ast.AST) -> RuleDefinitionError:
        if isinstance(node, ast.IfExp):
            return self._several(node)
        return refuse(
            self.rule,
            node,
            "the pullback is not defined in the rule",
            "its captured variables become the tape, so its definition must be seen",
            "define the pullback with def or lambda inside the rule",
        )

    def _several(self, node: ast.AST) -> RuleDefinitionError:
        return refuse(
            self.rule,
            node,
            "the rule returns different pullbacks",
            "the pullback of a compiled rule is one function; its captured variables are the tape",
            "define one pullback, let it capture the condition, and put the branch inside it",
        )

    def _check_same(self, definitions: Sequence[Definition]) -> None:
        first, *others = {id(node): node for node in definitions}.values()
        for other in others:
            if _text(first) != _text(other):
                raise self._several(other)

    def _bindings(self, name: str) -> list[Any]:
        """The statements of the rule that bind a name."""
        return [node for node in self.nodes if name in _names_bound_by(node)]

    # --- what it captures ---

    def _read(self, pullback: PullbackSource) -> None:
        self._check_parameters(pullback)
        self._check_rebinding(pullback.node)
        parameters = pullback.node.args.args[1:]
        for parameter in parameters:
            pullback.defaults[parameter.arg] = self._travelling_name(parameter.arg)
        captured = set(free_names(pullback.node, self.cells))
        self._check_only_read(pullback.node, captured)
        self._move_helpers(pullback, captured)
        pullback.captured = (*sorted(captured), *pullback.defaults.values())

    def _travelling_name(self, parameter: str) -> str:
        name = f"{parameter}_at_definition"
        while name in self.scope:
            name += "_"
        return name

    def _check_parameters(self, pullback: PullbackSource) -> None:
        a = pullback.node.args
        simple = not (a.posonlyargs or a.vararg or a.kwarg or a.kwonlyargs)
        if not simple or not a.args or len(a.args) - len(a.defaults) != 1:
            raise refuse(
                self.rule,
                pullback.node,
                "a pullback takes one cotangent",
                "the cotangent of a tuple is one argument, too; further parameters have defaults",
            )

    def _check_rebinding(self, node: ast.AST) -> None:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Nonlocal | ast.Global | ast.Yield | ast.YieldFrom):
                raise refuse(
                    self.rule,
                    inner,
                    "the pullback changes a variable outside itself",
                    "a tape is read, not written: the pullback may run later, or never",
                )

    def _check_only_read(self, node: ast.AST, captured: set[str]) -> None:
        """Refuse `captured[i] = ...`: it may be the primal's own memory, and is read again."""
        for inner in ast.walk(node):
            root = inner
            while isinstance(root, ast.Subscript):
                root = root.value
            stored = isinstance(inner, ast.Subscript) and not isinstance(inner.ctx, ast.Load)
            if stored and isinstance(root, ast.Name) and root.id in captured:
                raise refuse(
                    self.rule,
                    inner,
                    f"the pullback writes into `{root.id}`, which it captures",
                    "it may be the memory of an argument, and a pullback may run more than once",
                    f"write into a copy: {root.id}.copy()",
                )

    def _move_helpers(self, pullback: PullbackSource, captured: set[str]) -> None:
        """Remove functions from `captured`, and add the variables they capture. Those that only the
        pullback needs leave the rule, a function before those that it alone calls.
        """
        self._copy_helpers(pullback, captured, ())
        for _ in pullback.helpers:
            staying = [b for b in pullback.helpers if b not in self.moved]
            self.moved += [
                binding
                for binding in staying
                if not any(self._used_in_rule(n, pullback) for n in _names_bound_by(binding))
            ]

    def _copy_helpers(
        self, pullback: PullbackSource, captured: set[str], within: tuple[str, ...]
    ) -> None:
        for name in self._local_functions(captured):
            (binding,) = self._bindings(name)
            definition = binding if isinstance(binding, ast.FunctionDef) else binding.value
            if name in within:
                raise refuse(self.rule, definition, f"`{name}` calls itself, which Numba refuses")
            captured.discard(name)
            if binding in pullback.helpers:
                continue
            self._check_rebinding(definition)
            if definition.args.defaults or definition.args.kw_defaults:
                raise refuse(
                    self.rule,
                    definition,
                    f"`{name}`, which the pullback calls, has default values",
                    "it is copied to where the pullback runs, and they are not",
                    f"`{name}` without them, and all arguments in its calls",
                )
            inner = set(free_names(definition, self.cells))
            self._check_only_read(definition, inner)
            self._copy_helpers(pullback, inner, (*within, name))
            captured |= inner
            pullback.helpers.append(binding)

    def _local_functions(self, captured: Iterable[str]) -> list[str]:
        names: list[str] = []
        for name in sorted(captured):
            bound = self._bindings(name)
            functions = [b for b in bound if _is_function(b)]
            if functions and len(bound) > 1:
                raise refuse(
                    self.rule,
                    bound[1],
                    f"`{name}`, which the pullback calls, is bound twice",
                    "which of them it calls must be known before the rule runs",
                    "another name for one of them",
                )
            names += [name] if functions else []
        return names

    def _used_in_rule(self, name: str, pullback: PullbackSource) -> bool:
        """Whether the rule itself, or a local function that stays in it, uses a local function."""
        bodies = [n for n in self.nodes if n not in pullback.definitions]
        loads = [n for n in bodies if isinstance(n, ast.Name) and n.id == name]
        return any(isinstance(n.ctx, ast.Load) for n in loads) or any(
            name in free_names(n, self.cells)
            for n in bodies
            if isinstance(n, ast.FunctionDef | ast.Lambda) and getattr(n, "name", "") != name
            if not any(n in (moved, getattr(moved, "value", None)) for moved in self.moved)
        )

    # --- questions of the converter ---

    def check_only_returned(self, body: Sequence[ast.stmt]) -> None:
        """Refuse a rule that uses its pullback for anything but returning it (B2)."""
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and node.id in self._names:
                    raise refuse(
                        self.rule,
                        node,
                        "the pullback is used for something else than being returned",
                        "in compiled code it is not a value but the reverse half of a rule",
                    )

    def sources(self, name: str) -> set[str]:
        """All names from which the value of `name` may be computed, through assignments."""
        if not self._sources:
            for node in self.nodes:
                for target in _names_bound_by(node) | _names_filled_by(node):
                    self._sources.setdefault(target, set()).update(_names_read_by(node))
        reached: set[str] = set()
        work = [name]
        while work:
            current = work.pop()
            if current not in reached:
                reached.add(current)
                work += self._sources.get(current, ())
        return reached

    def resolve(self, expression: ast.AST) -> Any:
        """The object that a name or dotted name refers to outside the rule, if known by now."""
        if isinstance(expression, ast.Attribute):
            value = self.resolve(expression.value)
            return _UNKNOWN if value is _UNKNOWN else getattr(value, expression.attr, _UNKNOWN)
        if not isinstance(expression, ast.Name) or expression.id in self.scope:
            return _UNKNOWN
        if expression.id in self.rule.__code__.co_freevars:
            return captured(self.rule).get(expression.id, _UNKNOWN)
        names = vars(builtins) | self.rule.__globals__
        return names.get(expression.id, _UNKNOWN)


def _is_without_closure(value: Any) -> bool:
    return isinstance(value, types.FunctionType) and not value.__closure__


def _text(node: Definition) -> str:
    """A key by which definitions are compared: all but a function's name and line numbers."""
    if isinstance(node, ast.FunctionDef):
        return ast.dump(node.args) + "".join(map(ast.dump, node.body))
    return ast.dump(node)


def _is_function(binding: ast.AST) -> bool:
    if isinstance(binding, ast.FunctionDef):
        return True
    return isinstance(binding, ast.Assign) and isinstance(binding.value, ast.Lambda)


def _names_bound_by(node: ast.AST) -> set[str]:
    """Names that a statement (or a walrus, or a comprehension) binds itself."""
    if isinstance(node, ast.FunctionDef):
        return {node.name}
    targets: list[ast.AST] = []
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(
        node, ast.AugAssign | ast.AnnAssign | ast.For | ast.NamedExpr | ast.comprehension
    ):
        targets = [node.target]
    return bound_names(n for target in targets for n in ast.walk(target))


def _names_filled_by(node: ast.AST) -> set[str]:
    """Names whose contents a statement may change: `a[i] = b`, `a.append(b)`."""
    targets: list[ast.AST] = []
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, ast.AugAssign):
        targets = [node.target]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        targets = [node.value]
    return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}


def _names_read_by(node: ast.AST) -> set[str]:
    """Names in the header of a statement, from which the values it binds are computed."""
    inside = ast.walk(node.iter if isinstance(node, ast.For) else node)
    return {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
