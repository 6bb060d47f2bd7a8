"""The `prange` loops of a function, each as a function of its own; by syntax trees.

Needs       a Python function whose source is known
Gives       `Loop`: one loop of it, and the function of a range of its iterations;
            `loops_of`: all of them; `with_calls`: the function with calls in their place
Invariants  O1  the source is that of the function: compiled again, it gives the same code
            O2  lines, globals, variables of enclosing functions and default values are those of
                the function

Only the outermost loops count: in Numba, too, a `prange` inside of another one is a plain loop.
"""

from __future__ import annotations

import ast
import dis
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType
from typing import Any

from numba import prange

from activerules.callables import display_name, location_of
from activerules.errors import NotYetSupported
from activerules.parallel_loops.accesses import Access, access_of
from activerules.parallel_loops.names import Names, NotParallel, read_names

WITHOUT_THREADS = "@njit(parallel=True): its derivatives run the loop without threads"
"""What to write instead of `parallel` where it refuses a loop."""


@dataclass(frozen=True)
class Loop:
    """One `prange` loop.

    node       the loop in the function's syntax tree
    bounds     expressions for the first iteration, and for the one behind the last
    names      the names in it
    accesses   for each of its inputs, which part of it an iteration accesses
    iterations the function (first, last, *reductions, *inputs) -> reductions
    location   its "file:line"
    """

    node: ast.For
    bounds: tuple[ast.expr, ast.expr]
    names: Names
    accesses: tuple[Access, ...]
    iterations: Any
    location: str


def loops_of(plain: FunctionType) -> tuple[ast.FunctionDef, list[Loop]]:
    """The syntax tree of a function, and its `prange` loops.

    Raises `NotYetSupported` for a function without such loops, for one whose source is not known,
    and for a loop whose iterations are not independent, with its line.
    """
    tree = _tree_of(plain)
    found = [*_outermost(tree.body, plain)]
    if not found:
        raise NotYetSupported(
            f"{display_name(plain)} has no prange loop",
            where=[("the function", display_name(plain), location_of(plain))],
            instead=["for i in prange(n)"],
        )
    return tree, [_loop(plain, tree, node, f"loop{k + 1}") for k, node in enumerate(found)]


def with_calls(
    plain: FunctionType, tree: ast.FunctionDef, calls: Sequence[tuple[Loop, Any]]
) -> Any:
    """The function with a call of a compiled function in place of each loop."""
    taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    replaced: dict[ast.AST, tuple[Loop, str]] = {}
    more: dict[str, Any] = {}
    for loop, called in calls:
        name = free_name("in_parallel", taken)
        replaced[loop.node], more[name] = (loop, name), called
    body = [_Replace(replaced).visit(statement) for statement in tree.body]
    return _function(plain, _definition(plain.__name__, tree.args, body, tree), more, whole=True)


def free_name(stem: str, taken: set[str]) -> str:
    """A name like `stem` that is not taken; it is now."""
    while stem in taken:
        stem += "_"
    taken.add(stem)
    return stem


class _Replace(ast.NodeTransformer):
    """Replaces loops by calls that take their bounds, reductions and inputs."""

    def __init__(self, loops: dict[ast.AST, tuple[Loop, str]]) -> None:
        self._loops = loops

    def visit_For(self, node: ast.For) -> ast.AST:
        if node not in self._loops:
            return self.generic_visit(node)
        loop, called = self._loops[node]
        reduced = [each.name for each in loop.names.reductions]
        passed = [ast.Name(name, ast.Load()) for name in (*reduced, *loop.names.inputs)]
        call = ast.Call(ast.Name(called, ast.Load()), [*loop.bounds, *passed], [])
        targets = ast.Tuple([ast.Name(name, ast.Store()) for name in reduced], ast.Store())
        statement = ast.Assign([targets], call) if reduced else ast.Expr(call)
        return ast.fix_missing_locations(ast.copy_location(statement, node))


