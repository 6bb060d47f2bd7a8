"""The effects of functions whose code is not visible: on memory, allocation, side effects.

One row per function. A function without a row is unknown: it may read and write all memory that is
reachable from its pointer arguments, and no active value may flow into it. Arithmetic (libm and
LLVM's mathematical intrinsics) is not here: it has no effect but its result, and its rows are in
`ir/derivatives/table.py`.

This table has functions that any language may call: C's and C++'s memory and output, LLVM's
intrinsics, and the engine's own. Those of a language's runtime are declared by its front end
(`declare`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from activerules.errors import ActiverulesError, UnknownCall, UnsupportedIR
from activerules.ir.derivatives.table import add_symbols
from activerules.ir.llvm.model import Instruction
from activerules.ir.llvm.names import FAILED_AT, RECORDS, VIEWED_RECORDS

HEADER_BYTES = 17
"""The size of the header of a list: its length, its capacity, and a flag. A set's is larger."""


@dataclass(frozen=True)
class Allocation:
    """New memory that a call returns, to which nothing else points.

    size        the operand with its bytes (calloc: the product of two operands)
    counted     it is a header with a reference count (`CountedMemory`)
    header      it begins with a header of fixed size, HEADER_BYTES or more, followed by items; it
                can move
    in_rows     it is for numbers alone, is not resized and has no destructor: it may be replaced by
                an array in a row of the tape, if that has the alignment in the operand `alignment`
    released_by the function that releases a shadow of it
    plain       the function that allocates it without a destructor, called with the `size` operands
                alone
    """

    size: tuple[int, ...] = (0,)
    counted: bool = False
    header: bool = False
    in_rows: bool = False
    alignment: int | None = None
    released_by: str = "free"
    plain: str | None = None


@dataclass(frozen=True)
class CallEffect:
    """How a call acts on memory.

    allocates   the memory that is returned, if it is new
    frees       the function that releases the memory at operand 0, as the call does, given only its
                address
    counts      a reference to operand 0 is added, or dropped
    gives_data  the result is the start of the data of the MemInfo in operand 0
    resizes     the operand with the new size of the memory at operand 0, which may move
    returns     the result points into the memory that operand `returns` points into
    reads, writes   operands through which memory is read or written
    follows     operands that are containers: memory at pointers in them may be written, too
    replaces_pointers  pointers in these containers may be replaced
    hands_over  the owner of operand 0 gets the contents of the memory at operand 1: it can reach
                what pointers there point to
    keeps       the callee may keep references to its arguments
    hands_out   the callee may return memory that is reachable from its arguments
    mirrored    operands whose shadows are treated alike: forward mode repeats the call on them
    adds_keys   keys are added to the dictionary in operand 0
    no_data     memory reachable from operand 0 must not be active: the error if it is
    opaque      the result is a pointer to memory of the runtime (random state, Python objects):
                never active
    pure        no effect other than the result: the reverse sweep may repeat the call
    """

    allocates: Allocation | None = None
    frees: str | None = None
    counts: bool = False
    gives_data: bool = False
    resizes: int | None = None
    returns: int | None = None
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    follows: tuple[int, ...] = ()
    replaces_pointers: bool = True
    hands_over: bool = False
    keeps: bool = False
    hands_out: bool = False
    mirrored: tuple[int, ...] = ()
    adds_keys: bool = False
    no_data: Explanation | None = None
    opaque: bool = False
    pure: bool = False


@dataclass(frozen=True)
class CountedMemory:
    """The functions by which generated code handles reference-counted memory.

    retain, release   functions of the runtime that add and drop a reference
    data              the function of the runtime that returns the start of the data
    data_offset       the offset in the header of the pointer to the data
    definitions       the text of functions that the engine knows only by name: `TAPE_ARRAY`,
                      `TAPE_SHADOW`, `REUSED_SHADOW`, `GROW_SHADOW` and `CLEAR_COUNTED`
    """

    retain: str
    release: str
    data: str
    data_offset: int
    definitions: Mapping[str, str]


