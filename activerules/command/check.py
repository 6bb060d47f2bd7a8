"""`python -m activerules check module:function "float64[::1]" ...`: a gradient against differences.

Arguments are types, for which random values are made, or values. The comparison is that of
`activerules.testing.check_gradient`: along random directions, shadows starting non-zero, primal
results bit for bit.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import TypingError, types
from numba.extending import is_jitted

from activerules.annotations.activity import Annotation, Narrowed
from activerules.annotations.containers import like_tuple
from activerules.callables import location_of
from activerules.command.reading import load_function, read_argument
from activerules.errors import (
    ActiverulesError,
    CommandError,
    NotAFloatReturn,
    NotCompilable,
    RuleCheckError,
)
from activerules.explain.text import columns
from activerules.numba_ext.calls import call_arguments
from activerules.numba_ext.target.dispatchers import dispatcher_of, with_flags
from activerules.testing.gradient import Check, Comparison, default_activity
from activerules.testing.numeric import copied
from activerules.values.kinds import items_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("function", help="module:function or path/to/file.py:function")
    parser.add_argument(
        "argument",
        nargs="*",
        help="one per argument: a type (random values are made), a value (np.ones(3)), "
        "or Const[...] of either, which is held constant",
    )
    parser.add_argument(
        "--size",
        type=_count,
        default=5,
        help="of each axis of an array; the value of an integer (5)",
    )
    parser.add_argument("--points", type=_count, default=3, help="how many random points (3)")
    parser.add_argument("--seed", type=_count, default=0, help="of points and directions (0)")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Print a line per comparison; the status is 1 if one disagrees."""
    function = _require_jitted(load_function(options.function))
    arguments = [read_argument(text) for text in options.argument]
    target = dispatcher_of(function)
    call_arguments.require_call(target, arguments, {})
    names = call_arguments.parameter_names(target, len(arguments))
    print(f"{target.py_func.__name__}({', '.join(names)})   {location_of(target)}")
    rows: list[tuple[str, ...]] = []
    faults: dict[str, str] = {}
    resolved: set[int] = set()
    for number in range(options.points):
        rng = np.random.default_rng([options.seed, number])
        read = [_read(argument, rng, options.size) for argument in arguments]
        args = tuple(value for value, _ in read)
        try:
            comparisons = _comparisons(function, args, [activity for _, activity in read], rng)
        except RuleCheckError as error:
            faults.setdefault("", str(error))
            continue
        for i, comparison in comparisons:
            rows.append((f"point {number + 1}", names[i], *_cells(comparison)))
            resolved |= {i} if comparison.resolved else set()
            if comparison.resolved and not comparison.agrees:
                point = ", ".join(f"{k} = {x!r}" for k, x in zip(names, args, strict=True))
                faults.setdefault(
                    names[i], f"at {point}\nalong {names[i]}' = {comparison.direction!r}"
                )
    print("\n".join(columns([_HEAD, *rows]) if rows else []))
    if faults:
        print("\nTHE GRADIENT IS WRONG\n" + "\n".join(faults.values()))
        return 1
    if not rows:
        raise CommandError(
            "there is nothing to compare: no argument has a derivative, or --points is 0",
            why="floats, complex numbers, arrays of them and tuples of these have one",
        )
    compared = {names.index(row[1]) for row in rows}
    if compared - resolved:
        unclear = ", ".join(f"`{names[i]}`" for i in sorted(compared - resolved))
        raise CommandError(
            f"finite differences do not resolve the derivative with respect to {unclear}",
            why="the function is not smooth, or very large or small, at the points",
            instead=["other points: --seed, --size", "values in place of types"],
        )
    print(f"\nthe gradient agrees with finite differences: {len(rows)} comparisons")
    return 0


_HEAD = ("", "argument", "gradient", "finite differences", "")


def _cells(comparison: Comparison) -> tuple[str, str, str]:
    verdict = "agrees" if comparison.agrees else "DIFFERS"
    expected = f"{comparison.expected:.12g} ± {comparison.error:.1e}"
    return f"{comparison.found:.12g}", expected, verdict if comparison.resolved else "not resolved"


