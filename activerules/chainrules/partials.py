"""The structure of the results of a function of partial derivatives, as far as its text tells.

Needs       a plain Python function, and which of its parameters are numbers
Gives       `returned`: per `return`, a tuple of what is known of the entries, or None
Invariants  Q1  a value reported as a number is one, and a tuple has the reported number of entries;
                an entry that the text does not determine is None
"""

from __future__ import annotations

import ast
import builtins
import cmath
import math
from collections.abc import Collection, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from activerules.annotations.tangents import AbstractTangent
from activerules.errors import RuleDefinitionError
from activerules.rules.closures.source import bound_names, definition_of, own_nodes
from activerules.rules.fingerprint import captured

NUMBER = "a number"


def returned(function: Any, numbers: Collection[str]) -> Iterator[tuple[Any, ...] | None]:
    """For each `return`, a tuple with NUMBER, a tuple or None for each entry; or None if it is not
    known to return a tuple. Nothing if the text cannot be read.
    """
    try:
        definition = definition_of(function)
    except RuleDefinitionError:
        return
    body = definition.body if isinstance(definition.body, list) else [ast.Return(definition.body)]
    nodes = list(own_nodes(body))
    assigned = bound_names(nodes)
    outer = vars(builtins) | function.__globals__ | captured(function)
    local = (*assigned, *function.__code__.co_varnames)
    outside = {name: value for name, value in outer.items() if name not in local}
    for node in nodes:
        if isinstance(node, ast.Return):
            value = _known(node.value, {*numbers} - assigned, outside)
            yield value if isinstance(value, tuple) else (value,) if value == NUMBER else None


def _known(e: ast.expr | None, numbers: Collection[str], outside: Mapping[str, Any]) -> Any:
    """NUMBER for an expression that is one, a tuple of what is known of its entries, else None."""
    match e:
        case ast.Tuple(entries) if not any(isinstance(each, ast.Starred) for each in entries):
            return tuple(_known(each, numbers, outside) for each in entries)
        case ast.Name(name):
            is_number = name in numbers or isinstance(outside.get(name), float)
        case ast.Constant(value):
            is_number = isinstance(value, int | float | complex)
        case ast.BinOp(left, op, right):  # `2 * t` and `t + u` may be tuples
            operands = [_known(each, numbers, outside) for each in (left, right)]
            count = operands.count(NUMBER)
            is_product = isinstance(op, ast.Mult)
            is_number = count == 2 or (count == 1 and None in operands and not is_product)
        case ast.IfExp(_, chosen, other):
            either = [_known(each, numbers, outside) for each in (chosen, other)]
            return either[0] if either[0] == either[1] else None
        case ast.Call(callee):
            is_number = _gives_number(_object(callee, outside))
        case _:
            is_number = isinstance(e, ast.UnaryOp)
    return NUMBER if is_number else None


def _object(e: ast.expr, outside: Mapping[str, Any]) -> Any:
    """What a name, or an attribute of a module, refers to outside the function."""
    match e:
        case ast.Name(name):
            return outside.get(name)
        case ast.Attribute(owner, name):
            module = _object(owner, outside)
            return getattr(module, name, None) if isinstance(module, ModuleType) else None
        case _:
            return None


def _gives_number(callee: Any) -> bool:
    if isinstance(callee, np.ufunc):
        return callee.nout == 1
    if isinstance(callee, type):
        return issubclass(callee, float | complex | AbstractTangent | np.number)
    module = getattr(callee, "__module__", None)
    return callee is abs or (
        module in (math.__name__, cmath.__name__) and callee not in (math.frexp, math.modf)
    )
