"""The functions that are differentiated with `has_aux=True`, made from one that returns
`(value, aux)`.
"""

from __future__ import annotations

from typing import Any

from numba import njit, types

from activerules.annotations.values import ignore_derivatives
from activerules.errors import ActivityError
from activerules.numba_ext.codegen.arity import first_names
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.made_once import MadeOnce
from activerules.rules.pattern import type_name
from activerules.rules.written import item_by_item, replacement_of

_surrounded = MadeOnce()


def constant_aux(dispatcher: Any, count: int) -> Any:
    """The function that returns `(value, aux)`, with `aux` constant to derivatives."""
    result = "value_of(out), ignore_derivatives(own_memory(aux_of(out)))"
    return _around(dispatcher, count, result)


def value_alone(dispatcher: Any, count: int) -> Any:
    """The function that returns the value only."""
    return _around(dispatcher, count, "value_of(out)")


def _around(dispatcher: Any, count: int, result: str) -> Any:
    def make() -> Any:
        names = ", ".join(first_names(dispatcher, count))
        plain = dispatcher.py_func
        source = f"def {_NAME}({names}):\n out = _function({names})\n return {result}"
        scope = {
            "_function": dispatcher, "value_of": value_of, "aux_of": aux_of,
            "ignore_derivatives": ignore_derivatives, "own_memory": own_memory,
        }  # fmt: skip
        wrapper = replacement_of(plain, source, scope, name=_NAME)
        wrapper.__name__ = plain.__name__  # errors show the user's function
        return njit(wrapper)

    return _surrounded.get(dispatcher, (count, result), make)


_NAME = "around"


@chosen_by_types
def value_of(out):
    """The value in a result `(value, aux)`."""
    _require_pair(out)
    return lambda out: out[0]


@chosen_by_types
def aux_of(out):
    """The auxiliary output in a result `(value, aux)`."""
    _require_pair(out)
    return lambda out: out[1]


@chosen_by_types
def own_memory(x):
    """The value, with copies of texts and of arrays of integers: they may be constants of the
    program, and what a differentiated function returns has a shadow, which constants have not.
    """
    if isinstance(x, types.UnicodeType):
        return lambda x: x + ""
    if isinstance(x, types.Array):
        return lambda x: x.copy()
    if isinstance(x, types.BaseTuple):
        scope = {"own_memory": own_memory}
        return item_by_item(x, "x", "own_memory(x[{i}])", scope, module=__name__)
    return lambda x: x


def _require_pair(out: Any) -> None:
    if not isinstance(out, types.BaseTuple) or len(out) != 2:
        raise ActivityError(
            f"with has_aux=True a function returns (value, aux), not {type_name(out)}",
            instead=["return value, aux", "no has_aux"],
        )
