"""References that a function of Numba's holds where it raises are dropped.

Needs       a parsed module
Gives       `drop_held`: the module, changed in place
Invariants  R1  a reference is dropped only if every way on to a successful return drops it, or
                hands it over to memory: where a way ends in an exception instead, it is lost
            R2  of a pointer that goes to code that may keep it nothing is said: it stays as it is

Numba counts a reference for every variable, and writes down where a variable ends: not where the
exception of a callee passes through. It leaks there; and so would its derivative, which does to
shadows what the function does to memory.

How many references are held at a place is read from what follows: as many as are dropped, or put
into memory, less those that are taken, on the ways to a successful return (`held_counts`). What is
allocated must be held once from then on; an argument, and what is read from memory, not at all:
they are not the function's.

A store that hands nothing over, as one to a scratch, counts as if it did: then what was allocated
seems to be held twice, and nothing is said of it. So too little may be dropped, not too much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from activerules.errors import UnsupportedIR
from activerules.ir.analysis.returns import analyse_returns, is_zero_on
from activerules.ir.builder import Builder, Namer
from activerules.ir.cfg import control_flow
from activerules.ir.held_counts import (
    Held,
    State,
    add,
    agreed,
    assuming,
    condition_of,
    over,
    plus,
)
from activerules.ir.model import (
    Argument,
    Block,
    Constant,
    Function,
    GlobalRef,
    Instruction,
    Module,
    Value,
)
from activerules.ir.rulecall import MARKED_PREFIX
from activerules.ir.runtime_calls import effect_of
from activerules.ir.types import I32, PTR, VOID

_ROUNDS = 200

_TAKES = "NRT_incref"
_DROPS = ("NRT_decref", "activerules.release")
_CHOICES = ("phi", "select")
_BORROWS = ("NRT_MemInfo_data_fast", "NRT_MemInfo_varsize_realloc")


def drop_held(module: Module) -> None:
    """See the module docstring."""
    own = {f.name for f in module.functions.values() if _is_numbas(f)}
    for function in module.defined():
        if function.name in own:
            try:
                _Dropper(function, own).run()
            except UnsupportedIR:
                continue  # refused later, if it is differentiated
            # LLVM's pruning may have left calls that take references alone
            name = _DROPS[0]
            module.functions.setdefault(name, Function(name, VOID, [Argument("a0", PTR)]))


def _is_numbas(function: Function) -> bool:
    """Whether a function has Numba's convention: arguments are lent, the result is a status."""
    # LLVM numbers names that are taken: functions that call themselves are linked in
    names = [a.name.split(".")[0] for a in function.arguments[:2]]
    return function.result == I32 and names == ["retptr", "excinfo"]


def _counted(i: Instruction) -> Value | None:
    """The pointer whose references a call counts."""
    if i.opcode == "call" and i.callee_name in (_TAKES, *_DROPS):
        return i.operands[0]
    return None


