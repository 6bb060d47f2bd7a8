"""Functions that replace arrays in their argument objects, turned into functions that do not.

Needs       a dispatcher, the types of its arguments, and in which of them arrays are replaced
Gives       `with_copies`: a dispatcher of the same arguments and result, which works on copies of
            the objects; `derive_or_copy`: a derivative, of that dispatcher if necessary;
            `changing_arguments`: the arguments that were copied
Invariants  R1  the memory of the objects changes after the last read: see `object_runtime`
            R2  the initial contents of the fields are kept until the reverse sweep ends

Before the reverse sweep the caller's shadow holds the cotangent of the final value of a field, and
afterwards the gradient with respect to its initial value. That also holds for arrays that are
replaced, so the reverse sweep begins by moving cotangents from the shadow of the first array to
that of the last (`transfer`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numba
from numba.core import types

from activerules.errors import ActiverulesError, NotYetSupported
from activerules.numba_ext.codegen.arity import first_names
from activerules.numba_ext.codegen.made_once import MadeOnce
from activerules.numba_ext.replaced import replaced_lists
from activerules.numba_ext.replaced.fallbacks import with_fallbacks
from activerules.numba_ext.replaced.local_objects import (
    arrays_in,
    arrays_of,
    copy_objects,
    finish,
    numbers_in,
    objects_in,
    objects_of,
    others_in,
    require_apart,
    require_transferable,
    running,
)
from activerules.numba_ext.replaced.transfer import keep_alive, transferring
from activerules.rules.views import RuleView
from activerules.rules.written import by_name, replacement_of, tuple_of
from activerules.values.kinds import is_instance, is_number_array, leaves_of
from activerules.values.layout import layout_of
from activerules.values.memory_layout import fields_of

_SOURCE = """
def copied({parameters}):
    _require_apart({changing}, {others})
    _before = _numbers_in({changing})
    _keep_alive(_before, _others_in({changing}))
    _copies = _copy_objects({changing})
    _objects = _objects_in(_copies)
    _result = _run({given}, {changing}, _copies, _objects, (_before, {parameters},))
    _lost = _finish({changing}, _copies, _objects)
    _after = _numbers_in(_copies)
    _notes = _new_notes()
{notes}
    _require_transferable(
        _lost, _is_reached_twice(_notes), _before, _after, _arrays_in({reached}),
        (_copies, _objects), _result
    )
    _transfer(_before, _after)
    return _result
