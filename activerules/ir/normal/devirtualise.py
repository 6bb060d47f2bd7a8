"""Calls through a pointer become calls by name, where the functions it may hold are known.

Needs       a module in normal form
Gives       the module, changed in place: for `call %p(…)`, where `%p` is chosen among functions by
            phi or select, or LLVM lists them (`!callees`), `%p` is compared with each of them, and
            that function is called
Invariants  D1  `%p` is compared with every function that may be called, except the last one
            D2  the new blocks are in the loop of the call; the module stays in normal form
"""

from __future__ import annotations

from activerules.ir.llvm.builder import Builder, Namer
from activerules.ir.llvm.closure import closure
from activerules.ir.llvm.model import Block, Function, GlobalRef, Instruction, Module, Value
from activerules.ir.llvm.types import VOID
from activerules.ir.llvm.verbatim import listed_callees

MOST_CALLEES = 16
_KEPT = {"location", "cconv", "return_attributes", "argument_attributes"}
"""Without some of the attributes, as `zeroext`, the arguments would be passed in another way."""


def devirtualise(module: Module) -> None:
    """Rewrite calls through pointers whose targets are known."""
    for function in module.defined():
        for call in [i for i in function.instructions() if i.opcode == "call"]:
            if isinstance(call.callee, GlobalRef) or call.callee is None:
                continue
            names = _chosen_among(call.callee) or listed_callees(
                str(call.attributes.get("metadata", "")), module.trailer
            )
            fitting = (fits(call, module.functions.get(name)) for name in names)
            if 0 < len(names) <= MOST_CALLEES and all(fitting):
                split_call(function, call, sorted(names))


def split_call(function: Function, call: Instruction, names: list[str]) -> None:
    """Compare the called pointer with each function, and call that by name (D1, D2)."""
    _Splitter(function, call, names).run()


def _chosen_among(pointer: Value) -> set[str]:
    """The functions among which a pointer is chosen; empty if it may be something else."""
    ends = [value for value in closure([pointer], _options) if not _options(value)]
    names = {value.name for value in ends if isinstance(value, GlobalRef)}
    return names if all(isinstance(value, GlobalRef) for value in ends) else set()


def _options(value: Value) -> list[Value]:
    if not isinstance(value, Instruction) or value.opcode not in {"phi", "select", "freeze"}:
        return []
    return value.operands[1:] if value.opcode == "select" else value.operands


def fits(call: Instruction, function: Function | None) -> bool:
    """Whether a function has the signature it is called with, and is not passed a copy of memory
    (`ir/foreign/by_value` changes calls by name alone).
    """
    return (
        function is not None
        and not function.vararg
        and not any("byval(" in a.attributes for a in function.arguments)
        and function.result == call.type
        and [a.type for a in function.arguments] == [o.type for o in call.operands]
    )


class _Splitter:
    """Replaces one call through a pointer by comparisons and calls by name."""

    def __init__(self, function: Function, call: Instruction, names: list[str]) -> None:
        self.function, self.call, self.names = function, call, names
        self.namer = Namer("one", function.local_names())

    def run(self) -> None:
        """Replace the call by comparisons and calls by name."""
        call, block = self.call, self.call.owner
        at = block.instructions.index(call)
        join = self._block("called")
        for i in block.instructions[at + 1 :]:
            join.append(i)
        del block.instructions[at:]
        for target in dict.fromkeys(join.successors):
            for phi in target.phis:
                phi.blocks = [join if b is block else b for b in phi.blocks]
        arms = [self._arm(name, join) for name in self.names]
        self._compare(block, arms)
        self._insert_blocks(block, [*arms, join])
        if call.type is not VOID:
            phi = Instruction("phi", call.type, [arm.instructions[0] for arm in arms], call.name)
            phi.blocks = list(arms)
            join.insert(0, phi)
            self._replace(phi)

    def _block(self, hint: str) -> Block:
        block = Block(self.namer(hint))
        block.parent = self.function
        return block

    def _arm(self, name: str, join: Block) -> Block:
        arm = self._block("call")
        attributes = {k: v for k, v in self.call.attributes.items() if k in _KEPT}
        result = None if self.call.type is VOID else self.namer("result")
        arm.append(
            Instruction(
                "call",
                self.call.type,
                list(self.call.operands),
                result,
                self.call.flags,
                [],
                GlobalRef(name),
                attributes,
            )
        )
        Builder(arm, self.namer).br(join)
        return arm

    def _compare(self, block: Block, arms: list[Block]) -> None:
        assert self.call.callee is not None
        self.tests: list[Block] = []
        b = Builder(block, self.namer)
        for name, arm in zip(self.names[:-1], arms[:-1], strict=True):
            last = arm is arms[-2]
            following = arms[-1] if last else self._block("test")
            b.cond_br(b.icmp("eq", self.call.callee, GlobalRef(name)), arm, following)
            if not last:
                self.tests.append(following)
                b.target = following
        if len(arms) == 1:
            b.br(arms[0])

    def _replace(self, phi: Instruction) -> None:
        for i in self.function.instructions():
            if i is not phi:
                i.operands = [phi if o is self.call else o for o in i.operands]

    def _insert_blocks(self, block: Block, arms: list[Block]) -> None:
        at = self.function.blocks.index(block) + 1
        self.function.blocks[at:at] = [*self.tests, *arms]
