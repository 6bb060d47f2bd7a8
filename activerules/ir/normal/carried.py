"""Values that loops only carry along until a select replaces them are taken out of the loops.

Needs       a parsed module
Gives       `uncarry(module)`: the value `old` of `select c, new, old` becomes `start` if all loops
            start with this one constant or argument, carry it through nothing but phis and selects
            on `c`, and `c` is computed before these. Selects that become equal are merged, as are
            the addresses computed from them
Invariants  U1  every remaining value has the bits it had

Numba's loops over broadcast arrays do not advance the index of a dimension of length one. After
LLVM's passes that is a select on a condition that no loop changes, and the index is carried by all
loops around it: the tape would store it in every iteration.
"""

from __future__ import annotations

from activerules.ir.llvm.cfg import ControlFlow, control_flow_if_reducible
from activerules.ir.llvm.model import Argument, Block, Function, Instruction, Module, Value

_MERGED = frozenset({"select", "add", "mul", "getelementptr"})


def uncarry(module: Module) -> None:
    """Rewrite the selects of the functions of a module, in place."""
    for function in module.defined():
        webs = [web for i in function.instructions() for web in _webs(i)]
        if webs and (flow := control_flow_if_reducible(function)) is not None:
            _take_out(function, webs, flow)


def _webs(select: Instruction) -> list[_Web]:
    if select.opcode != "select":
        return []
    return [web for side in (1, 2) if (web := _web(select, side)) is not None]


class _Web:
    """The phis and selects that bring `start` to an operand of a select."""

    def __init__(self, select: Instruction, side: int, start: Value, through: set[Instruction]):
        self.select, self.side, self.start, self.through = select, side, start, through

    def is_constant(self, flow: ControlFlow) -> bool:
        """Whether the condition cannot change while a value is carried.

        Then all selects choose the same side as the last, so that nothing else is carried. A block
        that strictly dominates the others does not run again before the first of these does.
        """
        condition = self.select.operands[0]
        if not isinstance(condition, Instruction):
            return isinstance(condition, Argument)
        return all(
            i.owner in flow.position
            and i.owner is not condition.owner
            and flow.dominates(condition.owner, i.owner)
            for i in self.through
        )


def _web(select: Instruction, side: int) -> _Web | None:
    through: set[Instruction] = set()
    starts: dict[str, Value] = {}
    work = [select.operands[side]]
    while work:
        value = work.pop()
        if not isinstance(value, Instruction):
            starts[value.ref] = value
        elif value not in through:
            through.add(value)
            if value.opcode == "phi":
                work += value.operands
            elif value.opcode == "select" and value.operands[0] is select.operands[0]:
                work.append(value.operands[side])
            else:
                return None
    if len(starts) != 1 or not through:
        return None
    return _Web(select, side, starts.popitem()[1], through)


def _take_out(function: Function, webs: list[_Web], flow: ControlFlow) -> None:
    webs = [web for web in webs if web.is_constant(flow)]
    for web in webs:
        web.select.operands[web.side] = web.start
    function.remove_unused({i for web in webs for i in web.through})
    instead: dict[Value, Value] = {}
    for block in {web.select.owner: None for web in webs}:
        _find_equal(block, instead)
    function.replace(instead)


def _find_equal(block: Block, instead: dict[Value, Value]) -> None:
    """Note the selects of a block that are equal now, and the addresses computed from them."""
    first: dict[tuple[object, ...], Instruction] = {}
    for i in block.instructions:
        if i.opcode in _MERGED:
            operands = [instead.get(o, o) for o in i.operands]
            names = (o if isinstance(o, Instruction) else o.ref for o in operands)
            key = (i.opcode, i.type, i.flags, i.attributes.get("source"), *names)
            earlier = first.setdefault(key, i)
            if earlier is not i:
                instead[i] = earlier
