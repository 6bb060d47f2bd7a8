"""Every row of the table against finite differences of the function that LLVM computes.

One module holds, for every function and precision, the primal, one adjoint per operand (made with
only that operand wanted, so that `needs` is tested at its tightest) and the tangent.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import math
import random
from dataclasses import dataclass, field

import llvmlite.binding as ll
import pytest
from numba import _helperlib
from scipy import special as scipy_special

from activerules.ir.derivatives import table
from activerules.ir.derivatives.rows import RowOperands
from activerules.ir.derivatives.special import digamma
from activerules.ir.derivatives.table import FUNCTIONS, INSTRUCTIONS, row_for
from activerules.ir.llvm.builder import Builder, Namer
from activerules.ir.llvm.model import Argument, Block, Function
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_function
from activerules.ir.llvm.types import DOUBLE, FLOAT, I1, I32, I64, Type
from activerules.numba_ext.substitutes.complex_math import POWER_DEFINITIONS
from activerules.numba_ext.substitutes.integer_powers import DEFINITIONS as INTEGER_POWERS
from activerules.numba_ext.substitutes.single_points import DEFINITIONS as WITH_VALUE

nan, inf = math.nan, math.inf

# domains: an interval, a tuple of intervals (a union), or a list of values to choose from
reals, positive, unit = (-3.0, 3.0), (0.05, 4.0), (-0.95, 0.95)
nonzero = ((-3.0, -0.2), (0.2, 3.0))
integers, bits = [-3, -2, -1, 0, 1, 2, 3, 7], [0, 1]

UNARY = {
    "sqrt": positive, "cbrt": nonzero, "sin": reals, "cos": reals, "tan": (-1.4, 1.4), "asin": unit,
    "acos": unit, "atan": reals, "sinh": reals, "cosh": reals, "tanh": reals, "asinh": reals,
    "acosh": (1.1, 4.0), "atanh": unit, "exp": reals, "exp2": reals, "exp10": reals,
    "expm1": reals, "log": positive, "log2": positive, "log10": positive, "log1p": (-0.9, 4.0),
    "erf": reals, "erfc": reals, "lgamma": ((0.1, 5.0), (-0.9, -0.1), (-3.8, -3.2)),
    "tgamma": ((0.1, 5.0), (-0.9, -0.1), (-2.8, -2.2)), "fabs": nonzero, "floor": (0.1, 0.9),
    "ceil": (0.1, 0.9), "trunc": (0.1, 0.9), "rint": (0.6, 1.4), "nearbyint": (0.6, 1.4),
    "round": (0.6, 1.4), "roundeven": (0.6, 1.4), "logb": (1.1, 1.9),
    "canonicalize": reals, "arithmetic.fence": reals,
}  # fmt: skip
OTHERS = {
    "atan2": (nonzero, nonzero), "pow": (positive, reals), "powi": (nonzero, integers),
    "hypot": (nonzero, nonzero), "copysign": (nonzero, nonzero),
    "fmod": ((5.95, 6.05), (1.08, 1.1)), "remainder": ((5.4, 5.5), (1.08, 1.1)),
    "fdim": (nonzero, nonzero), "fma": (reals, reals, reals), "minnum": (nonzero, nonzero),
    "maxnum": (nonzero, nonzero), "minimum": (nonzero, nonzero), "maximum": (nonzero, nonzero),
    "ldexp": (reals, integers), "cpow.re": ((-2.0, 2.0), (0.5, 2.0), (-2.0, 3.0), (-1.0, 1.0)),
    "cpow.im": ((-2.0, 2.0), (0.5, 2.0), (-2.0, 3.0), (-1.0, 1.0)),
    "nextafter": ((0.5, 1.5), (2.0, 3.0)), "ipow": (nonzero, [0, 1, 2, 3, 6, 11]),
    "inverse_power": (nonzero, [1, 2, 3, 6, 11], nonzero), "with_value": (reals, reals),
}  # fmt: skip
DOMAINS = {**{name: (domain,) for name, domain in UNARY.items()}, **OTHERS}
INSTRUCTION_DOMAINS = {
    "fadd": (reals, reals), "fsub": (reals, reals), "fmul": (reals, reals),
    "fdiv": (reals, nonzero), "frem": ((5.95, 6.05), (1.08, 1.1)), "fneg": (reals,),
    "select": (bits, reals, reals), "freeze": (reals,), "fpext": (reals,), "fptrunc": (reals,),
}  # fmt: skip

INTRINSICS = (
    "sqrt sin cos tan asin acos atan atan2 sinh cosh tanh exp exp2 exp10 log log2 log10 pow powi "
    "fabs copysign floor ceil trunc rint nearbyint round roundeven fma fmuladd minnum maxnum "
    "minimum maximum ldexp canonicalize arithmetic.fence"
).split()
if ll.llvm_version_info >= (21,):  # LLVM 20 returns the other operand
    INTRINSICS += ["minimumnum", "maximumnum"]
SYMBOLS = [
    *(f"llvm.{name}.f64" for name in INTRINSICS),
    *(f"llvm.{name}.f32" for name in INTRINSICS),
    *(s for s, name in table._SYMBOLS.items() if name in FUNCTIONS),
]
INTEGER_OPERANDS = {"powi": I32, "ldexp": I32, "ipow": I64, "inverse_power": I64}


@dataclass
class Case:
    """One symbol or opcode in one precision."""

    name: str
    function: str
    t: Type
    text: str
    domains: tuple
    types: tuple[Type, ...]
    compiled: dict = field(default_factory=dict)

    @property
    def row(self):
        return (FUNCTIONS if "call" in self.text else INSTRUCTIONS)[self.function]


def _operands(types):
    return ", ".join(f"{t} %{n}" for t, n in zip(types, "xyzw", strict=False))


def _call_case(symbol):
    function = table.function_of(symbol)
    single = symbol.endswith("f32") or (symbol.endswith("f") and symbol != "erf")
    t = FLOAT if single else DOUBLE
    domains = DOMAINS[function]
    second = INTEGER_OPERANDS.get(function, t)
    types = tuple(second if k == 1 else t for k in range(len(domains)))
    if symbol.startswith("llvm.") and I32 in types:
        symbol += ".i32"
    text = f"call {t} @{symbol}({_operands(types)})"
    return Case(symbol, function, t, text, domains, types)


def _instruction_case(opcode, t):
    domains = INSTRUCTION_DOMAINS[opcode]
    types = (t,) * len(domains)
    result = t
    match opcode:
        case "select":
            types = (I1, t, t)
            text = f"select i1 %x, {t} %y, {t} %z"
        case "fpext" | "fptrunc":
            narrow, wide = FLOAT, DOUBLE
            types, result = ((narrow,), wide) if opcode == "fpext" else ((wide,), narrow)
            text = f"{opcode} {types[0]} %x to {result}"
        case _:
            text = f"{opcode} {t} " + ", ".join(f"%{n}" for n in "xyz"[: len(domains)])
    return Case(f"{opcode}.{t}", opcode, result, text, domains, types)


CASES = [
    *map(_call_case, SYMBOLS),
    *(_instruction_case(op, t) for op in INSTRUCTION_DOMAINS for t in (DOUBLE, FLOAT)),
]


def _new_function(case, name, extra):
    """A function of the operands and `extra`, whose one instruction is the case's."""
    parameters = _operands(case.types) + "".join(f", {t} %{n}" for n, t in extra)
    text = f"define {case.t} @f({parameters}) {{\nentry:\n  %r = {case.text}\n}}\n"
    function = parse_module(text).functions["f"]
    function.name = f'"{name}"'
    return function, function.entry.instructions[0]


