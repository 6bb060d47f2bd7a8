"""What the engine knows of functions it calls but does not see: memory, allocation, side effects.

One row per function. A name without a row is an unknown external function: it may read and write
whatever its pointer arguments reach, and an active value may not flow into it. Arithmetic (libm and
LLVM's mathematical intrinsics) is not here: it has no effect but its result, and its rows are in
`ir/derivatives/table.py`.

Here are the functions of every language: C's and C++'s memory and output, LLVM's intrinsics, and
the engine's own. Those of one language's runtime are declared by its front end (`declare`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from activerules.ir.derivatives.table import add_symbols
from activerules.ir.llvm.model import Instruction

HEADER_BYTES = 17
"""Of the header of a list: its size, what is allocated, and a flag. That of a set is larger."""


@dataclass(frozen=True)
class CallEffect:
    """How a call acts on memory.

    allocates   the result is new memory that nothing else points to; `size` is the operand with its
                bytes (calloc: the product of two operands)
    counted     the new memory is a header with a count of references (`CountedMemory`)
    in_rows     it is for numbers alone, not resized, and nothing runs when it is released: an array
                in a row of the tape may stand for it, if the operand `alignment` asks for no more
                than that has
    released_by the function that releases a shadow of the new memory
    plain       what does the same with less: the allocation without a destructor, called with the
                `size` operands alone; the release that is not told the size
    frees       the memory behind operand 0 is given back
    counts      a reference to operand 0 is added, or dropped
    header      the memory begins with a header of fixed size, HEADER_BYTES or more, and items
                behind it; it can move
    gives_data  the result is the start of the data of the MemInfo in operand 0
    resizes     the operand with the new size of the memory behind operand 0, which may move
    returns     the result points into the memory operand `returns` points into
    reads, writes   operands through which memory is read or written
    follows     operands of containers: what pointers in them lead to may be written, too
    exchanges   pointers in them may be exchanged
    hands_over  the memory behind operand 0 becomes that of operand 1, unseen: what pointers there
                lead to is in the hands of who owns it
    keeps       what it is given may be held on to, by a reference
    hands_out   the call may return memory that it was given, or that is reached from there
    mirrored    operands whose shadows are treated alike: forward mode repeats the call on them
    adds_keys   keys are added to the dictionary in operand 0
    no_data     what operand 0 leads to must not be active
    opaque      the result is a pointer to memory of the runtime (random state, Python objects):
                never active
    pure        no effect beside the result: may be repeated in the reverse sweep
    """

    allocates: bool = False
    counted: bool = False
    in_rows: bool = False
    alignment: int | None = None
    released_by: str = "free"
    plain: str | None = None
    frees: bool = False
    counts: bool = False
    header: bool = False
    gives_data: bool = False
    resizes: int | None = None
    size: tuple[int, ...] = ()
    returns: int | None = None
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    follows: tuple[int, ...] = ()
    exchanges: bool = True
    hands_over: bool = False
    keeps: bool = False
    hands_out: bool = False
    mirrored: tuple[int, ...] = ()
    adds_keys: bool = False
    no_data: bool = False
    opaque: bool = False
    pure: bool = False


@dataclass(frozen=True)
class CountedMemory:
    """What generated code calls where it handles memory whose references are counted.

    retain, release   functions of the runtime that add a reference, and drop one
    data              the function of the runtime that gives the start of the data
    data_offset       where in the header the pointer to that is
    definitions       the text of functions that are written here by their names alone:
                      `TAPE_ARRAY`, `TAPE_SHADOW`, `GROW_SHADOW` and `CLEAR_COUNTED`
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


