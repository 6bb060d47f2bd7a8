"""The stages of a compilation: how each is run, timed and printed, and where its errors are.

`ACTIVERULES_DUMP=<stage>` (or `all`) prints the result of a stage; `STAGES` has their names.
"""

from __future__ import annotations

import linecache
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from activerules.errors import ActiverulesError, NoRuleForActivity, RuleError, UnknownCall, Where
from activerules.ir.llvm.location import Locator
from activerules.ir.llvm.model import Instruction, Module
from activerules.ir.llvm.printer import print_function, print_module
from activerules.ir.plan.layout import Layout, make_layout
from activerules.ir.plan.plan import Plan
from activerules.ir.plan.rendering import render_plan
from activerules.numba_ext.codegen.progress import PROGRESS
from activerules.numba_ext.target.call_sites import name_call, name_call_behind
from activerules.numba_ext.target.capture import Captured
from activerules.pipeline.stack_space import with_stack_space
from activerules.pipeline.unserved_calls import missing_halves

T = TypeVar("T")
# the stem of a derivative's symbols until its text is known
STEM = "activerules.derivative"

STAGES = ("capture", "normalise", "parse", "plan", "derive", "assemble", "verify")

_WIDEST = 88


@dataclass
class Stages:
    """The names of the stages of one compilation, of the derivative of `function`, and the seconds
    each took, in order.
    """

    function: str = ""
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def __call__(self, name: str, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run one stage and time it; print its result if `ACTIVERULES_DUMP` asks for it."""
        start = time.perf_counter()
        with PROGRESS.stage(self.function, name):
            result = with_stack_space(function, *args, **kwargs)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        asked = os.environ.get("ACTIVERULES_DUMP")
        if asked in {name, "all"}:
            print(f"==== {name} ====\n{_readable(result)}", file=sys.stderr)
        elif asked and name == STAGES[0] and asked not in STAGES:
            known = f"{', '.join(STAGES)}, all"
            print(f"ACTIVERULES_DUMP={asked} is no stage; there are {known}", file=sys.stderr)
        return result

    def apart(self, name: str, within: str, seconds: float) -> None:
        """Count part of the time of a stage as a stage of its own."""
        self.seconds[within] -= seconds
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds


def _readable(result: object) -> str:
    match result:
        case [[Plan() as plan, *_], _]:
            return render_plan(plan, make_layout(plan))
        case Module():
            return print_module(result)
        case Captured():
            return result.text
        case [[*functions], _, Layout()]:
            return "\n".join(map(print_function, functions))
        case _:
            return str(result)


def locate(error: ActiverulesError, module: Module, captured: Captured) -> None:
    """Add to an error the source line and the call of the instruction that it is about."""
    i = error.instruction
    if not isinstance(i, Instruction):
        return
    locator = Locator(module)
    location = locator.of(i)
    if isinstance(error, RuleError):
        _in_terms_of_user(error, i, location, locator, captured)
    error.where = [place for entry in error.where for place in _in_source(entry, location)]
    if isinstance(error, UnknownCall) and error.names_callee:
        site = captured.call_at(location, i.callee_name)
        if site is not None:
            followed = [call for call in captured.followed if _same_line(call.location, location)]
            name_call(error, site, i.callee_name, followed)
    error.instead = [*missing_halves(captured.followed, location), *error.instead]


def _in_terms_of_user(
    error: RuleError, i: Instruction, location: str, locator: Locator, captured: Captured
) -> None:
    """Make an error about a call in Numba's own code refer to the user's call that leads there."""
    for k, (label, name, at) in enumerate(error.where):
        if label == "at the call" and locator.is_hidden(at.rpartition(":")[0]):
            site = captured.call_at(location, i.callee_name)
            error.where[k] = label, site.name if site is not None else name, location
            if site is not None and isinstance(error, NoRuleForActivity):
                name_call_behind(error, site)


def _in_source(entry: Where, location: str) -> Iterator[Where]:
    """The entry with the source line of its instruction, followed by the LLVM instruction."""
    label, text, at = entry
    if label != "at the instruction":
        yield entry
        return
    file, _, line = location.rpartition(":")
    source = linecache.getline(file, int(line)).strip() if line.isdigit() else ""
    if source:
        yield "at the line", _shortened(source), location
        yield "in LLVM IR", _shortened(text), ""
    else:
        yield label, _shortened(text), location or at


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]} …"


def _same_line(left: str, right: str) -> bool:
    return os.path.abspath(left) == os.path.abspath(right)
