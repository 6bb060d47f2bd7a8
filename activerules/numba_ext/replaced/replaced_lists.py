"""Functions that change their arguments' typed lists, turned into functions that do not.

Needs       what `replaced` needs, for arguments that are typed lists
Gives       `serves`: whether they are lists for which this is possible;
            `noted`: code that records where the arrays of another argument are;
            `function_on_copies`: the function, on copies of the lists
Invariants  R1  and R2 of `replaced`
            R3  up to the shorter of a list's initial and final lengths, the cotangents of its items
                are moved as those of fields are (`transfer`); those of items added later are zero

A caller's shadow is as long as the list is at the call. In reverse mode it keeps this length; in
forward mode it changes as the list does. There an array that is replaced may not be in an added
item (`_appended`): its shadow is that of the item it was, with another tangent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from numba.core import types
from numba.typed import List

from activerules.numba_ext.codegen.arity import first_names
from activerules.numba_ext.replaced import local_lists
from activerules.numba_ext.replaced.local_objects import running
from activerules.numba_ext.replaced.transfer import keep_alive, transferring_lists
from activerules.rules.written import by_name, replacement_of, tuple_of
from activerules.values.kinds import is_known_list, is_number, is_number_array, items_of, leaves_of
from activerules.values.layout import CONSTANT
from activerules.values.memory_layout import ItemMemory, declared_of

_SOURCE = """
def copied({parameters}):
    _lists = _new_notes()
{list_notes}
    _refuse_shared(_is_reached_twice(_lists), ({owned},))
{copies}
{firsts}
    _result = _run({given}, {changing}, {copied}, (), ({kept}, {copied}, {owned},))
{ends}
{lasts}
    _notes, _moved = _new_notes(), _new_notes()
{notes}
{others}
    _note_arrays(_notes, _OTHER, _result)
    _appended = _is_reached_twice(_moved)
{transfers}
    _refuse_second_path(_is_reached_twice(_notes), (_result,))
    return _result
"""
_COPIES = """
    _kept{j} = {x}.copy()
    _copy{j} = {x}.copy()
"""
_KEEP_ALIVE = """
    _keep_alive(_kept{j}, 0)
"""
_FIRST = """
    _first{n} = _List.empty_list(_TYPE{g})
    for _k in range(len({x})):
        _first{n}.append({x}[_k]{path})
    _keep_alive(_first{n}, 0)
"""
_ENDS = """
    _length{j} = min(len(_kept{j}), len(_copy{j}))
    for _k in range(_length{j}):
        {store}
    _finish({x}, _copy{j})
    _lengthen({x}, _copy{j})
"""
_LAST = """
    _last{n} = _List.empty_list(_TYPE{g})
    for _k in range(len(_copy{j})):
        _last{n}.append(_copy{j}[_k]{path})
"""
_NOTES = """
    for _k in range(_length{j}):
        _old, _new = _kept{j}[_k]{path}, _copy{j}[_k]{path}
        if _is_another(_old, _new):
            _note_array(_notes, {group}, -1, _old)
            _note_array(_notes, 0, {away_from}, _new)
            _note_array(_moved, 0, 1, _old)
        else:
            _note_array(_notes, {group}, 0, _old)
"""
_REMOVED = """
    for _k in range(_length{j}, len(_kept{j})):
        _note_array(_notes, {group}, 0, _kept{j}[_k]{path})
"""
_ADDED = """
    for _k in range(_length{j}, len(_copy{j})):
        _note_array(_moved, 1, 0, _copy{j}[_k]{path})
"""
_ITEMS = """
    for _item in {items}:
        _note_array(_notes, _OTHER, 0, _item{path})
