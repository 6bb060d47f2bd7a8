"""Making the report on a derivation: every fact of the plan, by the line of source it is about."""

from __future__ import annotations

import inspect
import linecache
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from activerules.annotations.activity import Annotation
from activerules.annotations.signature import Mode, Reverse
from activerules.errors import ActivityError
from activerules.explain.arguments import Question, read_question
from activerules.explain.report import (
    Kept,
    Line,
    LoopLength,
    Recomputed,
    Report,
    RuleCall,
    SourceLine,
)
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.nodes import LeavingIteration, Link, Node, Primal, Taken
from activerules.ir.derivatives.table import cost
from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.location import Locator, readable_path
from activerules.ir.llvm.model import Block, Instruction
from activerules.ir.plan.forward_plan import ForwardPlan
from activerules.ir.plan.layout import make_layout
from activerules.ir.plan.plan import Plan
from activerules.ir.plan.reasons import (
    describe,
    loop_branch,
    name_of_memory,
    origin,
    why_kept,
    why_served,
)
from activerules.ir.plan.rendering import in_order, is_computation, marked_calls
from activerules.numba_ext.codegen.link import global_compiler_lock
from activerules.pipeline.derivation import Derivation

P = TypeVar("P", bound=Plan | ForwardPlan)


def explain(
    function: Callable[..., Any],
    *annotated: Any,
    return_activity: type[Annotation] | None = None,
    mode: Mode = Reverse,
) -> Report:
    """Report how the derivative of a function is computed: activity, tape, rules, times.

    Arguments
        function         an `@njit` function or a plain one that Numba can compile.
                         `grad(g)` or `value_and_grad(g)` with values or types that are not
                         annotated stands for `g`, annotated as that differentiates it.
        annotated        as for `autodiff`, or with types: `Duplicated[float64[::1]]`.
        return_activity  Active, Const or Duplicated; by default Active for a function that returns
                         a float, and Duplicated, as for `vjp`, for one that returns arrays.
        mode             Reverse (also for split derivatives and pullbacks), or Forward: annotations
                         are then Const, Duplicated and BatchDuplicated (of a type: with two
                         tangents), and there is no tape.

    Returns
        A `Report`: `print` it, show it in a notebook, or read its attributes (`lines`, `cached`,
        `recomputed`, `rules`, `loops`, `stages` ...). Nothing is run.

    Raises
        what `autodiff` raises when it compiles; the error has a command that reproduces it.

    >>> from numba import float64
    >>> [kept.what for kept in explain(lambda x: x * x, Active[float64]).cached]
    []
    """
    if not isinstance(mode, Mode):
        raise ActivityError(
            f"the mode of a report is one such as Forward, not {mode!r}",
            instead=["mode=Reverse", "mode=Forward"],
        )
    with global_compiler_lock:  # another thread may be compiling
        if mode.direction == "forward":
            question = read_question(function, annotated, return_activity, forward=True)
            return _ForwardCollector(question, question.forward_derivation()).report()
        question = read_question(function, annotated, return_activity)
        return _Collector(question, question.derivation(split=mode.split)).report()


