"""References that a function of Numba's holds where it raises are dropped.

Needs       a parsed module
Gives       `drop_held`: the module, changed in place
Invariants  R1  on every way through the function a reference is dropped, or handed over to memory,
                as often as it was taken: what a way leaves over is dropped where that begins
            R2  of a pointer that goes to code that may keep it nothing is said: it stays as it is

Numba counts a reference for every variable, and writes down where a variable ends: not where the
exception of a callee passes through, or is caught. It leaks there; and so would its derivative,
which does to shadows what the function does to memory.

How many references must be held at a place is read from what follows: as many as are dropped, or
put into memory, less those that are taken (`held_counts`), on the way that needs most of them. What
is allocated must be held once from then on; an argument, and what is read from memory, not at all:
they are not the function's. Then it is known how many are held everywhere, and where a way needs
less, the difference is dropped. If that does not come out, ways are told apart by what is known on
them (`held_ways`).

A store that hands nothing over, as one to a scratch, counts as if it did: then what was allocated
seems to be held twice, and nothing is said of it. So too little may be dropped, not too much.
"""

from __future__ import annotations

from functools import partial

from activerules.errors import UnsupportedIR
from activerules.ir.analysis.returns import analyse_returns
from activerules.ir.builder import Builder, Namer
from activerules.ir.cfg import control_flow
from activerules.ir.held_counts import Held, least
from activerules.ir.held_needs import Needs, Rest
from activerules.ir.held_places import Edge, Places
from activerules.ir.held_pointers import DROPS, Pointers, is_numbas
from activerules.ir.held_results import Results
from activerules.ir.held_ways import known_ways, plain_ways
from activerules.ir.model import Argument, Block, Function, Instruction, Module, Value
from activerules.ir.types import PTR, VOID

_ATTEMPTS = (
    (plain_ways, True),
    (plain_ways, False),
    (known_ways, True),
    (known_ways, False),
)
"""Ways to tell what is held, the cheapest first; whether it may go by the condition of a branch."""


def drop_held(module: Module) -> None:
    """See the module docstring."""
    own = {f.name: f for f in module.functions.values() if is_numbas(f)}
    results = Results(module)
    for function in module.defined():
        if function.name in own:
            try:
                _Dropper(function, own, results).run()
            except UnsupportedIR:
                continue  # refused later, if it is differentiated
            # LLVM's pruning may have left calls that take references alone
            name = DROPS[0]
            module.functions.setdefault(name, Function(name, VOID, [Argument("a0", PTR)]))


class _Dropper:
    """Rewrites one function."""

    def __init__(self, function: Function, own: dict[str, Function], results: Results) -> None:
        self.function = function
        self.flow = control_flow(function)
        self.returns = analyse_returns(function, self.flow, status=True)
        self.pointers = Pointers(function, own, self.flow, results.is_counted)
        self.namer = Namer("held", {b.name for b in function.blocks})
        self.between: dict[tuple[Block, Block], Block] = {}

    def run(self) -> None:
        """Find out what is held, and drop it on the ways that leave it over."""
        found: dict[frozenset[Value], tuple[int, list[Rest], Needs]] = {}
        todo = self.pointers.groups
        for make, by_condition in _ATTEMPTS if todo else ():
            values = {value for group in todo for value in group}
            needs = Needs(self.pointers, self.returns.exit, make(self.flow), values, by_condition)
            wrong = needs.surprises()
            rests = needs.rests(wrong)
            for group in todo:  # what flows together is decided together
                doubts = len(wrong & group)
                if group not in found or doubts < found[group][0]:
                    found[group] = doubts, [r for r in rests if r.value in group], needs
            todo = [group for group in todo if wrong & group]
            if not todo:
                break
        self._drop([(rest, needs) for _, rests, needs in found.values() for rest in rests])

    # --- what is dropped ---

    def _drop(self, rests: list[tuple[Rest, Needs]]) -> None:
        places = Places(self.pointers, self.flow, self.returns.exit)
        found = [(rest, self._places(rest, needs, places)) for rest, needs in rests]
        for rest, where in found:
            for place in where:
                made: list[Instruction] = []
                if not self._drops(rest, Builder(made, self.namer)):
                    continue
                block = self._edge(*place)
                k = sum(1 for _ in block.phis)
                for i in made:
                    i.parent = block
                block.instructions[k:k] = made

    def _places(self, rest: Rest, needs: Needs, places: Places) -> list[Edge]:
        held = partial(needs.is_held, rest.value)
        return places.of(rest.source, rest.target, rest.value, rest.kept, held)

    def _drops(self, rest: Rest, b: Builder) -> bool:
        """Append what drops the rest; False if it cannot be told how much that is."""
        kinds = list({tuple(sorted(h.items(), key=str)): h for _, h in rest.held}.values())
        if len(kinds) != 1:
            return False
        self._drops_of(rest.value, kinds[0], b)
        return True

    def _drops_of(self, value: Value, held: Held, b: Builder) -> None:
        for _ in range(least(held)):
            b.call(DROPS[0], VOID, [value])
        for condition, n in held.items():
            if condition is None:
                continue
            nothing = b.const(PTR, None)
            chosen = (value, nothing) if n > 0 else (nothing, value)
            for _ in range(abs(n)):
                b.call(DROPS[0], VOID, [b.select(condition, *chosen)])

    def _edge(self, source: Block, target: Block) -> Block:
        """A block that control passes only if it goes from `source` to `target`."""
        if target is not self.returns.exit and self.flow.predecessors[target] == [source]:
            return target
        if (source, target) not in self.between:
            leaves = any(
                source in loop.blocks and target not in loop.blocks for loop in self.flow.loops
            )
            # only the loop may reach what is behind it: that is now what is between, on each edge
            for one in self.flow.predecessors[target] if leaves else [source]:
                self.between[one, target] = self._split(one, target)
        return self.between[source, target]

    def _split(self, source: Block, target: Block) -> Block:
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
        return block
