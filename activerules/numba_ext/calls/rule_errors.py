"""Exceptions raised by rules name the call in the user's source that the rule served.

Needs       the exception of a rule that failed, and the site of its call
            (`ir.generate.rule_sites`)
Gives       `link_into`: defines the function that derivatives call after a failed rule
Invariants  S1  until Numba makes an exception object, no Python code runs and no lock is taken: an
                exception that compiled code catches costs one small allocation
            S2  class, arguments and traceback are those of the rule; our own errors get the site as
                a location, all others get a note (PEP 678)

Numba's record of an exception says how to make it: a pickle of (class, arguments, line), which is
read only when the exception reaches Python, and a function that converts computed arguments to
objects. The new record has a function that makes the exception of the original record and adds the
site. Numba accepts an exception instance instead of a class only from the pickle. So the pickle
here is a call that fetches the exception, which that function, run just before, has left.
"""

from __future__ import annotations

import linecache
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.callconv import RETCODE_USEREXC, excinfo_ptr_t, excinfo_t

from activerules.errors import ActiverulesError
from activerules.ir.llvm.location import readable_path
from activerules.ir.llvm.names import FAILED_AT
from activerules.numba_ext.codegen import link
from activerules.numba_ext.codegen.protocols import Context, entry_builder, status_of

_MAKES = "activerules.failed.exception"
_VOID, _I32, _POINTER = ir.VoidType(), ir.IntType(32), ir.IntType(8).as_pointer()
_PAYLOAD = ir.LiteralStructType([excinfo_ptr_t, _POINTER])
"""The payload of the new record: the original record, and the site."""

_RECORD = ir.LiteralStructType([excinfo_t, _PAYLOAD])


class _Waiting(threading.local):
    """Exceptions of a thread that wait for their pickles to be read, the latest last."""

    def __init__(self) -> None:
        self.left: list[weakref.ref[_Left]] = []


_waiting = _Waiting()


def link_into(context: Context) -> Any:
    """Link the function that adds a site into the function being lowered; return its library."""
    return link.link_support(context, FAILED_AT, _text)


def _text(context: Context) -> str:
    module = context.codegen().create_library(FAILED_AT).create_ir_module(FAILED_AT)
    _define(context, module, _define_maker(context, module))
    return str(module)


def _define(context: Context, module: Any, maker: Any) -> None:
    """`void (ptr, ptr excinfo, i32 status, ptr site)`: replace the record by one with the site."""
    parameters = [_POINTER, excinfo_ptr_t.as_pointer(), _I32, _POINTER]
    function = ir.Function(module, ir.FunctionType(_VOID, parameters), FAILED_AT)
    function.attributes.add("noinline")
    function.attributes.add("cold")
    _, excinfo, status, site = function.args
    builder = entry_builder(function)
    pickled = pickle.dumps(_Fetched())
    constant = cgutils.global_constant(module, ".fetched", cgutils.make_bytearray(pickled))
    with builder.if_then(builder.icmp_signed(">=", status, RETCODE_USEREXC)):
        size = cgutils.intp_t(context.get_abi_sizeof(_RECORD))
        memory = context.nrt.allocate_unchecked(builder, size)
        with cgutils.if_unlikely(builder, cgutils.is_null(builder, memory)):
            builder.ret_void()
        record = builder.bitcast(memory, _RECORD.as_pointer())
        payload = cgutils.gep_inbounds(builder, record, 0, 1)
        parts = (
            builder.bitcast(constant, _POINTER),
            _I32(len(pickled)),
            builder.bitcast(payload, _POINTER),
            builder.bitcast(maker, _POINTER),
            _I32(1),
        )
        for k, part in enumerate(parts):
            builder.store(part, cgutils.gep_inbounds(builder, record, 0, 0, k))
        for k, part in enumerate((builder.load(excinfo), site)):
            builder.store(part, cgutils.gep_inbounds(builder, payload, 0, k))
        builder.store(cgutils.gep_inbounds(builder, record, 0, 0), excinfo)
    builder.ret_void()


def _define_maker(context: Context, module: Any) -> Any:
    """`ptr (ptr payload)`: leave the exception for `_fetch`; its result is not used."""
    function = ir.Function(module, ir.FunctionType(_POINTER, [_POINTER]), _MAKES)
    function.attributes.add("noinline")
    builder = entry_builder(function)
    api = context.get_python_api(builder)
    payload = builder.load(builder.bitcast(function.args[0], _PAYLOAD.as_pointer()))
    before, site = (builder.extract_value(payload, k) for k in range(2))
    caught = status_of(RETCODE_USEREXC, before)
    packed = context.call_conv.unpack_exception(builder, api, caught)
    with cgutils.if_unlikely(builder, cgutils.is_null(builder, packed)):
        builder.ret(packed)
    text = api.string_from_string(site)
    here = api.import_module(context.insert_const_string(module, __name__))
    leaves = api.object_getattr_string(here, leave.__name__)
    left = api.call_function_objargs(leaves, [packed, text])
    for used in (leaves, here, text, packed):
        api.decref(used)
    builder.ret(left)
    return function


class _Left:
    """An exception to be raised, in Numba's form (class or exception, arguments, line)."""

    def __init__(self, packed: tuple[Any, ...]) -> None:
        self.packed = packed

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class _Fetched:
    """An object whose pickle, when read, returns the exception that was left last."""

    def __reduce__(self) -> tuple[Callable[[], tuple[Any, ...]], tuple[()]]:
        return _fetch, ()


def leave(packed: tuple[Any, ...], site: str) -> _Left:
    """Make the exception with its site, and leave it for the unpickling that follows.

    If it cannot be made, Numba reports that. If compiled code catches the exception, it drops the
    returned object, and the exception with it.
    """
    kind, arguments, line = packed
    try:
        error = kind(*arguments) if isinstance(kind, type) else kind
        _add_site(error, *site.split("\n"))
        left = _Left((error, (), line))
    except Exception:
        left = _Left(packed)
    _waiting.left.append(weakref.ref(left))
    return left


def _fetch() -> tuple[Any, ...]:
    while True:
        left = _waiting.left.pop()()
        if left is not None:  # one that was caught
            packed, left.packed = left.packed, ()
            return packed


def _add_site(error: BaseException, file: str, line: str, name: str) -> None:
    source = linecache.getline(file, int(line)).strip() or name
    location = f"{readable_path(file)}:{line}"
    if isinstance(error, ActiverulesError):
        entry = ("at the line", source, location)
        if entry not in error.where:
            error.add_where(*entry)
        return
    note = f"in a derivative, at the line  {source}   {location}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