def _build(case, declarations):
    """Append to the case the texts of primal, adjoints and tangent."""
    primal, r = _new_function(case, f"p {case.name}", ())
    Builder(primal.entry).ret(r)
    functions = {"primal": primal}
    row = row_for(r)
    assert row is case.row
    for k, partial in enumerate(row.partials):
        function, r = _new_function(case, f"a{k} {case.name}", [("g", case.t)])
        wanted = [j == k for j in range(len(row.partials))]
        b = Builder(function.entry, Namer(), declarations)
        result = row.adjoint(b, row.access(r, wanted), function.arguments[-1], wanted)
        assert (result[k] is None) == (partial is None)
        assert all(v is None for j, v in enumerate(result) if j != k)
        if result[k] is not None:
            function.result = result[k].type
            b.ret(result[k])
            functions[f"adjoint {k}"] = function
    active = [p is not None for p in row.partials]
    extra = [(f"t{k}", t) for k, t in enumerate(case.types) if active[k]]
    function, r = _new_function(case, f"t {case.name}", extra)
    arguments = iter(function.arguments[len(case.types) :])
    b = Builder(function.entry, Namer(), declarations)
    tangents = [next(arguments) if a else None for a in active]
    result = row.tangent(b, row.access(r, active), tangents)
    assert (result is None) == (not any(active))
    if result is not None:
        b.ret(result)
        functions["tangent"] = function
    return functions


