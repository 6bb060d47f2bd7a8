"""Borders: the first and the last iteration of a loop, where only they take another branch.

Needs       the LoopFacts, Returns and Integers of a Function in normal form
Gives       `border_of`: the Border of a loop, or None
Invariants  B1  in the first iteration, in the last, and in all between them, a comparison has the
                outcome that is given for that part
            B2  the loop is left at its end, errors aside, when its counter has reached its bound
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

from activerules.ir.analysis.loops.affine import Poly, infeasible
from activerules.ir.analysis.loops.integers import Integers, is_comparison
from activerules.ir.analysis.loops.trip_counts import LoopFacts, TripCount, is_invariant
from activerules.ir.analysis.returns import Returns
from activerules.ir.analysis.variation import last_iteration
from activerules.ir.llvm.cfg import ControlFlow, Loop
from activerules.ir.llvm.model import Block, Instruction, Value
from activerules.ir.llvm.types import I64

# a bound that is not reached can be moved by a step without wrapping around
_STRICT = frozenset(("ne", "slt", "sgt", "ult", "ugt"))

# through which a value of a loop may become one of the loops within it
_CARRIED_ON = frozenset("and or xor add sub mul shl sext zext getelementptr".split())

Outcomes = Mapping[Instruction, bool]


@dataclass(frozen=True, eq=False)
class Border:
    """A loop whose borders are peeled off, and what is known of its comparisons in each part; None
    for a part that is not peeled off.

    before, after   the blocks from which it is entered and for which it is left
    tested          the value by which it goes on, compared with `count.bound`
    """

    loop: Loop
    latch: Block
    before: Block
    after: Block
    count: TripCount
    tested: Value
    first: Outcomes | None
    inside: Outcomes
    last: Outcomes | None


def border_of(
    loop: Loop, facts: Mapping[Loop, LoopFacts], returns: Returns, integers: Integers
) -> Border | None:
    """The parts of a loop; None if there is but one."""
    count, latch, before = facts[loop].trip_count, loop.latch, loop.preheader
    exits = returns.exits_of(loop)
    if count is None or latch is None or before is None:
        return None
    comparisons = _comparisons(loop)
    if [block for block, _ in exits] != [latch] or not comparisons:
        return None
    end = last_iteration(loop, facts, integers)
    after = exits[0][1]
    tested = [o for o in loop_test(latch).operands if not is_invariant(o, loop)]
    if (
        end is None
        or integers.flow.predecessors[after] != [latch]
        or before.successors != [loop.header]
        or len(tested) != 1
        or not _is_closed(loop, integers.flow)
    ):
        return None
    counting = {
        i
        for i in comparisons
        if _counts(i, loop, integers) and _is_asked_within(i, loop, integers.flow)
    }
    here = Poly.atom(loop)
    # a loop that is tested at its end runs once even if the bound is passed before
    overrun = [*integers.facts(loop.header), here - end - 1]
    if not counting or (count.predicate != "ne" and not infeasible(overrun)):
        return None
    any_first, any_last, not_first, not_last = here, end - here, here - 1, end - here - 1

    def decided(of: Collection[Instruction], *where: Poly) -> dict[Instruction, bool]:
        found = ((i, integers.outcome(i, where)) for i in of)
        return {i: outcome for i, outcome in found if outcome is not None}

    # each outcome takes a proof: of most loops it is asked for few comparisons
    inside = decided(counting, not_first, not_last).keys()
    differ = inside - decided(inside, any_first, any_last).keys()
    but_first = decided(differ, not_first, any_last).keys()
    but_last = decided(differ, any_first, not_last).keys()
    # where it takes one of them, it is the first
    has_first = bool(but_first or differ - but_last)
    has_last = bool(differ - but_first) and count.predicate in _STRICT
    if not (has_first or has_last):
        return None

    known = partial(decided, comparisons)
    return Border(
        loop,
        latch,
        before,
        after,
        count,
        tested[0],
        known(any_last, here * -1) if has_first else None,
        known(not_first if has_first else any_first, not_last if has_last else any_last),
        known(not_first if has_first else any_first, here - end) if has_last else None,
    )


def loop_test(latch: Block) -> Instruction:
    """The comparison at the end of a loop by which it goes on."""
    test = latch.terminator.operands[0]
    assert isinstance(test, Instruction)
    return test


def _comparisons(loop: Loop) -> list[Instruction]:
    """The comparisons in a loop but those by which it, and the loops within it, go on."""
    found = [i for block in loop.blocks for i in block.instructions if is_comparison(i)]
    return [i for i in found if not _is_test(i, loop)]


def _is_test(i: Instruction, loop: Loop) -> bool:
    """Whether a loop, or one of those within it, goes on by a comparison."""
    if loop.latch is not None and i in loop.latch.terminator.operands:
        return True
    return any(_is_test(i, inner) for inner in loop.children)


def _counts(comparison: Instruction, loop: Loop, integers: Integers) -> bool:
    """Whether what is compared depends on the iteration, as far as that is known."""
    x, y = comparison.operands
    return x.type == I64 and loop in (integers.poly(x) - integers.poly(y)).atoms


def _is_asked_within(value: Instruction, loop: Loop, flow: ControlFlow) -> bool:
    """Whether the loops within a loop depend on a value, other than in how often they run; of an
    innermost loop, whatever uses it.
    """
    if not loop.children:
        return True
    for user in flow.users.get(value, ()):
        inner = flow.loop_of(user.owner)
        if inner is loop or inner is None:
            if user.opcode in _CARRIED_ON and _is_asked_within(user, loop, flow):
                return True
        elif not _is_test(user, inner):
            return True
    return False


def _is_closed(loop: Loop, flow: ControlFlow) -> bool:
    """Whether values leave the loop only through the phis of the blocks for which it is left."""
    for block in loop.blocks:
        for i in block.instructions:
            for user in flow.users.get(i, ()):
                if user.owner not in loop.blocks and user.opcode != "phi":
                    return False
    return True
