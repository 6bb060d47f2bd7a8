"""Floats that random programs copy as integers, retyped."""

import random

import pytest

from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.rewrite.retype import retype_float_copies
from activerules.ir.text.normalise import canonical, exposed, normalise
from tests.ir.analysis.types.test_value_types import _types, _with_copies
from tests.ir.random_programs import Generator, TooLong, evaluate, lower, make_inputs
from tests.ir.same_results import assert_same_bits

USED_OTHERWISE = """
define i64 @f(ptr %a, ptr %b) {
  %x = load double, ptr %a
  store double %x, ptr %b
  %bits = load i64, ptr %a
  store i64 %bits, ptr %b
  %more = add i64 %bits, 1
  ret i64 %more
}
"""


def rewrite(module):
    function = module.functions["f"]
    return retype_float_copies(function, _types(module, function))


@pytest.mark.parametrize("block", range(3))
def test_t1_every_value_has_the_bits_it_had(block):
    rng, changed, found = random.Random(block), 0, 0
    while found < 10:
        program = _with_copies(Generator(rng, idioms=True))
        seed = rng.randrange(1 << 30)
        try:
            evaluate(program, make_inputs(seed))
        except (TooLong, OverflowError):
            continue
        found += 1
        text = normalise(exposed(canonical(lower(program, idioms=True))), "f")
        changed += assert_same_bits(text, seed, rewrite)
    assert changed


def test_t2_loads_with_other_uses_are_left_alone():
    module = parse_module(USED_OTHERWISE)
    assert not rewrite(module)
    assert print_module(module) == print_module(parse_module(USED_OTHERWISE))
    alone = parse_module(USED_OTHERWISE.replace("i64 %more", "i64 0"))
    assert not rewrite(alone)
    function = alone.functions["f"]
    for block in function.blocks:
        block.instructions = [i for i in block.instructions if i.name != "more"]
    assert rewrite(alone)
