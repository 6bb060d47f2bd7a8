"""Loads of what was loaded or stored before in their block: in random programs, and where not."""

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


def test_r2_volatile_and_atomic_loads_are_left_alone():
    values = {load.name: value.name for load, value in values_in(parse_module(LOADS)).items()}
    assert not values.keys() & {"volatile", "atomic"}
    assert not {*values.values()} & {"volatile", "atomic"}
