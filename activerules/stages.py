"""The stages of a compile: how they are run, timed and printed, and how every mode ends.

`ACTIVERULES_DUMP=<stage>` (or `all`) prints what a stage gives.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from activerules.errors import ActiverulesError
from activerules.frame_room import with_room
from activerules.ir.derive.assemble import assemble, verified
from activerules.ir.derive.layout import Layout, make_layout
from activerules.ir.derive.plan import Plan
from activerules.ir.derive.relaxed import reassociate, vectorise
from activerules.ir.explain import render_plan
from activerules.ir.location import Locator
from activerules.ir.model import Function, Instruction, Module
from activerules.ir.printer import print_function, print_module
from activerules.ir.rulecall import RuleCompiler
from activerules.numba_ext.capture import Captured
from activerules.numba_ext.vector_math import vector_forms

T = TypeVar("T")
# what the symbols of a derivative begin with until its text is known
STEM = "activerules.derivative"


@dataclass
class Stages:
    """Names and seconds of the stages of one compile, in order."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def __call__(self, name: str, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run one stage, time it, and print what it gives if that was asked for."""
        start = time.perf_counter()
        result = with_room(function, *args, **kwargs)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        if os.environ.get("ACTIVERULES_DUMP") in {name, "all"}:
            print(f"==== {name} ====\n{_readable(result)}", file=sys.stderr)
        return result


def _readable(result: object) -> str:
    match result:
        case Plan():
            return render_plan(result, make_layout(result))
        case Module():
            return print_module(result)
        case Captured():
            return result.text
        case [[*functions], _, Layout()]:
            return "\n".join(map(print_function, functions))
        case _:
            return str(result)


def locate(error: ActiverulesError, module: Module) -> None:
    """Put the place in the source to the instruction the error is about."""
    if isinstance(error.instruction, Instruction):
        place = Locator(module).of(error.instruction)
        error.where = [
            (label, text, place or at) if label == "at the instruction" else (label, text, at)
            for label, text, at in error.where
        ]


def relax(
    functions: Sequence[Function], declarations: dict[str, str], options: frozenset[str]
) -> None:
    """Give generated functions the freedom that `Mode.fast` allows."""
    if "reassociate" in options:
        reassociate(functions)
    if "vector_math" in options:
        vectorise(functions, vector_forms(), declarations)


def finish(
    stage: Stages,
    captured: Captured,
    module: Module,
    functions: Sequence[Function],
    declarations: dict[str, str],
    options: frozenset[str],
    rules: RuleCompiler,
) -> tuple[str, str]:
    """The text of a derivative, verified, and the name that its symbols begin with: that of the
    function, with a hash of the text.
    """
    relax(functions, declarations, options)
    text = stage("assemble", assemble, module, functions, declarations, whole=False)
    for symbol in captured.marked:
        text = _unmarked(text, symbol, rules)
    stage("verify", verified, text)
    digest = hashlib.sha256(text.encode()).hexdigest()[:20]
    name = f"activerules.{_plain(captured.name)}.{digest}"
    return text.replace(STEM, name), name


def _unmarked(text: str, symbol: str, rules: RuleCompiler) -> str:
    """`text` in which a function that is taken over as it is calls another that has a rule as what
    it is itself.
    """
    name = rf'@"?{re.escape(symbol)}"?(?=\()'
    if not re.search(name, text):
        return text
    primal = rules.call_info(symbol).primal_symbol
    if f"@{primal}(" in text:
        text = re.sub(rf"^declare .*{name}.*\n", "", text, flags=re.MULTILINE)
    return re.sub(name, f"@{primal}", text)


def _plain(name: str) -> str:
    """`name` as a part of a symbol."""
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name)
