"""Checks of the annotations of a call of `autodiff`, while it is typed: activities and shadows.

They raise before a derivative is compiled. What depends on the arrays themselves is checked by
compiled code, see `memory`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from numba.core import types

from activerules.annotations.activity import (
    BY_NAME,
    SHADOWED,
    Active,
    Const,
    Duplicated,
    DuplicatedNoNeed,
    MixedDuplicated,
)
from activerules.annotations.signature import Mode
from activerules.errors import (
    ActivityError,
    ArityError,
    NotAFloatReturn,
    NotYetSupported,
    ShadowMismatch,
)
from activerules.numba_ext.calls.refused_kinds import refuse_kind
from activerules.numba_ext.codegen.types import AnnotationType, runtime_type
from activerules.rules.pattern import type_name
from activerules.rules.registry import RULES
from activerules.values.argument import ArgumentSpec
from activerules.values.kinds import (
    is_instance,
    is_number,
    is_number_array,
    is_record_array,
    items_of,
    leaves_of,
    unknown_field,
)
from activerules.values.layout import (
    CONSTANT,
    Items,
    Node,
    ValueActivity,
    has_items_of,
    layout_of,
    pairs,
    show,
)


def read_arguments(names: Sequence[str], argtypes: Sequence[Any]) -> tuple[ArgumentSpec, ...]:
    """Return a call's arguments; a bare value is Const. Raises `ActivityError`,
    `ShadowMismatch`.
    """
    return tuple(_read_argument(name, ty) for name, ty in zip(names, argtypes, strict=True))


def read_gradient_arguments(
    names: Sequence[str], argtypes: Sequence[Any], argnums: Sequence[int]
) -> tuple[ArgumentSpec, ...]:
    """Return the arguments of `grad`: floats of `argnums` are Active, arrays Duplicated, others
    Const. Raises `ArityError` if the call has fewer arguments.
    """
    missing = [str(k) for k in argnums if k >= len(names)]
    if missing:
        raise ArityError(
            f"argnums has {', '.join(missing)}, and the call has {len(names)} arguments",
            instead=["an argument that is given"],
        )
    arguments = []
    for i, (name, ty) in enumerate(zip(names, map(runtime_type, argtypes), strict=True)):
        activity: ValueActivity = "const"
        if i in argnums:
            require_differentiable(name, ty)
            activity = layout_of(ty).activity
        arguments.append(ArgumentSpec(name, ty, activity))
    return tuple(arguments)


def require_differentiable(name: str, ty: Any) -> None:
    """Refuse what no gradient can be taken with respect to."""
    refuse_declared_inactive(name, ty)
    refuse_kind(name, ty)
    is_array = isinstance(ty, types.Array) and not isinstance(ty.dtype, _WITHOUT_DERIVATIVE)
    if is_array or isinstance(ty, _CONTAINERS):
        _require_duplicated(name, ty)
    if isinstance(ty, types.ListType | types.DictType):
        require_known_fields(name, ty)
    if layout_of(ty).activity == "const":
        raise ActivityError(
            f"`{name}` is {type_name(ty)}, which has no derivative",
            why="argnums names the arguments to differentiate with respect to: floats, tuples and "
            "arrays of floats",
            instead=[_as_floats(name, ty), "another argnums"],
        )
    require_known_leaves(name, ty)
    refuse_records(name, ty, "grad")


def _as_floats(name: str, ty: Any) -> str:
    """Advice for passing an argument of another type as floats."""
    if isinstance(ty, types.Integer):
        return f"a float, as 1.0 in place of 1: float({name})"
    if isinstance(ty, types.Array):
        return f"{name}.astype(np.float64)"
    return f"floats for `{name}`"


def require_marked(
    function: Any, mode: Mode, names: Sequence[str], argtypes: Sequence[Any]
) -> None:
    """Raise `ActivityError` if all arguments of `autodiff` are bare values.

    There would be nothing to differentiate with respect to; `Const` for each says this is intended.
    """
    if not argtypes or any(isinstance(ty, AnnotationType) for ty in argtypes):
        return
    raise ActivityError(
        f"no argument of {function.py_func.__name__} is marked, so that there is no derivative",
        why="a bare value is Const",
        instead=[
            *(_marked(name, ty, mode) for name, ty in zip(names, argtypes, strict=True)),
            f"Const({names[0]}), where no derivative is meant to be",
        ],
    )


def _marked(name: str, ty: Any, mode: Mode) -> str:
    """How to annotate an argument as differentiable in a mode."""
    if layout_of(ty).activity == "const":
        return _as_floats(name, ty)
    if mode.direction == "forward":
        return f"Duplicated({name}, tangent)"
    return _annotated(name, ty)


def _annotated(name: str, ty: Any) -> str:
    """How to annotate an argument of this type in reverse mode."""
    kind = BY_NAME[layout_of(ty).activity]
    shadow = f", make_zero({name})" if kind in SHADOWED else ""
    return f"{kind.__name__}({name}{shadow})"


def _read_argument(name: str, ty: Any) -> ArgumentSpec:
    if not isinstance(ty, AnnotationType):
        return ArgumentSpec(name, runtime_type(ty), "const")
    if ty.kind is Const:
        return ArgumentSpec(name, ty.val, "const")
    refuse_declared_inactive(name, ty.val)
    refuse_kind(name, ty.val)
    if ty.kind is Active:
        _require_active(name, ty.val)
        return ArgumentSpec(name, ty.val, "active")
    if ty.kind in (Duplicated, DuplicatedNoNeed):
        _require_duplicated(name, ty.val)
        _require_shadow(name, ty.val, ty.dval)
        return ArgumentSpec(name, ty.val, "duplicated")
    if ty.kind is MixedDuplicated:
        _require_mixed(name, ty.val)
        _require_shadow(name, ty.val, ty.dval)
        return ArgumentSpec(name, ty.val, "mixed")
    raise NotYetSupported(
        f"`{name}` is marked {ty.kind.__name__}, which is not yet supported here",
        instead=[f"Duplicated({name}, make_zero({name}))"],
    )


_CONTAINERS = (types.List, types.DictType, types.Set)
_WITHOUT_DERIVATIVE = (types.Integer, types.Boolean)


def refuse_declared_inactive(name: str, ty: Any) -> None:
    """Refuse a derivative with respect to values of a type that was declared inactive."""
    for leaf in (ty, *leaves_of(ty)):
        if RULES.is_inactive_type(leaf):
            holds = "is" if leaf is ty else "holds"
            raise ActivityError(
                f"`{name}` {holds} {type_name(leaf)}, which was declared inactive",
                why="inactive_type says that values of this type carry no derivative",
                instead=[f"Const({name})" if leaf is ty else "pass it on its own, as Const"],
            )


def require_known_leaves(name: str, ty: Any) -> None:
    """Refuse a value that contains floats the engine cannot see."""
    refuse_declared_inactive(name, ty)
    for leaf in leaves_of(ty):
        require_known_fields(name, leaf)
        plain = getattr(leaf, "dtype", leaf) if isinstance(leaf, types.Array) else leaf
        if (
            not is_number(plain)
            and not isinstance(plain, CONSTANT)
            and not layout_of(leaf).has_shadow
        ):
            raise NotYetSupported(
                f"`{name}` holds {type_name(leaf)}, which is not yet supported in a tuple",
                instead=["pass it as an argument of its own"],
            )


def require_known_fields(name: str, leaf: Any) -> None:
    """Raise `NotYetSupported` if a field of a value may hold floats of an unknown layout."""
    field = unknown_field(leaf)
    if field:
        raise NotYetSupported(
            f"`{name}{field}` is of a type that is not yet supported in a Duplicated argument",
            why="fields and items with a derivative are numbers, arrays, tuples, typed lists and "
            "dictionaries, and other objects",
            instead=["pass it as an argument of its own"],
        )


def _require_active(name: str, ty: Any) -> None:
    is_tuple = isinstance(ty, types.BaseTuple)
    if layout_of(ty).activity == "active":
        return require_known_leaves(name, ty)
    raise ActivityError(
        f"`{name}` is marked Active and is {type_name(ty)}",
        why="the derivative of an Active argument is returned, so it must be a float"
        + (", or a tuple of floats" if is_tuple else ""),
        instead=[_annotated(name, ty)],
    )


def _require_duplicated(name: str, ty: Any) -> None:
    activity = layout_of(ty).activity
    if activity == "duplicated":
        return require_known_leaves(name, ty)
    if activity == "mixed":
        raise ActivityError(
            f"`{name}` is marked Duplicated and holds numbers beside its arrays",
            why="in reverse mode, the derivatives of numbers are returned, those of arrays are "
            "added to a shadow",
            instead=[_annotated(name, ty)],
        )
    if is_instance(ty) or isinstance(ty, types.Array | types.ListType | types.DictType):
        require_known_fields(name, ty)
    if isinstance(ty, _CONTAINERS):
        raise NotYetSupported(
            f"`{name}` is {type_name(ty)}, which is not yet supported as a Duplicated argument",
            why="of lists and dictionaries, only those of numba.typed can have a shadow, if their "
            "items, or the values of the dictionary, have one",
            instead=[
                *([f"numba.typed.List({name})"] if isinstance(ty, types.List) else []),
                "an array, or a tuple of arrays",
                "make it inside the function",
            ],
        )
    raise ActivityError(
        f"`{name}` is marked Duplicated and is {type_name(ty)}",
        why="in reverse mode, the derivative of a Duplicated argument is added to memory of floats",
        instead=[_annotated(name, ty)],
    )


def _require_mixed(name: str, ty: Any) -> None:
    if layout_of(ty).activity == "mixed":
        return require_known_leaves(name, ty)
    raise ActivityError(
        f"`{name}` is marked MixedDuplicated and is {type_name(ty)}",
        why="MixedDuplicated is for tuples that hold numbers and arrays of numbers",
        instead=[_annotated(name, ty)],
    )


def _require_shadow(name: str, primal: Any, shadow: Any) -> None:
    for path, node, shadow_node in pairs(layout_of(primal), layout_of(shadow)):
        _require_shadow_of_part(name + show(path), node, shadow_node)


def _require_shadow_of_part(name: str, node: Node, shadow_node: Node) -> None:
    primal, shadow = node.numba_type, shadow_node.numba_type
    problem = f"is {type_name(shadow)}, and `{name}` is {type_name(primal)}"
    if is_number_array(primal) or is_record_array(primal):
        if is_array_alike(primal, shadow):
            if shadow.mutable:
                return
            problem = "is read-only, and the derivative is added to it"
    elif has_items_of(node, shadow_node):
        return
    elif shadow == primal or runtime_type(shadow) == runtime_type(primal):
        # An instance or a record, whose contents are checked at run time; or an item of a tuple
        # that is not used but must have the same form.
        if not _is_read_only(shadow_node):
            return
        raise ShadowMismatch(
            f"the shadow of `{name}` holds arrays that are read-only",
            why="the derivative is added to them",
            instead=[
                f"d[key] = {name}[key].copy() for each, and make_zero of that"
                if isinstance(primal, types.DictType)
                else f"numba.typed.List([a.copy() for a in {name}]), and make_zero of that"
            ],
        )
    raise ShadowMismatch(f"the shadow of `{name}` {problem}", instead=[f"make_zero({name})"])


def is_array_alike(primal: Any, shadow: Any) -> bool:
    """Whether both are array types with the same dtype and number of axes."""
    are_arrays = isinstance(primal, types.Array) and isinstance(shadow, types.Array)
    return are_arrays and (shadow.dtype, shadow.ndim) == (primal.dtype, primal.ndim)


def _is_read_only(node: Node) -> bool:
    """Whether the items of a list or dictionary are, or contain, read-only arrays."""
    if node.is_tuple or (isinstance(node, Items) and node.is_typed):
        return any(_is_read_only(child) for _, child in node.children)
    return is_number_array(node.numba_type) and not node.numba_type.mutable


def refuse_records(name: str, ty: Any, where: str) -> None:
    """Raise `NotYetSupported` for a record outside an array, if its derivative would be new memory.

    A record is a pointer, and does not keep alive what it points to.
    """
    if any(isinstance(leaf, types.Record) for leaf in leaves_of(ty)):
        raise NotYetSupported(
            f"`{name}` is {type_name(ty)}, not yet supported in {where}",
            why="a derivative with respect to a record would be a record that no array owns",
            instead=[
                "an array of one record, particles[i : i + 1]",
                f"autodiff(Reverse, …) with Duplicated({name}, make_zero({name}))",
            ],
        )


def require_holomorphic(arguments: Sequence[ArgumentSpec]) -> None:
    """Raise `ActivityError` unless f'(z) makes sense for these arguments: Active complex ones."""
    for argument in arguments:
        complex_only = all(
            isinstance(leaf, types.Complex)
            for leaf in leaves_of(argument.numba_type)
            if is_number(leaf)
        )
        if argument.activity == "const" or (argument.activity == "active" and complex_only):
            continue
        raise ActivityError(
            f"`{argument.name}` is {argument.annotation}, and the mode is holomorphic",
            why="f'(z) is returned for Active complex numbers; with respect to real "
            "numbers and arrays, a complex result has two gradients, one of each part",
            instead=[
                "Active complex numbers",
                "differentiate the real and the imaginary part of the result, without the option",
            ],
        )