class _Dropper:
    """Rewrites one function.

    tracked   the pointers of which something is said, each with those it may be one with (by phi)
    """

    def __init__(self, function: Function, own: set[str]) -> None:
        self.function, self.own = function, own
        self.flow = control_flow(function)
        self.returns = analyse_returns(function, self.flow, status=True)
        self.live = self.returns.live
        self.failing = {b for b in self.flow.order if b not in self.live} | {self.returns.exit}
        self.uses: dict[Value, list[Instruction]] = {}
        for i in function.instructions():
            for o in i.operands:
                self.uses.setdefault(o, []).append(i)
        self.tracked: dict[Value, frozenset[Value]] = {}
        self.entering: dict[Block, State] = {}
        self.namer = Namer("held", {b.name for b in function.blocks})
        self.between: dict[tuple[Block, Block], Block] = {}

    def run(self) -> None:
        """Find out what is held, and drop it on the ways that fail."""
        edges = list(self._failing_edges())
        if not edges:
            return
        for i in self.function.instructions():
            pointer = i if _is_allocation(i) else _counted(i)
            if pointer is not None and pointer not in self.tracked:
                self._track(pointer)
        self.entering = self._needs(self.live)
        for value in self._surprises():
            for one in self.tracked.get(value, ()):
                self.tracked.pop(one, None)
        at_failures = self._needs(self.failing)
        for source, target in edges:
            if target in at_failures:  # else it never returns
                held = self._leaving(source, self.live, self.entering) or {}
                self._drop(source, target, held, over(source, target, at_failures[target]))

    def _failing_edges(self) -> Iterator[tuple[Block, Block]]:
        for source in self.flow.order:
            if source in self.live:
                for target in dict.fromkeys(source.successors):
                    if source not in self.returns.predecessors.get(target, ()):
                        yield source, target

    # --- of which pointers something can be said ---

    def _track(self, start: Value) -> None:
        """Note a pointer with all that phis make one with it, if each is known (R2)."""
        group: set[Value] = set()
        work = [start]
        known = True
        while work:
            value = work.pop()
            if value in group or (isinstance(value, Constant) and value.text == "null"):
                continue
            group.add(value)
            known &= self._is_known(value)
            work += _chosen_from(value)
            work += [i for i in self.uses.get(value, ()) if i.opcode in _CHOICES]
        if known:
            self.tracked |= dict.fromkeys(group, frozenset(group))

    def _is_known(self, value: Value) -> bool:
        if isinstance(value, Instruction):
            made = value.opcode in (*_CHOICES, "load") or _is_allocation(value)
        else:
            made = isinstance(value, Argument)
        return made and all(self._stays(value, use) for use in self.uses.get(value, ()))

    def _stays(self, value: Value, use: Instruction) -> bool:
        match use.opcode:
            case "phi" | "select" | "icmp" | "store":
                return True
            case "call":
                name = use.callee_name or ""
                return name in (_TAKES, *_DROPS, *_BORROWS) or self._is_call(use)
            case _:
                return False

    def _is_call(self, i: Instruction) -> bool:
        """Whether it is a call by Numba's convention."""
        name = i.callee_name if i.opcode == "call" else None
        return name is not None and (name in self.own or name.startswith(MARKED_PREFIX))

    def _called_in(self, load: Instruction) -> Block | None:
        """The block with the call that returns what is loaded, if it succeeds."""
        place = _base(load.operands[0]) if load.opcode == "load" else None
        if not isinstance(place, Instruction) or place.opcode != "alloca":
            return None
        calls: list[Instruction] = []
        for use in self._uses_of_place(place):
            if self._is_call(use) and _base(use.operands[0]) is place:
                calls.append(use)
            elif not _is_harmless(use):
                return None
        if len(calls) != 1:
            return None
        (call,) = calls
        block = call.owner
        behind = load.owner is block and _index(load) > _index(call)
        known = any(
            is_zero_on(block.terminator, target, call)
            and self.flow.predecessors[target] == [block]
            and (behind or self.flow.dominates(target, load.owner))
            for target in block.successors
        )
        return block if known else None

    def _uses_of_place(self, place: Instruction) -> Iterator[Instruction]:
        for use in self.uses.get(place, ()):
            if use.opcode == "getelementptr":
                yield from self._uses_of_place(use)
            else:
                yield use

    # --- what is held ---

    def _needs(self, blocks: Iterable[Block]) -> dict[Block, State]:
        """What is held where control enters a block, phis included; of no block if in doubt."""
        blocks = frozenset(blocks)
        entering: dict[Block, State] = {}
        for _ in range(_ROUNDS):
            changed = False
            for block in reversed(self.flow.order):
                if block not in blocks:
                    continue
                state = self._leaving(block, blocks, entering)
                if state is None:
                    continue
                for i in reversed(block.instructions):
                    self._before(i, state)
                if entering.get(block) != state:
                    entering[block] = state
                    changed = True
            if not changed:
                return entering
        return {}

    def _leaving(
        self, block: Block, blocks: Iterable[Block], entering: dict[Block, State]
    ) -> State | None:
        """What is held at the end of a block; None if no way on is known yet."""
        if block is self.returns.exit:
            return {}
        found: dict[Block, State] = {}
        for target in dict.fromkeys(block.successors):
            if target not in entering or target not in blocks:
                continue
            if blocks is self.live and block not in self.returns.predecessors[target]:
                continue
            found[target] = over(block, target, entering[target])
        if not found:
            return None
        first, *others = found.values()
        known = condition_of(block.terminator) if others else None
        for other in others:
            first = agreed(first, other, known)
        return first

    def _before(self, i: Instruction, state: State) -> None:
        """Change what is held behind an instruction to what is held before it."""
        if i.opcode == "phi":
            return
        state.pop(i, None)
        if str(i.type) == "i1":
            state |= {v: None for v, other in state.items() if other and i in other}
        pointer = _counted(i)
        if pointer in self.tracked:
            add(state, pointer, {None: -1 if i.callee_name == _TAKES else 1})
        elif i.opcode == "store" and i.operands[0] in self.tracked:
            add(state, i.operands[0], {None: 1})

    def _surprises(self) -> list[Value]:
        """Pointers that are not held as often as they should be, where they are made."""
        entry = self.entering.get(self.function.entry, {})
        found: list[Value] = [
            a for a in self.function.arguments if a in self.tracked and entry.get(a, {}) != {}
        ]
        for block in self.live:
            state = self._leaving(block, self.live, self.entering) or {}
            for i in reversed(block.instructions):
                if i in self.tracked and i.opcode not in _CHOICES:
                    if state.get(i, {}) not in self._expected(i):
                        found.append(i)
                self._before(i, state)
        return found

    def _expected(self, i: Instruction) -> tuple[Held, ...]:
        """What may be held of what has just been made."""
        if _is_allocation(i):
            return ({None: 1},)
        return ({}, {None: 1}) if self._called_in(i) else ({},)

    # --- what is dropped ---

    def _drop(self, source: Block, target: Block, held: State, dropped: State) -> None:
        """Drop what is held where control goes to `target`, and not dropped behind that."""
        known = condition_of(source.terminator)
        truth = source.terminator.blocks[0] is target
        for value, count in held.items():
            less = dropped.get(value, {})
            if value not in self.tracked or count is None or less is None:
                continue
            if isinstance(value, Instruction) and self._called_in(value) is source:
                continue  # the call has failed
            count, less = assuming(count, known, truth), assuming(less, known, truth)
            rest = plus(count, less, -1) or {}
            if any(n < 0 for n in rest.values()):
                continue
            for block, k in self._places(source, target, value) if rest else ():
                made: list[Instruction] = []
                b = Builder(made, self.namer)
                for if_true, n in rest.items():
                    one = value
                    if if_true is not None:
                        one = b.select(if_true, value, b.const(PTR, None))
                    for _ in range(n):
                        b.call(_DROPS[0], VOID, [one])
                for i in made:
                    i.parent = block
                end = k if k >= 0 else len(block.instructions) - 1
                block.instructions[end:end] = made

    def _places(self, source: Block, target: Block, value: Value) -> list[tuple[Block, int]]:
        """Where to drop a pointer on the way from `source` to `target`: what follows may read
        memory, but not what is freed.
        """
        region = _region(target, self.returns.exit)
        lent = all(isinstance(one, Argument) for one in self.tracked[value])
        if lent or not any(_may_read(i) for block in region for i in block.instructions):
            block = self._edge(source, target)
            return [(block, sum(1 for _ in block.phis))]
        entered = {p for block in region for p in self.flow.predecessors[block]} - region
        if entered != {source} or source.successors.count(target) != 1:
            return []
        return [(b, -1) for b in region if self.returns.exit in b.successors]

    def _edge(self, source: Block, target: Block) -> Block:
        """A block that control passes only if it goes from `source` to `target`."""
        if target is not self.returns.exit and self.flow.predecessors[target] == [source]:
            return target
        if (source, target) not in self.between:
            block = Block(self.namer("dropped"))
            block.parent = self.function
            Builder(block, self.namer).br(target)
            end = source.terminator
            end.blocks = [block if b is target else b for b in end.blocks]
            for phi in target.phis:
                taken = dict(zip(phi.blocks, phi.operands, strict=True))
                taken[block] = taken.pop(source)
                phi.blocks, phi.operands = list(taken), list(taken.values())
            self.function.blocks.insert(self.function.blocks.index(source) + 1, block)
            self.between[source, target] = block
        return self.between[source, target]


