"""The table of runtime functions by name: those of Numba's runtime, and our additions to it.

Needs       nothing: importing this module declares them to the engine; `capture` imports it, before
            any code of Numba is read
Gives       the engine's rows (`LanguageRuntime`): what a call does to memory, and what it computes
            `READING`, `BLAS_INPUTS` and others: for questions about compiled code that is not
            differentiated. The engine does not know these functions, so that active data flowing
            into one is refused
"""

from __future__ import annotations

from functools import partial

from activerules.errors import ActiveMemoryInConst, FloatBitsInInteger
from activerules.ir.normal.effects import (
    NOTHING,
    OPAQUE,
    RESIZES,
    Allocation,
    CallEffect,
    Explanation,
    LanguageRuntime,
    declare,
)
from activerules.numba_ext.codegen.link import ENVIRONMENT_PREFIX
from activerules.numba_ext.codegen.threads import THREAD_COUNT
from activerules.numba_ext.substitutes.dynamic_raises import RAISES
from activerules.numba_ext.substitutes.inactive_values import (
    INACTIVE_ARGUMENT,
    INACTIVE_MEMORY,
    REINTERPRETED,
)
from activerules.numba_ext.target.counted_memory import COUNTED
from activerules.values.dict_tables import PREFIX as KEYS
from activerules.values.object_runtime import PREFIX as OBJECTS

_MIRRORED = CallEffect(mirrored=(0,))
_COUNTS = CallEffect(mirrored=(0,), counts=True)


_counted = partial(Allocation, counted=True, released_by=COUNTED.release)
_ARRAY = CallEffect(allocates=_counted(in_rows=True))
_ALIGNED_ARRAY = CallEffect(allocates=_counted(in_rows=True, alignment=1))
_WITH_DESTRUCTOR = CallEffect(allocates=_counted(plain="NRT_MemInfo_alloc"))
_LIST = CallEffect(allocates=_counted(plain="NRT_MemInfo_new_varsize", header=True))

_NOCOPY_RESHAPE = "numba_attempt_nocopy_reshape"

