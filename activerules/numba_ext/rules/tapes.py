"""Tapes of rules: which types may be on one, and what their reverse may do with it.

Needs       the type of a tape, the types of what the program may write to before it is read
Gives       `frozen`: the read-only type that a reverse takes; `detachers_of`: functions that
            protect its leaves; `lists_of`: the lists that a reverse gets copies of, since nothing
            tells whether it writes into them; `reads_value`: whether it may read the result;
            `uses`: how a function uses a parameter
Invariants  P1  a reverse finds its tape as the augmented primal left it: leaves that may share
                memory with something that changes are copied, or refused. A tape that it does not
                read keeps the memory itself alive, for instance for the reverse of another rule
            P2  a reverse cannot write into an array of its tape, if its code compiles for read-only
                arrays; else it works on a copy
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from numba.core import types

from activerules.annotations.containers import is_tuple
from activerules.callables import location_of, python_function
from activerules.errors import TapeMismatch
from activerules.numba_ext.rules.checks import copy_beside, copy_of_list, detached, detached_items
from activerules.rules.pattern import type_name
from activerules.rules.rule import RulePair, is_of_library
from activerules.values.kinds import is_object, leads_to_memory, leaves_of
from activerules.values.layout import Node, layout_of, map_type

Changing = Mapping[int, types.Type]
# the position of `tape` among the parameters of a reverse, behind `config` and `dret`
_TAPE = 2


def of_result(k: int) -> int:
    """The key of the k-th leaf of the result, among the positions of arguments."""
    return -1 - k


def frozen(tape: Any) -> Any:
    """The type of a tape with read-only arrays."""
    return map_type(layout_of(tape), _frozen_leaf)


def _frozen_leaf(leaf: Node) -> Any:
    ty = leaf.numba_type
    return ty.copy(readonly=True) if isinstance(ty, types.Array) else ty


def lists_of(tape: types.Type) -> tuple[Any, ...]:
    """The types of lists on a tape that can be copied: those of numbers or of arrays."""
    return tuple({leaf for leaf in leaves_of(tape) if _is_plain_list(leaf)})


def _is_plain_list(leaf: Any) -> bool:
    if not isinstance(leaf, types.List | types.ListType):
        return False
    return isinstance(leaf.dtype, types.Array) or not any(
        layout_of(item).is_container or isinstance(item, types.Array)
        for item in leaves_of(leaf.dtype)
    )


def is_trusted(pair: RulePair) -> bool:
    """Whether a reverse is known not to write into its tape: those that come with activerules."""
    return is_of_library(python_function(pair.reverse).__module__)


def detachers_of(tape: types.Type, changing: Changing, pair: RulePair) -> list[Any]:
    """`(leaf, position, function)`: functions that copy a leaf of a tape if it may change. None if
    the reverse does not read the tape: the memory that it keeps alive may be needed, not a copy.

    `changing` has the types of arguments that may be overwritten, by position, and of leaves of the
    result, by `of_result`. Raises `TapeMismatch` for objects that would have to be copied, and for
    records and arrays in them, which have no owner.
    """
    if not uses(pair.reverse, _TAPE):
        return []
    parts: list[Any] = []
    for leaf in dict.fromkeys(leaves_of(tape)):
        for position, ty in changing.items():
            function = _detacher(leaf, ty)
            if function is not None:
                parts.append((leaf, position, function))
        if isinstance(leaf, types.Record | types.NestedArray) or (
            _is_opaque(leaf) and _may_change(changing)
        ):
            raise _unkept(leaf, pair)
    return parts


def reads_value(reverse: Any, position: int = 1) -> bool:
    """Whether a reverse may read the value in an annotation, by default the result in `dret`: it
    does more with it than read `dret.dval`.

    The result belongs to the program, which may have overwritten it.
    """
    return any(then != ("LOAD_ATTR", "dval") for then in uses(reverse, position))


def uses(function: Any, position: int) -> list[tuple[str, Any]]:
    """The instructions that follow those which name the parameter at a position.

    From Python 3.13 on one instruction may load two variables: what follows is about the second.
    """
    code = python_function(function).__code__
    name = code.co_varnames[position]
    instructions = [(i.opname, i.argval) for i in dis.get_instructions(code)]
    found: list[tuple[str, Any]] = []
    for (_, used), then in pairwise([*instructions, ("", "")]):
        *others, last = used if is_tuple(used) and used else (used,)
        found += [("", "") for each in others if each == name]
        found += [then] if last == name else []
    return found


def _detacher(leaf: Any, ty: types.Type) -> Callable[..., Any] | None:
    is_list = isinstance(leaf, types.List | types.ListType)
    if isinstance(leaf, types.Array) or (is_list and isinstance(leaf.dtype, types.Array)):
        if isinstance(ty, types.Array) or is_object(ty):
            return detached_items if is_list else detached
        return copy_beside if leads_to_memory(ty) else None
    if is_list:
        return copy_of_list if leaf == ty and not layout_of(leaf.dtype).is_container else None
    return None


def _is_opaque(leaf: Any) -> bool:
    """Whether a leaf may contain memory that `_detacher` does not copy."""
    if isinstance(leaf, types.List | types.ListType):
        return layout_of(leaf.dtype).is_container or isinstance(leaf.dtype, types.BaseTuple)
    return layout_of(leaf).is_container


def _may_change(changing: Changing) -> bool:
    return any(map(leads_to_memory, changing.values()))


def _unkept(leaf: types.Type, pair: RulePair) -> TapeMismatch:
    return TapeMismatch(
        f"the tape of {pair.name} holds {type_name(leaf)}, which may change before `reverse` reads "
        "it",
        where=[("the rule", pair.name, location_of(pair.augmented))],
        why="what arrays and lists of numbers on a tape hold is kept; what objects and records "
        "hold is not",
        instead=[
            "put the arrays and numbers that `reverse` reads on the tape, one by one; of a "
            "record, copies of its arrays"
        ],
    )