def refuse_holomorphic(mode: Mode) -> None:
    """Refuse `holomorphic` for calls other than those that return one complex derivative."""
    if "holomorphic" in mode.options:
        raise NotYetSupported(
            f"{mode} with batched arguments or in split mode is not yet supported",
            instead=["autodiff(Reverse.holomorphic(), …) with one shadow per argument"],
        )


def refuse_runtime_activity(options: Collection[str]) -> None:
    """Refuse `runtime_activity` for forms that do not compare pointers."""
    if "runtime_activity" in options:
        raise NotYetSupported(
            "the option .runtime_activity() with several shadows per argument is not yet supported",
            instead=["Const for the array that is constant", "a branch between two calls"],
        )


def require_float_return(function: Any, result: Any, *, holomorphic: bool = False) -> None:
    """Raise `NotAFloatReturn` unless `result` can be an Active return."""
    if isinstance(result, types.Complex if holomorphic else types.Float):
        return
    if holomorphic:
        raise NotAFloatReturn(
            f"{function.py_func.__name__} returns {type_name(result)}, not a complex number",
            why="f'(z) is the derivative of one complex number",
            instead=["Reverse, for a function that returns a float"],
        )
    items = items_of(result) if isinstance(result, types.BaseTuple) else ()
    starts_with_float = len(items) == 2 and isinstance(items[0], types.Float)
    complex_mode = "Reverse.holomorphic(), for a holomorphic function of complex numbers"
    raise NotAFloatReturn(
        f"{function.py_func.__name__} returns {type_name(result)}, not a float",
        why="a gradient is the derivative of one number",
        instead=[
            "return one float: a sum, a loss",
            *([complex_mode] if isinstance(result, types.Complex) else []),
            *(["grad(f, has_aux=True), for (value, aux)"] * starts_with_float),
            "jacobian, or autodiff_thunk and vjp, for functions that return arrays",
            "the activity Const for a function that writes its result into an argument",
        ],
    )
