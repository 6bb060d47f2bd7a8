"""Gradients with respect to lists of numbers in code that is itself differentiated: via arrays.

A gradient in such code is a function with rules, and rules take numbers and arrays. So a call with
lists among its arguments, constant or not, becomes a call of the same function of arrays
(`list_arguments`). The arrays are copies; writes to a list, and to its shadow, are copied back.
"""

from __future__ import annotations

from typing import Any

from activerules.annotations.activity import Active, Const, Duplicated, DuplicatedNoNeed
from activerules.annotations.signature import Mode
from activerules.api.autodiff import autodiff
from activerules.api.derived import GradientFunction
from activerules.api.list_arguments import (
    array_of,
    of_arrays,
    put_into,
    shadow_array,
    typed_list_of,
)
from activerules.nested.read_calls import ReadCall, names_of, values_of
from activerules.numba_ext.codegen.made_once import in_place_of
from activerules.numba_ext.codegen.types import AnnotationType
from activerules.rules.written import by_name, tuple_of
from activerules.values.kinds import is_number_list


def has_number_lists(nested: ReadCall) -> bool:
    """Whether a call has typed lists of numbers among its arguments."""
    return any(is_number_list(a.numba_type) for a in nested.arguments)


def call_by_arrays(nested: ReadCall, written: tuple[bool, ...]) -> Any:
    """The compiled function that replaces the call; `written`: which arguments it writes into."""
    argtypes = [a.numba_type for a in nested.arguments]
    listed = [k for k, ty in enumerate(argtypes) if is_number_list(ty)]
    changed = [k for k in listed if written[k]]
    target = of_arrays(nested.call.dispatcher, argtypes, changed)
    parameters, values = names_of(argtypes), values_of(nested.call.argtypes)
    lines = [f"v{k} = array_of({values[k]})" for k in listed]
    shadowed = [k for k in listed if nested.call.gradient is None and _has_shadow(nested, k)]
    lines += [f"d{k} = shadow_array(a{k}.val, a{k}.dval)" for k in shadowed]
    passed = list(parameters)
    for k in listed:
        passed[k] = (
            f"{nested.call.argtypes[k].kind.__name__}(v{k}, d{k})" if k in shadowed else f"v{k}"
        )
    scope = by_name(Duplicated, DuplicatedNoNeed, array_of, put_into, shadow_array, typed_list_of)
    result = "result"
    if nested.call.gradient is None:
        mode = Mode("reverse", options=nested.call.mode.options)
        scope |= {"autodiff": autodiff, "target": target, "marker": Const}
        scope["mode"] = mode.with_primal() if nested.with_primal else mode
        if nested.seeded:
            scope["marker"] = Active
        lines.append(f"result = autodiff(mode, target, marker, {', '.join(passed)})")
    else:
        spec = nested.call.gradient
        gradient = GradientFunction(target, spec.given, with_value=spec.with_value, options={})
        scope["gradient"] = gradient.dispatcher
        lines.append(f"result = gradient({', '.join(passed)})")
        result = _gradient(spec, listed)
    lines += [f"put_into({values[k]}, v{k})" for k in changed]
    lines += [f"put_into(a{k}.dval, d{k})" for k in shadowed]
    lines.append(f"return {result}")
    return in_place_of(nested.call.dispatcher, "call", parameters, lines, scope)


def _has_shadow(nested: ReadCall, k: int) -> bool:
    """Whether an argument of `autodiff` has a shadow."""
    return (
        isinstance(nested.call.argtypes[k], AnnotationType)
        and nested.call.argtypes[k].kind is not Const
    )


def _gradient(spec: Any, listed: list[int]) -> str:
    """The source text of the result of `grad`, with lists for lists."""
    items = "result[1]" if spec.with_value else "result"
    entries = [items if spec.single else f"{items}[{n}]" for n, _ in enumerate(spec.argnums)]
    entries = [
        f"typed_list_of({entry})" if k in listed else entry
        for entry, k in zip(entries, spec.argnums, strict=True)
    ]
    result = entries[0] if spec.single else tuple_of(entries)
    return f"(result[0], {result})" if spec.with_value else result
