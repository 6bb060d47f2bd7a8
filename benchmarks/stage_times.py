"""Where the processor time of a compilation goes: by the stages of the pipeline, and LLVM.

A stage that runs within another one counts for itself: a rule that is compiled while the plan is
made is not part of the plan, and LLVM is LLVM wherever it runs, but in `normalise`.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from numba.core.codegen import CPUCodeLibrary

from activerules.numba_ext.codegen.unoptimised import ADCodeLibrary
from activerules.pipeline.stages import Stages

# what the pipeline calls its stages, by the name in the report
REPORTED = {
    "capture": "capture",
    "normalise": "normalise",
    "parse": "parse",
    "plan": "plan",
    "derive": "generate",
    "assemble": "assemble",
    "verify": "assemble",
}
LLVM, REST = "LLVM", "rest"
NAMES = (*dict.fromkeys(REPORTED.values()), LLVM, REST)


class Clock:
    """Processor seconds by name, each without what ran inside it under another name."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(NAMES, 0.0)
        self._running = [REST]
        self._since = time.process_time()

    def _switch(self) -> None:
        now = time.process_time()
        self.seconds[self._running[-1]] += now - self._since
        self._since = now

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        """Count what runs inside under this name."""
        self._switch()
        self._running.append(name)
        try:
            yield
        finally:
            self._switch()
            self._running.pop()

    def stopped(self) -> dict[str, float]:
        """The seconds up to now."""
        self._switch()
        return self.seconds


def timed(call: Callable[[], object]) -> dict[str, float]:
    """Processor seconds of a call by stage."""
    clock = Clock()
    run_stage, finalize = Stages.__call__, CPUCodeLibrary.finalize

    def stage(self, name, function, *args, **kwargs):
        with clock.within(REPORTED[name]):
            return run_stage(self, name, function, *args, **kwargs)

    def finalised(self):
        if isinstance(self, ADCodeLibrary):  # which LLVM only links: a part of capture
            return finalize(self)
        with clock.within(LLVM):
            return finalize(self)

    with (
        patch.object(Stages, "__call__", stage),
        patch.object(CPUCodeLibrary, "finalize", finalised),
    ):
        call()
    return clock.stopped()
