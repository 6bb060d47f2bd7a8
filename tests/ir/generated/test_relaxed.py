"""What `Mode.fast` and `vector_math` let LLVM do with generated code."""

import re

import numpy as np

from activerules.ir.generated.relaxed import SCALAR, reassociate, vectorise
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from tests.ir.harness import compile_text

CALLS = """
declare double @sin(double)
declare double @exp(double)
declare double @pow(double, double)
declare float @expf(float)
define double @f(double %x, float %y) {
  %sine = call double @sin(double %x)
  %grown = call double @exp(double %x)
  %single = call float @expf(float %y)
  %squared = call double @pow(double %x, double 2.0)
  %power = call double @pow(double %x, double %sine)
  %a = fadd double %sine, %grown
  %b = fmul double %a, %squared
  %c = fsub double %b, %power
  %d = fdiv double %c, %x
  %e = frem double %d, 3.0
  %wide = fpext float %single to double
  %r = fadd fast double %e, %wide
  ret double %r
}
"""
FORMS = {"exp": [(2, "exp.of.two"), (4, "exp.of.four")], "pow": [(2, "pow.of.two")]}

# the names under which code calls the C library, and forms for vectors, which nothing calls here
VARIANTS = f"""
define double @{SCALAR}exp(double %x) {{
  %r = call double @exp(double %x)
  ret double %r
}}
define double @{SCALAR}pow(double %x, double %y) {{
  %r = call double @pow(double %x, double %y)
  ret double %r
}}
"""


def named(module):
    return {i.name: i for i in module.functions["f"].instructions() if i.name}


def test_v1_only_sums_and_products_may_be_reordered():
    module = parse_module(CALLS)
    reassociate(module.defined())
    body = named(module)
    assert {name for name, i in body.items() if "reassoc" in i.flags} == {"a", "b", "c"}
    assert body["r"].flags == ("fast",)


def test_v2_calls_keep_their_function_and_name_declared_variants():
    module, declarations = parse_module(CALLS), {}
    vectorise(module.defined(), FORMS, declarations)
    body = named(module)
    renamed = {name: i.callee_name for name, i in body.items() if i.opcode == "call"}
    assert renamed == {
        "sine": "sin",
        "grown": SCALAR + "exp",
        "single": "expf",
        "squared": "pow",
        "power": SCALAR + "pow",
    }
    for name in ("grown", "power"):
        symbols = re.findall(r"\((.*?)\)", str(body[name].attributes["call_attributes"]))
        assert set(symbols[1:]) <= declarations.keys()


def test_v2_code_that_is_not_vectorised_computes_what_it_did():
    module, declarations = parse_module(CALLS), {}
    vectorise(module.defined(), FORMS, declarations)
    added = [
        re.sub(r"^declare (<.*?>) (.*)$", r"define \1 \2 {\n  ret \1 zeroinitializer\n}", one)
        for name, one in declarations.items()
        if not name.startswith(SCALAR)
    ]
    text = "\n".join([print_module(module), *added, VARIANTS])
    before, after = (compile_text(one, None).function("f") for one in (CALLS, text))
    for x, y in np.random.default_rng(1).uniform(0.5, 2.0, (5, 2)):
        assert after(x, y) == before(x, y)