_CTYPES = {
    DOUBLE: ctypes.c_double, FLOAT: ctypes.c_float, I64: ctypes.c_int64, I32: ctypes.c_int32,
    I1: ctypes.c_bool,
}  # fmt: skip


# what LLVM calls for llvm.powi is in compiler-rt, not in the process
POWI = {
    "__powidf2": ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int)(pow),
    "__powisf2": ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float, ctypes.c_int)(pow),
}


@pytest.fixture(scope="module")
def compiled():
    """All cases by name, with their functions callable; and the engine that keeps them alive."""
    ll.load_library_permanently(ctypes.util.find_library("m"))
    # Numba makes these known to LLVM when it first compiles, which no test of this module does
    for name, address in _helperlib.c_helpers.items():
        ll.add_symbol(f"numba_{name}", address)
    for name, function in POWI.items():
        ll.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
    declarations, texts, functions = {}, [], []
    for case in CASES:
        b = Builder([], Namer(), declarations)
        if "call" in case.text:
            arguments = [Argument(n, t) for n, t in zip("xyzw", case.types, strict=False)]
            b.call(case.name, case.t, arguments)
        for role, function in _build(case, declarations).items():
            texts.append(print_function(function))
            functions.append((case, role, function))
    b = Builder(Block("entry"), Namer(), declarations)
    x = Argument("x", DOUBLE)
    b.ret(digamma(b, x))
    psi = Function("psi", DOUBLE, [x], [b.target])
    texts.append(print_function(psi))

    ll.initialize_native_target()
    ll.initialize_native_asmprinter()
    defined = POWER_DEFINITIONS + INTEGER_POWERS + WITH_VALUE
    declared = (text for name, text in declarations.items() if f"@{name}(" not in defined)
    module = ll.parse_assembly("\n".join([*declared, defined, *texts]))
    module.verify()
    unknown = [
        f.name
        for f in module.functions
        if f.is_declaration and not f.name.startswith("llvm.") and not ll.address_of_symbol(f.name)
    ]
    assert unknown == [], "the engine would leave every call of the module unresolved"
    machine = ll.Target.from_default_triple().create_target_machine(opt=0)
    engine = ll.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    for case, role, function in functions:
        case.compiled[role] = _callable(engine, function)
    yield {case.name: case for case in CASES} | {"psi": _callable(engine, psi)}
    engine.close()


def _callable(engine, function):
    prototype = ctypes.CFUNCTYPE(
        _CTYPES[function.result], *(_CTYPES[a.type] for a in function.arguments)
    )
    return prototype(engine.get_function_address(function.name.strip('"')))


def _sample(domain, source, single):
    if isinstance(domain, list):
        return source.choice(domain)
    if isinstance(domain[0], tuple):
        domain = source.choice(domain)
    x = source.uniform(*domain)
    return ctypes.c_float(x).value if single else x


def finite_difference(f, x):
    """Derivative of `f` at `x` by Romberg's table of central differences, and an error estimate."""
    best, error, previous = nan, inf, []
    for level in range(9):
        h = 0.04 / 1.7**level
        row = [(f(x + h) - f(x - h)) / (2 * h)]
        for k, old in enumerate(previous, 1):
            factor = 1.7 ** (2 * k)
            row.append((factor * row[-1] - old) / (factor - 1))
            change = max(abs(row[-1] - row[-2]), abs(row[-1] - old))
            if change < error:
                best, error = row[-1], change
        previous = row
    return best, error


