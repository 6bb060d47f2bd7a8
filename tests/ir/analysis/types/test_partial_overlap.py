"""Accesses of one array that may share a part of a float."""

import numpy as np
import pytest

from activerules.errors import FloatBitsInInteger
from activerules.ir.analysis.memory.declared import Declared
from activerules.ir.analysis.types.partial_overlap import partly_overlapping
from activerules.ir.analysis.types.value_types import ValueTypes
from activerules.ir.foreign.differentiate import differentiate
from activerules.ir.llvm.types import DOUBLE, FLOAT
from tests.ir.harness import Active, Const, Duplicated, check_gradient
from tests.ir.plan.planned import analyses_of

TWICE = """
define double @f(ptr %p, i64 %k) {
  %q = ADDRESS
  %v = load double, ptr %q, align ALIGN
  %w = load double, ptr %p
  %r = fmul double %v, %w
  ret double %r
}
"""
FLOAT_AND_DOUBLE = """
define double @f(ptr %p, i64 %k) {
  %q = getelementptr SOURCE, ptr %p, i64 %k
  %half = load float, ptr %q
  %wide = fpext float %half to double
  %other = getelementptr DOUBLE, ptr %p, i64 %k, i32 1
  %v = load double, ptr %other
  %r = fmul double %v, %wide
  ret double %r
}
"""


def differentiated(text):
    return differentiate(text, "f", [Duplicated, Const])


@pytest.mark.parametrize(
    ("address", "alignment"),
    [
        ("getelementptr double, ptr %p, i64 %k", 8),
        ("getelementptr double, ptr %p, i64 %k", 1),
        ("getelementptr i8, ptr %p, i64 %k", 8),
    ],
)
def test_o1_offsets_and_alignments_that_keep_floats_apart(address, alignment):
    text = TWICE.replace("ADDRESS", address).replace("ALIGN", str(alignment))
    assert "f.gradient" in differentiated(text)


def test_o1_nothing_is_assumed_of_variables_in_offsets():
    text = TWICE.replace("ADDRESS", "getelementptr i8, ptr %p, i64 %k").replace("ALIGN", "1")
    with pytest.raises(FloatBitsInInteger):
        differentiated(text)
    record = FLOAT_AND_DOUBLE.replace("SOURCE", "{ float, double }")
    assert "f.gradient" in differentiated(record.replace("DOUBLE", "{ float, double }"))
    with pytest.raises(FloatBitsInInteger):
        differentiated(
            record.replace("DOUBLE", "double").replace("i64 %k, i32 1", "i64 %k")
            .replace("{ float, double }", "float")
        )  # fmt: skip


TWO_FLOATS = """
define double @f(ptr %p, i64 %i, i64 %k) {
  %first = BASE
  %second = OTHER
  %a = getelementptr i8, ptr %first, i64 %i
  %b = getelementptr i8, ptr %second, i64 %k
  %x = load double, ptr %a
  %y = load float, ptr %b
  %wide = fpext float %y to double
  %r = fmul double %x, %wide
  ret double %r
}
"""
LOADED = "load ptr, ptr %p"
ARGUMENT = "getelementptr i8, ptr %p, i64 0"


def pairs(base, other, declared):
    """The pairs of accesses, a double and a float, that may overlap in part."""
    known = analyses_of(TWO_FLOATS.replace("BASE", base).replace("OTHER", other), declared)
    objects = set(known.types.accesses)
    return [pair for o in objects for pair in partly_overlapping(o, known.types)]


def test_o2_addresses_are_compared_from_one_base_or_from_the_start():
    assert pairs(ARGUMENT, ARGUMENT, {})
    assert pairs(LOADED, "getelementptr i8, ptr %first, i64 8", {})
    assert not pairs(LOADED, LOADED, {})


def test_o3_declared_memory_holds_floats_where_they_are_declared():
    both = Declared(((0, DOUBLE), (8, FLOAT)), 12)
    assert not pairs(ARGUMENT, ARGUMENT, {"p": both})
    assert pairs(ARGUMENT, ARGUMENT, {"p": Declared.array_of(DOUBLE)})


