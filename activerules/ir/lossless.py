"""Compiled code that is only called, with the references dropped that it loses where it raises.

Needs       the text of a module of Numba's, optimised or not
Gives       `without_losses`: the text of a module that does the same
Invariants  L1  what the module may do beside that stays as it is: it is not analysed any further

The code of rules, and of functions called with nothing active, is not differentiated: Numba has
optimised it, function by function. What it has inlined there of its runtime gets its name back.
"""

from __future__ import annotations

import re

from activerules.ir.constants import number_of
from activerules.ir.held_pointers import counted, is_allocation
from activerules.ir.held_references import drop_held
from activerules.ir.lifetimes import split_places
from activerules.ir.model import Argument, Constant, Function, GlobalRef, Instruction, Module, Value
from activerules.ir.normalise import unfolded
from activerules.ir.parser import parse_module
from activerules.ir.printer import print_module
from activerules.ir.types import I8, PTR

_HOLDS = re.compile(r"\bcall [^@\n]*@NRT_(?:incref|MemInfo_)")
_DATA = "NRT_MemInfo_data_fast"
_DATA_AT = 24  # bytes: NRT_MemInfo has the count, the destructor and its argument before


def without_losses(text: str) -> str:
    """See the module docstring; `UnsupportedIR` if LLVM does not accept the text."""
    if not _HOLDS.search(text):
        return text
    module = parse_module(unfolded(text))
    _name_data(module)
    for function in module.defined():
        split_places(function)
    drop_held(module)
    return print_module(module)


def _name_data(module: Module) -> None:
    """Make loads of the data of counted memory calls of the function that Numba has for that."""
    named = [_name_data_in(f) for f in module.defined() if f.name != _DATA]
    if any(named):
        module.functions.setdefault(_DATA, Function(_DATA, PTR, [Argument("a0", PTR)]))


def _name_data_in(function: Function) -> bool:
    """Whether there was one."""
    owners: set[Value | None] = {counted(i) for i in function.instructions()} - {None}
    owners |= {i for i in function.instructions() if is_allocation(i)}
    places = [i for i in function.instructions() if _is_place_of_data(i, owners)]
    uses: dict[Value, list[Instruction]] = {place: [] for place in places}
    for i in function.instructions():
        for o in i.operands:
            if o in uses:
                uses[o].append(i)
    found = False
    for place in places:
        if not all(i.opcode == "load" and i.type is PTR for i in uses[place]):
            continue
        for load in uses[place]:
            load.opcode, load.callee = "call", GlobalRef(_DATA)
            load.operands, load.attributes = [place.operands[0]], {}
            found = True
        place.owner.instructions.remove(place)
    return found


def _is_place_of_data(i: Instruction, owners: set[Value | None]) -> bool:
    if i.opcode != "getelementptr" or i.operands[0] not in owners or i.attributes["source"] != I8:
        return False
    index = i.operands[1]
    return isinstance(index, Constant) and number_of(index) == _DATA_AT
