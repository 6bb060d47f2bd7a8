"""Functions generated as source text, in which parameters or items are named one by one.

Numba compiles `*args` of annotated arrays slowly, and loops over tuples of mixed types not at all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from inspect import signature
from types import CodeType
from typing import Any


def function_from(
    source: str,
    name: str,
    names: Mapping[str, Any],
    *,
    module: str,
    file: str = "<string>",
    like: Any = None,
) -> Any:
    """The function `name` that `source` defines, with `names` as its globals.

    `module` is the name of an importable module, which Numba's cache requires. Errors show `file`,
    where that cache also looks for the source, or the place of the Python function `like`.
    """
    tree = ast.parse(source)
    if like is not None:
        file = like.__code__.co_filename
        _put_on(like.__code__.co_firstlineno, tree)
    scope: dict[str, Any] = {**names, "__name__": module}
    exec(compile(tree, file, "exec"), scope)
    return scope[name]


def definition(name: str, parameters: Iterable[str], lines: Iterable[str]) -> str:
    """Source of a function with these lines as its body."""
    return f"def {name}({', '.join(parameters)}):\n    " + "\n    ".join(lines)


def by_name(*objects: Any, prefix: str = "") -> dict[str, Any]:
    """Globals of such a function: classes and functions by their names, after a prefix."""
    return {prefix + each.__name__: each for each in objects}


def replacement_of(plain: Any, source: str, names: Mapping[str, Any], name: str) -> Any:
    """The function `name` that `source` defines, with the module and file of `plain`. All of it is
    at the `def` line of `plain`.
    """
    tree, code = ast.parse(source), plain.__code__
    _put_on(definition_line(code), tree)
    tree.body[0].lineno = code.co_firstlineno
    scope: dict[str, Any] = {**names, "__name__": plain.__module__}
    exec(compile(tree, code.co_filename, "exec"), scope)
    return scope[name]


def _put_on(line: int, tree: ast.AST) -> None:
    place = {"lineno": line, "end_lineno": line, "col_offset": 0, "end_col_offset": 0}
    for node in ast.walk(tree):
        for field, value in place.items() if "lineno" in node._attributes else ():
            setattr(node, field, value)


def definition_line(code: CodeType) -> int:
    """The line above the first that has code: that of `def`, unless there is a docstring."""
    lines = (line for *_, line in code.co_lines() if line and line > code.co_firstlineno)
    return next(lines, code.co_firstlineno + 1) - 1


def always(function: Any) -> Any:
    """What `overload` takes to give a function this body, for arguments of any type."""
    parameters = ", ".join(signature(function).parameters)
    source = f"def chosen({parameters}):\n    return function"
    return function_from(source, "chosen", {"function": function}, module=__name__)


def tuple_of(texts: Iterable[str]) -> str:
    """Source of a tuple of these expressions."""
    return f"({''.join(f'{text}, ' for text in texts)})"


def item_by_item(
    ty: Any, parameters: str, item: str, names: Mapping[str, Any], *, module: str
) -> Any:
    """The function `(parameters) -> (item 0, item 1, …)` for tuples of type `ty`; the text `item`
    has the index as `{i}`. The result is a named tuple if `ty` is.
    """
    named = getattr(ty, "instance_class", None)
    items = tuple_of(item.format(i=i) for i in range(len(ty)))
    source = f"def of_items({parameters}): return {'_named' * (named is not None)}{items}"
    return function_from(source, "of_items", {**names, "_named": named}, module=module)


def over_elements(statement: str, array: str, ndim: int, indent: str = "    ") -> str:
    """Source of loops that run `statement` for every element of an array; `{index}` is its index.

    One loop per axis: `np.ndindex` increments a tuple, which prevents vectorisation and costs ten
    times as much per element.
    """
    lines = [f"{' ' * k}for i{k} in range({array}.shape[{k}]):" for k in range(ndim)]
    index = ", ".join(f"i{k}" for k in range(ndim)) or "()"
    lines.append(" " * ndim + statement.format(index=index))
    return "\n".join(indent + line for line in lines)