_EFFECTS: dict[str, CallEffect] = {
    # the runtime (NRT)
    COUNTED.retain: _COUNTS,
    COUNTED.release: _COUNTS,
    "activerules.release": _MIRRORED,
    "NRT_MemInfo_alloc": _ARRAY,
    "NRT_MemInfo_alloc_safe": _ARRAY,
    "NRT_MemInfo_alloc_aligned": _ALIGNED_ARRAY,
    "NRT_MemInfo_alloc_safe_aligned": _ALIGNED_ARRAY,
    "NRT_MemInfo_alloc_dtor": _WITH_DESTRUCTOR,
    "NRT_MemInfo_alloc_dtor_safe": _WITH_DESTRUCTOR,
    "NRT_MemInfo_new_varsize": _LIST,
    "NRT_MemInfo_new_varsize_dtor": _LIST,
    "NRT_MemInfo_varsize_realloc": RESIZES,
    COUNTED.data: CallEffect(gives_data=True, returns=0, pure=True),
    "NRT_Allocate": CallEffect(allocates=Allocation(in_rows=True, released_by="NRT_Free")),
    "NRT_Free": CallEffect(mirrored=(0,), frees="NRT_Free"),
    INACTIVE_MEMORY: CallEffect(
        no_data=Explanation(
            "memory with active data is in a value of a type that was declared inactive",
            "inactive_type says that what is read there carries no derivative, but the memory is "
            "also reached from elsewhere",
            (
                "stop the gradient before it is put there: ar.ignore_derivatives(x)",
                "leave the type active",
            ),
            ActiveMemoryInConst,
        )
    ),
    INACTIVE_ARGUMENT: CallEffect(
        no_data=Explanation(
            "an argument that was declared inactive leads to active data, in a second derivative",
            "it is a constant there, too, but objects, lists and the like cannot be copied for it",
            (
                "make it from constants: ar.ignore_derivatives(x)",
                "pass its numbers and arrays one by one, and declare these inactive",
            ),
            ActiveMemoryInConst,
        )
    ),
    REINTERPRETED: CallEffect(
        no_data=Explanation(
            "active floats are viewed as floats of another precision",
            "their bits are taken for those of other numbers, which has no derivative",
            ("convert the numbers: x.astype(np.float32) in place of x.view(np.float32)",),
            FloatBitsInInteger,
        )
    ),
    _NOCOPY_RESHAPE: CallEffect(reads=(1, 2, 4), writes=(5,)),
    # typed dictionaries: their keys; values are handled by visible code
    "numba_dict_length": NOTHING,
    "numba_dict_set_method_table": _MIRRORED,
    f"{KEYS}begin": _MIRRORED,
    f"{KEYS}add": CallEffect(mirrored=(0,), adds_keys=True),
    f"{KEYS}remove": _MIRRORED,
    f"{KEYS}pop": _MIRRORED,
    f"{KEYS}fill": CallEffect(mirrored=(0, 1)),
    f"{KEYS}key": CallEffect(writes=(2,)),
    # objects of a caller, after their last read
    f"{OBJECTS}keep": NOTHING,
    f"{OBJECTS}leave": NOTHING,
    f"{OBJECTS}write": CallEffect(hands_over=True),
    f"{OBJECTS}items": CallEffect(hands_over=True),
    f"{OBJECTS}length": CallEffect(mirrored=(0, 1)),
    **dict.fromkeys((f"{OBJECTS}{name}" for name in ("notes", "note", "meet")), NOTHING),
    # random numbers: state that is no data of the program
    "numba_get_np_random_state": OPAQUE,
    "numba_get_py_random_state": OPAQUE,
    "numba_rnd_shuffle": CallEffect(reads=(0,), writes=(0,)),
    "numba_rnd_init": CallEffect(writes=(0,)),
    "numba_poisson_ptrs": CallEffect(reads=(0,), writes=(0,)),
    THREAD_COUNT: NOTHING,
    # the interpreter: locks and printing
    "numba_gil_ensure": CallEffect(writes=(0,)),
    "numba_gil_release": CallEffect(reads=(0,)),
    "PyGILState_Ensure": NOTHING,
    "PyGILState_Release": NOTHING,
    "PyFloat_FromDouble": OPAQUE,
    "PyComplex_FromDoubles": OPAQUE,
    "PyLong_FromLongLong": OPAQUE,
    "PyLong_FromSsize_t": OPAQUE,
    "PyBool_FromLong": OPAQUE,
    "PyObject_Str": OPAQUE,
    "PyUnicode_AsUTF8": OPAQUE,
    "PyUnicode_FromString": OPAQUE,
    "PyUnicode_FromStringAndSize": OPAQUE,
    "PySys_FormatStdout": NOTHING,
    "PyErr_WriteUnraisable": NOTHING,
    "numba_unpickle": OPAQUE,
    "Py_IncRef": NOTHING,
    "Py_DecRef": NOTHING,
}

_FAMILIES = (
    (KEYS, NOTHING),
    (RAISES, CallEffect(writes=(1,), keeps=True)),
)

_MAKES_ROOM = "NRT_MemInfo_varsize_alloc"
_GIVES_ROOM_BACK = "NRT_MemInfo_varsize_free"
"""The functions that sets replace their memory with."""

_HASHED = Explanation(
    "floats that may be active are items of a set, or keys of a dictionary",
    "they are found by the hash of their bits, through which no derivative flows",
    (
        "keep them in an array or a numba.typed.List",
        "put them in as the values of a numba.typed.Dict with other keys",
        "stop the gradient before they are put there: ar.ignore_derivatives(x)",
    ),
)