COUNTED = """
define double @f(ptr %p, i64 %k) {
  %count = getelementptr i8, ptr %p, i64 4
  store i32 7, ptr %count
  %q = getelementptr double, ptr %p, i64 %k
  %x = load double, ptr %q
  ret double %x
}
"""


@pytest.mark.parametrize("free", [False, True])
def test_o4_integers_where_the_module_has_no_floats_cut_none(free, monkeypatch):
    """As the header of a list, which shapes of memory tell from its items (tests/values)."""
    monkeypatch.setattr(ValueTypes, "is_free_of_floats", lambda types, access: free)
    types = analyses_of(COUNTED, {}).types
    assert any(any(partly_overlapping(o, types)) for o in types.accesses) is not free


CLEARED = """
declare noalias ptr @malloc(i64)
declare void @free(ptr)
define FLOAT @f(ptr %x, i64 %k) {
  %m = call ptr @malloc(i64 BYTES)
  store i64 0, ptr %m, align 1
  %u = load FLOAT, ptr %x
  %at = getelementptr i8, ptr %m, i64 %k
  store FLOAT %u, ptr %at
  %w = load FLOAT, ptr %m
  %r = fmul FLOAT %w, %w
  call void @free(ptr %m)
  ret FLOAT %r
}
"""


@pytest.mark.parametrize(("kind", "dtype"), [("double", "f8"), ("float", "f4")])
def test_o5_new_memory_is_cleared_as_a_whole(kind, dtype, monkeypatch):
    """As by `np.zeros((1, 1))`, of which LLVM makes a store."""
    monkeypatch.setattr(ValueTypes, "is_free_of_floats", lambda types, access: False)
    text = CLEARED.replace("FLOAT", kind)
    arguments = [np.array([0.7], dtype), 0]
    check_gradient(text.replace("BYTES", "8"), "f", [Duplicated, Const], arguments)
    with pytest.raises(FloatBitsInInteger, match="share some bytes"):
        differentiated(text.replace("BYTES", "16"))


PARTS = """
define double @f(ptr noalias %p, double %x, i64 %n) {
  FIRST
  SECOND
  %y = load double, ptr READ
  ret double %y
}
"""
WHOLE = "store double %x, ptr %p"


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize(
    ("first", "second", "read"),
    [
        (WHOLE, "%q = getelementptr i8, ptr %p, i64 4\n  store i32 7, ptr %q", "%p"),
        (WHOLE, "%q = getelementptr i8, ptr %p, i64 4\n  store double %x, ptr %q", "%p"),
        (WHOLE, "%q = getelementptr i8, ptr %p, i64 4", "%q"),
        (WHOLE, "store float 1.0, ptr %p", "%p"),
        (
            "%r = getelementptr double, ptr %p, i64 %n\n  store double %x, ptr %r",
            "%q = getelementptr i32, ptr %p, i64 1\n  store i32 7, ptr %q",
            "%p",
        ),
    ],
    ids=["integer over half", "store across", "load across", "float in a half", "unknown entry"],
)
def test_parts_of_floats_at_known_offsets_are_refused(first, second, read, mode):
    text = PARTS.replace("FIRST", first).replace("SECOND", second).replace("READ", read)
    number = Duplicated if mode == "forward" else Active
    with pytest.raises(FloatBitsInInteger):
        differentiate(text, "f", [Duplicated, number, Const], mode)


def test_the_first_of_several_is_refused():
    arrays = range(6)
    loads = "".join(
        f"""
  %q{k} = getelementptr i8, ptr %p{k}, i64 %k
  %v{k} = load double, ptr %q{k}, align 1
  %w{k} = load double, ptr %p{k}
  %m{k} = fmul double %v{k}, %w{k}
  %s{k} = fadd double %m{k}, {f"%s{k - 1}" if k else "1.0"}"""
        for k in arrays
    )
    parameters = ", ".join(f"ptr noalias %p{k}" for k in arrays)
    text = f"define double @f({parameters}, i64 %k) {{{loads}\n  ret double %s5\n}}\n"
    with pytest.raises(FloatBitsInInteger, match=r"at the instruction +%v0 = load double"):
        differentiate(text, "f", [*[Duplicated] * 6, Const])