def _tree_of(plain: FunctionType) -> ast.FunctionDef:
    try:
        lines, start = inspect.getsourcelines(plain)
        module = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError) as error:
        raise _no_source(plain, "is not known") from error
    tree = module.body[0]
    if not isinstance(tree, ast.FunctionDef):
        raise _no_source(plain, "is not that of a `def`")
    ast.increment_lineno(module, max(start, 1) - 1)
    code = _compiled(plain, _definition(tree.name, tree.args, tree.body, tree), ())
    if _digest(code) != _digest(plain.__code__):
        raise _no_source(plain, "is another one now")
    return tree


def _digest(code: CodeType) -> Any:
    """What a function computes. How Python calls functions of modules depends on where they are
    imported, and is left out.
    """
    operations = [
        (each.opname, each.argrepr)
        for each in dis.get_instructions(code)
        if each.opname.startswith(_COMPUTES) and not isinstance(each.argval, CodeType)
    ]
    return operations, code.co_names, code.co_varnames


_COMPUTES = tuple("BINARY COMPARE CONTAINS DELETE IS_OP LOAD_CONST LOAD_FAST STORE UNARY".split())


def _no_source(plain: Any, state: str) -> NotYetSupported:
    return NotYetSupported(
        f"the source of {display_name(plain)} {state}",
        where=[("the function", display_name(plain), location_of(plain))],
        why="the loops are found in the source, and compiled one by one",
        instead=["a `def` in a file, or in a cell of a notebook", WITHOUT_THREADS],
    )


def _outermost(statements: Sequence[ast.stmt], plain: FunctionType) -> Iterator[ast.For]:
    for statement in statements:
        if isinstance(statement, ast.For) and _is_prange(statement.iter, plain):
            yield statement
        elif not isinstance(statement, ast.FunctionDef):
            for field in ("body", "orelse", "finalbody"):
                yield from _outermost(getattr(statement, field, ()), plain)
            for handler in getattr(statement, "handlers", ()):
                yield from _outermost(handler.body, plain)


def _is_prange(called: ast.expr, plain: FunctionType) -> bool:
    if not isinstance(called, ast.Call):
        return False
    found = inspect.getclosurevars(plain)
    names = {**found.builtins, **found.globals, **found.nonlocals}
    path, function = [], called.func
    while isinstance(function, ast.Attribute):
        path.append(function.attr)
        function = function.value
    value = names.get(function.id) if isinstance(function, ast.Name) else None
    for attribute in reversed(path):
        value = getattr(value, attribute, None)
    return value is prange


def _loop(plain: FunctionType, tree: ast.FunctionDef, node: ast.For, name: str) -> Loop:
    variables = {*plain.__code__.co_varnames, *plain.__code__.co_cellvars}
    try:
        bounds = _bounds(node)
        names = read_names(tree, node, variables)
    except NotParallel as found:
        where = f"{plain.__code__.co_filename}:{found.line}"
        raise NotYetSupported(
            f"a prange loop of {display_name(plain)} cannot be differentiated in parallel",
            where=[("the loop", display_name(plain), where)],
            why=found.what,
            instead=[found.instead, WITHOUT_THREADS],
        ) from None
    accesses = tuple(access_of(each, node.body, names.index) for each in names.inputs)
    location = f"{plain.__code__.co_filename}:{node.lineno}"
    return Loop(node, bounds, names, accesses, _iterations(plain, node, names, name), location)


def _bounds(node: ast.For) -> tuple[ast.expr, ast.expr]:
    call = node.iter
    assert isinstance(call, ast.Call)
    plain = not call.keywords and not any(isinstance(each, ast.Starred) for each in call.args)
    match call.args if plain else []:
        case [end]:
            return ast.copy_location(ast.Constant(0), call), end
        case [start, end] | [start, end, ast.Constant(value=1)]:
            return start, end
        case _:
            pass
    raise NotParallel(call, "its range has another step than 1", "prange(n) or prange(m, n)")