@dataclass(frozen=True)
class LanguageRuntime:
    """What a front end declares of the functions that code of its language calls.

    effects       rows by name; `families`: by what a name begins with
    mathematics   by symbol: the function in `derivatives.table` that it computes
    declarations  by name: a declaration that says what LLVM cannot see
    confined      functions without a row that reach what they are given, and nothing else
    refused       by what a name begins with: how active data that flows into a function without a
                  row is refused
    counted       None where no references are counted
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
    """Let the engine know the functions of a language's runtime.

    For the module of the front end that has the table, which calls it when it is imported: once,
    and before the engine is handed any code of the language.
    """
    global _declared
    add_symbols(runtime.mathematics)
    _declared = runtime


def language() -> LanguageRuntime:
    """What the front end has declared; an empty table where there is none."""
    return _declared


def counted_memory() -> CountedMemory:
    """How references are counted, in code where some are."""
    assert _declared.counted is not None, "no front end has declared counted memory"
    return _declared.counted


_NOTHING = CallEffect()
_MIRRORED = CallEffect(mirrored=(0,))
_FREES = CallEffect(mirrored=(0,), frees=True)
_PURE = CallEffect(pure=True)
_OPAQUE = CallEffect(opaque=True)

COPY_RESIZED = "activerules.copy_resized"
COPIED_SIZE = "activerules.copied_size"
"""What `allocators` makes of the copy in `realloc`, and how many bytes that copies."""

FAILED_AT = "activerules.raise.at"
"""`void (ptr, ptr excinfo, i32 status, ptr site)`: adds to an exception which call it came from."""

GROW_SHADOW = "activerules.shadow.grow"
"""What resizes a shadow: a call of it in a tangent is differentiated as the resizing it is."""

CLEAR_COUNTED = "activerules.counted.clear"
"""`void (ptr header)`: sets all data of counted memory to zero; null is none."""

RESIZES = CallEffect(gives_data=True, resizes=1, returns=0, writes=(0,))

_BY_NAME: dict[str, CallEffect] = {
    # C and C++ allocation
    "malloc": CallEffect(allocates=True, size=(0,)),
    "calloc": CallEffect(allocates=True, size=(0, 1)),
    "aligned_alloc": CallEffect(allocates=True, size=(1,)),
    "_Znwm": CallEffect(allocates=True, size=(0,)),
    "_Znam": CallEffect(allocates=True, size=(0,)),
    "free": _FREES,
    "_ZdlPv": _FREES,
    "_ZdaPv": _FREES,
    "_ZdlPvm": CallEffect(mirrored=(0,), frees=True, plain="_ZdlPv"),
    "_ZdaPvm": CallEffect(mirrored=(0,), frees=True, plain="_ZdaPv"),
    # what the engine writes itself
    COPY_RESIZED: CallEffect(reads=(1,), writes=(0,)),
    COPIED_SIZE: _NOTHING,
    GROW_SHADOW: RESIZES,
    FAILED_AT: CallEffect(writes=(1,), keeps=True),
    "activerules.stack.floor": _NOTHING,
    "activerules.stack.left": _NOTHING,
    # C's output: what is written carries no derivative
    **dict.fromkeys(
        "printf fprintf __printf_chk __fprintf_chk puts fputs putchar putc fputc fwrite "
        "fflush".split(),
        _NOTHING,
    ),
    **dict.fromkeys(
        "sprintf snprintf __sprintf_chk __snprintf_chk".split(), CallEffect(writes=(0,))
    ),
}

_BY_PREFIX: tuple[tuple[str, CallEffect], ...] = (
    ("llvm.memset.p", CallEffect(writes=(0,))),
    ("llvm.memset.inline.", CallEffect(writes=(0,))),
    ("llvm.memcpy.p", CallEffect(reads=(1,), writes=(0,))),
    ("llvm.memcpy.inline.", CallEffect(reads=(1,), writes=(0,))),
    ("llvm.memmove.p", CallEffect(reads=(1,), writes=(0,))),
    ("llvm.lifetime.", _NOTHING),
    ("llvm.dbg.", _NOTHING),
    ("llvm.assume", _NOTHING),
    ("llvm.experimental.noalias.scope.decl", _NOTHING),
    ("llvm.donothing", _NOTHING),
    ("llvm.prefetch.", _NOTHING),
    ("llvm.fake.use", _NOTHING),
    ("llvm.ptr.annotation.", CallEffect(returns=0, pure=True)),
    ("llvm.trap", _NOTHING),
    ("llvm.stacksave", _OPAQUE),
    ("llvm.stackrestore", _NOTHING),
    ("llvm.invariant.", _NOTHING),
    ("llvm.launder.invariant.group", CallEffect(returns=0, pure=True)),
    ("llvm.strip.invariant.group", CallEffect(returns=0, pure=True)),
    ("llvm.threadlocal.address", CallEffect(returns=0, pure=True)),
    ("llvm.expect.", _PURE),
    ("llvm.smax.", _PURE),
    ("llvm.smin.", _PURE),
    ("llvm.umax.", _PURE),
    ("llvm.umin.", _PURE),
    ("llvm.abs.", _PURE),
    ("llvm.ctpop.", _PURE),
    ("llvm.ctlz.", _PURE),
    ("llvm.cttz.", _PURE),
    ("llvm.bswap.", _PURE),
    ("llvm.bitreverse.", _PURE),
    ("llvm.fshl.", _PURE),
    ("llvm.fshr.", _PURE),
    ("llvm.sadd.", _PURE),
    ("llvm.uadd.", _PURE),
    ("llvm.ssub.", _PURE),
    ("llvm.usub.", _PURE),
    ("llvm.smul.", _PURE),
    ("llvm.umul.", _PURE),
    ("llvm.scmp.", _PURE),
    ("llvm.ucmp.", _PURE),
    ("llvm.is.fpclass.", _PURE),
    ("llvm.is.constant.", _PURE),
    ("llvm.objectsize.", _PURE),
    ("llvm.fptosi.sat.", _PURE),
    ("llvm.fptoui.sat.", _PURE),
    ("llvm.lround.", _PURE),
    ("llvm.llround.", _PURE),
    ("llvm.lrint.", _PURE),
    ("llvm.llrint.", _PURE),
)

MEMORY_INTRINSICS = (
    "llvm.memset.p", "llvm.memset.inline.", "llvm.memcpy.p", "llvm.memcpy.inline.", "llvm.memmove.p"
)  # fmt: skip


def effect_of(name: str | None) -> CallEffect | None:
    """The row of a function, or None for one that is not known."""
    if name is None:
        return None
    effect = _BY_NAME.get(name) or _declared.effects.get(name)
    if effect is not None:
        return effect
    families = (*_declared.families, *_BY_PREFIX)
    return next((effect for prefix, effect in families if name.startswith(prefix)), None)


def frees(call: Instruction) -> bool:
    """Whether a call gives back the memory behind its first operand."""
    effect = effect_of(call.callee_name)
    return effect is not None and effect.frees


def memory_intrinsic(instruction: Instruction) -> str | None:
    """`memset`, `memcpy` or `memmove` if the instruction is one, or copies like it."""
    name = instruction.callee_name if instruction.opcode == "call" else None
    if name is not None and name.startswith(MEMORY_INTRINSICS):
        return name.split(".")[1]
    return "memcpy" if name == COPY_RESIZED else None
