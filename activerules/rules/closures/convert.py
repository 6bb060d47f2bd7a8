"""Closure conversion: a rule that returns a pullback becomes a pair with an explicit tape.

    def rule(f, x):                            def augmented(config, ret, annotated_x):
        s = math.sin(x)                            x = annotated_x.val
        def pullback(dy):                          s = math.sin(x)
            return NoTangent(), g(s, x) * dy       return AugmentedReturn(s, shadow of s, (s,))
        return s, pullback
                                               def reverse(config, dret, tape, annotated_x):
                                                   s = tape[0]; x = annotated_x.val
                                                   dy = dret.val, or .dval of an array
                                                   return (g(s, x) * dy,)

Needs       a Python function `(f, *x)` that returns `(y, pullback)`, with its source
Gives       `Conversion`: the two functions, as rules of `activerules.rules` are written
Invariants  V1  the variables the pullback captures are the tape, with the values they have where
                the rule returns: what Python's closure would see
            V2  an argument that the rule does not assign to is not on the tape unless its memory
                may be overwritten, and then it is copied; so is every captured array that may share
                memory with such an argument or with the result
            V3  the derivative of a Const argument is not computed: each entry that the pullback
                returns is in a branch on the activity of its argument
            V4  the two functions have the file and the lines of the rule
            V5  what cannot be converted is refused where the rule is defined, with its line
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from activerules.rules.closures import delivery
from activerules.rules.closures.pullback import PullbackFinder, refuse
from activerules.rules.closures.source import (
    Definition,
    bound_names,
    definition_of,
    free_names,
    function_from_tree,
    written_function,
)
from activerules.rules.closures.thunks import inline_thunks
from activerules.rules.protocol import AugmentedReturn, active

_TOOLS = {
    "AugmentedReturn": AugmentedReturn,
    "active": active,
    **{name: getattr(delivery, name) for name in delivery.__all__},
}


@dataclass(frozen=True)
class Conversion:
    """A rule as an explicit pair.

    augmented, reverse   functions of `(config, ret, *x)` and `(config, dret, tape, *x)`
    arguments            the names of the primal's arguments in the rule
    tape                 the names of the variables on the tape
    source               the pair as Python text, for readers
    """

    augmented: Any
    reverse: Any
    arguments: tuple[str, ...]
    tape: tuple[str, ...]
    source: str


def convert(rule: types.FunctionType, function: Any) -> Conversion:
    """Convert a rule of `function`; `RuleDefinitionError` says what cannot be converted."""
    return _Converter(rule, function).convert()


class _Converter:
    """The state of one conversion: the names it has made, and facts about the rule."""

    def __init__(self, rule: types.FunctionType, function: Any) -> None:
        self.rule = rule
        self.definition = _as_function(definition_of(rule))
        parameters = rule_parameters(self.definition, rule)
        self.self_name, self.arguments = parameters[0], parameters[1:]
        self.body = self.definition.body
        self.finder = PullbackFinder(rule, self.body)
        self.pullback = self.finder.find()
        self._taken = _all_names(self.definition) | set(rule.__code__.co_names)
        self.tools = {name: self.fresh(name) for name in _TOOLS}
        self.annotated = {name: self.fresh(f"annotated_{name}") for name in self.arguments}
        self.values = {self.tools[name]: tool for name, tool in _TOOLS.items()}
        self.values[self.self_name] = function
        captured = self.pullback.captured
        assigned = bound_names(self.finder.nodes)
        self.unchanged = [n for n in self.arguments if n in captured and n not in assigned]
        known = {*self.unchanged, self.self_name} - assigned
        self.tape = [n for n in captured if n not in known]

    def fresh(self, hint: str) -> str:
        """Make a name that the rule does not use."""
        name = hint
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def short_lived(self, hint: str) -> str:
        """Make a name that the rule does not use, for the statements of one return."""
        name = self.fresh(hint)
        self._taken.discard(name)
        return name

    def convert(self) -> Conversion:
        """Write `augmented_primal` and `reverse`, with the tape that the closure implies."""
        config, ret, dret, tape = map(self.fresh, ("config", "ret", "dret", "tape"))
        annotated = list(self.annotated.values())
        augmented = self.function(
            "augmented", [config, ret, *annotated], self.augmented(config, ret)
        )
        source = ast.unparse(augmented)
        reverse_body = self.reverse(config, dret, tape)
        reverse = self.function("reverse", [config, dret, tape, *annotated], reverse_body)
        return Conversion(
            augmented=function_from_tree(augmented, self.rule, self.values),
            reverse=function_from_tree(reverse, self.rule, self.values),
            arguments=tuple(self.arguments),
            tape=(*self.unchanged, *self.tape),
            source=f"{source}\n\n{ast.unparse(reverse)}",
        )

    def function(self, suffix: str, parameters: Sequence[str], body: list[ast.stmt]) -> Any:
        name = self.rule.__name__
        name = suffix if name in ("_", "<lambda>") else f"{name}_{suffix}"
        written = written_function(name, parameters, body)
        return ast.fix_missing_locations(ast.copy_location(written, self.definition))

    # --- the augmented primal ---

    def augmented(self, config: str, ret: str) -> list[ast.stmt]:
        """The body of the rule, with the tape in place of its closures."""
        unpack = self.lines(self.definition, *(f"{n} = {g}.val" for n, g in self.annotated.items()))
        body = [*unpack, *_AugmentedRewriter(self, config, ret).rewritten(self.body)]
        self.finder.check_only_returned(body)
        return body

    def augmented_return(
        self, at: ast.AST, primal: ast.expr, config: str, ret: str
    ) -> list[ast.stmt]:
        """The statements that replace `return primal, pullback`."""
        result = self.short_lived("result")
        tools = self.tools
        taped: list[str] = []
        statements = [*self.lines(at, f"{result} = None")]
        statements[0].value = primal  # type: ignore[attr-defined]
        for annotated in self.annotated.values():
            statements += self.lines(at, f"{result} = {tools['fresh']}({result}, {annotated})")
        for name in self.unchanged:
            flag = f"{config}.overwritten[{self.arguments.index(name)}]"
            local = self.short_lived(f"{name}_kept")
            statements += self.lines(
                at,
                f"if {flag}: {local} = {tools['copy_for_tape']}({name})",
                f"else: {local} = None",
            )
            taped.append(local)
        for name in self.tape:
            may_change = self.overwritten(name, config)
            taped.append(f"{tools['kept']}({name}, {result}, {may_change})")
        shadow = f"{tools['result_shadow']}({ret}, {result})"
        tape = f"({', '.join(taped)},)" if taped else "None"
        returned = f"return {tools['AugmentedReturn']}({result}, {shadow}, {tape})"
        return [*statements, *self.lines(at, returned)]

    def overwritten(self, name: str, config: str) -> str:
        """The condition that memory of an argument, which `name` may share, can change."""
        indices = [i for i, a in enumerate(self.arguments) if a in self.finder.sources(name)]
        return " or ".join(f"{config}.overwritten[{i}]" for i in indices) or "False"

    # --- the reverse ---

    def reverse(self, config: str, dret: str, tape: str) -> list[ast.stmt]:
        """The body of the pullback, after statements that restore its captured variables."""
        at, tools = self.pullback.node, self.tools
        lines: list[str] = []
        for index, name in enumerate(self.unchanged):
            flag = f"{config}.overwritten[{self.arguments.index(name)}]"
            lines += [
                f"if {flag}: {name} = {tape}[{index}]",
                f"else: {name} = {self.annotated[name]}.val",
            ]
        start = len(self.unchanged)
        lines += [f"{n} = {tape}[{start + i}]" for i, n in enumerate(self.tape)]
        lines += [f"{self.pullback.parameter} = {tools['cotangent']}({dret})"]
        for parameter, captured in self.pullback.defaults.items():
            lines += [f"{parameter} = {captured}"] if parameter != captured else []
        body = inline_thunks(self.pullback.body, self.finder.resolve)
        unchanged = {name: self.annotated[name] for name in self.unchanged}
        return [
            *self.lines(at, *lines),
            *self.pullback.helpers,
            *_PullbackRewriter(self).rewritten(map(_NoneTests(unchanged).visit, body)),
        ]

    def reverse_return(self, node: ast.Return) -> list[ast.stmt]:
        """The statements that replace a return of the pullback."""
        entries = self.pullback.entries(node, len(self.arguments))
        slots = [self.short_lived(f"slot_{name}") for name in self.arguments]
        statements: list[ast.stmt] = []
        if entries is None:
            names = [
                self.short_lived(f"answer_{name}") for name in (self.self_name, *self.arguments)
            ]
            # Numba compares the length of a tuple with the number of targets
            (unpack,) = statements = self.lines(node, f"({', '.join(names)},) = None")
            unpack.value = node.value  # type: ignore[attr-defined]
            entries = [ast.copy_location(ast.Name(name, ast.Load()), node) for name in names[1:]]
        for slot, annotated, entry in zip(slots, self.annotated.values(), entries, strict=True):
            statements += self.slot(node, slot, annotated, entry)
        return [*statements, *self.lines(node, f"return ({', '.join(slots)},)")]

    def slot(self, at: ast.AST, slot: str, annotated: str, entry: ast.expr) -> list[ast.stmt]:
        """One entry that the pullback returns, computed only if its argument is active (V3)."""
        tools = self.tools
        (branch,) = self.lines(
            at,
            f"if {tools['active']}({annotated}): {slot} = {tools['deliver']}({annotated}, None)",
            f"else: {slot} = None",
        )
        branch.body[0].value.args[1] = entry  # type: ignore[attr-defined]
        return [branch]

    def lines(self, at: ast.AST, *lines: str) -> list[ast.stmt]:
        """Parse statements, with the location of `at` (V4)."""
        statements = ast.parse("\n".join(lines)).body
        for statement in statements:
            for node in ast.walk(statement):
                if "lineno" in node._attributes:
                    ast.copy_location(node, at)
        return statements


class _Rewriter(ast.NodeTransformer):
    """Rewrites the statements of one scope; nested functions are left alone."""

    def rewritten(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        """Return the new statements; a block is never left empty."""
        new: list[ast.stmt] = []
        for statement in body:
            replacement = self.visit(statement)
            new += replacement if isinstance(replacement, list) else [replacement]
        return new or [ast.Pass()]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """Leave nested functions alone."""
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        """Leave nested functions alone."""
        return node


class _AugmentedRewriter(_Rewriter):
    """Removes the closures from a rule, and returns the tape instead."""

    def __init__(self, converter: _Converter, config: str, ret: str) -> None:
        self.converter = converter
        self.config = config
        self.ret = ret

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """Drop the pullback; its defaults are computed where it was defined."""
        pullback = self.converter.pullback
        if node in pullback.definitions:
            return self._defaults(node, node)
        return ast.Pass() if node in self.converter.finder.moved else node

    def visit_Assign(self, node: ast.Assign) -> Any:
        """Drop assignments of the pullback; `result = y, pullback` keeps y."""
        finder = self.converter.finder
        if node in finder.pairs:
            assert isinstance(node.value, ast.Tuple)
            node.value = node.value.elts[0]
            return node
        if node in finder.aliases:
            if isinstance(node.value, ast.Lambda):
                return self._defaults(node.value, node)
            return ast.copy_location(ast.Pass(), node)
        return ast.Pass() if node in finder.moved else node

    def visit_Return(self, node: ast.Return) -> Any:
        """Return the primal, its shadow and the tape."""
        primal = self.converter.finder.primal_of(node)
        return self.converter.augmented_return(node, primal, self.config, self.ret)

    def _defaults(self, node: Definition, at: ast.AST) -> list[ast.stmt]:
        names = self.converter.pullback.defaults.values()
        statements = self.converter.lines(at, *(f"{name} = None" for name in names), "pass")
        for statement, value in zip(statements, node.args.defaults, strict=False):
            statement.value = value  # type: ignore[attr-defined]
        return statements


class _PullbackRewriter(_Rewriter):
    """Rewrites the body of a pullback: the entries it returns are what `reverse` delivers."""

    def __init__(self, converter: _Converter) -> None:
        self.converter = converter

    def visit_Return(self, node: ast.Return) -> Any:
        """Deliver each entry to its argument."""
        return self.converter.reverse_return(node)


class _NoneTests(ast.NodeTransformer):
    """Lets `x is None` ask the annotation of an argument that may be left out: its type tells,
    while the variable may be restored from the tape.
    """

    def __init__(self, annotated: Mapping[str, str]) -> None:
        self.annotated = annotated

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:
        """Replace the left side of a test for None."""
        self.generic_visit(node)
        left, operator, right = node.left, node.ops[0], node.comparators[0]
        is_none = isinstance(right, ast.Constant) and right.value is None
        is_test = is_none and isinstance(operator, ast.Is | ast.IsNot)
        if is_test and isinstance(left, ast.Name) and left.id in self.annotated:
            left.id = self.annotated[left.id]
            node.left = ast.copy_location(ast.Attribute(left, "val", ast.Load()), left)
        return node

    def visit_Lambda(self, node: Definition) -> Definition:
        """A function inside may have variables of these names of its own."""
        free = free_names(node, [*self.annotated])
        _NoneTests({name: self.annotated[name] for name in free}).generic_visit(node)
        return node

    visit_FunctionDef = visit_Lambda


def rule_parameters(definition: ast.FunctionDef, rule: types.FunctionType) -> list[str]:
    """Return the names of a rule's parameters: the function itself, and the primal's arguments."""
    a = definition.args
    names = [p.arg for p in (*a.posonlyargs, *a.args)]
    if not names or a.vararg or a.kwarg or a.kwonlyargs:
        raise refuse(
            rule,
            definition,
            "a rule is a function of (f, arguments ...)",
            "every argument of the primal has a name in its rule; the first parameter is the "
            "function itself",
        )
    return names


def _as_function(definition: Definition) -> ast.FunctionDef:
    if isinstance(definition, ast.FunctionDef):
        return definition
    body: list[ast.stmt] = [ast.copy_location(ast.Return(definition.body), definition.body)]
    function = written_function("rule", definition.args, body)
    return ast.copy_location(function, definition)


def _all_names(definition: ast.AST) -> set[str]:
    names = {n.id for n in ast.walk(definition) if isinstance(n, ast.Name)}
    names |= {n.arg for n in ast.walk(definition) if isinstance(n, ast.arg)}
    return names | {n.name for n in ast.walk(definition) if isinstance(n, ast.FunctionDef)}
