"""From normalised text to the parsed module that the analyses start from."""

from __future__ import annotations

from collections.abc import Iterator

from activerules.ir.llvm.model import Module
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.normal.carried import uncarry
from activerules.ir.normal.comparisons import restore_comparisons
from activerules.ir.normal.devirtualise import devirtualise
from activerules.ir.normal.float_bits import restore_floats
from activerules.ir.normal.growing_stack import from_heap
from activerules.ir.normal.index_nests import nest_indices
from activerules.ir.normal.last_choices import compute_after
from activerules.ir.normal.one_entry import enter_once
from activerules.ir.normal.one_exit import leave_once
from activerules.ir.normal.promises import keep_promises
from activerules.ir.normal.scalarise import scalarise
from activerules.ir.normal.short_axes import plain_subscripts
from activerules.ir.normal.struct_copies import move_structs
from activerules.ir.normal.two_iterations import count_again
from activerules.ir.text.normalise import simple_loops


def read_module(text: str, function: str) -> Module:
    """Parse the result of `normalise(…, function)`, and apply the last rewrites of the normal form.

    Cycles get a single entry, equal exits of loops become one, loops over indices become nests,
    loops that run twice count their iterations, hidden comparisons are restored, stack memory of
    variable size moves to the heap, calls through pointers become calls by name, aggregates become
    scalars, integers that hold floats become floats, or copies of memory, what loops only carry
    along leaves them, subscripts become plain, and what loops only compare is computed after them.
    Calls that access no memory are marked.
    """
    module = parse_module(text)
    changed = [enter_once(module), leave_once(module), nest_indices(module)]
    if any(changed):
        module = parse_module(simple_loops(print_module(module)))
    count_again(module)
    restore_comparisons(module)
    from_heap(module)
    devirtualise(module)
    scalarise(module, function if function in module.functions else f'"{function}"')
    restore_floats(module)
    move_structs(module)
    uncarry(module)
    plain_subscripts(module)
    compute_after(module)
    keep_promises(module)
    return module


def copies_of(module: Module, text: str, function: str) -> Iterator[Module]:
    """`module` first, then read again each time: a plan rewrites the module it is made from."""
    yield module
    while True:
        yield read_module(text, function)
