"""Sums of cotangents for the windows of a loop, in registers (`analysis.windows`).

Needs       a Plan; a builder at the end of the sweep, and one at its entry
Gives       WindowSums: `add` in place of adding to the shadow of a load, `finish` where the sweep
            leaves the loop
Invariants  U1  after `finish`, the shadows have been added to as without windows, but for the order
            U2  only entries that the primal reads are added to

The sweep visits the iterations last to first, so the cotangents of a load in `arms[k]` belong to an
entry that `arms[-1]` reads `n - 1 - k` iterations earlier. Until then they are kept in as many
variables, which become registers. When the sweep has reversed the first iteration, entries that no
other iteration reads still lack the sums in these variables; `finish` adds them.
"""

from __future__ import annotations

from collections.abc import Callable

from activerules.ir.analysis.windows import Window
from activerules.ir.generate.cotangents import SUM
from activerules.ir.llvm.builder import Builder
from activerules.ir.llvm.model import Block, Instruction, Value
from activerules.ir.plan.plan import Plan


class WindowSums:
    """The sums of one sweep; `add_to_shadow` adds a cotangent to the shadow of a load in a lane."""

    def __init__(
        self,
        plan: Plan,
        entry: Builder,
        here: Builder,
        add_to_shadow: Callable[[Instruction, Value, int], None],
    ) -> None:
        self._plan, self._entry, self._b = plan, entry, here
        self._add_to_shadow = add_to_shadow
        self._arrived: dict[tuple[Instruction, int], Value] = {}
        self._waiting: dict[tuple[Window, int, int], list[Instruction]] = {}

    def add(self, load: Instruction, bar: Value, lane: int) -> None:
        """Add the cotangent of a load; the last of its window passes the sum on."""
        window = self._plan.sums.windows[load]
        self._arrived[load, lane] = bar
        if not all((each, lane) in self._arrived for arm in window.arms for each in arm):
            return
        total: Value | None = None
        for k, arm in enumerate(window.arms):
            bar = self._sum([self._arrived.pop((load, lane)) for load in arm])
            for variable in self._variables(window, k, lane):
                before = self._b.load(bar.type, variable)
                self._b.store(bar, variable)
                bar = before
            total = bar if total is None else self._sum([total, bar])
        assert total is not None
        self._add_to_shadow(window.arms[-1][0], total, lane)

    def finish(self, source: Block, target: Block) -> None:
        """Add the pending sums to the shadows, on the edge from a header to its preheader."""
        for window in dict.fromkeys(self._plan.sums.windows.values()):
            if window.loop.header is source and window.loop.preheader is target:
                for lane in range(self._plan.request.width):
                    self._finish(window, lane)

    def _finish(self, window: Window, lane: int) -> None:
        for j, arm in enumerate(window.arms[:-1]):
            self._add_to_shadow(
                arm[0],
                self._sum(
                    [
                        self._b.load(arm[0].type, self._variables(window, k, lane)[j - k])
                        for k in range(j + 1)
                    ]
                ),
                lane,
            )
        for k in range(len(window.arms)):
            for variable in self._variables(window, k, lane):
                self._b.store(self._b.const(window.arms[0][0].type, 0.0), variable)

    def _sum(self, bars: list[Value]) -> Value:
        total, *others = bars
        for bar in others:
            total = self._b.fadd(total, bar, flags=SUM)
        return total

    def _variables(self, window: Window, k: int, lane: int) -> list[Instruction]:
        """The variables with pending cotangents of `arms[k]`, those of the last iteration first.

        They are zero when the sweep enters the loop.
        """
        key = window, k, lane
        if key not in self._waiting:
            t = window.arms[k][0].type
            self._waiting[key] = [
                self._entry.alloca(t, hint="waiting") for _ in range(len(window.arms) - 1 - k)
            ]
            for variable in self._waiting[key]:
                self._entry.store(self._entry.const(t, 0.0), variable)
        return self._waiting[key]
