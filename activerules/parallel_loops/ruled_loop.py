"""A parallel loop as a compiled function with a rule.

Needs       a loop, and the function of a range of its iterations
Gives       `ruled_loop`: what runs instead of the loop
Invariants  R1  the iterations are divided into the same chunks in all sweeps

The primal runs groups of chunks in threads. So does the reverse, with the derivatives of chunks;
they compute the chunks again, so that nothing is kept but inputs that are overwritten. What a loop
reduces, each chunk stores in an array with an entry per chunk, which is folded after the loop.

Source      Hückelheim, Kukreja, Narayanan, Luporini, Gorman and Hovland, Automatic differentiation
            for adjoint stencil loops (ICPP 2019): data races of reversed parallel loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import types

from activerules.annotations.activity import Active, Const, Duplicated, MixedDuplicated
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.stubs import Stub
from activerules.numba_ext.codegen.threads import in_threads
from activerules.numba_ext.codegen.types import runtime_type
from activerules.numba_ext.codegen.unlinked import compiling_for_cpu, to_link
from activerules.numba_ext.rules.checks import written_apart
from activerules.parallel_loops import schedule
from activerules.parallel_loops.accesses import Access
from activerules.parallel_loops.outline import Loop, free_name
from activerules.parallel_loops.sweeps import Argument, ForwardSweep, ReverseSweep, Sweep
from activerules.rules.define import augmented_primal, forward, reverse
from activerules.rules.protocol import AugmentedReturn
from activerules.rules.written import by_name, function_from, tuple_of


def ruled_loop(loop: Loop, options: dict[str, Any]) -> Any:
    """The function (first, last, *reductions, *inputs) -> reductions that runs a loop in threads.

    options   as for `numba.njit`, for the iterations
    """
    return _RuledLoop(loop, options).launch()


# What generated functions call, and the names of their own parameters. A variable of the loop that
# has such a name gets another one there.
_RESERVED = """config ret dret tape copies first last group_count count group chunk args size _Any
    _AugmentedReturn _Const _after _before _chunk _chunks _forward _group _groups _in_threads
    _iterations _new_partials _np _reverse _start_of _start_with""".split()

_DIVIDED = ("first", "last", "group_count", "count")
"""The first parameters of what has the rule: the iterations, and how they are divided."""


class _RuledLoop:
    """The functions of one loop.

    reduced, inputs   names of parameters for what the loop reduces and reads
    partials          and for the arrays that reductions are stored in
    parameters        `partials` and `inputs`
    """

    def __init__(self, loop: Loop, options: dict[str, Any]) -> None:
        self._loop, self._options = loop, options
        taken = {*_RESERVED, *(f"_fold{k}" for k, _ in enumerate(loop.names.reductions))}
        self._reduced = [free_name(each.name, taken) for each in loop.names.reductions]
        self._inputs = [free_name(each, taken) for each in loop.names.inputs]
        self._partials = [free_name(f"partial_{each}", taken) for each in self._reduced]
        self._parameters = [*self._partials, *self._inputs]
        # optimised one by one, so that LLVM says which arrays are only read
        self._iterations = to_link(loop.iterations, optimised=True, **options)
        self._of_chunk = self._compiled_chunk()

    def linked(self, source: str, names: dict[str, Any], **more: Any) -> Any:
        """A function that is only called from compiled code."""
        return to_link(self._named(source, names), **self._options, **more)

    def _named(self, source: str, names: dict[str, Any]) -> Any:
        place = self._loop.iterations
        made = function_from(source, "f", names, module=__name__, like=place)
        made.__name__ = place.__name__
        made.__qualname__ = place.__qualname__
        return made

    def launch(self) -> Any:
        """What is called instead of the loop."""
        # groups that reach into their neighbours take turns
        per_thread = 2 if any(each.last > each.first for each in self._loop.accesses) else 1
        lines = [
            f"group_count = _groups(first, last, {per_thread})",
            f"count = _chunks(first, last, group_count, {tuple_of(self._reduced)})",
        ]
        names: dict[str, Any] = {
            **by_name(schedule.chunks, schedule.groups, prefix="_"),
            "_in_threads": self._threaded_loop(),
        }
        if self._partials:
            names["_new_partials"] = self._new_partials()
            made = (
                f"_new_partials(count, first, {tuple_of(self._reduced)}, {tuple_of(self._inputs)})"
            )
            lines.append(f"{tuple_of(self._partials)} = {made}")
        lines.append(f"_in_threads({', '.join((*_DIVIDED, *self._parameters))})")
        for k, (name, partials) in enumerate(zip(self._reduced, self._partials, strict=True)):
            names[f"_fold{k}"] = schedule.fold_of(self._loop.names.reductions[k])
            lines.append(f"{name} = _fold{k}({name}, {partials})")
        if self._reduced:
            lines.append(f"return {tuple_of(self._reduced)}")
        parameters = ", ".join(("first", "last", *self._reduced, *self._inputs))
        return self.linked(f"def f({parameters}):\n    " + "\n    ".join(lines), names)

    def _compiled_chunk(self) -> Any:
        """Runs the iterations of one chunk, and stores what they reduce."""
        starts = [f"_start_with({array}, chunk)" for array in self._partials]
        line = f"_iterations({', '.join(('first', 'last', *starts, *self._inputs))})"
        if self._partials:
            line = f"{tuple_of(f'{array}[chunk]' for array in self._partials)} = {line}"
        parameters = ", ".join(("first", "last", "chunk", *self._parameters))
        names = {"_iterations": self._iterations, "_start_with": schedule.start_with}
        return self.linked(f"def f({parameters}):\n    {line}", names, optimised=True)

    def _new_partials(self) -> Any:
        """Allocates the arrays of reductions, with the types that the loop gives its variables."""
        loop, iterations = self._loop, self._iterations
        where = ("the loop", loop.iterations.__qualname__, loop.location)

        @chosen_by_types
        def new_partials(count, first, starts, inputs):  # noqa: ARG001
            before = tuple(map(runtime_type, starts))
            given = (types.intp, types.intp)
            passed = tuple(map(runtime_type, inputs))
            found = _result_of(iterations, (*given, *before, *passed))
            if (*found,) != before:
                found = _result_of(iterations, (*given, *found, *passed))
            names: dict[str, Any] = {"_np": np}
            items = []
            for k, (each, ty) in enumerate(zip(loop.names.reductions, found, strict=True)):
                names[f"_dtype{k}"] = getattr(ty, "dtype", ty)
                items.append(schedule.new_partials(each.operation, k, ty, where))
            source = f"def f(count, first, starts, inputs): return {tuple_of(items)}"
            return function_from(source, "f", names, module=__name__)

        return new_partials

    def _threaded_loop(self) -> Any:
        """The loop as a function that has a rule; it runs in threads."""
        passed = ", ".join((*_DIVIDED, *self._parameters))
        bounds = [f"_start_of({k}, first, last, count)" for k in ("chunk", "chunk + 1")]
        chunk = f"_chunk({', '.join((*bounds, 'chunk', *self._parameters))})"
        names = {**by_name(schedule.start_of, in_threads, prefix="_"), "_chunk": self._of_chunk}
        group = f"""def f(group, args):
    {passed} = args
    size = count // group_count
    for chunk in range(group * size, (group + 1) * size):
        {chunk}"""
        names["_group"] = Stub(self.linked(group, names))
        ruled = self.linked(
            f"def f({passed}): _in_threads(_group, 0, 1, group_count, ({passed}))", names
        )
        serial = f"def f({passed}):\n    for chunk in range(count):\n        {chunk}"
        ruled.in_derivatives = self.linked(serial, names, optimised=True)
        self._define_rule(ruled)
        return ruled

    def _define_rule(self, ruled: Any) -> None:
        names = (*_DIVIDED, *self._parameters)
        inputs = zip(self._inputs, self._loop.accesses, strict=True)
        never_read = {name for name, access in inputs if access.never_read}
        saves = tuple(name for name in names if name not in never_read)
        annotated = ", ".join(f"{name}: _Any" for name in names)
        values = ", ".join(f"{name}.val" for name in names)
        given = f"{', '.join(_DIVIDED)}, {tuple_of(self._parameters)}"
        before, after = written_apart(names)
        scope = {
            **by_name(AugmentedReturn, Const, prefix="_"),
            "_before": before,
            "_after": after,
            "_Any": Const | Active | Duplicated | MixedDuplicated,
            "_in_threads": ruled,
            "_reverse": self._sweep(ReverseSweep),
            "_forward": self._sweep(ForwardSweep),
        }
        halves = f"""def augmented(config, ret: _Const, {annotated}):
    copies = _before(config, {tuple_of(names)})
    _in_threads({values})
    _after(config, {tuple_of(names)}, copies)
    return _AugmentedReturn(None, None, None)

