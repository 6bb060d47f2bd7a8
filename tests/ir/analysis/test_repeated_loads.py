"""Loads of what was loaded or stored before: in random programs, and where not."""

from activerules.ir.analysis.loops.dependence import Dependence
from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.analysis.repeated_loads import repeated_loads
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module
from activerules.ir.normal import normal_form
from tests.ir.memory_of import memory_of
from tests.ir.same_results import assert_same_bits, programs

LOADS = """
define double @f(ptr %p, ptr %q, ptr noalias %own, double %x) {
  %first = load double, ptr %p
  %again = load double, ptr %p
  store double %x, ptr %own
  %stored = load double, ptr %own
  %apart = load double, ptr %p
  store double %x, ptr %q
  %overwritten = load double, ptr %p
  %bits = load i64, ptr %p
  %volatile = load volatile double, ptr %p
  %atomic = load atomic double, ptr %p seq_cst, align 8
  %last = load double, ptr %p
  ret double %last
}
"""

POINTERS = """
define double @f(ptr %p, ptr %q, ptr %caller, i64 %n, i1 %c) {
entry:
  %kept = alloca ptr
  %merged = alloca ptr
  %changed = alloca ptr
  %number = alloca i64
  store ptr %p, ptr %kept
  store ptr %p, ptr %merged
  store ptr %p, ptr %changed
  store ptr %p, ptr %caller
  store i64 %n, ptr %number
  br i1 %c, label %then, label %join
then:
  %in.branch = load ptr, ptr %merged
  store ptr %q, ptr %merged
  br label %join
join:
  %after.branch = load ptr, ptr %merged
  %of.caller = load ptr, ptr %caller
  %of.number = load i64, ptr %number
  br label %loop
loop:
  %k = phi i64 [ 0, %join ], [ %next, %loop ]
  %in.loop = load ptr, ptr %kept
  %in.later.iteration = load ptr, ptr %changed
  %element = getelementptr double, ptr %q, i64 %k
  store ptr %element, ptr %changed
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, 4
  br i1 %more, label %loop, label %exit
exit:
  %after.loop = load ptr, ptr %kept
  %of.last.iteration = load ptr, ptr %changed
  %x = load double, ptr %after.loop
  %y = load double, ptr %of.last.iteration
  %z = fadd double %x, %y
  ret double %z
}
"""


def values_in(module):
    function = module.functions["f"]
    normal_form.tidy(function)
    flow = control_flow(function)
    memory = memory_of(module, function, flow)
    dependence = Dependence(Integers(flow, module.types, []))
    return repeated_loads(flow, memory, dependence, flow.order)


def replaced_in(module):
    values = values_in(module)
    for i in module.functions["f"].instructions():
        i.operands = [values.get(o, o) for o in i.operands]


def test_r1_a_load_reads_the_value_that_was_loaded_or_stored_before():
    """LLVM leaves few such loads: those whose subscripts tell two accesses apart."""
    texts = programs(2500, 20, normal=False)
    assert any([assert_same_bits(text, seed, replaced_in) for text, seed in texts])


def test_r1_what_may_be_overwritten_in_between_is_loaded_anew():
    values = {load.name: value.name for load, value in values_in(parse_module(LOADS)).items()}
    repeated = {"again": "first", "stored": "x", "apart": "first"}
    assert {name: values[name] for name in repeated} == repeated
    assert not values.keys() & {"first", "overwritten", "bits"}


def test_r1_pointers_in_local_memory_are_known_in_other_blocks():
    values = {load.name: value.name for load, value in values_in(parse_module(POINTERS)).items()}
    assert values == {"in.branch": "p", "in.loop": "p", "after.loop": "p"}


def test_r2_volatile_and_atomic_loads_are_left_alone():
    values = {load.name: value.name for load, value in values_in(parse_module(LOADS)).items()}
    assert not values.keys() & {"volatile", "atomic"}
    assert not {*values.values()} & {"volatile", "atomic"}