def _double_primal(case, compiled):
    """The function in double precision: what differences are taken of."""
    if case.function in ("fpext", "fptrunc"):
        return lambda x: x
    if case.function == "with_value":
        return lambda x, _: x
    if case.function == "inverse_power":
        return lambda x, n, _: x**-n
    for other in compiled.values():
        if isinstance(other, Case) and other.function == case.function and other.t is DOUBLE:
            return other.compiled["primal"]
    raise AssertionError(case.name)


@pytest.mark.parametrize("name", [c.name for c in CASES])
def test_derivative_matches_finite_differences(compiled, name):
    case = compiled[name]
    source = random.Random(name)
    single = FLOAT in (case.t, *case.types)
    f = _double_primal(case, compiled)
    for _ in range(8):
        point = [_sample(d, source, single) for d in case.domains]
        if case.function == "inverse_power":
            point[2] = (
                ctypes.c_float(point[0] ** point[1]).value if single else point[0] ** point[1]
            )
        g = _sample(nonzero, source, single)
        expected, slack, tangents = 0.0, 0.0, []
        for k, partial in enumerate(case.row.partials):
            if case.types[k] in (I1, I32, I64):
                continue

            def along(v, k=k, point=point):
                return f(*point[:k], v, *point[k + 1 :])

            slope, error = finite_difference(along, point[k])
            assert error < 1e-7 * (1 + abs(slope)), "the finite difference is not good enough"
            tolerance = 4 * error + (2e-5 if single else 2e-12) * (0.1 + abs(slope))
            found = case.compiled[f"adjoint {k}"](*point, g) / g if partial else 0.0
            assert found == pytest.approx(slope, abs=tolerance, rel=0), (k, point)
            if partial:
                tangents.append(g / (k + 1))
                expected += slope * tangents[-1]
                slack += 3 * tolerance * abs(tangents[-1])
        if tangents:
            found = case.compiled["tangent"](*point, *tangents)
            assert found == pytest.approx(expected, abs=slack + 1e-6 * single * abs(expected))


def test_every_row_is_tested():
    assert {c.function for c in CASES if "call" in c.text} == set(FUNCTIONS)
    assert {c.function for c in CASES if "call" not in c.text} == set(INSTRUCTIONS)


