"""LLVM text becomes a code library that njit callers link, cache and pickle."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest
from numba.core.registry import cpu_target

import activerules as ar
from activerules.errors import UnknownCall, UnsupportedIR
from activerules.numba_ext.codegen import link
from activerules.numba_ext.codegen.link import make_library, with_callee
from numba_ext.codegen import linked_gradient as linked
from numba_ext.codegen.linked_gradient import gradient_of_product, product

TESTS = Path(__file__).parents[2]


def library(text, libraries=()):
    cpu_target.target_context.refresh()
    return make_library(cpu_target.target_context, "activerules.test", text, libraries)


@numba.njit
def caller(x, y):
    return gradient_of_product(x, y)


@numba.njit
def second_caller(x, y):
    return caller(x, y)[0] + gradient_of_product(x, y)[1]


def test_l2_called_from_njit_and_again_from_a_caller_of_it():
    assert caller(3.0, 5.0) == (5.0, 3.0)
    assert second_caller(3.0, 5.0) == 8.0


def test_called_without_the_gil_and_in_parallel():
    @numba.njit(nogil=True, parallel=True)
    def many(x, y):
        result = np.empty((x.size, 2))
        for i in numba.prange(x.size):
            result[i, 0], result[i, 1] = gradient_of_product(x[i], y[i])
        return result

    x, y = np.arange(8.0), np.arange(8.0) + 1.0
    np.testing.assert_array_equal(many(x, y), np.stack([y, x], axis=1))


def test_a_pickled_caller_works():
    copy = pickle.loads(pickle.dumps(caller))
    assert copy(2.0, 7.0) == (7.0, 2.0)


def test_l1_symbols_of_other_libraries_are_known():
    product(1.0, 2.0)
    (result,) = product.overloads.values()
    symbol = result.fndesc.llvm_func_name
    text = f"""
declare i32 @"{symbol}"(ptr, ptr, double, double)
define i32 @activerules.test.calls_product(ptr %r, ptr %e, double %x) {{
  %status = call i32 @"{symbol}"(ptr %r, ptr %e, double %x, double %x)
  ret i32 %status
}}
"""
    with pytest.raises(UnknownCall, match="product"):
        library(text)
    assert library(text, [result.library]).get_function("activerules.test.calls_product")


def test_l1_runtime_and_libm_symbols_are_known():
    made = library("""
declare double @tanh(double)
declare double @llvm.sin.f64(double)
declare void @NRT_incref(ptr)
declare ptr @NRT_MemInfo_alloc_aligned(i64, i32)
declare ptr @malloc(i64)
define double @activerules.test.known(double %x) {
  %y = call double @tanh(double %x)
  %z = call double @llvm.sin.f64(double %y)
  call void @NRT_incref(ptr null)
  ret double %z
}
""")
    assert "activerules.test.known" in {f.name for f in made.get_defined_functions()}


@pytest.mark.parametrize(
    ("declaration", "use"),
    [
        ("declare void @nobody_defines_this()", "call void @nobody_defines_this()"),
        ("@nobody_defines_this = external global i64", "%x = load i64, ptr @nobody_defines_this"),
    ],
)
def test_l1_unknown_symbols_are_an_error_before_linking(declaration, use):
    text = f"{declaration}\ndefine void @activerules.test.unknown() {{\n  {use}\n  ret void\n}}"
    with pytest.raises(UnknownCall, match="nobody_defines_this"):
        library(text)


POWER = """
declare double @llvm.powi.f64.i32(double, i32)
define double @activerules.test.power(double %x, i32 %n) {
  %y = call double @llvm.powi.f64.i32(double %x, i32 %n)
  ret double %y
}
"""


def test_l4_functions_that_the_machine_code_alone_calls_are_there_or_an_error(monkeypatch):
    assert library(POWER).get_function("activerules.test.power")
    monkeypatch.setattr(link, "_OF_RUNTIME", ("nobody_defines_this",))
    with pytest.raises(UnknownCall, match="nobody_defines_this"):
        library(POWER)


def test_text_that_llvm_refuses_is_an_error():
    with pytest.raises(UnsupportedIR, match=r"activerules\.test"):
        library("define void @f() { ret i32 0 }")


def test_l3_environments_are_set():
    # A dynamic exception reads constants from the environment of the function that raises it.
    with pytest.raises(ValueError, match="negative: -3"):
        linked.call_raiser(-3)
    assert linked.call_raiser(4) == 4


PROGRAM = """
from numba_ext.codegen import linked_gradient as linked

print(linked.cached_caller(3.0, 5.0), sum(linked.cached_caller.stats.cache_hits.values()))
try:
    linked.cached_call_raiser(-3)
except ValueError as error:
    print(error, sum(linked.cached_call_raiser.stats.cache_hits.values()))
"""


def test_l2_l3_cache_across_processes(tmp_path):
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": paths}

    def run():
        command = [sys.executable, "-c", PROGRAM]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert run() == "(5.0, 3.0) 0\nnegative: -3 0\n"
    assert run() == "(5.0, 3.0) 1\nnegative: -3 1\n"


@pytest.mark.parametrize("declared", [False, True])
def test_a_function_taken_over_calls_what_has_a_rule_as_what_it_is(declared):
    text = "declare i32 @rule.f.1(ptr)\n" + declared * "declare i32 @f(ptr)\n"
    calls = "define i32 @g(ptr %p) {\n  %s = call i32 @rule.f.1(ptr %p)\n  ret i32 %s\n}\n"
    module = llvm.parse_assembly(with_callee(text + calls, "rule.f.1", "f"))
    assert {f.name for f in module.functions} == {"f", "g"}


def test_what_all_derivatives_call_is_a_library_made_once(monkeypatch):
    made = []

    def noted(context, name, *rest):
        made.append(name)
        return make_library(context, name, *rest)

    monkeypatch.setattr(link, "make_library", noted)
    for _ in range(2):
        assert ar.grad(numba.njit(lambda x: x * x))(3.0) == 6.0
    assert made.count("activerules.support") <= 1
    assert len([name for name in made if name.endswith(".gradient")]) == 2
