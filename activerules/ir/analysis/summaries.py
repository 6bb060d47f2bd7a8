"""Summaries of the functions of a module: what each does to memory, as its callers see it.

Needs       a module in normal form; how calls are interpreted (EngineCalls)
Gives       `ModuleSummaries`: a Summary per function, grouping of its pointer parameters, and
            whether paths on which it returns a non-zero status count
Invariants  S1 and S2 of `ir/analysis/memory/callee.py`. The summaries are the least fixpoint of the
            equations between functions that call each other, iterated callees before callers
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

from activerules.ir.analysis.activity import results_of
from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.memory.addresses import is_aligned
from activerules.ir.analysis.memory.callee import FRESH, CalleeAccess, CalleeMemory, Groups, Summary
from activerules.ir.analysis.memory.declared import Declared, FromCaller
from activerules.ir.analysis.memory.facts import MemoryFacts, analyse_memory
from activerules.ir.analysis.memory.objects import UNKNOWN, MemoryObject, root
from activerules.ir.analysis.memory.points_to import FromModule, Tables
from activerules.ir.analysis.memory.shapes import Shapes, ShapesIn
from activerules.ir.analysis.returns import Returns, analyse_returns, fails_with
from activerules.ir.analysis.types.value_types import analyse_value_types
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.closure import closure
from activerules.ir.llvm.model import (
    Argument,
    Function,
    Instruction,
    Module,
    Value,
    accessed_type,
    backward_slice,
)
from activerules.ir.llvm.types import Type, size_of
from activerules.ir.llvm.verbatim import is_constant, may_be_replaced, value_of_global
from activerules.ir.normal import normal_form
from activerules.ir.normal.effects import effect_of, frees


@dataclass(frozen=True)
class Variant:
    """A function, and what is known of its arguments at a call.

    groups   as those of `callee.Summaries.summary`
    apart    memory of different groups does not overlap
    status   its callers go on only if it returns 0
    """

    name: str
    groups: Groups
    apart: bool
    status: bool


class ModuleSummaries:
    """The summaries of one module, computed on demand.

    outside   the pointer parameters of the function to differentiate, to memory with contents
    numbers   those to arrays without pointers, and the layout of their elements
    """

    def __init__(
        self,
        module: Module,
        calls: EngineCalls,
        outside: Collection[Argument] = (),
        numbers: Mapping[Argument, Declared] | None = None,
    ) -> None:
        self._module, self._calls = module, calls
        self._outside, self._numbers = outside, numbers or {}
        self._shapes: Shapes | None = None
        self._summaries: dict[Variant, Summary] = {}
        self._new: list[Variant] = []
        self._grown: dict[Variant, None] = {}
        self._dependent: Variant | None = None
        self._dependencies = defaultdict[Variant, dict[Variant, None]](dict)
        self._dependents = defaultdict[Variant, dict[Variant, None]](dict)

    @cached_property
    def tables(self) -> Tables:
        """The constants of the module that hold numbers, no pointers, as LLVM's switch tables."""
        return {
            MemoryObject("global", name): frozenset()
            for name, line in self._module.globals.items()
            if is_constant(line) and "ptr" not in value_of_global(line)
        }

    def callee(self, call: Instruction) -> Function | None:
        """The function of the module that is called; None if a rule or an effect row serves it."""
        name = call.callee_name if call.opcode == "call" else None
        function = self._module.functions.get(name) if name is not None else None
        if function is None or function.is_declaration or function.vararg:
            return None
        if may_be_replaced(function.prefix):
            return None
        if [a.type for a in function.arguments] != [o.type for o in call.operands]:
            return None
        if self._calls.marked(call) is not None or effect_of(name) is not None:
            return None
        return None if self._calls.is_arithmetic(call) else function

    def shapes(self, function: Function) -> ShapesIn:
        """The shapes of the memory that a function, or a copy of it, accesses."""
        if self._shapes is None:
            self._shapes = Shapes(
                self._module, self._calls, self.callee, self._outside, self._numbers
            )
        original = self._module.functions.get(function.name, function)
        values = [*original.arguments, *original.instructions()]
        return ShapesIn(self._shapes, {v.name: v for v in values if v.name is not None})

    def of(self, variant: Variant) -> Summary:
        """The summary of a variant of a function."""
        if variant not in self._summaries:
            self._summaries[variant] = Summary()
            self._new.append(variant)
        if self._dependent is not None:
            self._dependencies[self._dependent][variant] = None
            self._dependents[variant][self._dependent] = None
        elif self._new:
            self._solve()
        return self._summaries[variant]

    def _solve(self) -> None:
        """Summarise new variants, and those again that depend on a summary which has grown.

        Callees come before callers, so a function that is not recursive is summarised twice at
        most.
        """
        while self._new or self._grown:
            while self._new:
                self._update(self._new.pop())
            for variant in self._callees_first():
                if variant in self._grown:
                    self._update(variant)

    def _update(self, variant: Variant) -> None:
        self._dependent, self._grown[variant] = variant, None
        try:
            summary = self._summarise(variant)
        finally:
            self._dependent = None
        del self._grown[variant]
        new = self._summaries[variant] | summary
        if new != self._summaries[variant]:
            self._summaries[variant] = new
            self._grown |= self._dependents[variant]

    def _callees_first(self) -> list[Variant]:
        """The variants to summarise again, and those reachable from them, callees first."""
        order: list[Variant] = []
        seen: set[Variant] = set()
        for start in self._grown:
            work = [(start, iter(self._dependencies[start]))] if start not in seen else []
            seen.add(start)
            while work:
                variant, callees = work[-1]
                following = next((c for c in callees if c not in seen), None)
                if following is None:
                    order.append(variant)
                    work.pop()
                else:
                    seen.add(following)
                    work.append((following, iter(self._dependencies[following])))
        return order

    def _summarise(self, variant: Variant) -> Summary:
        function = self._module.functions[variant.name]
        normal_form.tidy(function)
        flow = control_flow(function)
        returns = analyse_returns(function, flow, status=variant.status)
        number = {a: k for k, a in enumerate(function.arguments)}
        memory = analyse_memory(
            function,
            flow,
            live=returns.live,
            caller=FromCaller(group_of=lambda a: variant.groups[number[a]], disjoint=variant.apart),
            module=FromModule(self._module.types, self._calls, CallsIn(self, returns), self.tables),
        )
        return _Summariser(function, returns, memory, self._calls, self.shapes).result()


