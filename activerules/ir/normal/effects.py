"""What the engine knows of functions it calls but does not see: memory, allocation, side effects.

One row per function. A name without a row is an unknown external function: it may read and write
whatever its pointer arguments reach, and an active value may not flow into it. Arithmetic (libm and
LLVM's mathematical intrinsics) is not here: it has no effect but its result, and its rows are in
`ir/derivatives/table.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from activerules.ir.llvm.model import Instruction

HEADER_BYTES = 17
"""Of the header of a list: its size, what is allocated, and a flag. That of a set is larger."""


@dataclass(frozen=True)
class CallEffect:
    """How a call acts on memory.

    allocates   the result is new memory that nothing else points to; `size` is the operand with its
                bytes (calloc: the product of two operands)
    counted     the new memory is an NRT MemInfo: `NRT_incref` and `NRT_decref` count its references
    plain       the allocation without a destructor, called with the `size` operands alone
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
    opaque      the result is a pointer to memory of the runtime (random state, Python objects):
                never active
    pure        no effect beside the result: may be repeated in the reverse sweep
    """

    allocates: bool = False
    counted: bool = False
    plain: str | None = None
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
    opaque: bool = False
    pure: bool = False


def _counted_like(plain: str, *, header: bool = False) -> CallEffect:
    """A reference-counted object with a destructor; its shadow may be one without."""
    return CallEffect(allocates=True, counted=True, size=(0,), plain=plain, header=header)


_NOTHING = CallEffect()
_MIRRORED = CallEffect(mirrored=(0,))
_PURE = CallEffect(pure=True)
_OPAQUE = CallEffect(opaque=True)

COPY_RESIZED = "activerules.copy_resized"
COPIED_SIZE = "activerules.copied_size"
"""What `allocators` makes of the copy in `realloc`, and how many bytes that copies."""

HELD_MEMORY = "activerules.held"
"""Marks memory that a value without derivative leads to: it must not be active."""

RAISES = "activerules.raise."
CATCHES = "activerules.catch."
"""Functions that write down an exception, in Numba's convention, and that release one."""

FAILED_AT = RAISES + "at"
"""`void (ptr, ptr excinfo, i32 status, ptr site)`: adds to an exception which call it came from."""

GROW_SHADOW = "activerules.shadow.grow"
"""What resizes a shadow: a call of it in a tangent is differentiated as the resizing it is."""

NOCOPY_RESHAPE = "numba_attempt_nocopy_reshape"
PROMISED = {
    NOCOPY_RESHAPE: (
        f"declare i32 @{NOCOPY_RESHAPE}(i64, ptr captures(none) readonly, "
        "ptr captures(none) readonly, i64, ptr captures(none) readonly, "
        "ptr captures(none) writeonly, i64, i32) nounwind willreturn memory(argmem: readwrite)"
    ),
}
"""Declarations with what LLVM cannot see: of an array whose shape is read, the rest stays known."""

MAKES_ROOM = "NRT_MemInfo_varsize_alloc"
GIVES_ROOM_BACK = "NRT_MemInfo_varsize_free"
"""What sets exchange the memory behind them with: they get at that alone, and are refused on
active data, as any unknown function.
"""

_RESIZES = CallEffect(gives_data=True, resizes=1, returns=0, writes=(0,))