def _require_jitted(function: Any) -> Any:
    """Raise `NotCompilable` for plain functions and classes: only compiled code is checked."""
    jitted = is_jitted(getattr(function, "dispatcher", function))
    if not jitted and (inspect.isroutine(function) or inspect.isclass(function)):
        code = getattr(function, "__code__", None)
        raise NotCompilable(
            f"`{function.__name__}` is not an @njit function",
            where=[("defined", f"def {function.__name__}", location_of(function))] if code else [],
            why="derivatives are made from the code that Numba compiles, and are checked for it",
            instead=["@numba.njit above its definition"],
        )
    return function


def _comparisons(
    function: Any, args: tuple[Any, ...], activities: Sequence[Any], rng: np.random.Generator
) -> list[tuple[int, Comparison]]:
    name = getattr(function, "__name__", str(function))
    check = Check(function, args, activities, rng)
    try:
        _run_with_bounds_checks(function, args)
        if not check.has_output():
            raise NotAFloatReturn(
                f"{name} returns nothing that has a derivative, and writes into no array",
                instead=["a function that returns one float, or writes its result into an array"],
            )
        return list(check.comparisons(2))
    except ActiverulesError:
        raise
    except TypingError as error:
        raise NotCompilable(
            f"Numba cannot compile {name} for these arguments",
            where=[("the function", name, location_of(dispatcher_of(function)))],
            why=str(error).strip(),
        ) from error
    except Exception as error:
        raise CommandError(
            f"{name} raises {type(error).__name__} where it is checked: {error}",
            where=[("at the point", ", ".join(map(repr, args)), "")],
            instead=["values in place of types: np.linspace(0, 1, 5)"],
        ) from error


def _run_with_bounds_checks(function: Any, args: Sequence[Any]) -> None:
    """Raise `IndexError` where indices do not fit the values: a derivative writes there."""
    checked = with_flags(dispatcher_of(function), {"boundscheck": True})
    checked(*map(copied, args))


# --- arguments ---


def _read(argument: Any, rng: np.random.Generator, size: int) -> tuple[Any, Any]:
    """A value, and its activity."""
    if isinstance(argument, Annotation):
        return argument.fields[0], type(argument)
    if isinstance(argument, Narrowed):
        value, _ = _read(argument.type, rng, size)
        return value, argument.kind
    if isinstance(argument, type):
        kind = argument.__name__
        raise CommandError(f"{kind} does not say of which type", instead=[f"{kind}[float64[::1]]"])
    value = _random(argument, rng, size) if isinstance(argument, types.Type) else argument
    return value, default_activity(value)


def _random(ty: Any, rng: np.random.Generator, size: int) -> Any:
    """A value of a type: floats between 0.5 and 1.5, integers and lengths of `size`."""
    match ty:
        case types.Array():
            return _random_array(ty, rng, size)
        case types.BaseTuple():
            entries = [_random(item, rng, size) for item in items_of(ty)]
            return like_tuple(getattr(ty, "instance_class", tuple), entries)
        case types.Boolean():
            return True
        case types.Integer():
            return np.dtype(str(ty)).type(size)
        case types.Float() | types.Complex():
            return _uniform(str(ty), (), rng)[()]
        case _:
            raise CommandError(
                f"no random value is made for the type {ty}",
                instead=["a value: np.linspace(0, 1, 5)", "a number, an array or a tuple of these"],
            )


def _random_array(ty: types.Array, rng: np.random.Generator, size: int) -> Any:
    """An array of this type; integers are valid subscripts of an array of `size`."""
    shape = (size,) * ty.ndim
    match ty.dtype:
        case types.Float() | types.Complex():
            values = _uniform(str(ty.dtype), shape, rng)
        case types.Integer() | types.Boolean():
            values = rng.integers(0, max(size, 1), shape).astype(str(ty.dtype))
        case _:
            raise CommandError(
                f"no random values are made for arrays of {ty.dtype}",
                instead=["a value: np.zeros(3, dtype)"],
            )
    if ty.layout == "A":
        return np.repeat(values, 2, axis=-1)[..., ::2]
    return np.asfortranarray(values) if ty.layout == "F" else values


def _uniform(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    values = rng.uniform(0.5, 1.5, shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.uniform(0.5, 1.5, shape)
    return np.asarray(values).astype(dtype)
