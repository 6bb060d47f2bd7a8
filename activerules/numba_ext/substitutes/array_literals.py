"""Array literals: `np.array([[a, b], [c, d]])` is built without lists.

Needs       Numba IR in SSA form, before types are inferred
Gives       `LongDisplays`, a pass: a list display of many items is built at once;
            `ArrayLiterals`, a pass after it: list displays that only `np.array` or `np.asarray`
            reads become tuple displays
Invariants  L1  a list is replaced only if the call, or a list that is replaced too, is its only
                reader: nothing else can change it or compare its identity
            L2  dtype, shape, order of evaluation and values stay those of Numba, whose `np.array`
                treats tuples as it treats lists
            L3  a display is built at once only as far as nothing but appends mentions the list

CPython appends the items of a display of more than 30 one by one to an empty list. Numba inlines
the growth of the list at each, about 60 instructions that the derivative would carry as well.

Numba represents a list of lists by reference-counted objects with a destructor, which the engine
cannot analyse; tuples end up in registers. A flat list in `np.array` Numba removes itself.
"""

from __future__ import annotations

from collections import Counter
from itertools import dropwhile, pairwise
from typing import Any

from numba.core import ir
from numba.core.compiler_machinery import register_pass
from numba.core.ir_utils import find_callname, get_definition, guard, require

from activerules.numba_ext.codegen.protocols import UntypedPass

_CONSTRUCTORS = {("array", "numpy"): "object", ("asarray", "numpy"): "a"}
_DISPLAYS = ("build_list", "build_tuple")


@register_pass(mutates_CFG=False, analysis_only=False)
class LongDisplays(UntypedPass):
    """Builds list displays of many items as Numba builds those of few."""

    _name = "activerules_long_displays"

    def run_pass(self, state: Any) -> bool:
        """Return whether a display was changed."""
        changed = False
        for block in state.func_ir.blocks.values():
            for start in list(block.find_insts(ir.Assign)):
                changed |= _is_empty_display(start) and _build_at_once(block, start)
        return changed


def _is_empty_display(statement: ir.Assign) -> bool:
    """Whether it makes an empty list, without a name in the program."""
    value = statement.value
    if not isinstance(value, ir.Expr) or value.op != "build_list":
        return False
    return statement.target.is_temp and not value.items


def _build_at_once(block: ir.Block, start: Any) -> bool:
    """Replace an empty list and the appends to it by one display, where the last of them stands."""
    items, replaced = list[ir.Var](), [start]
    for statement, following in pairwise(dropwhile(lambda s: s is not start, block.body)):
        if statement is start or all(v.name != start.target.name for v in statement.list_vars()):
            continue
        item = _appended(statement, following)
        if item is None:
            break
        items.append(item)
        replaced += [statement, following]
    if not items:
        return False
    start.value.items = items
    dropped, last = set(map(id, replaced)), replaced[-1]
    kept = (start if s is last else s for s in block.body if s is last or id(s) not in dropped)
    block.body = list(kept)
    return True


def _appended(statement: ir.Stmt, following: ir.Stmt) -> ir.Var | None:
    """The item, if the statements get the method `append` of a list and call it."""
    if not (isinstance(statement, ir.Assign) and isinstance(following, ir.Assign)):
        return None
    method, call = statement.value, following.value
    if not (isinstance(method, ir.Expr) and isinstance(call, ir.Expr)):
        return None
    if method.op != "getattr" or method.attr != "append" or call.op != "call":
        return None
    return call.args[0] if call.func.name == statement.target.name else None


@register_pass(mutates_CFG=False, analysis_only=False)
class ArrayLiterals(UntypedPass):
    """Turns the nested lists that `np.array` and `np.asarray` are called with into tuples."""

    _name = "activerules_array_literals"

    def run_pass(self, state: Any) -> bool:
        """Return whether anything was replaced."""
        function = state.func_ir
        arguments = [
            argument
            for call in _calls(function)
            if (argument := guard(_read_array_call, function, call))
        ]
        if not arguments:
            return False
        mentions = _mentions(function)
        replaced = [
            display
            for variable, of_any_depth in arguments
            if (displays := _displays(function, variable, mentions))
            and (of_any_depth or _is_nested(function, displays[0]))
            for display in displays
        ]
        for display in replaced:
            display.op = "build_tuple"
        return bool(replaced)


def _calls(function: Any) -> list[ir.Expr]:
    return [call for block in function.blocks.values() for call in block.find_exprs(op="call")]


def _read_array_call(function: Any, call: ir.Expr) -> tuple[ir.Var, bool]:
    """The argument of a call that makes an array, and whether a flat list is to be replaced.

    Raises GuardException for calls of other functions.
    """
    name = find_callname(function, call)
    require(name in _CONSTRUCTORS)
    arguments = [*call.args, *(v for k, v in call.kws if k == _CONSTRUCTORS[name])]
    require(len(arguments) > 0)
    return arguments[0], name[0] != "array"


def _mentions(function: Any) -> Counter[str]:
    """How often each variable occurs in the function, as the target of an assignment or read."""
    return Counter(
        variable.name
        for block in function.blocks.values()
        for statement in block.body
        if not isinstance(statement, ir.Del)
        for variable in statement.list_vars()
    )


def _displays(function: Any, variable: ir.Var, mentions: Counter[str]) -> list[ir.Expr]:
    """The list display assigned to `variable`, and those inside it, as far as L1 allows."""
    display = guard(_own_display, function, variable, mentions)
    if display is None:
        return []
    inner = (_displays(function, item, mentions) for item in display.items)
    return [display, *(each for displays in inner for each in displays)]


def _is_nested(function: Any, display: ir.Expr) -> bool:
    rows = [guard(get_definition, function, item) for item in display.items]
    return any(isinstance(row, ir.Expr) and row.op in _DISPLAYS for row in rows)


def _own_display(function: Any, variable: ir.Var, mentions: Counter[str]) -> ir.Expr:
    """The display that is the only value of `variable`; both it and its copies are read once.

    Raises GuardException if there is no such display.
    """
    definitions = function._definitions[variable.name]
    require(len(definitions) == 1 and mentions[variable.name] == 2)
    (defined,) = definitions
    if isinstance(defined, ir.Var):
        return _own_display(function, defined, mentions)
    # Numba refuses an empty list here, but would accept an empty tuple.
    require(isinstance(defined, ir.Expr) and defined.op == "build_list" and len(defined.items) > 0)
    return defined
