"""What the engine must know of a marked call and of the rule that serves it.

This is the boundary to a rule compiler. The engine has no Numba in it: whoever knows the language
of the rules implements `RuleCompiler`, and both sides meet in these frozen records. The calling
convention of the compiled rule functions is part of the boundary:

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
its shadow. A status other than 0 is an error path of the program. Of a result with arrays and
floats, `ret_shadow` holds the shadows of the arrays and the cotangents of the floats. `augmented`
leaves owned references in `ret`, `ret_shadow` and `tape`; `reverse` borrows all of them; `drop`
releases what `tape` holds; `another` makes one more shadow of zeros like `ret_shadow`, owned.
`derivatives` is a struct with one field per float of the Active arguments, written by `reverse`.

In forward mode there is no Active: every argument with a derivative is Duplicated, floats too, and
a shadow operand that stands for a float is its tangent. With width N, N of them stand where one
stands for width 1 (all shadows of the first operand, then those of the second). `forward` computes
the primal too and leaves owned references in `ret` and in each `ret_shadow`, which is null where
the result is Const.
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
"""What the names of functions with rules begin with."""


@dataclass(frozen=True)
class CallArgument:
    """One argument of a marked call as its author sees it, and the LLVM operands that carry it.

    kind "value": numbers, Active where one of its floats is active; "memory": Duplicated where the
    memory behind operand `data_operand` is active; "object": Duplicated where memory is active that
    its `pointers` lead to, however far; "const": never active. `operands` are indices into the
    operands of the call. `written` is False where the function is known not to write the argument's
    memory; its shadow may be written all the same where it is `shadow_written`; `element` is the
    float type the memory holds; `pointers` are the operands that point to memory of any kind,
    integers too. A "const" argument is `opaque` where its type holds floats in a way rules do not
    take (a list, an object): one with active data in it, or that active data may be written to, is
    refused unless it is `declared_inactive`. A `container` holds pointers, which the function may
    follow; it `exchanges` them where they may lead to other memory afterwards; it is `keyed` where
    it is, or leads to, a dictionary. Data of a `sent` argument leaves the function by another way
    than its result and the arguments it writes; data that enters by such a way is written into a
    `received` one.
    """

    name: str
    kind: ArgumentKind
    operands: tuple[int, ...]
    data_operand: int | None = None
    written: bool = True
    element: Type | None = None
    declared_inactive: bool = False
    opaque: bool = False
    container: bool = False
    exchanges: bool = True
    keyed: bool = False
    pointers: tuple[int, ...] = ()
    shadow_written: bool = False
    sent: bool = False
    received: bool = False

    def floats(self, call: Instruction) -> list[Value]:
        """The operands of `call` that are floats of this argument, in order."""
        return [call.operands[k] for k in self.operands if call.operands[k].type.is_float]

    @property
    def is_deep(self) -> bool:
        """Whether the floats of the argument may lie behind pointers in what it holds."""
        return self.opaque or self.kind == "object"

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

    `result_meminfos` are the byte offsets, in the returned struct of `result_size` bytes, of
    pointers to reference-counted memory, `result_floats` those of floats that lie beside arrays
    there, with their types; `primal_symbol` is the function to call where nothing is
    active; `hands_out`: what it returns may be memory of its arguments; `borrows`: when it has
    returned, it is known to hold on to nothing that it was passed; `receives`: data in its result
    enters by another way than its arguments; `sites`: where a rule of it fails the derivative calls
    `normal.effects.FAILED_AT`, which is defined where the derivative is linked.
    """

    name: str
    location: str
    arguments: tuple[CallArgument, ...]
    result_kind: ResultKind
    result_size: int
    result_meminfos: tuple[int, ...]
    primal_symbol: str
    inactive: bool = False
    hands_out: bool = False
    borrows: bool = False
    result_element: Type | None = None
    result_floats: tuple[tuple[int, Type], ...] = ()
    receives: bool = False
    sites: bool = False

    @property
    def passes_data(self) -> bool:
        """Whether data passes beside the arguments and the result: then its rule runs at every
        call, as the other end of the way has a rule that runs, too.
        """
        return self.receives or any(a.sent or a.received for a in self.arguments)


@dataclass(frozen=True)
class RuleRequest:
    """The facts a rule is chosen and compiled by.

    Activities come out of the analysis, not of the types.
    """

    activities: tuple[ActivityName, ...]
    result: ActivityName
    overwritten: tuple[bool, ...]
    needs_primal: bool = True
    needs_shadow: bool = True
    strong_zero: bool = False
    runtime_activity: bool = False


@dataclass(frozen=True)
class RuleCode:
    """Symbols of a compiled pair, the size of its tape, and what to print about it.

    `keeps_shadow`: whether `augmented` may leave a shadow on its tape, or return one that is not
    new zeros. Where it does not, `another` is there for a result with a shadow. `borrows`: of what
    it is passed, at most its tape holds on to something.
    """

    augmented: str
    reverse: str
    tape_size: int
    tape_alignment: int
    drop: str | None
    description: str
    keeps_shadow: bool = True
    another: str | None = None
    borrows: bool = False


@dataclass(frozen=True)
class ForwardRuleRequest:
    """The facts a forward rule is chosen and compiled by.

    Activities are "const" or "duplicated", those of floats too; `width` tangents are carried at
    once.
    """

    activities: tuple[ActivityName, ...]
    result: ActivityName
    width: int = 1
    needs_primal: bool = True
    strong_zero: bool = False
    runtime_activity: bool = False


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
