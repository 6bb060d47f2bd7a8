"""Allocators of other languages, and resizing of memory, are rewritten in terms of malloc and free.

Needs       the text of a module as LLVM prints it
Gives       the text in which calls of `realloc`, `posix_memalign`, aligned and nothrow operator new
            and delete, and Rust's allocator go to functions the text then defines, on `malloc`,
            `aligned_alloc`, `free` and `activerules.copy_resized`; LLVM inlines them
Invariants  A1  a function the module defines itself is not touched
            A2  resized memory is new memory with a copy of the old, which is then released: so a
                reverse sweep still has the old data, and the new memory has its own shadow
            A3  `activerules.copy_resized(new, old, size)` copies `size` bytes, or as many as the
                old memory has: a shadow may have more or fewer bytes than its primal, of which the
                rest was never written

Rust's names end in `__rust_alloc` and so on, mangled or not. Memory of its allocator and of C++'s
is assumed to come from malloc, as it does unless they are replaced.
"""

from __future__ import annotations

import re

from activerules.ir.foreign.redirect import redirect
from activerules.ir.normal.effects import COPIED_SIZE, COPY_RESIZED

_DEFINITIONS = {
    "allocate": """\
define internal ptr @activerules.allocate(i64 %size, i64 %align) alwaysinline {
  %usual = icmp ule i64 %align, 16
  br i1 %usual, label %plain, label %aligned
plain:
  %p = call noalias ptr @malloc(i64 %size)
  ret ptr %p
aligned:
  %q = call noalias ptr @aligned_alloc(i64 %align, i64 %size)
  ret ptr %q
}
""",
    "realloc": """\
define internal ptr @activerules.realloc(ptr %old, i64 %size) alwaysinline {
  %new = call noalias ptr @malloc(i64 %size)
  call void @activerules.copy_resized(ptr %new, ptr %old, i64 %size)
  %failed = icmp eq ptr %new, null
  %gone = select i1 %failed, ptr null, ptr %old
  call void @free(ptr %gone)
  ret ptr %new
}
""",
    "reallocarray": """\
define internal ptr @activerules.reallocarray(ptr %old, i64 %count, i64 %each) alwaysinline {
  %product = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %count, i64 %each)
  %bytes = extractvalue { i64, i1 } %product, 0
  %wraps = extractvalue { i64, i1 } %product, 1
  %size = select i1 %wraps, i64 -1, i64 %bytes
  %new = call ptr @activerules.realloc(ptr %old, i64 %size)
  ret ptr %new
}
""",
    "posix_memalign": """\
define internal i32 @activerules.posix_memalign(ptr %at, i64 %align, i64 %size) alwaysinline {
  %new = call ptr @activerules.allocate(i64 %size, i64 %align)
  store ptr %new, ptr %at
  %failed = icmp eq ptr %new, null
  %status = select i1 %failed, i32 12, i32 0
  ret i32 %status
}
""",
    "rust_alloc_zeroed": """\
define internal ptr @activerules.rust_alloc_zeroed(i64 %size, i64 %align) alwaysinline {
  %new = call ptr @activerules.allocate(i64 %size, i64 %align)
  %failed = icmp eq ptr %new, null
  %bytes = select i1 %failed, i64 0, i64 %size
  call void @llvm.memset.p0.i64(ptr %new, i8 0, i64 %bytes, i1 false)
  ret ptr %new
}
""",
    "rust_dealloc": """\
define internal void @activerules.rust_dealloc(ptr %old, i64 %size, i64 %align) alwaysinline {
  call void @free(ptr %old)
  ret void
}
""",
    "rust_realloc": """\
define internal ptr @activerules.rust_realloc(ptr %old, i64 %had, i64 %align, i64 %size) \
alwaysinline {
  %new = call ptr @activerules.allocate(i64 %size, i64 %align)
  %failed = icmp eq ptr %new, null
  %least = call i64 @llvm.umin.i64(i64 %had, i64 %size)
  %bytes = select i1 %failed, i64 0, i64 %least
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %old, i64 %bytes, i1 false)
  %gone = select i1 %failed, ptr null, ptr %old
  call void @free(ptr %gone)
  ret ptr %new
}
""",
    "new_nothrow": """\
define internal ptr @activerules.new_nothrow(i64 %size, ptr %tag) alwaysinline {
  %new = call noalias ptr @malloc(i64 %size)
  ret ptr %new
}
""",
    "delete_aligned": """\
define internal void @activerules.delete_aligned(ptr %old, i64 %align) alwaysinline {
  call void @free(ptr %old)
  ret void
}
""",
}

_NAMES = {
    "realloc": "realloc",
    "reallocarray": "reallocarray",
    "posix_memalign": "posix_memalign",
    "_ZnwmSt11align_val_t": "allocate",
    "_ZnamSt11align_val_t": "allocate",
    "_ZdlPvSt11align_val_t": "delete_aligned",
    "_ZdaPvSt11align_val_t": "delete_aligned",
    "_ZdlPvmSt11align_val_t": "rust_dealloc",
    "_ZdaPvmSt11align_val_t": "rust_dealloc",
    "_ZnwmRKSt9nothrow_t": "new_nothrow",
    "_ZnamRKSt9nothrow_t": "new_nothrow",
}
_NEEDED = {
    "malloc": "declare noalias ptr @malloc(i64)",
    "aligned_alloc": "declare noalias ptr @aligned_alloc(i64, i64)",
    "free": "declare void @free(ptr)",
    "llvm.umul.with.overflow.i64": "declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)",
    "llvm.umin.i64": "declare i64 @llvm.umin.i64(i64, i64)",
    "llvm.memset.p0.i64": "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
    "llvm.memcpy.p0.p0.i64": "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    COPY_RESIZED: f"declare void @{COPY_RESIZED}(ptr, ptr, i64) nounwind willreturn "
    "memory(argmem: readwrite)",
}
_RUST = re.compile(r"(?:_R\w*)?__(rust_(?:alloc|alloc_zeroed|dealloc|realloc))")
_RUST_MARK = re.compile(
    r"^ .*call void @\w*__rust_no_alloc_shim_is_unstable\w*\(\).*\n", re.MULTILINE
)
_OWN = re.compile(
    r"^define (?:internal )?([^@\n]*)"
    rf"(@(?:{re.escape(COPY_RESIZED)}|{re.escape(COPIED_SIZE)})\([^)]*\)).*?^}}$",
    re.MULTILINE | re.DOTALL,
)


def by_malloc(text: str) -> str:
    """The text in which allocators of other languages are functions on `malloc` and `free`."""
    text = _RUST_MARK.sub("", _OWN.sub(r"declare \1\2", text))
    return redirect(text, _kind_of, _DEFINITIONS, _NEEDED)


def _kind_of(name: str) -> str | None:
    rust = _RUST.fullmatch(name)
    if rust:
        return "allocate" if rust[1] == "rust_alloc" else rust[1]
    return _NAMES.get(name)