# symbol, point, operand, derivative: the conventions of the module, and the edges of domains
DELICATE = [
    ("llvm.pow.f64", (0.0, 2.0), 0, 0.0),
    ("llvm.pow.f64", (0.0, 1.0), 0, 1.0),
    ("llvm.pow.f64", (0.0, 0.5), 0, inf),
    ("llvm.pow.f64", (0.0, 0.0), 0, 0.0),
    ("llvm.pow.f64", (-2.0, 3.0), 0, 12.0),
    ("llvm.pow.f64", (-2.0, 0.0), 0, 0.0),
    ("llvm.pow.f64", (3.0, 0.0), 0, 0.0),
    ("llvm.pow.f64", (1e200, 2.0), 0, 2e200),
    ("llvm.pow.f64", (0.0, 2.0), 1, 0.0),
    ("llvm.pow.f64", (0.0, 0.0), 1, -inf),
    ("llvm.pow.f64", (-2.0, 3.0), 1, nan),
    ("llvm.pow.f64", (1.0, 5.0), 1, 0.0),
    ("activerules.cpow.re.f64", (0.0, 0.0, 1.0, 0.0), 0, 1.0),
    ("activerules.cpow.im.f64", (0.0, 0.0, 1.0, 0.0), 1, 1.0),
    ("activerules.cpow.re.f64", (0.0, 0.0, 2.0, 0.0), 0, 0.0),
    ("activerules.cpow.re.f64", (0.0, 0.0, 0.5, 0.0), 0, inf),
    ("activerules.cpow.re.f64", (0.0, 0.0, 0.0, 0.0), 0, 0.0),
    ("activerules.cpow.re.f64", (0.0, 0.0, 2.0, 0.0), 2, 0.0),
    ("activerules.cpow.re.f64", (0.0, 0.0, 0.0, 0.0), 2, 0.0),
    ("activerules.cpow.im.f64", (0.0, 0.0, 0.0, 0.0), 2, 0.0),
    ("activerules.cpow.re.f64", (3.0, 0.0, 2.0, 0.0), 2, 9 * math.log(3)),
    ("activerules.cpow.im.f64", (3.0, 0.0, 2.0, 0.0), 3, 9 * math.log(3)),
    ("activerules.cpow.re.f64", (3.0, 0.0, 0.0, 0.0), 2, math.log(3)),
    ("activerules.ipow.f64", (0.0, 0), 0, 0.0),
    ("activerules.ipow.f64", (inf, 0), 0, 0.0),
    ("activerules.ipow.f64", (0.0, 1), 0, 1.0),
    ("activerules.ipow.f64", (0.0, 2), 0, 0.0),
    ("activerules.ipow.f64", (-2.0, 3), 0, 12.0),
    ("llvm.powi.f64.i32", (0.0, 0), 0, 0.0),
    ("llvm.powi.f64.i32", (0.0, 1), 0, 1.0),
    ("llvm.powi.f64.i32", (0.0, 2), 0, 0.0),
    ("llvm.powi.f64.i32", (0.0, -1), 0, -inf),
    ("hypot", (0.0, 0.0), 0, 0.0),
    ("hypot", (0.0, 0.0), 1, 0.0),
    ("hypot", (3e300, 4e300), 0, 0.6),
    ("hypot", (3e-320, 4e-320), 1, 0.8),
    ("llvm.fabs.f64", (0.0,), 0, 0.0),
    ("llvm.fabs.f64", (-0.0,), 0, 0.0),
    ("llvm.fabs.f64", (-inf,), 0, -1.0),
    ("llvm.fabs.f64", (nan,), 0, nan),
    ("llvm.fabs.f32", (nan,), 0, nan),
    ("llvm.copysign.f64", (nan, -1.0), 0, nan),
    ("llvm.copysign.f64", (0.0, -1.0), 0, 0.0),
    ("llvm.copysign.f64", (2.0, -0.0), 0, -1.0),
    ("llvm.copysign.f64", (-2.0, 1.0), 0, -1.0),
    ("llvm.sqrt.f64", (0.0,), 0, inf),
    ("llvm.sqrt.f64", (-1.0,), 0, nan),
    ("cbrt", (0.0,), 0, inf),
    ("cbrt", (1e-300,), 0, 1e200 / 3),
    ("llvm.maxnum.f64", (1.5, 1.5), 0, 1.0),
    ("llvm.maxnum.f64", (1.5, 1.5), 1, 0.0),
    ("llvm.minnum.f64", (1.5, 1.5), 0, 1.0),
    ("llvm.minnum.f64", (1.5, 1.5), 1, 0.0),
    ("llvm.maxnum.f64", (nan, nan), 0, 1.0),
    ("llvm.minnum.f64", (nan, nan), 1, 0.0),
    ("llvm.maxnum.f64", (nan, 1.5), 0, 0.0),
    ("llvm.maxnum.f64", (nan, 1.5), 1, 1.0),
    ("fmin", (1.5, nan), 0, 1.0),
    ("fmin", (1.5, nan), 1, 0.0),
    ("llvm.maximum.f64", (nan, 1.5), 0, 1.0),
    ("llvm.maximum.f64", (1.5, nan), 0, 0.0),
    ("llvm.maximum.f64", (1.5, nan), 1, 1.0),
    ("llvm.minimum.f64", (nan, nan), 1, 0.0),
    ("llvm.maximum.f64", (2.5, 2.5), 0, 1.0),
    ("llvm.minimum.f64", (2.5, 2.5), 1, 0.0),
    ("fdim", (1.0, 1.0), 0, 0.0),
    ("fdim", (1.0, 2.0), 1, 0.0),
    ("fdim", (2.0, 1.0), 1, -1.0),
    ("llvm.atan2.f64", (1e-200, 1e-200), 0, 0.5e200),
    ("llvm.atan2.f64", (1e200, 1e200), 1, -0.5e-200),
    ("llvm.atan2.f64", (0.0, -1.0), 0, -1.0),
    ("llvm.atan2.f64", (1.0, -inf), 0, 0.0),
    ("llvm.atan2.f64", (inf, inf), 1, -0.0),
    ("llvm.pow.f64", (-0.5, inf), 0, 0.0),
    ("llvm.pow.f64", (2.0, -inf), 0, 0.0),
    ("llvm.pow.f64", (-1.0, 1e300), 0, -1e300),  # an even power; 1e300 - 1 is 1e300
    ("llvm.pow.f64", (-1.0, 2.0**53 + 2), 0, -(2.0**53) - 2),
    ("llvm.pow.f64", (-1.0, -(2.0**53)), 0, 2.0**53),
    ("llvm.pow.f64", (-1.0, 2.0**53 - 1), 0, 2.0**53 - 1),
    ("llvm.log.f64", (0.0,), 0, inf),
    ("llvm.asin.f64", (1.0,), 0, inf),
    ("llvm.acos.f64", (-1.0,), 0, -inf),
    ("llvm.asin.f64", (2.0,), 0, nan),
    ("asinh", (1e200,), 0, 1e-200),
    ("asinhf", (-1e30,), 0, 1e-30),
    ("acosh", (-2.0,), 0, nan),
    ("acosh", (1e200,), 0, 1e-200),
    ("acosh", (1.0,), 0, inf),
    ("log1p", (-1.0,), 0, inf),
    ("llvm.tanh.f64", (inf,), 0, 0.0),
    ("llvm.exp.f64", (-inf,), 0, 0.0),
    ("llvm.atan.f64", (1e300,), 0, 0.0),
    ("erf", (inf,), 0, 0.0),
    ("lgamma", (1.0,), 0, -0.5772156649015329),
    ("lgamma", (-1.0,), 0, nan),
    ("tgamma", (1.0,), 0, -0.5772156649015329),
    ("fmod", (7.0, inf), 0, 1.0),
    ("fmod", (7.0, inf), 1, -0.0),
    ("fmod", (-7.0, 2.0), 1, 3.0),
    ("remainder", (7.0, 4.0), 1, -2.0),
    ("frem.double", (6.0, 2.0), 1, -3.0),
    ("fdiv.double", (1.0, 0.0), 0, inf),
    ("fdiv.double", (0.0, 2.0), 1, -0.0),
    ("fmul.double", (nan, 0.0), 0, 0.0),
    ("fmul.double", (0.0, inf), 1, 0.0),
]


