"""Functions of the C library that store one of their results in memory, or return several.

Needs       the text of a module as LLVM prints it
Gives       the text in which calls of `sincos`, `modf` and `frexp` (double and float), by name or
            as LLVM's intrinsics, go to functions the text then defines, on functions with one
            result; LLVM inlines them
Invariants  L1  results are those of the library, to the last bit and with the sign of zero
            L2  the exponent that `frexp` finds, and the whole number `modf` finds, are numbers
                without a derivative

Source      frexp(x) = x · 2⁻ᵉ, modf(x) = x - trunc(x)
"""

from __future__ import annotations

from activerules.ir.foreign.redirect import redirect

_TEXTS = {
    "sincos": """\
define internal void @activerules.sincos.{f}({t} %x, ptr %sin, ptr %cos) alwaysinline {{
  %s = call {t} @llvm.sin.{f}({t} %x)
  %c = call {t} @llvm.cos.{f}({t} %x)
  store {t} %s, ptr %sin
  store {t} %c, ptr %cos
  ret void
}}
""",
    "sincos.both": """\
define internal {{ {t}, {t} }} @activerules.sincos.both.{f}({t} %x) alwaysinline {{
  %s = call {t} @llvm.sin.{f}({t} %x)
  %c = call {t} @llvm.cos.{f}({t} %x)
  %one = insertvalue {{ {t}, {t} }} poison, {t} %s, 0
  %both = insertvalue {{ {t}, {t} }} %one, {t} %c, 1
  ret {{ {t}, {t} }} %both
}}
""",
    "modf.both": """\
define internal {{ {t}, {t} }} @activerules.modf.both.{f}({t} %x) alwaysinline {{
  %whole = call {t} @llvm.trunc.{f}({t} %x)
  %rest = fsub {t} %x, %whole
  %size = call {t} @llvm.fabs.{f}({t} %x)
  %is.infinite = fcmp oeq {t} %size, 0x7FF0000000000000
  %is.whole = fcmp oeq {t} %rest, 0.0
  %is.negative = fcmp olt {t} %x, 0.0
  %is.minus = and i1 %is.whole, %is.negative
  %back = fsub {t} %whole, %x
  %other = fneg {t} %back
  %signed = select i1 %is.minus, {t} %other, {t} %rest
  %none = call {t} @llvm.copysign.{f}({t} 0.0, {t} %x)
  %number = select i1 %is.infinite, {t} %none, {t} %signed
  %is.zero = fcmp oeq {t} %x, 0.0
  %part = select i1 %is.zero, {t} %x, {t} %number
  %one = insertvalue {{ {t}, {t} }} poison, {t} %part, 0
  %both = insertvalue {{ {t}, {t} }} %one, {t} %whole, 1
  ret {{ {t}, {t} }} %both
}}
""",
    "modf": """\
define internal {t} @activerules.modf.{f}({t} %x, ptr %at) alwaysinline {{
  %both = call {{ {t}, {t} }} @activerules.modf.both.{f}({t} %x)
  %part = extractvalue {{ {t}, {t} }} %both, 0
  %whole = extractvalue {{ {t}, {t} }} %both, 1
  store {t} %whole, ptr %at
  ret {t} %part
}}
""",
    "frexp.both": """\
define internal {{ {t}, i32 }} @activerules.frexp.both.{f}({t} %x) alwaysinline {{
  %number = call {t} @activerules.ignore.{f}({t} %x)
  %found = call i32 @ilogb{s}({t} %number)
  %size = call {t} @llvm.fabs.{f}({t} %number)
  %is.finite = fcmp one {t} %size, 0x7FF0000000000000
  %is.zero = fcmp oeq {t} %size, 0.0
  %more = add i32 %found, 1
  %known = select i1 %is.finite, i32 %more, i32 0
  %exponent = select i1 %is.zero, i32 0, i32 %known
  %less = sub i32 0, %exponent
  %part = call {t} @ldexp{s}({t} %x, i32 %less)
  %one = insertvalue {{ {t}, i32 }} poison, {t} %part, 0
  %both = insertvalue {{ {t}, i32 }} %one, i32 %exponent, 1
  ret {{ {t}, i32 }} %both
}}
""",
    "frexp": """\
define internal {t} @activerules.frexp.{f}({t} %x, ptr %at) alwaysinline {{
  %both = call {{ {t}, i32 }} @activerules.frexp.both.{f}({t} %x)
  %part = extractvalue {{ {t}, i32 }} %both, 0
  %exponent = extractvalue {{ {t}, i32 }} %both, 1
  store i32 %exponent, ptr %at
  ret {t} %part
}}
""",
}
_KINDS = (("double", "f64", ""), ("float", "f32", "f"))
_DEFINITIONS = {
    f"{name}.{f}": text.format(t=t, f=f, s=s) for name, text in _TEXTS.items() for t, f, s in _KINDS
}
_NAMES = {
    **{f"{n}{s}": f"{n}.{f}" for n in ("sincos", "modf", "frexp") for _, f, s in _KINDS},
    **{f"llvm.{n}.{f}": f"{n}.both.{f}" for n in ("sincos", "modf") for _, f, _ in _KINDS},
    **{f"llvm.frexp.{f}.i32": f"frexp.both.{f}" for _, f, _ in _KINDS},
}
_DECLARATIONS = {
    f"{name}.{f}": f"declare {t} @{name}.{f}({t})"
    for name in ("llvm.sin", "llvm.cos", "llvm.trunc", "llvm.fabs", "activerules.ignore")
    for t, f, _ in _KINDS
} | {
    name: line
    for t, f, s in _KINDS
    for name, line in (
        (f"llvm.copysign.{f}", f"declare {t} @llvm.copysign.{f}({t}, {t})"),
        (f"ilogb{s}", f"declare i32 @ilogb{s}({t})"),
        (f"ldexp{s}", f"declare {t} @ldexp{s}({t}, i32)"),
    )
}


def with_one_result(text: str) -> str:
    """The text with these functions replaced by ones with a single result."""
    return redirect(text, _NAMES.get, _DEFINITIONS, _DECLARATIONS)