@dataclass(frozen=True)
class Explanation:
    """An error in words of the language: what is refused, why, and what to do instead."""

    what: str
    why: str
    instead: tuple[str, ...]
    error: type[ActiverulesError] = UnknownCall


@dataclass(frozen=True)
class LanguageRuntime:
    """What a front end declares about the runtime functions that code of its language calls.

    effects       rows by name; `families`: by prefix
    mathematics   per symbol, the function of `derivatives.table` that it computes
    declarations  per name, a declaration with attributes that LLVM cannot infer
    confined      functions without a row that reach only memory they are passed
    refused       by prefix, the error for active data that flows into a function without a row
    counted       None if the language does not count references
    """

    effects: Mapping[str, CallEffect] = field(default_factory=dict[str, CallEffect])
    families: tuple[tuple[str, CallEffect], ...] = ()
    mathematics: Mapping[str, str] = field(default_factory=dict[str, str])
    declarations: Mapping[str, str] = field(default_factory=dict[str, str])
    confined: frozenset[str] = frozenset()
    refused: tuple[tuple[str, Explanation], ...] = ()
    counted: CountedMemory | None = None


_declared = LanguageRuntime()


def declare(runtime: LanguageRuntime) -> None:
    """Declare the runtime functions of a language.

    The module of the front end that has the table calls this when it is imported: once, and before
    the engine gets any code of the language.
    """
    global _declared
    add_symbols(runtime.mathematics)
    _declared = runtime


def language() -> LanguageRuntime:
    """The table that the front end has declared; an empty one if there is none."""
    return _declared


def counted_memory() -> CountedMemory:
    """The functions that handle counted memory, which a front end must have declared."""
    assert _declared.counted is not None, "no front end has declared counted memory"
    return _declared.counted


NOTHING = CallEffect()
_PURE = CallEffect(pure=True)
OPAQUE = CallEffect(opaque=True)

COPY_RESIZED = "activerules.copy_resized"
COPIED_SIZE = "activerules.copied_size"
"""The copy in `realloc`, as `allocators` writes it, and the number of bytes that it copies."""

GROW_SHADOW = "activerules.shadow.grow"
"""The function that resizes a shadow; in a derivative that is differentiated again, it counts as
a resizing of memory, too."""

TAPE_SHADOW = "activerules.tape.shadow"
TAPE_ARRAY = "activerules.tape.array"
"""`ptr (ptr tape, i64 bytes)`: an array in a row of the tape, and one of zeros."""

REUSED_SHADOW = "activerules.tape.reused_shadow"
"""`ptr (ptr tape, i64 bytes, ptr old)`: an array of zeros, which is `old` if that has this size."""

ATOMIC_UPDATES = "activerules.atomic."
"""Begins the names of the functions that update an integer in memory and do nothing else."""

CLEAR_COUNTED = "activerules.counted.clear"
"""`void (ptr header)`: sets all data of counted memory to zero; does nothing for null."""

RESIZES = CallEffect(gives_data=True, resizes=1, returns=0, writes=(0,))