def reversed(config, dret: _Const, tape, {annotated}):
    return _reverse(config, {given})

def tangent(config, ret: _Const, {annotated}):
    _forward(config, {given})"""
        written = {
            name: function_from(halves, name, scope, module=__name__)
            for name in ("augmented", "reversed", "tangent")
        }
        augmented_primal(ruled, saves=saves, keeps_shadow=False)(written["augmented"])
        reverse(ruled, saves=saves)(written["reversed"])
        forward(ruled)(written["tangent"])

    def _sweep(self, kind: type[Sweep]) -> Any:
        """What a half of the rule runs, chosen by the types of the arguments."""
        partials = [Access(axis=0) for _ in self._partials]
        accesses = [*partials, *self._loop.accesses]

        @chosen_by_types
        def sweep(config, first, last, group_count, count, args):  # noqa: ARG001
            written = {
                k - len(_DIVIDED) for k, is_written in enumerate(config.value.written) if is_written
            }
            given = enumerate(zip(self._parameters, args, accesses, strict=True))
            arguments = [
                Argument(k, name, ty, access, written=k in written)
                for k, (name, ty, access) in given
            ]
            return kind(self._loop, arguments, self._of_chunk, self.linked).function(config.value)

        return sweep


def _result_of(function: Any, args: Sequence[types.Type]) -> Any:
    """The type that a function returns."""
    with compiling_for_cpu():
        function.compile(tuple(args))
    return function.overloads[tuple(args)].signature.return_type
