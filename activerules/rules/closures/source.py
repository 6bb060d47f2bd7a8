"""The syntax tree of a function that is already defined.

Needs       a plain Python function whose source can be read
Gives       `definition_of`: its definition, with the lines of its file; `free_names`: the variables
            it takes from an enclosing scope; `function_from_tree`: a function from a definition
Invariants  S1  the definition compiles to exactly the function's code, even if the file was edited
                since, or has several lambdas on one line
            S2  code made from a definition keeps its file and lines
"""

from __future__ import annotations
import __future__

import ast
import functools
import inspect
import os
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from activerules.annotations.containers import is_list
from activerules.errors import RuleDefinitionError

Definition = ast.FunctionDef | ast.Lambda

_FUTURE = functools.reduce(
    int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)


def location(function: Any, node: ast.AST | None = None) -> str:
    """Return "file:line" of a function, or of a node inside it."""
    code = function.__code__
    return f"{code.co_filename}:{getattr(node, 'lineno', code.co_firstlineno)}"


def definition_of(function: types.FunctionType) -> Definition:
    """A copy of the definition of a function.

    Raises `RuleDefinitionError` if the source cannot be read or is not that of the function.
    """
    code = function.__code__
    try:
        lines, _ = inspect.findsource(code)
        tree = _parsed("".join(lines))
    except (OSError, SyntaxError) as error:
        raise _no_source(function, "its source cannot be read") from error
    candidates = [
        node
        for node in ast.walk(tree)
        if isinstance(node, Definition) and _stands_at(node, code) and _holds(node, code)
    ]
    if len(candidates) != 1 or not any(_same_code(code, other) for other in _codes(tree, code)):
        # from Python 3.13 on, the text after `python -c` is found for every code in "<string>"
        changed = os.path.exists(code.co_filename)
        why = "its file has changed since it was loaded" if changed else "its source cannot be read"
        raise _no_source(function, why)
    return _copy(candidates[0])


def free_names(definition: Definition, scope: Sequence[str]) -> tuple[str, ...]:
    """The names of the enclosing `scope` that a definition uses, nested functions included."""
    outer = _enclosing([bare(definition)], scope)
    return _inner_code(compile(outer, "<scope>", "exec", dont_inherit=True)).co_freevars


def function_from_tree(
    definition: ast.FunctionDef, like: types.FunctionType, values: Mapping[str, Any]
) -> types.FunctionType:
    """A function with the globals, file, lines and captured variables of `like`.

    `values` are further names the definition may use; they become captured variables.
    """
    own = dict(zip(like.__code__.co_freevars, like.__closure__ or (), strict=True))
    cells = {**own, **{name: types.CellType(value) for name, value in values.items()}}
    tree = ast.fix_missing_locations(_enclosing([definition], tuple(cells)))
    flags = like.__code__.co_flags & _FUTURE
    file = like.__code__.co_filename
    code = _inner_code(compile(tree, file, "exec", flags=flags, dont_inherit=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    return types.FunctionType(code, like.__globals__, definition.name, None, closure)


def bare(definition: Any) -> Any:
    """A copy without the expressions evaluated outside: decorators, defaults, annotations."""
    definition = _copy(definition)
    arguments = definition.args
    arguments.defaults = []
    arguments.kw_defaults = [None] * len(arguments.kwonlyargs)
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    if isinstance(definition, ast.FunctionDef):
        definition.decorator_list = []
        definition.returns = None
    return definition


def own_nodes(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of one scope, without those inside nested functions and classes."""
    for node in body:
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        yield from own_nodes(list(ast.iter_child_nodes(node)))


def bound_names(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that a scope binds, given the nodes in it."""
    return {
        node.name if isinstance(node, ast.FunctionDef) else node.id
        for node in nodes
        if isinstance(node, ast.FunctionDef)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    }


@functools.lru_cache(maxsize=16)
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)


def _copy(node: Any) -> Any:
    """A copy that may be changed: parsed files are shared."""
    if isinstance(node, ast.AST):
        fields = {name: _copy(value) for name, value in ast.iter_fields(node)}
        return ast.copy_location(type(node)(**fields), node)
    return [_copy(item) for item in node] if is_list(node) else node


def _stands_at(node: Definition, code: types.CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    if node.name != code.co_name:
        return False
    return min([node.lineno, *(d.lineno for d in node.decorator_list)]) == code.co_firstlineno


def _holds(node: Definition, code: types.CodeType) -> bool:
    """Whether the lines of a definition contain those of the code."""
    body = node.body if isinstance(node.body, list) else [node.body]
    start = body[0].lineno, body[0].col_offset
    end = body[-1].end_lineno or 0, body[-1].end_col_offset or 0
    positions = ((line, column) for line, _, column, _ in code.co_positions())
    starts = [(line, column) for line, column in positions if line and column]
    return all(start <= place <= end for place in starts if place[0] >= start[0])


def _codes(tree: ast.Module, code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of every function with this name in a file."""
    work = [_code_of(tree, code.co_filename)]
    while work:
        current = work.pop()
        if current.co_name == code.co_name:
            yield current
        work += [item for item in current.co_consts if isinstance(item, types.CodeType)]


@functools.lru_cache(maxsize=16)
def _code_of(tree: ast.Module, file: str) -> types.CodeType:
    return compile(tree, file, "exec", dont_inherit=True)


def written_function(
    name: str, arguments: ast.arguments | Sequence[str], body: Sequence[ast.stmt]
) -> ast.FunctionDef:
    """A definition with these statements; its parameters are given by name, or as those of another
    definition.
    """
    if not isinstance(arguments, ast.arguments):
        parameters = [ast.arg(n) for n in arguments]
        arguments = ast.arguments([], parameters, None, [], [], None, [])
    fields: dict[str, Any] = {"decorator_list": [], "type_params": []}
    return ast.FunctionDef(name, arguments, list(body), **fields)


def _enclosing(body: Sequence[Definition], names: Sequence[str]) -> ast.Module:
    """A module with a function of parameters `names` around a definition."""
    statements: list[ast.stmt] = [
        ast.Expr(node) if isinstance(node, ast.Lambda) else node for node in body
    ]
    outer = written_function("enclosing", names, statements)
    return ast.fix_missing_locations(ast.Module([outer], type_ignores=[]))


def _inner_code(code: types.CodeType) -> types.CodeType:
    """The code of the function inside the function inside the module."""
    for _ in range(2):
        code = next(item for item in code.co_consts if isinstance(item, types.CodeType))
    return code


def _same_code(left: types.CodeType, right: types.CodeType) -> bool:
    names = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars")
    if any(getattr(left, name) != getattr(right, name) for name in names):
        return False
    return len(left.co_consts) == len(right.co_consts) and all(
        map(_same_constant, left.co_consts, right.co_consts)
    )


def _same_constant(left: Any, right: Any) -> bool:
    if isinstance(left, types.CodeType) and isinstance(right, types.CodeType):
        return _same_code(left, right)
    return type(left) is type(right) and repr(left) == repr(right)


def _no_source(function: Any, why: str) -> RuleDefinitionError:
    return RuleDefinitionError(
        f"the closure of {function.__name__} cannot be made explicit: {why}",
        where=[("the rule", function.__name__, location(function))],
        why="a pullback is converted from the text of the rule that returns it",
        instead=[
            "define the rule in a file or a notebook cell",
            "write the pair yourself: augmented_primal and reverse",
        ],
    )