_PRINTED = Explanation(
    "something is printed for which Numba makes a Python object",
    "the object shares memory with it, and what it does with that is not visible",
    ("print the numbers, arrays and tuples in it",),
)

declare(
    LanguageRuntime(
        effects=_EFFECTS,
        families=_FAMILIES,
        mathematics={
            f"numba_{name}{suffix}": function
            for name, function in (
                ("gamma", "tgamma"),
                ("ldexp", "ldexp"),
                ("nextafter", "nextafter"),
            )
            for suffix in ("", "f")
        },
        declarations={  # reading the shape of an array tells nothing about its other fields
            _NOCOPY_RESHAPE: f"declare i32 @{_NOCOPY_RESHAPE}(i64, ptr nocapture readonly, "
            "ptr nocapture readonly, i64, ptr nocapture readonly, ptr nocapture writeonly, "
            "i64, i32) nounwind willreturn memory(argmem: readwrite)",
        },
        confined=frozenset({_MAKES_ROOM, _GIVES_ROOM_BACK}),
        refused=tuple(
            (beginning, explanation)
            for explanation, beginnings in (
                (_HASHED, ("numba_dict_", "numba_get_internal_random_state", _MAKES_ROOM)),
                (_PRINTED, ("PyList_GetItem", "PyList_New", "NRT_adapt_ndarray_to_python")),
            )
            for beginning in beginnings
        ),
        counted=COUNTED,
    )
)


# --- compiled code that is not differentiated ---

READING = frozenset(
    {
        "numba_list_size_address",
        "numba_list_length",
        "numba_list_allocated",
        "numba_list_base_ptr",
        "numba_list_is_mutable",
        "numba_dict_length",
        "Py_FatalError",
        "numba_fatal_error",
        "PyList_GetItem",
        "NRT_adapt_ndarray_to_python_acqref",
        "PyTuple_New",
        "PyTuple_SetItem",
        "PyErr_SetString",
    }
)
"""Functions that write nothing the program can read; those of Python serve to print."""

RANDOM_STATES = frozenset({"numba_get_np_random_state", "numba_get_py_random_state"})
NOT_REPEATABLE = RANDOM_STATES | {"PySys_FormatStdout"}
"""Functions that the engine knows, and whose second call the program would notice."""

WRITES_ITEMS = frozenset({"numba_list_setitem"})
"""Functions that write items into typed lists."""

RAISING = "31ol_raise_with_shape_context"
"""Part of the name of the function that raises Numba's error about shapes; it makes a text."""

BLAS_INPUTS = {
    "numba_xxnrm2": (2,),
    "numba_xxdot": (3, 4),
    "numba_xxgemv": (4, 5, 7, 8),
    "numba_xxgemm": (6, 7, 9, 11),
}
BLAS_RESULTS = {"numba_xxnrm2": 4, "numba_xxdot": 5, "numba_xxgemv": 9, "numba_xxgemm": 12}
"""The pointer operands that Numba's BLAS wrappers read through, and the one they write through."""

DICT_RESULTS = {
    "numba_dict_lookup": (3,),
    "numba_dict_iter": (0,),
    "numba_dict_iter_next": (0, 1, 2),
}
"""Functions that read dictionaries, and the operands through which they write their results: a copy
of a value, iterators, pointers to entries.
"""

SHARED = ("NRT_", ENVIRONMENT_PREFIX, "llvm.")
"""Prefixes of names that must not be made private: Numba's passes recognise reference counts by
name.
"""

OF_PYTHON = ("Py", "_Py")
"""Prefixes of the interpreter's functions, and of its constants, which never change."""

_RUNS_PYTHON = ("PyObject_Call", "PyEval_", "PyImport_")
_OF_NUMBA = ("numba_", "NRT_", "llvm.", "Py")


def is_own_code(name: str) -> bool:
    """Whether a function is called by Numba's own code and cannot run code of the user."""
    return name.startswith(_OF_NUMBA) and not name.startswith(_RUNS_PYTHON)