class _Reader(Generic[P]):
    """The common part of reports on both modes: lines, and calls with rules."""

    def __init__(self, question: Question, derivation: Derivation[P]) -> None:
        self.question, self.derivation, self.plan = question, derivation, derivation.plan
        self.locator = Locator(derivation.module)
        self.code = question.dispatcher.py_func.__code__
        self.file = readable_path(self.code.co_filename)

    # --- lines of source ---

    def _location(self, instruction: Instruction | None) -> SourceLine:
        """The line of an instruction, unless it only has that of the function itself."""
        if instruction is None or "!dbg" not in instruction.attributes.get("metadata", ""):
            return SourceLine()
        file, _, line = self.locator.of(instruction).rpartition(":")
        return self._location_at(file, int(line)) if line not in ("", "0") else SourceLine()

    def _own_location(self) -> SourceLine:
        return self._location_at(self.code.co_filename, self.code.co_firstlineno)

    def _location_at(self, file: str, line: int) -> SourceLine:
        shown = readable_path(file)
        source = linecache.getline(self.code.co_filename if shown == self.file else file, line)
        return SourceLine(shown, line, source.rstrip("\n"))

    # --- sections for both modes ---

    def _report(self, **of_mode: Any) -> Report:
        derivation = self.derivation
        activity = derivation.gradient.return_activity.capitalize()
        return Report(
            function=self.question.dispatcher.py_func.__name__,
            signature=f"{self.question.signature} -> {activity}",
            location=self._own_location(),
            rules=(*map(self._rule, marked_calls(self.plan)), *self._followed()),
            stages=dict(derivation.stages.seconds),
            fallbacks=tuple((each.tried, each.refused) for each in derivation.fallbacks),
            **of_mode,
        )

    def _is_undone(self, instruction: Instruction) -> bool:
        """Whether the reverse sweep undoes what an instruction writes."""
        return False

    def _lines(self, cached: Iterable[Kept] = ()) -> list[Line]:
        values, writes, work, depth, tape = (Counter[SourceLine]() for _ in range(5))
        for block in self.plan.flow.order:
            loop = self.plan.flow.loop_of(block)
            for i in block.instructions if block in self.plan.returns.live else ():
                at = self._location(i)
                values[at] += self.plan.activity.is_active(i)
                writes[at] += self._is_undone(i)
                work[at] += _work(i)
                depth[at] = max(depth[at], loop.depth if loop else 0)
        for kept in cached:
            tape[kept.location] += kept.bytes
        own = self._own_lines()
        called = sorted({*values, *tape} - {*own, SourceLine()}, key=lambda p: (p.file, p.line))
        every = [(at, False) for at in own] + [(at, True) for at in called]
        return [
            Line(at, values[at], writes[at], of, tape[at], work[at], depth[at]) for at, of in every
        ]

    def _own_lines(self) -> list[SourceLine]:
        """The lines of the function itself, with or without code."""
        try:
            source, start = inspect.getsourcelines(self.code)
        except OSError:
            return []
        return [self._location_at(self.code.co_filename, start + k) for k in range(len(source))]

    def _rule(self, call: Instruction) -> RuleCall:
        info = self.plan.calls.marked(call)
        assert info is not None
        use = self.plan.rules.get(call)
        return RuleCall(
            name=info.name,
            location=self._location(call),
            activities=tuple(a.capitalize() for a in use.request.activities) if use else (),
            rule=use.code.description if use else None,
            reason=why_served(call, self.plan),
        )

    def _followed(self) -> Iterable[RuleCall]:
        """Calls of functions with rules, here or in callees, that no rule can serve."""
        here = {(line.location.file, line.location.line) for line in self._lines()}
        for call in self.derivation.captured.followed:
            file, _, line = call.location.rpartition(":")
            location = self._location_at(file, int(line))
            if (location.file, location.line) in here:
                yield RuleCall(call.name, location, (), None, call.reason, followed=True)


