"""What a loop replaces now and then, such as the best of its candidates, is computed after it.

Needs       a parsed module, loops in simplified form
Gives       `compute_after`: a float that a loop carries and compares, but uses for nothing else
            until the loop ends, is only compared there. Its last value is computed again, from the
            integers of the iteration that replaced it last, by copies of its instructions; of
            branches and loops, too, where the candidate is the result of these
Invariants  K1  every remaining value has the bits it had: the loop writes no memory, and what is
                computed again ran in that iteration and is rounded in one way only

    loop:  best = phi [start], [next]       after:  br any, again, join
           i = phi [0], [i + 1]             again:  u = x[last]
           v = x[i]                         join:   best = phi [start], [u]
           next = select (v > best), v, best

`last` and `any` are new: the loop carries them like `best`, with `i` and `true` instead of `v`. A
reverse sweep then visits one candidate instead of all, and needs no choice but the last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from activerules.ir.derivatives.table import is_pure_call
from activerules.ir.llvm.builder import Builder, Namer
from activerules.ir.llvm.cfg import ControlFlow, Loop, control_flow_if_reducible
from activerules.ir.llvm.closure import closure
from activerules.ir.llvm.constants import constant, integer_of
from activerules.ir.llvm.model import (
    BINARY_FLOAT,
    BINARY_INT,
    CASTS,
    Block,
    Function,
    Instruction,
    Module,
    Value,
    backward_slice,
)
from activerules.ir.llvm.types import I1, I64, IntType

_ARITHMETIC = (
    BINARY_FLOAT
    | BINARY_INT
    | CASTS
    | frozenset("fneg icmp fcmp select getelementptr extractvalue".split())
)
_NO_EFFECT = _ARITHMETIC | frozenset("phi br switch freeze insertvalue".split())
_FAST_MATH = frozenset("fast nnan ninf nsz arcp contract afn reassoc".split())
_VECTORISED = frozenset("fast nnan".split())
_MOST_CARRIED = 3
_LONGEST = 64


@dataclass(frozen=True)
class _Computation:
    """How an iteration computes a candidate.

    carried   the integers that it starts from
    straight  instructions that run first, in order
    region    the blocks that run then, and end with the candidate; the first of them is represented
              by its branch alone. Empty if no branch decides what is computed
    inside    the instructions in them that are needed
    """

    carried: list[Instruction]
    straight: list[Instruction]
    region: list[Block]
    inside: list[Instruction]

    @property
    def instructions(self) -> list[Instruction]:
        """All instructions that are copied, but for branches."""
        return [*self.straight, *self.inside]

    def operands(self) -> Iterator[Value]:
        """What the copies refer to."""
        for i in self.instructions:
            yield from i.operands
        for block in self.region[:-1]:
            if _goes_on_in(block, self.region):
                yield from block.terminator.operands


@dataclass(frozen=True)
class _Choice:
    """A float that a loop carries.

    flow        the control flow before its nest is changed
    nest        the outermost loop around it
    start       its value before the loop
    merges      the phi at which the loop begins, and the phis and selects that keep or replace it
    candidate   what replaces it
    computed    how the candidate is computed
    after       the phis behind the loop, one per exit
    """

    flow: ControlFlow
    nest: Loop
    start: Value
    merges: list[Instruction]
    candidate: Instruction
    computed: _Computation
    after: list[Instruction]


def compute_after(module: Module) -> None:
    """See the module docstring; for all functions that are defined."""
    for function in module.defined():
        while _one_per_nest(function):
            pass


def _one_per_nest(function: Function) -> bool:
    """Do it for one float in each nest of loops, since this changes the control flow of the nest.

    Returns whether there was one.
    """
    done: set[Loop] = set()
    for choice in _choices(function):
        if choice.nest not in done:
            done.add(choice.nest)
            _compute_after(function, choice)
    return bool(done)


def _choices(function: Function) -> Iterator[_Choice]:
    """Those of inner loops first: what is computed after one may be a candidate of the next."""
    compared = {o for i in function.instructions() if i.opcode == "fcmp" for o in i.operands}
    chooses = any(isinstance(o, Instruction) and o.opcode == "phi" for o in compared)
    flow = control_flow_if_reducible(function) if chooses else None
    if flow is None:
        return
    for loop in sorted(flow.loops, key=lambda loop: -loop.depth):
        phis = [phi for phi in loop.header.phis if phi.type.is_float]
        if phis and all(_has_no_effect(i) for b in loop.blocks for i in b.instructions):
            search = _Search(loop, flow)
            yield from filter(None, map(search.choice, phis))


def _has_no_effect(i: Instruction) -> bool:
    if i.opcode == "call" and (i.callee_name or "").startswith("llvm.assume"):
        return True
    return i.opcode in _NO_EFFECT or _may_repeat(i)


def _may_repeat(i: Instruction) -> bool:
    if i.opcode == "call":
        return is_pure_call(i.callee_name or "")
    if i.opcode == "load":
        return i.is_ordinary
    return i.opcode in _ARITHMETIC


@dataclass(frozen=True)
class _Search:
    """Looks for choices in a loop that writes no memory."""

    loop: Loop
    flow: ControlFlow

    def choice(self, phi: Instruction) -> _Choice | None:
        """The choice that begins with a phi of the header, if it is one."""
        incoming = dict(zip(phi.blocks, phi.operands, strict=True))
        start = incoming.pop(self.loop.preheader or phi.owner, None)
        if start is None or len(incoming) != 1:
            return None
        [following] = incoming.values()
        merges = self._merges(phi, following)
        candidates = {o for m in merges if m is not phi for o in _choices_of(m)} - merges
        if len(candidates) != 1:
            return None
        [candidate] = candidates
        if not isinstance(candidate, Instruction) or candidate.owner not in self.loop.blocks:
            return None
        computed = self._computation(candidate, merges)
        if computed is None:
            return None
        after = self._uses_after(candidate, merges, computed.instructions)
        known = {*merges, candidate}
        if not after or any(not known.issuperset(phi.operands) for phi in after):
            return None
        nest = [*self.loop.ancestors()][-1]
        return _Choice(self.flow, nest, start, self._in_order(merges), candidate, computed, after)

    def _merges(self, phi: Instruction, following: Value) -> set[Instruction]:
        """The phi, and what lies between it and `following`, its value in the next iteration."""
        users = self.flow.users
        kept = closure([phi], lambda i: filter(self._may_keep, users.get(i, ())))
        back = backward_slice(following, lambda i: i in kept and i is not phi)
        return {phi, *(i for i in back if i in kept)}

    def _may_keep(self, user: Instruction) -> bool:
        if user.owner not in self.loop.blocks:
            return False
        around = self.flow.loop_of(user.owner)
        return user.opcode == "select" or (
            user.opcode == "phi" and around is not None and around.header is not user.owner
        )

    def _computation(self, candidate: Instruction, merges: set[Instruction]) -> _Computation | None:
        """How the candidate is computed from a few integers, if it is: as few blocks of the
        iteration as possible are run again.
        """
        around = self.flow.loop_of(candidate.owner)
        entry: Block | None = candidate.owner
        while entry in self.loop.blocks:
            if self.flow.loop_of(entry) is around:
                computed = self._computed_from(entry, candidate)
                if computed is not None and merges.isdisjoint(computed.instructions):
                    return computed
            entry = None if around and entry is around.header else self.flow.idom[entry]
        return None

    def _computed_from(self, entry: Block, candidate: Instruction) -> _Computation | None:
        """How the candidate is computed if branches and phis are followed back to `entry`."""
        region = self._region(entry, candidate.owner)
        inner, within = {*region[1:]}, self.loop.blocks
        roots: list[Value] = [candidate]
        for block in region[:-1]:
            if _goes_on_in(block, region):
                roots += block.terminator.operands
            elif block.terminator.opcode != "br":
                return None

        def goes_on(i: Instruction) -> bool:
            follows = _may_repeat(i) or (i.opcode == "phi" and i.owner in inner)
            return follows and i.owner in within

        slices = (i for root in roots for i in backward_slice(root, goes_on))
        needed = [i for i in dict.fromkeys(slices) if i.owner in within]
        copied = [i for i in needed if goes_on(i)]
        carried = [i for i in needed if not goes_on(i)]
        if (
            any(_FAST_MATH & {*i.flags} for i in copied)
            or not all(isinstance(i.type, IntType) and i.owner not in inner for i in carried)
            or not 0 < len(carried) <= _MOST_CARRIED
            or len(copied) > _LONGEST
        ):
            return None
        straight = self._in_order([i for i in copied if i.owner not in inner])
        inside = self._in_order([i for i in copied if i.owner in inner])
        return _Computation(carried, straight, region if inner else [], inside)

    def _region(self, entry: Block, end: Block) -> list[Block]:
        """The blocks on the paths from `entry`, which dominates `end`, to that: these two are the
        first and the last one.
        """
        blocks = closure([end], lambda b: () if b is entry else self.flow.predecessors[b]) - {end}
        return [*sorted(blocks, key=self.flow.position.__getitem__), end]

    def _in_order(self, instructions: Collection[Instruction]) -> list[Instruction]:
        blocks = sorted({i.owner for i in instructions}, key=self.flow.position.__getitem__)
        return [i for block in blocks for i in block.instructions if i in instructions]

    def _uses_after(
        self,
        candidate: Instruction,
        merges: set[Instruction],
        recomputed: Collection[Instruction],
    ) -> list[Instruction]:
        """The phis behind the loop, if the loop itself only compares floats of the choice.

        Where LLVM vectorises comparisons, it looks for the extreme faster than for its place.
        """
        after: set[Instruction] = set()
        seen = {*merges, *(i for i in recomputed if i.type.is_float)}
        work = list(seen)
        while work:
            value = work.pop()
            for user in self.flow.users.get(value, ()):
                leaves = user.opcode == "phi" and user.owner not in self.loop.blocks
                if leaves and (value in merges or value is candidate):
                    after.add(user)
                elif user.opcode == "fcmp":
                    if _VECTORISED & {*user.flags}:
                        return []
                elif user.opcode in {"phi", "select"}:
                    # a candidate may be chosen by others, for which this is done as well
                    if value not in recomputed and user not in seen:
                        seen.add(user)
                        work.append(user)
                elif user not in recomputed:
                    return []
        ends = {phi.owner for phi in after}
        reached = (p for end in ends for p in self.flow.predecessors[end])
        if len(ends) != len(after) or not self.loop.blocks.issuperset(reached):
            return []
        return self._in_order(after)


def _goes_on_in(block: Block, region: Collection[Block]) -> bool:
    """Whether every edge from a block leads to one of a region."""
    return all(target in region for target in block.successors)


def _choices_of(merge: Instruction) -> list[Value]:
    """The values among which a phi or select chooses."""
    return merge.operands[1:] if merge.opcode == "select" else merge.operands


def _compute_after(function: Function, choice: _Choice) -> None:
    namer = Namer("last", function.local_names())
    carried = {i: _carry(choice, i, -1, namer) for i in choice.computed.carried}
    counter = next(filter(_counts, choice.computed.carried), None)
    replaced = carried[counter] if counter else _carry(choice, constant(I1, 1), 0, namer)
    instead: dict[Value, Value] = {}
    for after in choice.after:
        values = _brought_out(choice, after.owner, namer)
        values.update((i, twins[after]) for i, twins in carried.items())
        instead[after] = _compute(function, choice, after.owner, replaced[after], values, namer)
    function.replace(instead)


def _counts(phi: Instruction) -> bool:
    """Whether an integer of 64 bits counts up from a number that is not negative: it is never -1,
    since no loop runs for so long.
    """
    if phi.opcode != "phi" or phi.type is not I64 or len(phi.operands) != 2:
        return False
    starts = [n for o in phi.operands if (n := integer_of(o)) is not None]
    steps = [
        integer_of(o.operands[1])
        for o in phi.operands
        if isinstance(o, Instruction) and o.opcode == "add" and o.operands[0] is phi
    ]
    return len(starts) == len(steps) == 1 and starts[0] >= 0 and steps == [1]


def _carry(choice: _Choice, value: Value, start: int, namer: Namer) -> dict[Value, Value]:
    """Carry a value, at first `start`, with the candidate; gives what it is behind the loop."""
    merges = [*choice.merges, *choice.after]
    made = {i: Instruction(i.opcode, value.type, [], namer(), blocks=[*i.blocks]) for i in merges}
    twins: dict[Value, Value] = {**made, choice.candidate: value}
    for i, twin in made.items():
        chosen = [twins.get(o, constant(value.type, start)) for o in _choices_of(i)]
        twin.operands = chosen if i.opcode == "phi" else [i.operands[0], *chosen]
        i.owner.insert(i.owner.instructions.index(i) + 1, twin)
    return twins


def _brought_out(choice: _Choice, end: Block, namer: Namer) -> dict[Value, Value]:
    """Phis for what the computation needs from outer loops, where an exit leaves these as well."""
    flow = choice.flow
    around = flow.loop_of(end)
    within = {*around.ancestors()} if around is not None else set[Loop]()
    inside = {*choice.computed.instructions, *choice.computed.carried}
    needed = dict.fromkeys(o for o in choice.computed.operands() if o not in inside)
    phis: dict[Value, Value] = {}
    for value in (*needed, choice.start):
        loop = flow.loop_of(value.owner) if isinstance(value, Instruction) else None
        if loop is not None and not within.issuperset(loop.ancestors()):
            sources = flow.predecessors[end]
            operands = [value] * len(sources)
            phi = Instruction("phi", value.type, operands, namer(), blocks=[*sources])
            end.insert(0, phi)
            phis[value] = phi
    return phis


def _compute(
    function: Function,
    choice: _Choice,
    end: Block,
    replaced: Value,
    values: dict[Value, Value],
    namer: Namer,
) -> Instruction:
    """Compute the candidate again at an exit of the loop, unless the start was never replaced.

    replaced  whether it was; or a counter, which is -1 if not
    values    what takes the place of values of the loops that end here; others are added
    """
    again, join = (Block(namer(hint), parent=function) for hint in ("again", "join"))
    for block in end.successors:
        for phi in block.phis:
            phi.blocks = [join if b is end else b for b in phi.blocks]
    phis = [*end.phis]
    rest, end.instructions = end.instructions[len(phis) :], phis
    b = Builder(end, namer)
    if replaced.type is not I1:
        replaced = b.icmp("ne", replaced, constant(replaced.type, -1))
    b.cond_br(replaced, again, join)
    copies = _copy(choice.computed, again, join, values, namer)
    start = values.get(choice.start, choice.start)
    best = [start, values[choice.candidate]]
    joined = b.at(join).emit("phi", start.type, best, blocks=[end, copies[-1]])
    for i in rest:
        join.append(i)
    at = function.blocks.index(end) + 1
    function.blocks[at:at] = [*copies, join]
    return joined


def _copy(
    computed: _Computation, again: Block, join: Block, values: dict[Value, Value], namer: Namer
) -> list[Block]:
    """Compute a candidate in `again`, and in more blocks, which are returned with it; the last one
    goes on to `join`.
    """
    copies = {block: Block(namer("again"), parent=again.parent) for block in computed.region[1:]}
    made: list[tuple[Instruction, Instruction]] = []
    for i in computed.instructions:
        twin = Instruction(
            i.opcode, i.type, [*i.operands], namer("again"), i.flags, callee=i.callee
        )
        twin.attributes = dict(i.attributes)
        values[i] = copies.get(i.owner, again).append(twin)
        made.append((i, twin))
    into = {block: copies.get(block, again) for block in computed.region}
    for i, twin in made:
        twin.operands = [values.get(o, o) for o in i.operands]
        twin.blocks = [into[block] for block in i.blocks]
    for block in computed.region[:-1]:
        b = Builder(into[block], namer)
        end = block.terminator
        targets = [into[target] for target in end.blocks if target in into]
        if _goes_on_in(block, into):
            operands = [values.get(o, o) for o in end.operands]
            b.emit(end.opcode, end.type, operands, blocks=targets, **end.attributes)
        else:  # the iteration that is computed again did not go the other way
            b.br(targets[0])
    blocks = [again, *copies.values()]
    Builder(blocks[-1], namer).br(join)
    return blocks
