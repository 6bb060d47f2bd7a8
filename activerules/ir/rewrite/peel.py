"""Loops whose first or last iteration takes another branch: that iteration is peeled off.

Needs       a Function in normal form, with its ControlFlow, Returns and Integers
Gives       `peel`: the function changed in place; returns how many instructions it has copied: if
            any, the control flow is another one, and other loops may be peeled now
Invariants  P1  the same instructions run in the same order, but for the counter's tests, and for
                comparisons whose outcome is known
            P2  the function is in normal form

    for i in range(n):                              a[0] = x[0]
        a[i] = x[i]                                 for i in range(1, n):
        if i > 0:                   becomes             a[i] = x[i] - x[i - 1]
            a[i] -= x[i - 1]

The loop that is left has no such branch, so that its derivative keeps less, and LLVM vectorises it:
stencils that test for the border of a grid, or find neighbours on a ring by `(i + 1) % n`.

Source      index set splitting, and loop peeling: Wolfe (1996), High performance compilers for
            parallel computing, sec. 9.2
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.analysis.loops.trip_counts import analyse_loops
from activerules.ir.analysis.returns import Returns
from activerules.ir.llvm.builder import Builder, Namer, add_incoming, suffixed
from activerules.ir.llvm.cfg import ControlFlow, reverse_postorder
from activerules.ir.llvm.constants import constant, integer_of, number_of
from activerules.ir.llvm.model import Block, Function, Instruction, Value
from activerules.ir.llvm.types import I1
from activerules.ir.rewrite.borders import Border, Outcomes, border_of, loop_test

MOST_COPIED = 1500
"""Instructions in all copies of parts of a function."""

# instructions of an innermost loop that is peeled
_LARGEST_LOOP = 150


def peel(
    function: Function,
    flow: ControlFlow,
    returns: Returns,
    integers: Integers,
    most: int = MOST_COPIED,
) -> int:
    """Peel the innermost of the loops that have such iterations; see the module docstring.

    most   how many instructions may be copied
    """
    facts = analyse_loops(flow, returns)
    copied = 0
    borders: list[Border] = []
    for loop in sorted(flow.loops, key=lambda loop: -loop.depth):
        size = sum(len(block.instructions) for block in loop.blocks)
        if 2 * size > most - copied or (size > _LARGEST_LOOP and not loop.children):
            continue
        if not any(border.loop.blocks <= loop.blocks for border in borders):
            border = border_of(loop, facts, returns, integers)
            if border is not None:
                borders.append(border)
                copied += 2 * size
    # what is known of the function no longer holds once one of them is peeled
    changed = [_Peeling(function, flow, border).done() for border in borders]
    if not any(changed):
        return 0
    _drop_unreachable(function)
    return copied


def _drop_unreachable(function: Function) -> None:
    """Take out blocks to which only comparisons led that are decided now."""
    reachable = set(reverse_postorder(function.entry))
    function.blocks = [block for block in function.blocks if block in reachable]
    for block in function.blocks:
        for phi in block.phis:
            _keep_edges(phi, reachable)


def _keep_edges(phi: Instruction, sources: Collection[Block]) -> None:
    """Take the edges from other blocks out of a phi."""
    edges = [*zip(phi.operands, phi.blocks, strict=True)]
    edges = [(value, block) for value, block in edges if block in sources]
    phi.operands, phi.blocks = [value for value, _ in edges], [block for _, block in edges]


@dataclass(eq=False)
class _Copy:
    """A copy of the body of a loop, without the branch at its end.

    blocks    what they became; several may be one
    leaving   the other edges out of the loop, with the block that they come from in the original
    """

    values: dict[Value, Value]
    blocks: dict[Block, Block] = field(default_factory=dict[Block, Block])
    leaving: list[tuple[Block, Block, Block]] = field(
        default_factory=list[tuple[Block, Block, Block]]
    )

    def value(self, of: Value) -> Value:
        """What stands for a value in the copy."""
        return self.values.get(of, of)


class _Peeling:
    """The replacement of one loop by its parts."""

    def __init__(self, function: Function, flow: ControlFlow, border: Border) -> None:
        self.function, self.border = function, border
        self.loop, self.header = border.loop, border.loop.header
        self.order = [block for block in flow.order if block in border.loop.blocks]
        self.within = {loop.header for loop in flow.loops if loop.header in border.loop.blocks}
        self.within.discard(self.header)
        phis: list[Value] = [*self.header.phis]
        self.start = dict(zip(phis, _values_from(border.before, self.header), strict=True))
        self.next = dict(zip(phis, _values_from(border.latch, self.header), strict=True))
        test = loop_test(border.latch)
        self.unused = test if flow.users[test] == [border.latch.terminator] else None
        self.taken = function.local_names()
        self.namer = Namer("peel", self.taken)
        self.added: list[Block] = []

    def done(self) -> bool:
        """Replace the loop; False, and nothing is changed, if a part never ends an iteration."""
        border = self.border
        first = inside = last = None
        if border.first is not None:
            first = self._copied(border.first, ".first", self.start)
        inside = self._copied(border.inside, "", None)
        if border.last is not None:
            last = self._copied(border.last, ".last", None)
        copies = [copy for copy in (first, inside, last) if copy is not None]
        if any(border.latch not in copy.blocks for copy in copies):
            return False
        self._connect(first, inside, last)
        for copy in copies:
            for block, target, origin in copy.leaving:
                for phi in target.phis:
                    add_incoming(phi, copy.value(_incoming(phi, origin)), block)
        for target in {t for block in self.order for t in block.successors} - self.loop.blocks:
            for phi in target.phis:
                _keep_edges(phi, set(phi.blocks) - self.loop.blocks)
        at = self.function.blocks.index(self.header)
        parts = dict.fromkeys(block for copy in copies for block in copy.blocks.values())
        self.function.blocks[at:at] = [*parts, *self.added]
        self.function.blocks = [b for b in self.function.blocks if b not in self.loop.blocks]
        return True

    # --- between the parts ---

    def _connect(self, first: _Copy | None, inside: _Copy, last: _Copy | None) -> None:
        border, bound, header = self.border, self.border.count.bound, inside.blocks[self.header]
        entry, values = border.before, self.start
        entry.instructions.pop()
        if first is not None:
            self._in(entry).br(first.blocks[self.header])
            ending, entry = first.blocks[border.latch], self._new("second")
            self._go_on(ending, first.value(border.tested), bound, entry, border.after)
            self._hand_on(ending, {v: first.value(v) for v in self._handed_on()})
            values = {phi: first.value(value) for phi, value in self.next.items()}
        begin, end, again = self._new("begin"), self._new("end"), inside.blocks[border.latch]
        following = {phi: inside.value(value) for phi, value in self.next.items()}
        _add_edges(inside, values, begin)
        _add_edges(inside, following, again)
        tested = inside.value(border.tested)
        if last is None:
            self._in(entry).br(begin)
            self._go_on(again, tested, bound, header, end)
            handed_on = {v: inside.value(v) for v in self._handed_on()}
            self._hand_on(end, self._closed(handed_on, inside, again, end))
            self._in(end).br(border.after)
        else:
            final, ending = last.blocks[self.header], last.blocks[border.latch]
            self._go_on(entry, self._tested_next(entry, values), bound, begin, final)
            self._go_on(again, tested, self._earlier_bound(begin), header, end)
            _add_edges(last, values, entry)
            _add_edges(last, self._closed(following, inside, again, end), end)
            self._in(end).br(final)
            self._in(ending).br(border.after)
            self._hand_on(ending, {v: last.value(v) for v in self._handed_on()})
        self._in(begin).br(header)

    def _in(self, block: Block) -> Builder:
        return Builder(block, self.namer)

    def _new(self, hint: str) -> Block:
        self.added.append(Block(self.namer(hint), parent=self.function))
        return self.added[-1]

    def _go_on(self, block: Block, x: Value, bound: Value, stay: Block, leave: Block) -> None:
        """End a block with the test by which the loop goes on."""
        b = self._in(block)
        end = b.cond_br(b.icmp(self.border.count.predicate, x, bound), stay, leave)
        location = self.border.latch.terminator.attributes.get("location")
        if location is not None:
            end.attributes["location"] = location

    def _handed_on(self) -> list[Value]:
        """The values with which control leaves the loop, as they are named in the original."""
        return _values_from(self.border.latch, self.border.after)

    def _hand_on(self, block: Block, values: Mapping[Value, Value]) -> None:
        for phi, value in zip(self.border.after.phis, self._handed_on(), strict=True):
            add_incoming(phi, values[value], block)

    def _closed(
        self, values: Mapping[Value, Value], inside: _Copy, again: Block, end: Block
    ) -> dict[Value, Value]:
        """The values after the loop: those that it computes, by phis of its own exit."""
        computed = set(inside.values.values())
        phis: dict[Value, Value] = {}
        b = self._in(end)
        for value in values.values():
            if value in computed and isinstance(value, Instruction) and value not in phis:
                phis[value] = b.phi(value.type, [(value, again)], hint="left")
        return {key: phis.get(value, value) for key, value in values.items()}

    def _tested_next(self, entry: Block, values: Mapping[Value, Value]) -> Value:
        """The value that is tested at the end of the iteration that begins with `values`."""
        count, tested = self.border.count, self.border.tested
        if not count.after:
            return values[tested]
        phi = next(phi for phi, value in self.next.items() if value is tested)
        flags = tested.flags if isinstance(tested, Instruction) and tested.opcode == "add" else ()
        return self._moved(entry, values[phi], count.step, flags)

    def _earlier_bound(self, begin: Block) -> Value:
        """The bound at which the iteration before the last would end the loop."""
        count = self.border.count
        # the counter is on this side of the bound, where the loop is entered
        flags = ("nsw",) if count.predicate in {"slt", "sgt"} else ()
        return self._moved(begin, count.bound, -count.step, flags)

    def _moved(self, block: Block, value: Value, by: int, flags: tuple[str, ...]) -> Value:
        number = integer_of(value)
        if number is not None:
            return constant(value.type, number + by)
        return self._in(block).binary("add", value, constant(value.type, by), flags)

    # --- the parts ---

    def _copied(self, known: Outcomes, suffix: str, start: Mapping[Value, Value] | None) -> _Copy:
        """The body, with the comparisons whose outcome is known decided.

        start   what the phis of its header are; None: they are copied, still without edges
        """
        copy = _Copy({})
        sources: dict[Block, list[Block]] = {self.header: []}
        for block in self.order:
            if block in sources:
                twin = self._begin(block, suffix, sources[block], copy)
                for i in block.instructions[:-1]:
                    if i is not self.unused:
                        value = self._value(i, known, suffix, sources[block], copy, start)
                        copy.values[i] = value
                        if isinstance(value, Instruction) and value.parent is None:
                            twin.append(value)
                if block is not self.border.latch:
                    self._end(block, suffix, sources, copy)
        return copy

    def _begin(self, block: Block, suffix: str, sources: Sequence[Block], copy: _Copy) -> Block:
        """The copy of a block, still empty: a new one, or the end of the only one before it."""
        if self._is_joined(block, sources, copy):
            twin = copy.blocks[sources[0]]
            twin.instructions.pop()
        else:
            twin = Block(self._name(block.name, suffix), parent=self.function)
            for source in sources:
                ends = copy.blocks[source].terminator
                ends.blocks = [twin if t is block else t for t in ends.blocks]
        copy.blocks[block] = twin
        return twin

    def _is_joined(self, block: Block, sources: Sequence[Block], copy: _Copy) -> bool:
        """Whether a block comes right after another one, from which alone control comes."""
        if len(sources) != 1 or block in self.within:
            return False
        return len(copy.blocks[sources[0]].successors) == 1

    def _value(
        self,
        i: Instruction,
        known: Outcomes,
        suffix: str,
        sources: Sequence[Block],
        copy: _Copy,
        start: Mapping[Value, Value] | None,
    ) -> Value:
        """What stands for an instruction in the copy: a new one, or a value that is known."""
        if i.opcode != "phi":
            operands = [copy.value(o) for o in i.operands]
            return _decided(i, operands, known) or self._twin(i, suffix, operands, [])
        if i.owner is self.header:
            return start[i] if start is not None else self._twin(i, suffix, [], [])
        values = [copy.value(_incoming(i, s)) for s in sources]
        if copy.blocks[i.owner] is copy.blocks[sources[0]]:  # joined to the only one before it
            return values[0]
        return self._twin(i, suffix, values, [copy.blocks[s] for s in sources])

    def _end(
        self, block: Block, suffix: str, sources: dict[Block, list[Block]], copy: _Copy
    ) -> None:
        """Copy the branch at the end of a block, and note where it leads."""
        end, twin = block.terminator, copy.blocks[block]
        operands = [copy.value(o) for o in end.operands]
        targets = _targets(end, operands)
        operands = operands if len(targets) == len(end.blocks) else []
        twin.append(self._twin(end, suffix, operands, [*targets]))
        for target in targets:
            if target in copy.blocks:
                self._close(block, target, copy)
            elif target in self.loop.blocks:
                sources.setdefault(target, []).append(block)
            else:
                copy.leaving.append((twin, target, block))

    def _close(self, latch: Block, header: Block, copy: _Copy) -> None:
        """Lead the copy of a latch within the loop back to the copy of its header."""
        source, target = copy.blocks[latch], copy.blocks[header]
        end = source.terminator
        end.blocks = [target if block is header else block for block in end.blocks]
        for phi in header.phis:
            twin = copy.values[phi]
            assert isinstance(twin, Instruction)
            add_incoming(twin, copy.value(_incoming(phi, latch)), source)

    def _twin(
        self, i: Instruction, suffix: str, operands: list[Value], blocks: list[Block]
    ) -> Instruction:
        name = self._name(i.name, suffix) if i.name else i.name
        attributes = dict(i.attributes)
        return Instruction(i.opcode, i.type, operands, name, i.flags, blocks, i.callee, attributes)

    def _name(self, name: str, suffix: str) -> str:
        """The name of a copy; that of the original for what takes its place."""
        if suffix:
            name = suffixed(name, suffix)
            while name in self.taken:
                name = suffixed(name, "_")
            self.taken.add(name)
        return name


def _incoming(phi: Instruction, source: Block) -> Value:
    """The value of a phi for control that comes from a block."""
    return phi.operands[phi.blocks.index(source)]


def _values_from(source: Block, target: Block) -> list[Value]:
    """The values of the phis of a block for control that comes from another."""
    return [_incoming(phi, source) for phi in target.phis]


def _add_edges(copy: _Copy, values: Mapping[Value, Value], source: Block) -> None:
    """Let the phis of the header of a copy have these values where control comes from `source`."""
    for phi, value in values.items():
        twin = copy.values[phi]
        assert isinstance(twin, Instruction)
        add_incoming(twin, value, source)


def _decided(i: Instruction, operands: list[Value], known: Outcomes) -> Value | None:
    """The value of an instruction where comparisons are decided; None if it is to be computed."""
    if i in known:
        if i.opcode == "call":
            return operands[0 if known[i] else 1]
        return constant(I1, int(known[i]))
    if i.opcode == "select" and (outcome := number_of(operands[0])) is not None:
        return operands[1 if outcome else 2]
    if i.opcode in {"and", "or"} and i.type == I1:
        for x, y in (operands, operands[::-1]):
            if (outcome := number_of(x)) is not None:
                return y if bool(outcome) == (i.opcode == "and") else x
    return None


def _targets(end: Instruction, operands: list[Value]) -> list[Block]:
    """The blocks to which a branch may go."""
    outcome = number_of(operands[0]) if len(end.blocks) == 2 else None
    return end.blocks if outcome is None else [end.blocks[0 if outcome else 1]]
