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
they are not the function's. Then it is known how many are held everywhere (`held_known`), and where
a way needs less, the difference is dropped.

A store that hands nothing over, as one to a scratch, counts as if it did: then what was allocated
seems to be held twice, and nothing is said of it. So too little may be dropped, not too much.
"""

from __future__ import annotations

from functools import partial

from activerules.errors import UnsupportedIR
from activerules.ir.analysis.returns import analyse_returns
from activerules.ir.builder import Builder, Namer
from activerules.ir.cfg import control_flow
from activerules.ir.held_known import drop_references, known_needs
from activerules.ir.held_needs import Needs, Rest
from activerules.ir.held_places import Edge, Places
from activerules.ir.held_pointers import DROPS, Pointers, is_numbas
from activerules.ir.held_results import Results
from activerules.ir.model import Argument, Block, Function, Instruction, Module
from activerules.ir.types import PTR, VOID


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
        self.namer = Namer("held", function.local_names())
        self.between: dict[tuple[Block, Block], Block] = {}

    def run(self) -> None:
        """Find out what is held, and drop it on the ways that leave it over."""
        known = known_needs(self.pointers, self.returns.exit)
        self._drop([(rest, one.needs) for one in known for rest in one.rests()])

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
        drop_references(b, rest.value, kinds[0])
        return True

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