class _Collector(_Reader[Plan]):
    """Reads the derivation of a gradient."""

    def __init__(self, question: Question, derivation: Derivation[Plan]) -> None:
        super().__init__(question, derivation)
        self.layout = make_layout(self.plan)

    def report(self) -> Report:
        cached = tuple(map(self._kept, in_order(self.plan.cache.kept, self.plan)))
        return self._report(
            lines=tuple(self._lines(cached)),
            loops=tuple(map(self._loop, self.plan.flow.loops)),
            cached=cached,
            recomputed=tuple(self._recomputed()),
            retained=tuple(self._retained()),
            frame_bytes=self.layout.frame_size,
            overlap=self._overlap(),
        )

    def _is_undone(self, instruction: Instruction) -> bool:
        return instruction in self.plan.needs and not instruction.type.is_float

    # --- sections ---
    def _loop(self, loop: Loop) -> LoopLength:
        rows = self.layout.rows.get(loop)
        return LoopLength(
            location=self._location_of_loop(loop),
            depth=loop.depth,
            known=self.plan.loops[loop].trip_count is not None,
            undone=loop in self.plan.reversal.loops,
            row_bytes=rows.size if rows is not None else 0,
        )

    def _location_of_loop(self, loop: Loop) -> SourceLine:
        location = self._location(loop_branch(loop))
        if location != SourceLine():
            return location
        inside = (self._location(i) for block in loop.blocks for i in block.instructions)
        return min((p for p in inside if p.line), key=lambda p: p.line, default=SourceLine())

    def _kept(self, node: Node) -> Kept:
        home, entries = self.plan.home(node), self.plan.per_entry(node)
        reason = why_kept(node, self.plan)
        culprit = self._location(reason.culprit)
        return Kept(
            what=describe(node, self.plan, self._name_of),
            location=self._location_of(node),
            bytes=self.layout.field(node, home).size if entries is None else entries.size,
            loop=None if home is None else self._location_of_loop(home),
            read_in=None if entries is None else self._location_of_loop(entries.loop),
            reason=reason.text + (f" at line {culprit.line}" if culprit.line else ""),
        )

    def _location_of(self, node: Node) -> SourceLine:
        match node:
            case LeavingIteration(loop) | Link(loop):
                return self._location_of_loop(loop)
            case Taken(block):
                return self._location_of_block(block)
            case _:
                about = origin(node)
                location = self._location(about)
                if location.line or about is None or about.parent is None:
                    return location
                return self._location_of_block(about.parent)

    def _location_of_block(self, block: Block) -> SourceLine:
        """The line of a block, for instructions that LLVM added at a join without a line."""
        loop = self.plan.flow.loop_of(block)
        if loop is not None and loop.header is block:
            return self._location_of_loop(loop)
        locations = [p for p in map(self._location, block.instructions) if p.line]
        before = self.plan.flow.idom[block]
        while not locations and before is not None:
            locations = [p for p in map(self._location, reversed(before.instructions)) if p.line]
            before = self.plan.flow.idom[before]
        return locations[0] if locations else self._own_location()

    def _recomputed(self) -> list[Recomputed]:
        counts = Counter(
            (describe(node, self.plan, self._name_of), self._location_of(node))
            for node in in_order(self.plan.cache.computed, self.plan)
            if is_computation(node) and _is_for_users(node)
        )
        return [Recomputed(what, location, count) for (what, location), count in counts.items()]

    def _retained(self) -> Iterable[SourceLine]:
        calls = [o.key for o in self.plan.ownership.retained if isinstance(o.key, Instruction)]
        locations = {self._location(call) for call in calls}
        return sorted(locations, key=lambda p: (p.file, p.line))

    def _name_of(self, memory: MemoryObject) -> str:
        """The name of memory for readers: arguments by name, arrays by the line that makes them."""
        if memory.kind == "argument" and isinstance(memory.key, int):
            return f"`{self.derivation.captured.argument_names[memory.key]}`"
        if memory.kind == "allocation" and isinstance(memory.key, Instruction):
            location = self._location(memory.key)
            return f"the array made at line {location.line}" if location.line else "a new array"
        if memory.kind == "result" and isinstance(memory.key, Instruction):
            return describe(Primal(memory.key), self.plan)
        return name_of_memory(memory)

    def _overlap(self) -> str:
        gradient = self.derivation.gradient
        if gradient.versions.conservative is None:
            return "does not matter here, so there is one version"
        if gradient.versions.conservative == gradient.symbol:
            return "makes no difference to what is kept, so there is one version"
        return "is checked at every call: a second version, which keeps more, runs if they overlap"


class _ForwardCollector(_Reader[ForwardPlan]):
    """Reads the derivation of a forward derivative."""

    def report(self) -> Report:
        return self._report(
            lines=tuple(self._lines()),
            loops=(),
            cached=(),
            recomputed=(),
            retained=(),
            frame_bytes=0,
            overlap="is right where their tangents overlap in the same way",
            forward=True,
        )


# a call of a function such as exp, and what memory costs, next to an addition
_CALL, _ACCESS = 20, 2


def _work(i: Instruction) -> int:
    """What an instruction costs, roughly, in units of one addition; addresses cost nothing."""
    if i.opcode in ("load", "store"):
        return _ACCESS
    if i.opcode == "call":
        price = cost(i)
        return _CALL if price is None else price
    return max(1, cost(i) or 0) if i.type.is_float else 0


def _is_for_users(node: Node) -> bool:
    """Whether a node is worth reporting: a float; addresses and indices are recomputed anyway."""
    return isinstance(node, Primal) and node.value.type.is_float
