"""What the engine must know of a marked call and of its rule.

This is the interface to a rule compiler. The engine is independent of Numba: the compiler of the
rules' language implements `RuleCompiler`, and both sides exchange these frozen records. The calling
convention of the compiled rule functions is part of the interface:

    i32 augmented(ptr ret, ptr ret_shadow, ptr excinfo, ptr tape,
                  primal operands..., shadow operands...)
    i32 reverse  (ptr ret, ptr ret_shadow, ptr excinfo, ptr tape, ptr derivatives,
                  primal operands..., shadow operands...)
    void drop    (ptr tape)
    i32 another  (ptr ret_shadow, ptr new, ptr excinfo)
    i32 forward  (ptr ret, ptr ret_shadow x width, ptr excinfo,
                  primal operands..., shadow operands...)

"Primal operands" are the operands of the marked call after `retptr` and `excinfo`; "shadow
operands" repeat the operands of every Duplicated argument, in order, with each pointer replaced by
its shadow. A status other than 0 is an error path of the program. For a result with arrays and
floats, `ret_shadow` holds the shadows of the arrays and the cotangents of the floats. `augmented`
stores owned references in `ret`, `ret_shadow` and `tape`; `reverse` borrows all of them; `drop`
releases those in `tape`; `new_shadow` makes one more shadow of zeros like `ret_shadow`, owned.
`derivatives` is a struct with one field per float of the Active arguments, written by `reverse`.

In forward mode there is no Active: every argument with a derivative is Duplicated, floats too, and
the shadow operand for a float is its tangent. With width N there are N shadow operands for each
operand (all of the first operand, then those of the second). `forward` also computes the primal,
and stores owned references in `ret` and in each `ret_shadow`, which is null if the result is Const.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.llvm.types import Type

ActivityName = Literal["const", "active", "duplicated"]
ArgumentKind = Literal["value", "memory", "object", "const"]
ResultKind = Literal["value", "memory", "const", "none"]

MARKED_PREFIX = "activerules.rule."
"""The prefix of the names of functions with rules."""

EXCINFO = 1
"""The operand of a call of compiled code that says where its exception goes."""


@dataclass(frozen=True)
class CallArgument:
    """One argument of a marked call as its author sees it, and the LLVM operands that carry it.

    kind               "value": numbers, Active if one of its floats is active; "memory": Duplicated
                       if the memory at operand `data_operand` is active; "object": Duplicated if
                       memory reachable from its `pointers` is active; "const": never active
    operands           indices into the operands of the call
    written            False if the function is known not to write the argument's memory
    shadow_written     the shadow may be written even so
    element            the type of the floats in the memory
    pointers           the operands that point to memory of any kind, integers included
    owner              the operand of an array that counts its references, if there is one
    opaque             the type of a "const" argument that contains floats but is not accepted by
                       rules (a list, a value that may be None), else "": refused if active data is,
                       or may be written, in it, unless it is `declared_inactive`
    container          it holds pointers, which the function may follow
    replaces_pointers  the function may replace these pointers
    keyed              it is a dictionary, or one is reachable from it
    sent               its data leaves the function other than by the result and written arguments
    received           data that enters the function other than by arguments is written to it
    takes_shadow       a rule of the function takes it with a shadow
    """

    name: str
    kind: ArgumentKind
    operands: tuple[int, ...]
    data_operand: int | None
    written: bool
    element: Type | None
    declared_inactive: bool
    opaque: str
    container: bool
    replaces_pointers: bool
    keyed: bool
    pointers: tuple[int, ...]
    owner: int | None
    shadow_written: bool
    sent: bool
    received: bool
    takes_shadow: bool

    def floats(self, call: Instruction) -> list[Value]:
        """The operands of `call` that are floats of this argument, in order."""
        return [call.operands[k] for k in self.operands if call.operands[k].type.is_float]

    @property
    def is_deep(self) -> bool:
        """Whether its floats may be in memory that is reached through pointers in it."""
        return bool(self.opaque) or self.kind == "object"

    @property
    def memory_operands(self) -> tuple[int, ...]:
        """All operands through which the function reaches memory."""
        return self.pointers or (() if self.data_operand is None else (self.data_operand,))

    @property
    def pointer(self) -> int:
        """`data_operand` of a "memory" argument, which always has one."""
        assert self.data_operand is not None, f"{self.name} is no memory"
        return self.data_operand


@dataclass(frozen=True)
class CallInfo:
    """A marked call.

    result_meminfos   byte offsets, in the returned struct of `result_size` bytes, of pointers to
                      reference-counted memory
    result_floats     offsets and types of floats beside arrays in that struct
    primal_symbol     the function to call if nothing is active
    hands_out         it may return memory of its arguments
    borrows           it is known to keep no reference to its arguments
    receives          data in its result comes from elsewhere than its arguments

    Where a rule of it fails, the derivative calls `llvm.names.FAILED_AT`, which is defined where
    the derivative is linked.
    """

    name: str
    location: str
    arguments: tuple[CallArgument, ...]
    result_kind: ResultKind
    result_size: int
    result_meminfos: tuple[int, ...]
    primal_symbol: str
    inactive: bool
    hands_out: bool
    borrows: bool
    result_element: Type | None
    result_floats: tuple[tuple[int, Type], ...]
    receives: bool

    @property
    def passes_data(self) -> bool:
        """Whether it sends or receives data other than by arguments and result: then its rule runs
        at every call, since the rule at the other end runs, too.
        """
        return self.receives or any(a.sent or a.received for a in self.arguments)


@dataclass(frozen=True)
class Options:
    """Options of the mode that rules are told, too.

    By `strong_zero` a zero cotangent times any slope, infinite and NaN included, is zero. The
    engine does not use `runtime_activity`.
    """

    strong_zero: bool = False
    runtime_activity: bool = False


@dataclass(frozen=True)
class RuleRequest:
    """What a rule is chosen and compiled for; the activities are results of the analysis.

    `caught` says whether the calling function may continue after the call has failed, and the
    function called may have written into a Duplicated argument by then.
    """

    activities: tuple[ActivityName, ...]
    result: ActivityName
    overwritten: tuple[bool, ...]
    needs_primal: bool = True
    needs_shadow: bool = True
    options: Options = Options()
    caught: bool = False


@dataclass(frozen=True)
class RuleCode:
    """Symbols of a compiled pair, the size of its tape, and what to print about it.

    keeps_shadow   `augmented` may keep a shadow on its tape, or return one that is not new zeros;
                   otherwise, for a result with a shadow, there is `new_shadow`
    borrows        it keeps references to its arguments at most on its tape
    """

    augmented: str
    reverse: str
    tape_size: int
    tape_alignment: int
    drop: str | None
    description: str
    keeps_shadow: bool
    new_shadow: str | None
    borrows: bool = False


@dataclass(frozen=True)
class ForwardRuleRequest:
    """What a forward rule is chosen and compiled for.

    Activities are "const" or "duplicated", for floats too; `width` is the number of tangents;
    `caught` as in `RuleRequest`.
    """

    activities: tuple[ActivityName, ...]
    result: ActivityName
    width: int
    needs_primal: bool
    options: Options
    caught: bool = False


@dataclass(frozen=True)
class ForwardRuleCode:
    """The symbol of a compiled forward rule, and what to print about it."""

    symbol: str
    description: str


class RuleCompiler(Protocol):
    """Chooses and compiles rules.

    Errors of the rule system (no rule, tie, half a pair) are raised by `choose` and
    `choose_forward`.
    """

    def call_info(self, symbol: str) -> CallInfo:
        """The record of a marked call by the name of its declaration; `KeyError` if it is none."""
        ...

    def choose(self, symbol: str, request: RuleRequest) -> RuleCode:
        """The compiled rule pair that serves `request`."""
        ...

    def choose_forward(self, symbol: str, request: ForwardRuleRequest) -> ForwardRuleCode | None:
        """The compiled forward rule that serves `request`; None if the function has none."""
        ...