def _region(start: Block, end: Block) -> set[Block]:
    """The blocks on the ways from `start` to `end`."""
    found: set[Block] = set()
    work = [start]
    while work:
        block = work.pop()
        if block is not end and block not in found:
            found.add(block)
            work += block.successors
    return found


def _may_read(i: Instruction) -> bool:
    """Whether an instruction may read memory other than the stack and constants."""
    if i.opcode == "load":
        place = _base(i.operands[0])
        on_stack = isinstance(place, Instruction) and place.opcode == "alloca"
        return not on_stack and not isinstance(place, GlobalRef)
    told = (i.callee_name or "").startswith(("llvm.lifetime.", "llvm.assume"))
    return i.opcode == "call" and _counted(i) is None and not told


def _base(pointer: Value) -> Value:
    while isinstance(pointer, Instruction) and pointer.opcode == "getelementptr":
        pointer = pointer.operands[0]
    return pointer


def _index(i: Instruction) -> int:
    return i.owner.instructions.index(i)


def _is_harmless(use: Instruction) -> bool:
    """Whether an access of a place leaves in it what a call has returned, or nothing at all."""
    if use.opcode == "store":
        return isinstance(use.operands[0], Constant)
    name = use.callee_name or ""
    return use.opcode == "load" or name.startswith(("llvm.lifetime.", "llvm.memset."))


def _is_allocation(i: Instruction) -> bool:
    effect = effect_of(i.callee_name) if i.opcode == "call" else None
    return effect is not None and effect.allocates and effect.counted


def _chosen_from(value: Value) -> list[Value]:
    """The pointers that a phi or a `select` is one of."""
    if not isinstance(value, Instruction) or value.opcode not in _CHOICES:
        return []
    return value.operands[value.opcode == "select" :]