"""
_OTHER = 1 << 60
NAMES = {
    "_List": List,
    "_OTHER": _OTHER,
    **by_name(keep_alive, local_lists.finish, local_lists.lengthen, prefix="_"),
    **by_name(local_lists.is_another, local_lists.is_reached_twice, prefix="_"),
    **by_name(local_lists.new_notes, local_lists.note_list, prefix="_"),
    **by_name(local_lists.note_array, local_lists.note_arrays, prefix="_"),
    "_store": local_lists.store_floats,
    "_refuse_shared": local_lists.refusing(0),
    "_refuse_second_path": local_lists.refusing(1),
}


def serves(argtypes: Sequence[Any], changing: frozenset[int]) -> bool:
    """Whether the arguments `changing` are lists of numbers, arrays and tuples of these, and no
    array hides in the others.
    """
    return all(
        _is_plain_list(argtypes[k]) if k in changing else all(map(_is_seen, leaves_of(ty)))
        for k, ty in enumerate(argtypes)
    )


def _is_plain_list(ty: Any) -> bool:
    """Whether the items have no integer arrays, which would have to be kept alive, too."""
    return is_known_list(ty) and all(
        is_number_array(leaf) or (_is_number_or_array(leaf) and not isinstance(leaf, types.Array))
        for leaf in leaves_of(ty.item_type)
    )


def _is_number_or_array(leaf: Any) -> bool:
    return is_number(leaf) or isinstance(leaf, (types.Array, *CONSTANT))


def _is_seen(leaf: Any) -> bool:
    """Whether the arrays in an argument can be found at run time."""
    return _is_number_or_array(leaf) or (
        is_known_list(leaf) and all(map(_is_number_or_array, leaves_of(leaf.item_type)))
    )


def function_on_copies(dispatcher: Any, argtypes: Sequence[Any], changing: frozenset[int]) -> Any:
    """The function on copies of the lists `changing`."""
    plain = dispatcher.py_func
    parameters = first_names(dispatcher, len(argtypes))
    lists = [(j, parameters[k], argtypes[k]) for j, k in enumerate(sorted(changing))]
    copies = {x: f"_copy{j}" for j, x, _ in lists}
    groups = list(dict.fromkeys(ty for *_, numba_type in lists for ty, _ in _arrays(numba_type)))
    every = sum(1 << g for g, _ in enumerate(groups))

    firsts, lasts, notes, transfers, functions = [], [], [], [], []
    temporaries: list[str] = []
    for g, ty in enumerate(groups):
        sources = []
        for j, x, path in (
            (j, x, path)
            for j, x, numba_type in lists
            for array_type, path in _arrays(numba_type)
            if array_type == ty
        ):
            n = f"{g}_{len(sources)}"
            of = {"j": j, "x": x, "g": g, "path": path, "n": n}
            firsts.append((_FIRST if path else _KEEP_ALIVE).format(**of))
            lasts.append(_LAST.format(**of) if path else "")
            temporaries += [f"_first{n}"] if path else []
            sources.append(f"_first{n}, _last{n}" if path else f"_kept{j}, _copy{j}")
            notes.append(
                (_NOTES + _REMOVED + _ADDED).format(group=1 << g, away_from=every & ~(1 << g), **of)
            )
        transfers.append(f"    _transfer{g}(_appended, {', '.join(sources)})\n")
        functions.append(transferring_lists(ty.ndim, len(sources)))
    source = _SOURCE.format(
        parameters=", ".join(parameters),
        owned=", ".join(parameters),
        list_notes="".join(
            f"    _note_list(_lists, 1, {int(k in changing)}, {x}{path})\n"
            for k, x in enumerate(parameters)
            for path in _lists_in(argtypes[k], "")
        ),
        copies="".join(_COPIES.format(j=j, x=x) for j, x, _ in lists),
        given=tuple_of([copies.get(x, x) for x in parameters]),
        changing=tuple_of([x for _, x, _ in lists]),
        copied=tuple_of([*copies.values()]),
        kept=tuple_of([f"_kept{j}" for j, *_ in lists] + temporaries),
        ends="".join(
            _ENDS.format(j=j, x=x, store=f"_store({x}, _copy{j}, _k)" if _floats(ty) else "pass")
            for j, x, ty in lists
        ),
        firsts="".join(firsts),
        lasts="".join(lasts),
        notes="".join(notes),
        others="".join(
            line
            for k, x in enumerate(parameters)
            if k not in changing
            for line in noted(x, argtypes[k])
        ),
        transfers="".join(transfers),
    )
    names = {
        **NAMES,
        "_run": running(dispatcher, argtypes, local_lists.finish_all),
        **{f"_TYPE{g}": ty for g, ty in enumerate(groups)},
        **{f"_transfer{g}": transfer for g, transfer in enumerate(functions)},
    }
    return replacement_of(plain, source, names, "copied")


def noted(x: str, ty: Any) -> Iterator[str]:
    """The lines that record the arrays of another argument."""
    if isinstance(ty, types.ListType | types.DictType):
        is_list = isinstance(ty, types.ListType)
        item, items = (ty.item_type, x) if is_list else (ty.value_type, f"{x}.values()")
        for _, path in _paths(item, ""):
            yield _ITEMS.format(items=items, path=path)
    elif isinstance(ty, types.BaseTuple):
        for k, item in enumerate(items_of(ty)):
            yield from noted(f"{x}[{k}]", item)
    elif isinstance(ty, types.Array):
        yield f"    _note_array(_notes, _OTHER, 0, {x})\n"


def _lists_in(ty: Any, path: str) -> Iterator[str]:
    """The paths of the lists in an argument."""
    if isinstance(ty, types.ListType):
        yield path
    elif isinstance(ty, types.BaseTuple):
        for k, item in enumerate(items_of(ty)):
            yield from _lists_in(item, f"{path}[{k}]")


def _arrays(ty: types.ListType) -> Iterator[tuple[Any, str]]:
    """The types of the arrays of numbers in an item of a list, and their paths."""
    yield from (path for path in _paths(ty.item_type, "") if is_number_array(path[0]))


def _paths(item: Any, path: str) -> Iterator[tuple[Any, str]]:
    if isinstance(item, types.BaseTuple):
        for k, inner in enumerate(items_of(item)):
            yield from _paths(inner, f"{path}[{k}]")
    elif isinstance(item, types.Array):
        yield item, path


def _floats(ty: types.ListType) -> bool:
    """Whether there are floats in an item itself."""
    declared = declared_of(ItemMemory(ty.item_type))
    return declared is not None and bool(declared.floats)
