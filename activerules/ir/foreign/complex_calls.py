"""Multiplication and division of complex numbers, which C compilers leave to their runtime library,
and modulus and argument, which are in the C library.

Needs       the text of a module as LLVM prints it, from a compiler for x86-64
Gives       the text in which calls of `__muldc3`, `__divdc3`, `cabs`, `carg` (double) and
            `__mulsc3`, `__divsc3`, `cabsf`, `cargf` (float) go to functions the text then defines
Invariants  Z1  the quotient does not overflow where it is representable: the divisor is scaled by a
                number, which has no derivative
            Z2  for infinite or NaN numbers the result is that of the formulas; the runtime library
                returns infinities for some of them (C, annex G)

Source      (a + ib)(c + id) = ac - bd + i(ad + bc);
            (a + ib)/(c + id) = (ac + bd + i(bc - ad)) / (c² + d²)
"""

from __future__ import annotations

from activerules.ir.foreign.redirect import redirect

_MULTIPLY = """\
define internal {result} @activerules.{name}({t} %a, {t} %b, {t} %c, {t} %d) alwaysinline {{
  %ac = fmul {t} %a, %c
  %bd = fmul {t} %b, %d
  %ad = fmul {t} %a, %d
  %bc = fmul {t} %b, %c
  %re = fsub {t} %ac, %bd
  %im = fadd {t} %ad, %bc
{pack}}}
"""

_DIVIDE = """\
define internal {result} @activerules.{name}({t} %a, {t} %b, {t} %c, {t} %d) alwaysinline {{
  %c.abs = call {t} @llvm.fabs.{f}({t} %c)
  %d.abs = call {t} @llvm.fabs.{f}({t} %d)
  %larger = fcmp ogt {t} %c.abs, %d.abs
  %most = select i1 %larger, {t} %c.abs, {t} %d.abs
  %number = call {t} @activerules.ignore.{f}({t} %most)
  %inverse = fdiv {t} 1.0, %number
  %above = fcmp oge {t} %number, {least}
  %below = fcmp ole {t} %number, {most}
  %usual = and i1 %above, %below
  %scale = select i1 %usual, {t} %inverse, {t} 1.0
  %cs = fmul {t} %c, %scale
  %ds = fmul {t} %d, %scale
  %cc = fmul {t} %cs, %cs
  %dd = fmul {t} %ds, %ds
  %norm = fadd {t} %cc, %dd
  %ac = fmul {t} %a, %cs
  %bd = fmul {t} %b, %ds
  %bc = fmul {t} %b, %cs
  %ad = fmul {t} %a, %ds
  %re.n = fadd {t} %ac, %bd
  %im.n = fsub {t} %bc, %ad
  %re.s = fdiv {t} %re.n, %norm
  %im.s = fdiv {t} %im.n, %norm
  %re = fmul {t} %re.s, %scale
  %im = fmul {t} %im.s, %scale
{pack}}}
"""

_OF_PARTS = """\
define internal double @activerules.{name}(double %re, double %im) alwaysinline {{
  %r = call double @{real}(double {x}, double {y})
  ret double %r
}}
"""

_OF_PAIR = """\
define internal float @activerules.{name}(<2 x float> %z) alwaysinline {{
  %re = extractelement <2 x float> %z, i64 0
  %im = extractelement <2 x float> %z, i64 1
  %r = call float @{real}(float {x}, float {y})
  ret float %r
}}
"""

_DOUBLE = {
    "t": "double",
    "f": "f64",
    "least": "0x0010000000000000",  # 2 to the powers -1022 and 1022, float: -126 and 126
    "most": "0x7FD0000000000000",
    "result": "{ double, double }",
    "pack": """\
  %z.re = insertvalue { double, double } poison, double %re, 0
  %z = insertvalue { double, double } %z.re, double %im, 1
  ret { double, double } %z
""",
}
_FLOAT = {
    "t": "float",
    "f": "f32",
    "least": "0x3810000000000000",
    "most": "0x47D0000000000000",
    "result": "<2 x float>",
    "pack": """\
  %z.re = insertelement <2 x float> poison, float %re, i64 0
  %z = insertelement <2 x float> %z.re, float %im, i64 1
  ret <2 x float> %z
""",
}

_DEFINITIONS = {
    "muldc3": _MULTIPLY.format(name="muldc3", **_DOUBLE),
    "mulsc3": _MULTIPLY.format(name="mulsc3", **_FLOAT),
    "divdc3": _DIVIDE.format(name="divdc3", **_DOUBLE),
    "divsc3": _DIVIDE.format(name="divsc3", **_FLOAT),
    "cabs": _OF_PARTS.format(name="cabs", real="hypot", x="%re", y="%im"),
    "carg": _OF_PARTS.format(name="carg", real="atan2", x="%im", y="%re"),
    "cabsf": _OF_PAIR.format(name="cabsf", real="hypotf", x="%re", y="%im"),
    "cargf": _OF_PAIR.format(name="cargf", real="atan2f", x="%im", y="%re"),
}
_DECLARATIONS = {
    f"{name}.{f}": f"declare {t} @{name}.{f}({t})"
    for name in ("llvm.fabs", "activerules.ignore")
    for t, f in (("double", "f64"), ("float", "f32"))
} | {
    name: f"declare {t} @{name}({t}, {t})"
    for t, names in (("double", ("hypot", "atan2")), ("float", ("hypotf", "atan2f")))
    for name in names
}


def by_parts(text: str) -> str:
    """The text with complex products, quotients, moduli and angles by parts (x86-64 only)."""
    if "x86_64" not in text:
        return text
    kinds = {kind if kind.startswith("c") else f"__{kind}": kind for kind in _DEFINITIONS}
    return redirect(text, kinds.get, _DEFINITIONS, _DECLARATIONS)
