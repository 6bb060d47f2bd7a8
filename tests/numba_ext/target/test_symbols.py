"""The table of Numba's functions: what it names exists, and the engine knows it."""

import subprocess
import sys

import llvmlite.binding as llvm
import numba
import pytest
from numba.core.runtime import rtsys

from activerules.ir.derivatives.table import function_of
from activerules.ir.llvm.parser import parse_module
from activerules.ir.normal.effects import effect_of, frees, language
from activerules.ir.plan.tape_arrays import is_plain
from activerules.numba_ext.codegen.unlinked import cpu_context
from activerules.numba_ext.target import symbols
from activerules.numba_ext.target.counted_memory import COUNTED

# What Numba compiles itself, in IR that it links, or names in its own IR alone.
IN_IR = {
    "NRT_incref",
    "NRT_decref",
    "NRT_MemInfo_data_fast",
}
NAMED = [
    name
    for name in (*language().effects, *language().mathematics, *language().confined)
    if not name.startswith("activerules.") and name not in IN_IR
]
NUMBAS_OWN = [*symbols.READING, *symbols.WRITES_ITEMS, *symbols.BLAS_RESULTS]


@pytest.mark.parametrize("name", sorted({*NAMED, *NUMBAS_OWN} - IN_IR))
def test_symbols_in_the_table_exist_in_the_process(name):
    rtsys.initialize(cpu_context())  # Numba tells LLVM its functions when it first compiles
    numba.get_num_threads()  # and those of threads when it starts them
    assert llvm.address_of_symbol(name), f"Numba has no {name}"


@pytest.mark.parametrize("name", ["numba_gamma", "numba_gammaf"])
def test_mathematics_of_numba_has_rows(name):
    assert function_of(name) == "tgamma"


CALLS = """
declare ptr @NRT_MemInfo_alloc_aligned(i64, i32)
declare ptr @NRT_MemInfo_alloc(i64)
declare ptr @NRT_MemInfo_new_varsize(i64)
declare void @NRT_Free(ptr)
declare void @NRT_decref(ptr)

define void @f(i64 %n, i32 %alignment) {
  %a = call ptr @NRT_MemInfo_alloc_aligned(i64 %n, i32 32)
  %b = call ptr @NRT_MemInfo_alloc_aligned(i64 %n, i32 64)
  %c = call ptr @NRT_MemInfo_alloc_aligned(i64 %n, i32 %alignment)
  %d = call ptr @NRT_MemInfo_alloc(i64 %n)
  %e = call ptr @NRT_MemInfo_new_varsize(i64 %n)
  call void @NRT_Free(ptr %a)
  call void @NRT_decref(ptr %b)
  ret void
}
"""


def test_arrays_in_rows_are_those_of_numbers_with_their_alignment():
    calls = list(parse_module(CALLS).functions["f"].instructions())
    assert [is_plain(i) for i in calls[:5]] == [True, False, False, True, False]


def test_what_frees_memory_is_told_from_what_counts_references():
    calls = list(parse_module(CALLS).functions["f"].instructions())
    assert [frees(i) for i in calls[5:7]] == [True, False]
    assert [effect_of(i.callee_name).counts for i in calls[5:7]] == [False, True]


def test_counted_memory_defines_what_the_engine_calls():
    for name, text in COUNTED.definitions.items():
        assert name in parse_module(text).functions


def test_the_engine_alone_knows_nothing_of_numba():
    program = """
import sys
from activerules.ir.normal.effects import effect_of, language
assert effect_of("NRT_incref") is None and effect_of("malloc").allocates
assert language().counted is None
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