@pytest.mark.parametrize(("name", "point", "operand", "expected"), DELICATE)
def test_delicate_points(compiled, name, point, operand, expected):
    found = compiled[name].compiled[f"adjoint {operand}"](*point, 1.0)
    assert found == pytest.approx(expected, rel=1e-14, nan_ok=True)


def test_digamma_against_scipy(compiled):
    psi, source = compiled["psi"], random.Random(1)
    points = [
        *(source.uniform(-30, 30) for _ in range(3000)),
        *(10 ** source.uniform(-300, 300) for _ in range(1000)),
        *(-(10 ** source.uniform(-300, 0)) for _ in range(1000)),
    ]
    for x in points:
        expected = float(scipy_special.digamma(x))
        # the reference loses digits near a zero too, so the slope sets the tolerance there
        near_zero = (
            1e-15 * abs(x) * (1 + float(scipy_special.polygamma(1, x))) if abs(x) < 40 else 0
        )
        assert psi(x) == pytest.approx(expected, rel=1e-13, abs=4 * near_zero), x


def test_digamma_at_known_values_and_poles(compiled):
    psi, euler = compiled["psi"], 0.57721566490153286061
    assert psi(1.0) == pytest.approx(-euler, rel=1e-15)
    assert psi(0.5) == pytest.approx(-euler - 2 * math.log(2), rel=1e-15)
    assert psi(0.25) == pytest.approx(-euler - math.pi / 2 - 3 * math.log(2), rel=1e-15)
    assert psi(-0.5) == pytest.approx(2 - euler - 2 * math.log(2), rel=1e-13)
    harmonic = math.fsum(1 / k for k in range(1, 100))
    assert psi(100.0) == pytest.approx(harmonic - euler, rel=1e-15)
    assert psi(inf) == inf
    for x in (0.0, -0.0, -1.0, -7.0, -inf, nan):
        assert math.isnan(psi(x))