_BY_NAME: dict[str, CallEffect] = {
    # C and C++ allocation
    **dict.fromkeys(("malloc", "_Znwm", "_Znam"), CallEffect(allocates=Allocation())),
    "calloc": CallEffect(allocates=Allocation(size=(0, 1))),
    "aligned_alloc": CallEffect(allocates=Allocation(size=(1,))),
    "free": CallEffect(mirrored=(0,), frees="free"),
    **dict.fromkeys(("_ZdlPv", "_ZdlPvm"), CallEffect(mirrored=(0,), frees="_ZdlPv")),
    **dict.fromkeys(("_ZdaPv", "_ZdaPvm"), CallEffect(mirrored=(0,), frees="_ZdaPv")),
    # what the engine writes itself
    COPY_RESIZED: CallEffect(reads=(1,), writes=(0,)),
    COPIED_SIZE: NOTHING,
    GROW_SHADOW: RESIZES,
    FAILED_AT: CallEffect(writes=(1,), keeps=True),
    "activerules.stack.floor": NOTHING,
    "activerules.stack.left": NOTHING,
    VIEWED_RECORDS: NOTHING,
    # C's output: what is written carries no derivative
    **dict.fromkeys(
        "printf fprintf __printf_chk __fprintf_chk puts fputs putchar putc fputc fwrite "
        "fflush".split(),
        NOTHING,
    ),
    **dict.fromkeys(
        "sprintf snprintf __sprintf_chk __snprintf_chk".split(), CallEffect(writes=(0,))
    ),
}

_ATOMIC = Explanation(
    what="an integer is updated atomically in memory that holds active floats",
    why="the derivative of what the update does to their bits is not known",
    instead=("keep counters in an array of their own",),
    error=UnsupportedIR,
)

_BY_PREFIX: tuple[tuple[str, CallEffect], ...] = (
    (ATOMIC_UPDATES, CallEffect(reads=(0,), writes=(0,), no_data=_ATOMIC)),
    (RECORDS, NOTHING),
    ("llvm.memset.p", CallEffect(writes=(0,))),
    ("llvm.memset.inline.", CallEffect(writes=(0,))),
    ("llvm.memcpy.p", CallEffect(reads=(1,), writes=(0,))),
    ("llvm.memcpy.inline.", CallEffect(reads=(1,), writes=(0,))),
    ("llvm.memmove.p", CallEffect(reads=(1,), writes=(0,))),
    *(
        (f"llvm.{name}", NOTHING)
        for name in (
            "lifetime. dbg. assume experimental.noalias.scope.decl donothing prefetch. fake.use "
            "trap stackrestore invariant."
        ).split()
    ),
    ("llvm.stacksave", OPAQUE),
    *(
        (f"llvm.{name}", CallEffect(returns=0, pure=True))
        for name in (
            "ptr.annotation. launder.invariant.group strip.invariant.group threadlocal.address"
        ).split()
    ),
    *(
        (f"llvm.{name}.", _PURE)
        for name in (
            "expect smax smin umax umin abs ctpop ctlz cttz bswap bitreverse fshl fshr sadd uadd "
            "ssub usub smul umul scmp ucmp is.fpclass is.constant objectsize fptosi.sat fptoui.sat "
            "lround llround lrint llrint"
        ).split()
    ),
)

MEMORY_INTRINSICS = (
    "llvm.memset.p", "llvm.memset.inline.", "llvm.memcpy.p", "llvm.memcpy.inline.", "llvm.memmove.p"
)  # fmt: skip


def effect_of(name: str | None) -> CallEffect | None:
    """The row of a function; None for an unknown function."""
    if name is None:
        return None
    effect = _BY_NAME.get(name) or _declared.effects.get(name)
    if effect is not None:
        return effect
    families = (*_declared.families, *_BY_PREFIX)
    return next((effect for prefix, effect in families if name.startswith(prefix)), None)


def allocation(call: Instruction) -> Allocation | None:
    """What a call allocates."""
    effect = effect_of(call.callee_name)
    return effect.allocates if effect is not None else None


def frees(call: Instruction) -> bool:
    """Whether a call releases the memory at its first operand."""
    effect = effect_of(call.callee_name)
    return effect is not None and effect.frees is not None


def memory_intrinsic(instruction: Instruction) -> str | None:
    """`memset`, `memcpy` or `memmove` if the instruction is one, or acts like one; else None."""
    name = instruction.callee_name if instruction.opcode == "call" else None
    if name is not None and name.startswith(MEMORY_INTRINSICS):
        return name.split(".")[1]
    return "memcpy" if name == COPY_RESIZED else None