_BY_NAME: dict[str, CallEffect] = {
    # Numba's runtime (NRT)
    "NRT_incref": _MIRRORED,
    "NRT_decref": _MIRRORED,
    "activerules.release": _MIRRORED,
    "NRT_MemInfo_alloc": CallEffect(allocates=True, counted=True, size=(0,)),
    "NRT_MemInfo_alloc_safe": CallEffect(allocates=True, counted=True, size=(0,)),
    "NRT_MemInfo_alloc_aligned": CallEffect(allocates=True, counted=True, size=(0,)),
    "NRT_MemInfo_alloc_safe_aligned": CallEffect(allocates=True, counted=True, size=(0,)),
    "NRT_MemInfo_alloc_dtor": _counted_like("NRT_MemInfo_alloc"),
    "NRT_MemInfo_alloc_dtor_safe": _counted_like("NRT_MemInfo_alloc"),
    "NRT_MemInfo_new_varsize": _counted_like("NRT_MemInfo_new_varsize", header=True),
    "NRT_MemInfo_new_varsize_dtor": _counted_like("NRT_MemInfo_new_varsize", header=True),
    "NRT_MemInfo_varsize_realloc": _RESIZES,
    GROW_SHADOW: _RESIZES,
    "NRT_MemInfo_data_fast": CallEffect(gives_data=True, returns=0, pure=True),
    "NRT_Allocate": CallEffect(allocates=True, size=(0,)),
    "NRT_Free": _MIRRORED,
    # C and C++ allocation
    "malloc": CallEffect(allocates=True, size=(0,)),
    "calloc": CallEffect(allocates=True, size=(0, 1)),
    "aligned_alloc": CallEffect(allocates=True, size=(1,)),
    "_Znwm": CallEffect(allocates=True, size=(0,)),
    "_Znam": CallEffect(allocates=True, size=(0,)),
    "free": _MIRRORED,
    COPY_RESIZED: CallEffect(reads=(1,), writes=(0,)),
    COPIED_SIZE: _NOTHING,
    "_ZdlPv": _MIRRORED,
    "_ZdaPv": _MIRRORED,
    "_ZdlPvm": _MIRRORED,
    "_ZdaPvm": _MIRRORED,
    HELD_MEMORY: _NOTHING,
    "activerules.stack.floor": _NOTHING,
    "activerules.stack.left": _NOTHING,
    # Numba's C helpers
    NOCOPY_RESHAPE: CallEffect(reads=(1, 2, 4), writes=(5,)),
    # typed dictionaries: keys; values are the business of visible code
    "numba_dict_length": _NOTHING,
    "numba_dict_set_method_table": _MIRRORED,
    "activerules.dict.begin": _MIRRORED,
    "activerules.dict.place": _MIRRORED,
    "activerules.dict.remove": _MIRRORED,
    "activerules.dict.pop": _MIRRORED,
    "activerules.dict.fill": CallEffect(mirrored=(0, 1)),
    "activerules.dict.key": CallEffect(writes=(2,)),
    # objects of a caller, when all is read
    "activerules.object.keep": _NOTHING,
    "activerules.object.leave": _NOTHING,
    "activerules.object.write": CallEffect(hands_over=True),
    "activerules.object.items": CallEffect(hands_over=True),
    "activerules.object.length": CallEffect(mirrored=(0, 1)),
    **dict.fromkeys((f"activerules.object.{one}" for one in ("notes", "note", "meet")), _NOTHING),
    # random numbers: state that is no data of the program
    "numba_get_np_random_state": _OPAQUE,
    "numba_get_py_random_state": _OPAQUE,
    "numba_rnd_shuffle": CallEffect(reads=(0,), writes=(0,)),
    "numba_rnd_init": CallEffect(writes=(0,)),
    "numba_rnd_read": CallEffect(writes=(0,)),
    # the interpreter: locks and printing
    "numba_gil_ensure": CallEffect(writes=(0,)),
    "numba_gil_release": CallEffect(reads=(0,)),
    "PyGILState_Ensure": _NOTHING,
    "PyGILState_Release": _NOTHING,
    "PyFloat_FromDouble": _OPAQUE,
    "PyLong_FromLongLong": _OPAQUE,
    "PyLong_FromSsize_t": _OPAQUE,
    "PyBool_FromLong": _OPAQUE,
    "PyObject_Str": _OPAQUE,
    "PyUnicode_AsUTF8": _OPAQUE,
    "PyUnicode_FromString": _OPAQUE,
    "PyUnicode_FromStringAndSize": _OPAQUE,
    "PySys_FormatStdout": _NOTHING,
    "numba_unpickle": _OPAQUE,
    "Py_IncRef": _NOTHING,
    "Py_DecRef": _NOTHING,
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
    ("activerules.dict.", _NOTHING),
    (CATCHES, _NOTHING),
    (RAISES, CallEffect(writes=(1,), keeps=True)),
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

RELEASING = frozenset({"free", "NRT_Free", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm"})
UNSIZED = {"_ZdlPvm": "_ZdlPv", "_ZdaPvm": "_ZdaPv"}
"""Functions that release memory of a given size, and what releases it without."""

MEMORY_INTRINSICS = (
    "llvm.memset.p", "llvm.memset.inline.", "llvm.memcpy.p", "llvm.memcpy.inline.", "llvm.memmove.p"
)  # fmt: skip


def effect_of(name: str | None) -> CallEffect | None:
    """The row of a function, or None for one that is not known."""
    if name is None:
        return None
    if name in _BY_NAME:
        return _BY_NAME[name]
    return next((effect for prefix, effect in _BY_PREFIX if name.startswith(prefix)), None)


def memory_intrinsic(instruction: Instruction) -> str | None:
    """`memset`, `memcpy` or `memmove` if the instruction is one, or copies like it."""
    name = instruction.callee_name if instruction.opcode == "call" else None
    if name is not None and name.startswith(MEMORY_INTRINSICS):
        return name.split(".")[1]
    return "memcpy" if name == COPY_RESIZED else None