"""

T = TypeVar("T")

_changing: weakref.WeakKeyDictionary[Any, tuple[Any, frozenset[int]]]
_changing = weakref.WeakKeyDictionary()
_made = MadeOnce()


def changing_arguments(dispatcher: Any) -> frozenset[int]:
    """The arguments whose objects change after the last read: those of a function on copies."""
    return _changing.get(dispatcher, (None, frozenset[int]()))[1]


def derive_or_copy(
    derive: Callable[[Any], T], dispatcher: Any, argtypes: Sequence[Any], view: RuleView
) -> T:
    """`derive(dispatcher)`, or, if that is refused because pointers in the memory of arguments are
    replaced, `derive` of the dispatcher that works on copies. Raises what `derive` raises.
    """

    def on_copies(refused: Any, error: ActiverulesError) -> tuple[Any, str] | None:
        copied = _on_copies(refused, argtypes, error, view)
        if copied is None:
            return None
        names = first_names(copied, len(argtypes))
        listed = ", ".join(f"`{names[k]}`" for k in sorted(changing_arguments(copied)))
        return copied, f"the function on copies of what is in {listed}"

    return with_fallbacks(derive, dispatcher, on=(NotYetSupported,), fallback=on_copies)


def _on_copies(
    dispatcher: Any, argtypes: Sequence[Any], error: ActiverulesError, view: RuleView
) -> Any:
    """The function to differentiate instead of one that raises `error`, if copies help."""
    original, changing = _changing.get(dispatcher, (dispatcher, frozenset[int]()))
    more = changing | {k for k in map(_argument_of, error.groups) if isinstance(k, int)}
    served = replaced_lists.serves(argtypes, more) or _can_have_copies(argtypes, more)
    if more == changing or view.carries_rule(original) or not served:
        return None
    return with_copies(original, argtypes, more)


def _argument_of(group: object) -> object:
    while isinstance(group, tuple):
        group = group[0]
    return group


def _can_have_copies(argtypes: Sequence[Any], changing: frozenset[int]) -> bool:
    """Whether the arguments `changing` are objects with arrays, and no list contains objects."""
    everything = [leaf for ty in argtypes for leaf in _all_leaves(ty)]
    if any(map(_may_hide_objects, everything)):
        return False
    return all(
        any(map(is_number_array, arrays_of(argtypes[k])))
        and all(
            is_instance(leaf) or not layout_of(leaf).is_container for leaf in leaves_of(argtypes[k])
        )
        for k in changing
    )


def _all_leaves(ty: Any) -> Iterator[Any]:
    """The leaves of a value and of the fields of its objects."""
    yield from leaves_of(ty)
    for instance in objects_of(ty):
        for field in fields_of(instance):
            yield from leaves_of(field.numba_type)


def _may_hide_objects(leaf: Any) -> bool:
    if is_instance(leaf) or not layout_of(leaf).is_container:
        return False
    items = (getattr(leaf, name, None) for name in ("item_type", "value_type", "dtype", "type"))
    return any(layout_of(item).is_container for item in items if isinstance(item, types.Type))


def with_copies(dispatcher: Any, argtypes: Sequence[Any], changing: frozenset[int]) -> Any:
    """The function on copies of what is in the arguments `changing`; made once per signature."""

    def make() -> Any:
        of_lists = replaced_lists.serves(argtypes, changing)
        write = replaced_lists.function_on_copies if of_lists else _function_on_copies
        copied = write(dispatcher, argtypes, changing)
        copied.__name__ = copied.__qualname__ = dispatcher.py_func.__name__  # also a lambda
        made = numba.njit(copied)
        _changing[made] = dispatcher, changing
        return made

    return _made.get(dispatcher, (tuple(argtypes), changing), make)


def _function_on_copies(dispatcher: Any, argtypes: Sequence[Any], changing: frozenset[int]) -> Any:
    plain = dispatcher.py_func
    parameters = first_names(dispatcher, len(argtypes))
    numbers = sorted(changing)
    arguments = [
        f"_copies[{numbers.index(k)}]" if k in changing else name
        for k, name in enumerate(parameters)
    ]
    others = [name for k, name in enumerate(parameters) if k not in changing]
    arrays = [ty for k in numbers for ty in arrays_of(argtypes[k]) if is_number_array(ty)]
    source = _SOURCE.format(
        parameters=", ".join(parameters),
        changing=tuple_of([parameters[k] for k in numbers]),
        others=tuple_of(others),
        given=tuple_of(arguments),
        reached=tuple_of([*others, "_result"]),
        notes="".join(_notes(parameters, argtypes, changing, len(arrays))),
    )
    names = {
        **replaced_lists.NAMES,
        **by_name(copy_objects, finish, keep_alive, objects_in, prefix="_"),
        **by_name(require_apart, require_transferable, prefix="_"),
        "_arrays_in": arrays_in,
        "_numbers_in": numbers_in,
        "_others_in": others_in,
        "_run": running(dispatcher, argtypes),
        "_transfer": transferring(tuple(ty.ndim for ty in arrays)),
    }
    return replacement_of(plain, source, names, "copied")


def _notes(
    parameters: Sequence[str], argtypes: Sequence[Any], changing: frozenset[int], count: int
) -> Iterator[str]:
    """The lines that compare arrays that were replaced with those in lists and dictionaries."""
    others = [k for k in range(len(parameters)) if k not in changing]
    lines = [line for k in others for line in replaced_lists.noted(parameters[k], argtypes[k])]
    for k in range(count if lines else 0):
        yield f"    if _is_another(_before[{k}], _after[{k}]):\n"
        yield f"        _note_array(_notes, 0, _OTHER, _before[{k}])\n"
    yield from lines