def _iterations(plain: FunctionType, node: ast.For, names: Names, name: str) -> Any:
    """The function of a range of iterations of a loop."""
    reduced = [each.name for each in names.reductions]
    taken = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    first, last = free_name("first", taken), free_name("last", taken)
    parameters = [ast.arg(each) for each in (first, last, *reduced, *names.inputs)]
    span: list[ast.expr] = [ast.Name(each, ast.Load()) for each in (first, last)]
    loop = ast.For(node.target, ast.Call(ast.Name("range", ast.Load()), span, []), node.body, [])
    result = ast.Tuple([ast.Name(each, ast.Load()) for each in reduced], ast.Load())
    body: list[ast.stmt] = [ast.copy_location(loop, node)]
    if reduced:
        body.append(ast.copy_location(ast.Return(result), node))
    arguments = ast.arguments([], parameters, None, [], [], None, [])
    definition = _definition(f"{plain.__name__}_{name}", arguments, body, node)
    made = _function(plain, definition, _without_threads(plain))
    made.__qualname__ = f"{plain.__qualname__}.{name}"
    return made


def _without_threads(plain: FunctionType) -> dict[str, Any]:
    """By their names in a function, those it sees that run in threads, as they run in a thread."""
    found = inspect.getclosurevars(plain)
    seen = {**found.globals, **found.nonlocals}
    seen.pop(plain.__name__, None)  # what is being defined, or was before
    return {
        name: function.without_threads
        for name, function in seen.items()
        if getattr(function, "runs_in_threads", False)
    }


def _definition(
    name: str, arguments: ast.arguments, body: Sequence[ast.stmt], place: ast.AST
) -> ast.FunctionDef:
    """A definition without annotations, decorators and default values."""
    given = arguments
    parameters = ast.arguments(
        posonlyargs=[ast.arg(each.arg) for each in given.posonlyargs],
        args=[ast.arg(each.arg) for each in given.args],
        vararg=given.vararg and ast.arg(given.vararg.arg),
        kwonlyargs=[ast.arg(each.arg) for each in given.kwonlyargs],
        kw_defaults=[None] * len(given.kwonlyargs),
        kwarg=given.kwarg and ast.arg(given.kwarg.arg),
        defaults=[],
    )
    made = ast.FunctionDef(name, parameters, [*body], [], None)
    if "type_params" in made._fields:
        made.type_params = []  # pyright: ignore[reportAttributeAccessIssue]
    return ast.copy_location(made, place)


def _compiled(plain: FunctionType, tree: ast.FunctionDef, more: Sequence[str]) -> CodeType:
    """The code of a function that is defined where `plain` is, and sees more names."""
    outer = list(dict.fromkeys([*plain.__code__.co_freevars, *more]))
    arguments = ast.arguments([], [ast.arg(each) for each in outer], None, [], [], None, [])
    result = ast.copy_location(ast.Return(ast.Name(tree.name, ast.Load())), tree)
    module = ast.Module([_definition("outer", arguments, [tree, result], tree)], [])
    ast.fix_missing_locations(module)
    flags = plain.__code__.co_flags & _FUTURE
    code = compile(module, plain.__code__.co_filename, "exec", flags, dont_inherit=True)
    outermost = next(each for each in code.co_consts if isinstance(each, CodeType))
    return next(each for each in outermost.co_consts if isinstance(each, CodeType))


_FUTURE = 0x1000000  # `from __future__ import annotations`, which Python puts into `co_flags`


def _function(
    plain: FunctionType, tree: ast.FunctionDef, more: dict[str, Any], *, whole: bool = False
) -> Any:
    code = _compiled(plain, tree, [*more])
    known = dict(zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True))
    cells = {**known, **{name: CellType(value) for name, value in more.items()}}
    closure = tuple(cells[name] for name in code.co_freevars)
    made = FunctionType(code, plain.__globals__, tree.name, None, closure)
    made.__module__ = plain.__module__
    if whole:
        made.__defaults__, made.__kwdefaults__ = plain.__defaults__, plain.__kwdefaults__
        made.__doc__ = plain.__doc__
        made.__qualname__ = plain.__qualname__
    return made
