"""What a compiled function does to memory that it did not allocate.

Needs       the LLVM function of a compiled callable, after LLVM's passes
Gives       `only_reads`: whether it writes only to memory of its own call, `only_reads_through`:
            or through other parameters than some
            `replaces_pointers`: whether it may replace pointers in other memory
            `is_closed`: whether data enters and leaves through arguments and the result alone;
            `is_repeatable`: the same of a dispatcher; `draws_numbers`, `library_draws`: whether
            a dispatcher or a library draws random numbers
Invariants  E1  conservative: a call of anything unknown, or a pointer of unknown origin, counts as
                a write

LLVM's own attributes describe the memory that a parameter points to, but not what pointers in that
memory lead to: the items of a list, the arrays of an object.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaError

from activerules.ir.derivatives.table import is_inactive_math, is_pure_call
from activerules.ir.normal.effects import effect_of
from activerules.ir.tape.runtime import IN_MEMORY_OF_TAPE, OWNED_AT, RUN_TIME
from activerules.ir.tape.runtime import PREFIX as TAPE
from activerules.ir.text.symbols import has_unnamed, names_in
from activerules.numba_ext.codegen.arity import folded
from activerules.numba_ext.codegen.link import ENVIRONMENT_PREFIX
from activerules.numba_ext.codegen.machine_code import MachineCode
from activerules.numba_ext.target.symbols import (
    BLAS_RESULTS,
    DICT_RESULTS,
    NOT_REPEATABLE,
    OF_PYTHON,
    RAISING,
    RANDOM_STATES,
    READING,
    WRITES_ITEMS,
    is_own_code,
)
from activerules.values.dict_tables import PREFIX as KEYS
from activerules.values.extent_tables import PREFIX as TABLES

_OWN_ARGUMENTS = frozenset({"retptr", "excinfo", "retptr.shadow", "ar.derivatives", "ar.stats"})
_STEPS = frozenset({"getelementptr", "bitcast", "addrspacecast", "freeze"})
_READING_VECTORS = ("llvm.masked.load.", "llvm.masked.gather.", "llvm.vector.reduce.")
_WRITING_VECTORS = ("llvm.masked.store.", "llvm.masked.scatter.")
_COUNTING = frozenset({"add", "sub", "mul", "zext", "sext", "fptosi"})
_FLOATS = ("half", "float", "double")
_NO_ADDRESS = frozenset({"i1", "i8", "i16", "i32", *_FLOATS})
"""Types whose values are neither a pointer nor part of one that the next store completes; nor are
vectors of floats."""


def only_reads(function: Any) -> bool:
    """Whether a function leaves its arguments, and everything they lead to, unchanged."""
    return _Function(function).is_harmless()


def only_reads_through(function: Any, parameters: Collection[int]) -> bool:
    """Whether a function writes nothing through these of its parameters. LLVM does not say so of
    those that it passes to BLAS, or that vectorised code compares with others.
    """
    others = (a.name for k, a in enumerate(function.arguments) if k not in parameters)
    return _Function(function, own=_OWN_ARGUMENTS.union(others)).is_harmless()


def replaces_pointers(function: Any, *, lists: bool = True) -> bool:
    """Whether a function may write a pointer into memory that its arguments lead to.

    `lists` says whether items of typed lists may contain pointers. A memory copy of constant length
    counts, since it may copy a struct with pointers; one of variable length copies array items.
    """
    allowed = frozenset[str]() if lists else WRITES_ITEMS
    return not _Function(function, numbers=True, allowed=allowed).is_harmless()


def is_closed(function: Any) -> bool:
    """Whether all data enters and leaves a function through its arguments and its result.

    It and its callees then use only constants and memory that the arguments lead to, and call no
    code whose body is unknown.
    """
    module = function.module
    seen: set[str] = set()
    work = [function]
    while work:
        text = _without_releases(work.pop())
        if has_unnamed(text):
            return False
        for name in names_in(text):
            if name in seen:
                continue
            seen.add(name)
            if name.startswith((*RUN_TIME, KEYS)):
                continue
            try:
                called = module.get_function(name)
            except NameError:
                if not _is_constant(module, name):
                    return False
                continue
            if not called.is_declaration:
                work.append(called)
            elif not _is_own_code(name):
                return False
    return True


def is_repeatable(dispatcher: Any, args: tuple[Any, ...]) -> bool:
    """Whether one more run of a dispatcher, on copies of its arguments, cannot be noticed. It is
    compiled for them if it was not. Arguments with defaults may be left out.
    """
    compiled = _compiled(dispatcher, args)
    if compiled is None:
        return False
    with global_compiler_lock:
        module = compiled.library._get_module_for_linking()
        names = {function.name for function in module.functions}
        return NOT_REPEATABLE.isdisjoint(names) and is_closed(
            module.get_function(compiled.fndesc.llvm_func_name)
        )


def _compiled(dispatcher: Any, args: tuple[Any, ...]) -> Any:
    """What a dispatcher runs for arguments of these types, compiled if it was not; None if it
    cannot be, which a derivative reports, or converts them to a declared signature.
    """
    _, args = folded(dispatcher, args)
    if args not in dispatcher.overloads:
        try:
            dispatcher.compile(args)
        except (NumbaError, RuntimeError):
            return None
    return dispatcher.overloads.get(args)


def draws_numbers(dispatcher: Any, args: tuple[Any, ...]) -> bool:
    """Whether a dispatcher draws random numbers as `np.random` and `random` do, from a state of the
    thread: one more run then draws others. Arguments with defaults may be left out.
    """
    compiled = _compiled(dispatcher, args)
    run = dispatcher.overloads.values() if compiled is None else [compiled]
    return any(library_draws(each.library) for each in run)


def library_draws(library: Any) -> bool:
    """The same of a library of Numba, or of machine code."""
    if isinstance(library, MachineCode):
        return not RANDOM_STATES.isdisjoint(library.external)
    with global_compiler_lock:
        module = library._get_module_for_linking()
        return not RANDOM_STATES.isdisjoint(function.name for function in module.functions)


def _without_releases(function: Any) -> str:
    """The text of a function, without the calls that release what its tapes own."""
    text = str(function)
    if TAPE in text:
        read = _Function(function)
        for i in read.instructions:
            if i.opcode == "call" and read.is_in_record(list(i.operands)[-1].name):
                text = text.replace(str(i), "")
    return text


def _is_constant(module: Any, name: str) -> bool:
    """Whether a global never changes, or is a Numba environment."""
    try:
        variable = module.get_global_variable(name)
    except NameError:
        return True  # an attribute, or metadata
    return " constant " in str(variable) or name.startswith((ENVIRONMENT_PREFIX, *OF_PYTHON))


def _is_own_code(name: str) -> bool:
    known = effect_of(name) is not None or is_pure_call(name) or is_inactive_math(name)
    return known or is_own_code(name)


def _label(value: Any) -> str:
    """What stands for an operand: its name, or its text if LLVM gave it none."""
    return value.name or str(value)


@dataclass
class _Function:
    """Decides whether a function is harmless: whether it writes only to memory of its own.

    numbers   writing numbers to any memory is harmless, too
    allowed   functions whose calls are harmless
    tapes     the tapes of derivatives in its frame
    own       the parameters that point to such memory: a caller's own, or its result
    examined  the calls being examined, by callee and `own`; a recursive one of them is harmless
    """

    function: Any
    numbers: bool = False
    allowed: frozenset[str] = frozenset()
    own: frozenset[str] = _OWN_ARGUMENTS
    examined: set[tuple[str, frozenset[str]]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.instructions = [i for block in self.function.blocks for i in block.instructions]
        self.by_name: Mapping[str, Any] = {
            _label(i): i for i in self.instructions if i.name or "ptr" in str(i.type)
        }
        calls = [list(i.operands) for i in self.instructions if i.opcode == "call"]
        frame = {_label(i) for i in self.instructions if i.opcode == "alloca"}
        self.tapes = {
            _label(arguments[0])
            for *arguments, callee in calls
            if callee.name.startswith(TAPE) and arguments and _label(arguments[0]) in frame
        }

    def is_harmless(self) -> bool:
        self.examined.add((self.function.name, self.own))
        return all(map(self._is_harmless, self.instructions))

    def _is_harmless(self, instruction: Any) -> bool:
        match instruction.opcode:
            case "store":
                value, address = instruction.operands
                is_number = self.numbers and self._is_number(value)
                return is_number or self._is_own(_label(address))
            case "call" | "invoke":
                *arguments, callee = instruction.operands
                is_release = self.is_in_record(callee.name)
                return is_release or self._is_harmless_call(callee.name, arguments)
            case "atomicrmw" | "cmpxchg" | "va_arg":
                return False
            case _:
                return True

    def _is_number(self, value: Any) -> bool:
        """Whether a stored value is a number, and neither a pointer nor part of one."""
        kind = str(value.type)
        if kind in _NO_ADDRESS or (kind[0] == "<" and kind[:-1].endswith(_FLOATS)):
            return True
        definition = self.by_name.get(value.name)
        return kind == "i64" and definition is not None and definition.opcode in _COUNTING

    def _is_harmless_call(self, name: str, arguments: Sequence[Any]) -> bool:
        if is_pure_call(name) or is_inactive_math(name) or name in READING | self.allowed:
            return True
        if name.startswith((*_READING_VECTORS, *RUN_TIME, TABLES)) or RAISING in name:
            return True
        if name.startswith(_WRITING_VECTORS):
            value, address, *_ = arguments
            is_number = self.numbers and self._is_number(value)
            return is_number or self._is_own(_label(address))
        if name in BLAS_RESULTS:
            return self.numbers or self._is_own(_label(arguments[BLAS_RESULTS[name]]))
        if name in DICT_RESULTS:
            return all(self._is_own(_label(arguments[k])) for k in DICT_RESULTS[name])
        effect = effect_of(name)
        if effect is not None:
            is_array = self.numbers and name.startswith("llvm.mem") and not arguments[2].is_constant
            return is_array or all(self._is_own(_label(arguments[k])) for k in effect.writes)
        return self._is_harmless_callee(name, arguments)

    def _is_harmless_callee(self, name: str, arguments: Sequence[Any]) -> bool:
        """Whether calling a visible function is harmless: its result and exception belong to the
        caller.
        """
        try:
            callee = self.function.module.get_function(name)
        except NameError:
            return False
        if callee.is_declaration:
            return False
        own = frozenset(
            parameter.name
            for a, parameter in zip(arguments, callee.arguments, strict=True)
            if parameter.name and (self._is_own(label := _label(a)) or label == "ptr null")
        )
        if (name, own) in self.examined:
            return True
        called = _Function(callee, self.numbers, self.allowed, own, self.examined)
        return called.is_harmless()

    def is_in_record(self, name: str) -> bool:
        """Whether a function is loaded from one of the records with what a tape has to release:
        it releases an object that a derivative made.
        """
        function = self.by_name.get(name)
        if function is None or function.opcode != "load" or not self.tapes:
            return False
        seen: set[str] = set()
        work = list(self._origins(_label(next(iter(function.operands)))))
        while work:
            record = self.by_name.get(work.pop())
            if record is None or record.opcode != "load":
                return False
            address = next(iter(record.operands))
            if address.name not in seen and not self._is_list_of_records(address):
                seen.add(address.name)
                work += self._origins(_label(address))
        return True

    def _is_list_of_records(self, address: Any) -> bool:
        step = self.by_name.get(address.name)
        if step is None or step.opcode != "getelementptr":
            return False
        base, *offsets = step.operands
        at = [str(offset) for offset in offsets]
        return _label(base) in self.tapes and at == [f"i64 {OWNED_AT}"]

    def _is_own(self, name: str) -> bool:
        """Whether a pointer leads to memory of the call: its result, its stack frame, or memory it
        allocated.
        """
        origins = list(self._origins(name))
        return bool(origins) and all(map(self._is_own_origin, origins))

    def _origins(self, name: str) -> Iterator[str]:
        """The values that a pointer is computed from."""
        seen: set[str] = set()
        work = [name]
        while work:
            name = work.pop()
            instruction = self.by_name.get(name)
            opcode = instruction.opcode if instruction is not None else ""
            if instruction is None or opcode not in _STEPS | {"phi", "select"}:
                yield name
            elif name not in seen:
                seen.add(name)
                operands = list(instruction.operands)
                chosen = {"phi": operands, "select": operands[1:]}.get(opcode, operands[:1])
                work += map(_label, chosen)

    def _is_own_origin(self, name: str) -> bool:
        origin = self.by_name.get(name)
        if origin is None:
            return name in self.own
        if origin.opcode == "load":  # of the pointer to the data, or to the next row of a tape
            counted = list(self._origins(_label(next(iter(origin.operands)))))
            if counted and self.tapes.issuperset(counted):
                return True
            return bool(counted) and all(self._is_allocated(each, counted=True) for each in counted)
        return origin.opcode == "alloca" or self._is_allocated(name)

    def _is_allocated(self, name: str, *, counted: bool = False) -> bool:
        origin = self.by_name.get(name)
        if origin is None or origin.opcode != "call":
            return False
        name = list(origin.operands)[-1].name
        if name in IN_MEMORY_OF_TAPE:
            return not counted or IN_MEMORY_OF_TAPE[name]
        effect = effect_of(name)
        made = effect.allocates if effect is not None else None
        return made is not None and (made.counted or not counted)