@dataclass(frozen=True)
class CallsIn:
    """The calls of one function (`analysis.memory.callee.Summaries`)."""

    summaries: ModuleSummaries
    returns: Returns

    def is_derived(self, call: Instruction) -> bool:
        """Whether a call goes to a function of the module that is analysed by its body."""
        return self.summaries.callee(call) is not None

    def summary(self, call: Instruction, groups: Groups, apart: bool) -> Summary:
        """The effects of the function that is called."""
        return self.summaries.of(self.variant(call, groups, apart))

    def variant(self, call: Instruction, groups: Groups, apart: bool) -> Variant:
        """The variant of the callee for these groups, and for what its status means here."""
        return Variant(call.callee_name or "", groups, apart, fails_with(call, self.returns))


@dataclass
class _Summariser:
    function: Function
    returns: Returns
    memory: MemoryFacts
    calls: EngineCalls
    shapes: Callable[[Function], ShapesIn]

    def __post_init__(self) -> None:
        self.numbers = {a: k for k, a in enumerate(self.function.arguments)}
        self.body = list(self.returns.instructions())
        end = self.returns.exit.terminator
        self.returned = end.operands[0] if end.operands else None
        self.fresh = self.memory.escaping(self.returned)
        self.everything = False

    def result(self) -> Summary:
        reads, writes, accesses = set[CalleeMemory](), set[CalleeMemory](), set[CalleeAccess]()
        releases = False
        for i in self.body:
            reads |= self._callee_memories(self._read_by(i))
            accesses.update(self._accesses_of(i))
            releases |= self._releases(i)
            if (info := self.calls.marked(i)) is not None:
                writes |= self._callee_memories(results_of(i, info, self.memory))
        for write in self.memory.writes:
            self.everything |= write.everything
            writes |= self._callee_memories(self.memory.written_by(write))
        pointers = self._pointers()
        bits, returns_bits = self._bits()
        return Summary(
            reads=frozenset(reads),
            writes=frozenset(writes),
            stores=frozenset(pointers),
            returns=frozenset(self._callee_memories(self._returned_objects())),
            accesses=frozenset(accesses),
            bits=frozenset(bits),
            releases=releases,
            returns_bits=returns_bits,
            everything=self.everything,
            takes_bits=frozenset(self._takes_bits()),
            keeps_bits=frozenset(self._keeps_bits()),
            copies=frozenset(self._copies()),
            makes_bits=any(map(self._makes_bits, self.body)),
            passes_data=any(map(self._passes_data, self.body)),
        )

    def _callee_memory(self, o: MemoryObject) -> CalleeMemory | None:
        """An object as a caller can name it; None for one it cannot reach."""
        if o.is_local:
            return CalleeMemory(FRESH) if o in self.fresh else None
        first = root(o)
        if first == UNKNOWN:
            self.everything = True
            return None
        if first.kind == "global" and first != o:
            self.everything = True
            return None
        if first.kind in {"argument", "global"}:
            assert isinstance(first.key, int | str)
            return CalleeMemory(first.key, deep=first != o)
        return None

    def _callee_memories(self, objects: Iterable[MemoryObject]) -> set[CalleeMemory]:
        return {named for o in objects if (named := self._callee_memory(o)) is not None}

    def _read_by(self, i: Instruction) -> set[MemoryObject]:
        at = self.memory.objects
        if i.opcode == "load":
            return set(at(i.operands[0]))
        if i.opcode != "call":
            return set()
        if i in self.memory.called:
            return set(self.memory.called[i].reads)
        effect = self.calls.marked_effect(i) or effect_of(i.callee_name)
        if effect is None:
            return set() if self.calls.is_arithmetic(i) else set(self.memory.reached(i))
        read = {o for k in effect.reads for o in at(i.operands[k])}
        info = self.calls.marked(i)
        if info is not None:
            read |= {o for k in i.operands[2:] if k.type.is_pointer for o in at(k)}
            containers = (k for a in info.arguments if a.container for k in a.pointers)
            read |= {o for k in containers for o in self.memory.reachable_from(i.operands[k])}
        return read

    def _releases(self, i: Instruction) -> bool:
        if i in self.memory.called:
            return self.memory.called[i].summary.releases
        return frees(i) and any(
            not o.is_local or o in self.fresh for o in self.memory.objects(i.operands[0])
        )

    def _accesses_of(self, i: Instruction) -> Iterable[CalleeAccess]:
        if i.opcode in {"load", "store"}:
            t = accessed_type(i)
            yield from self._access(i.operands[-1], t, self._is_aligned(i, t), 0)
        elif i in self.memory.called:
            yield from self._translated(i, self.memory.called[i].summary.accesses)
        elif (info := self.calls.marked(i)) is not None:
            for argument in info.arguments:
                if argument.element is not None and argument.data_operand is not None:
                    for memory in self._callee_memories(
                        self.memory.objects(i.operands[argument.pointer])
                    ):
                        yield CalleeAccess(memory, argument.element)

    def _translated(
        self, call: Instruction, accesses: Iterable[CalleeAccess]
    ) -> Iterable[CalleeAccess]:
        """Accesses of a callee as accesses of its caller."""
        for access in accesses:
            if access.parameter is not None:
                pointer = call.operands[access.parameter]
                yield from self._access(pointer, access.type, access.aligned, access.offset)
            else:
                for memory in self._callee_memories(self.memory.called[call].at(access.memory)):
                    yield CalleeAccess(memory, access.type, access.aligned)

    def _is_aligned(self, i: Instruction, t: Type) -> bool:
        return is_aligned(i, size_of(t, self.memory.named_types))

    def _access(
        self, pointer: Value, t: Type, aligned: bool, offset: int | None
    ) -> Iterable[CalleeAccess]:
        address = self.memory.address(pointer)
        reached = self._callee_memories(self.memory.objects(pointer))
        # one of the offsets is zero: with recursion, a growing sum would never converge
        fixed = not (address.stride or address.through) and (address.offset == 0 or offset == 0)
        if isinstance(address.base, Argument) and fixed and offset is not None:
            number, total = self.numbers[address.base], address.offset + offset
            return [CalleeAccess(memory, t, aligned, number, total) for memory in reached]
        return [CalleeAccess(memory, t, aligned) for memory in reached]

    def _pointers(self) -> set[tuple[CalleeMemory, CalleeMemory]]:
        pointers: set[tuple[CalleeMemory, CalleeMemory]] = set()
        for o, pointees in self.memory.contents.items():
            holder = self._callee_memory(o)
            if holder is not None:
                pointers |= {(holder, pointee) for pointee in self._callee_memories(pointees)}
        return pointers

    def _copies(self) -> Iterable[tuple[CalleeMemory, CalleeMemory]]:
        copy_sources, integer_sources = self.memory.copy_sources, self.memory.integer_sources
        for o in copy_sources.keys() | integer_sources.keys():
            for target in self._callee_memories([o]):
                for source in closure(
                    [o], lambda s: (*copy_sources.get(s, ()), *integer_sources.get(s, ()))
                ):
                    for origin in self._callee_memories([source]):
                        yield target, origin

    def _returned_objects(self) -> Iterable[MemoryObject]:
        if self.returned is None:
            return ()
        return self.memory.objects(self.returned)

    def _bits(self) -> tuple[set[CalleeAccess], bool]:
        """The accesses that read a returned integer, and whether it is made of a float's bits."""
        if self.returned is None or not self.returned.type.is_int:
            return set(), False
        types = analyse_value_types(
            self.function, self.memory, {}, cache(partial(self.shapes, self.function))
        )
        bits: set[CalleeAccess] = set()
        for i in backward_slice(self.returned, lambda i: i.opcode not in {"load", "call"}):
            if i.opcode == "load":
                aligned = self._is_aligned(i, i.type)
                bits.update(self._access(i.operands[0], i.type, aligned, 0))
            elif i in self.memory.called:
                bits.update(self._translated(i, self.memory.called[i].summary.bits))
        return bits, self.returned in types.float_bits

    def _makes_bits(self, i: Instruction) -> bool:
        if i in self.memory.called:
            return self.memory.called[i].summary.makes_bits
        return i.opcode == "bitcast" and i.type.is_int and i.operands[0].type.is_float

    def _passes_data(self, i: Instruction) -> bool:
        if i in self.memory.called:
            return self.memory.called[i].summary.passes_data
        info = self.calls.marked(i) if i.opcode == "call" else None
        return info is not None and info.passes_data

    def _takes_bits(self) -> Iterable[int]:
        """The integer parameters whose bits are used as a float."""
        for i in self.body:
            if i.opcode == "bitcast" and i.type.is_float:
                yield from self._parameters_in(i.operands[0])
            elif i in self.memory.called:
                for k in self.memory.called[i].summary.takes_bits:
                    yield from self._parameters_in(i.operands[k])

    def _keeps_bits(self) -> Iterable[tuple[int, CalleeAccess]]:
        """The integer parameters that are stored in memory the caller can see, with the access."""
        for i in self.body:
            if i.opcode == "store":
                for number in self._parameters_in(i.operands[0]):
                    plain = not self._may_hold_float(i.operands[1], i.operands[0].type)
                    for access in self._accesses_of(i):
                        yield number, replace(access, without_floats=plain)
            elif i in self.memory.called:
                for k, kept in self.memory.called[i].summary.keeps_bits:
                    for number in self._parameters_in(i.operands[k]):
                        for access in self._translated(i, [kept]):
                            yield number, replace(access, without_floats=kept.without_floats)

    def _may_hold_float(self, pointer: Value, t: Type) -> bool:
        """Whether any function of the module may have a float at a pointer to `t`."""
        return self.shapes(self.function).may_hold(pointer, t, "float")

    def _parameters_in(self, value: Value) -> list[int]:
        """The numbers of the parameters from which an integer is computed, by arithmetic alone."""
        if not value.type.is_int:
            return []
        sources = closure([value], _operands_of_arithmetic)
        return [self.numbers[a] for a in sources if isinstance(a, Argument)]


def _operands_of_arithmetic(value: Value) -> Iterable[Value]:
    if not isinstance(value, Instruction) or value.opcode in {"load", "call"}:
        return ()
    return (o for o in value.operands if o.type.is_int)
