"""Where in what a function returns the pointers are whose references are counted.

Needs       the functions of a module; what its marked calls return stands in their declarations
Gives       `Results.is_counted`: whether a place of a result is such a pointer
Invariants  R1  a place has one type: what is counted of one result at a place, is of all

What a function returns is owned by its caller. If it is handed on as it is, nothing there tells
that it is counted: the pointer to the data of an array is handed on, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from activerules.ir.analysis.places import place_of
from activerules.ir.held_pointers import (
    chosen_from,
    counted,
    is_allocation,
    is_numbas,
    places_of,
)
from activerules.ir.model import Function, Instruction, Module, Value
from activerules.ir.types import PTR

COUNTED = "activerules.counted"
"""Attribute of the first parameter of a declared function: the bytes before each such pointer."""

_OFFSETS = re.compile(rf'"{re.escape(COUNTED)}"="([\d ]*)"')


class Results:
    """See the module docstring."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._known: dict[str, frozenset[tuple[int, int]]] = {}

    def is_counted(self, load: Instruction, call: Instruction) -> bool:
        """Whether a pointer is counted that is loaded from where a call has put its results."""
        place = place_of(load.operands[0], self.module.types)
        name = call.callee_name
        if name is None or place.stride or place.through:
            return False
        found = self._places(name)
        return any(
            o is place.base and (k, place.offset) in found for k, o in enumerate(call.operands)
        )

    def _places(self, name: str) -> frozenset[tuple[int, int]]:
        """The places by the number of the result and the bytes before them."""
        if name not in self._known:
            self._known[name] = frozenset()  # of a function that calls itself: what else it returns
            function = self.module.functions.get(name)
            if function is not None:
                self._known[name] = frozenset(self._find(function))
        return self._known[name]

    def _find(self, function: Function) -> Iterator[tuple[int, int]]:
        if function.is_declaration:
            told = _OFFSETS.search(function.arguments[0].attributes) if function.arguments else None
            yield from ((0, int(offset)) for offset in (told[1] if told else "").split())
            return
        if not is_numbas(function):
            return
        places = function.arguments[: places_of(function)]
        results: dict[Value, int] = {a: k for k, a in enumerate(places)}
        are_counted = {counted(i) for i in function.instructions()}
        calls: dict[Value, list[Instruction]] = {}
        for i in function.instructions():
            for o in i.operands if i.opcode == "call" else ():
                calls.setdefault(o, []).append(i)
        for i in function.instructions():
            if i.opcode != "store" or i.operands[0].type != PTR:
                continue
            place = place_of(i.operands[1], self.module.types)
            if place.base in results and not place.stride:
                if self._is_one(i.operands[0], are_counted, calls):
                    yield results[place.base], place.offset

    def _is_one(
        self, value: Value, are_counted: set[Value | None], calls: dict[Value, list[Instruction]]
    ) -> bool:
        """Whether a value, or what it is chosen from, is a pointer that is counted."""
        work, seen = [value], set[Value]()
        while work:
            one = work.pop()
            if one in seen:
                continue
            seen.add(one)
            if one in are_counted:
                return True
            if isinstance(one, Instruction):
                if is_allocation(one) or (one.opcode == "load" and self._returned(one, calls)):
                    return True
            work += chosen_from(one)
        return False

    def _returned(self, load: Instruction, calls: dict[Value, list[Instruction]]) -> bool:
        base = place_of(load.operands[0], self.module.types).base
        return any(self.is_counted(load, call) for call in calls.get(base, ()))
