"""Whether a rewrite of the engine changes what random programs compute: it may not, in any bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np

from activerules.ir.llvm.model import Module
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.normal import normal_form
from activerules.ir.text.normalise import canonical, exposed, normalise
from tests.ir.harness import compile_text
from tests.ir.random_programs import Generator, TooLong, evaluate, lower, make_inputs


def programs(
    first: int, count: int, *, idioms: bool = False, normal: bool = True
) -> Iterator[tuple[str, int]]:
    """Texts of random programs that end, and the seed of the inputs to run each on.

    normal  whether LLVM has optimised them
    """
    for number in range(first, first + count):
        rng = random.Random(number)
        while True:
            program = Generator(rng, idioms=idioms).program(12)
            seed = rng.randrange(1 << 30)
            try:
                evaluate(program, make_inputs(seed))
            except (TooLong, OverflowError):
                continue
            break
        text = exposed(canonical(lower(program, idioms=idioms)))
        yield normalise(text, "f") if normal else text, seed


def bits_left_by(text: str, seed: int) -> list[bytes]:
    """The bits of the result of `f`, and of the arrays it leaves behind."""
    inputs = make_inputs(seed)
    arrays = [inputs.a.copy(), inputs.b.copy(), np.array(inputs.index)]
    addresses = [array.ctypes.data for array in arrays]
    result = compile_text(text, None).function("f")(*addresses, inputs.n, inputs.x, inputs.y)
    return [np.float64(result).tobytes(), *(array.tobytes() for array in arrays)]


def assert_same_bits(text: str, seed: int, rewrite: Callable[[Module], object]) -> bool:
    """Whether the rewrite changed the text; the bits may not change."""
    module = parse_module(text)
    normal_form.tidy(module.functions["f"])
    before = print_module(module)
    rewrite(module)
    after = print_module(module)
    if after != before:
        assert bits_left_by(after, seed) == bits_left_by(before, seed)
    return after != before
