"""What changes a caller's objects while a derivative is computed, and what the engine does not see.

Gives       `DEFINITIONS`: LLVM functions that count references and copy bytes; the engine takes
            them for calls without an effect on what it reads (`PREFIX`)
            `link_into`: adds them to what a function that is being lowered links
            `call`: emits the call of one of them
Invariants  O1  they are called when nothing is read from the object any more, neither by the rest
                of the function nor, as its structs are said to change, by the reverse sweep
"""

from __future__ import annotations

import weakref
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from activerules.numba_ext import link

PREFIX = "activerules.object."
"""What the names of the functions begin with."""

DEFINITIONS = f"""
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @{PREFIX}keep(ptr %meminfo) {{
  call void @NRT_incref(ptr %meminfo)
  ret void
}}

define void @{PREFIX}leave(ptr %meminfo) {{
  call void @NRT_decref(ptr %meminfo)
  ret void
}}

define void @{PREFIX}write(ptr %target, ptr %source, i64 %size) {{
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %size, i1 false)
  ret void
}}
"""

_libraries: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def link_into(context: Any) -> Any:
    """Link the functions into the one that is being lowered; their library."""
    if context not in _libraries:
        _libraries[context] = link.make_library(context, f"{PREFIX}support", DEFINITIONS)
    context.add_linking_libs([_libraries[context]])
    return _libraries[context]


def call(builder: Any, name: str, *data: Any) -> None:
    """Emit the call of one of the functions, by what follows `PREFIX`."""
    function_type = ir.FunctionType(ir.VoidType(), [one.type for one in data])
    function = cgutils.get_or_insert_function(builder.module, function_type, f"{PREFIX}{name}")
    builder.call(function, data)