# --- the table's own promises ---


def _instruction(text, parameters="double %x, double %y, i1 %c, float %s, <2 x double> %v"):
    module = parse_module(f"define void @f({parameters}) {{\nentry:\n  %r = {text}\n}}\n")
    return module.functions["f"].entry.instructions[0]


def test_access_refuses_undeclared_values():
    i = _instruction("fmul double %x, %y")
    access = RowOperands(i, ("x",))
    assert access.x is i.operands[0]
    for name in "yr":
        with pytest.raises(RuntimeError, match=f"fmul uses {name} undeclared"):
            getattr(access, name)


def test_access_reads_through_lookup():
    i = _instruction("fmul double %x, %y")
    stand_in = Argument("cached", DOUBLE)
    b = Builder([], Namer())
    row = row_for(i)
    access = row.access(i, (True, False), {i.operands[1]: stand_in}.__getitem__)
    product, nothing = row.adjoint(b, access, i.operands[0], (True, False))
    assert product.operands == [i.operands[0], stand_in]
    assert nothing is None


def test_needs_follow_the_wanted_operands():
    row = row_for(_instruction("fdiv double %x, %y"))
    assert row.needs_of([True] * 2) == ("y", "r")
    assert row.needs_of((True, False)) == ("y",)
    assert row.needs_of((False, False)) == ()
    assert row_for(_instruction("fadd double %x, %y")).needs_of([True] * 2) == ()


@pytest.mark.parametrize(
    "text",
    [
        "fadd <2 x double> %v, %v",
        "call double @llvm.experimental.unknown.f64(double %x)",
        "call double @mystery(double %x)",
        "call double @maxnum(double %x, double %y)",
        "call i64 @lround(double %x)",
        "call double @sin(double %x, double %y)",
        "icmp eq i1 %c, %c",
        "fptosi double %x to i64",
    ],
)
def test_no_row_without_a_derivative(text):
    assert row_for(_instruction(text)) is None


def test_terms_of_rows_carry_no_flags():
    declarations = {}
    for case in CASES:
        for function in _build(case, declarations).values():
            made = itertools.islice(function.instructions(), 1, None)
            assert all(not i.flags for i in made)


@pytest.mark.parametrize(
    ("symbol", "function"),
    [
        ("sinf", "sin"), ("llvm.sin.f32", "sin"), ("erf", "erf"), ("erff", "erf"),
        ("llvm.powi.f64.i32", "powi"), ("llvm.smax.i64", "smax"),
        ("llvm.sadd.with.overflow.i64", "sadd.with.overflow"), ("gamma", None), ("maxnum", None),
        ("llvm.memcpy.p0.p0.i64", "memcpy"), ("logbf", "logb"), ("modf", None),
    ],
)  # fmt: skip
def test_function_of(symbol, function):
    assert table.function_of(symbol) == function


def test_classes_of_calls():
    for name in ("llvm.floor.f64", "rintf", "lround", "llvm.is.fpclass.f64"):
        assert table.is_inactive_math(name)
    for name in ("sin", "llvm.sin.f32", "llvm.smin.i64", "fmaxf", "llvm.maximumnum.f64"):
        assert table.is_pure_call(name)
        assert not table.is_inactive_math(name)
    for name in ("printf", "NRT_incref", "llvm.memcpy.p0.p0.i64", "llvm.lifetime.start.p0", "modf"):
        assert not table.is_pure_call(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fadd double %x, %y", "free"),
        ("call double @llvm.fabs.f64(double %x)", "free"),
        ("fdiv double %x, %y", "some"),
        ("call double @llvm.sqrt.f64(double %x)", "some"),
        ("call double @llvm.exp.f64(double %x)", "keep"),
        ("call double @mystery(double %x)", "keep"),
        ("frem double %x, %y", "keep"),
        ("load double, ptr null", "keep"),
        ("alloca double", "keep"),
    ],
)
def test_cost(text, expected):
    found = table.cost(_instruction(text))
    assert {"free": found == 0, "some": bool(found), "keep": found is None}[expected]
