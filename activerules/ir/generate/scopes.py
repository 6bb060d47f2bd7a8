"""Alias scopes: metadata that tells LLVM which accesses of the sweeps cannot overlap, so that loops
vectorise without checks at run time.

Three kinds of memory never overlap: that of the primal, shadows, and the tape (frame and rows); nor
do the shadows of different lanes. For arguments, the callers' checks establish this (no shadow
overlaps a primal); for memory it allocates, the engine. Within the primal, and within the shadows
of a lane, two regions do not overlap if they are known to be disjoint: memory the function
allocated, and arguments if `Caller.separate`. docs/decisions/0005-aliasing.md gives the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable

from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.plan.facts import Facts

# the numbers of the lines, above those of the source; each plan of a module has its own range
_BASE = 7_000_000
_EACH = 1_000_000
_MOST = 40
_TOGETHER = MemoryObject("argument", "memory that may overlap other memory of its kind")


class Scopes:
    """The scopes of one derivative; `definitions` are the lines of metadata that define them.

    lanes   the number of lanes, whose shadows do not overlap
    """

    def __init__(self, facts: Facts, lanes: int = 1) -> None:
        # memory reached through a pointer in an argument may be part of another argument
        reached = any(o.kind == "loaded" for o in facts.memory.all_objects)
        self._separate = facts.request.caller.separate and not reached
        caller, callee = facts.request.caller, facts.request.callee
        number = callee.number if callee else 0 if caller.disjoint else -1
        self._next = _BASE + _EACH * number
        self.definitions: dict[str, str] = {}
        self._domain = self._define("distinct !{SELF}")
        self._tape = self._scope()
        self._primals = self._scopes(facts.memory.all_objects)
        self._shadows = [self._scopes(facts.activity.active_memory) for _ in range(lanes)]
        self._all_shadows = [scope for lane in self._shadows for scope in lane.values()]
        self.tape_access = self._access([self._tape], [*self._primals.values(), *self._all_shadows])
        self._fixed: str | None = None
        self._accesses: dict[tuple[int | None, frozenset[MemoryObject]], str] = {}

    def primal_access(self, objects: Iterable[MemoryObject]) -> str:
        """The metadata of an access to memory of the primal, in one of `objects`."""
        return self._of(None, objects)

    def shadow_access(self, objects: Iterable[MemoryObject], lane: int) -> str:
        """The metadata of an access to the shadow of one of `objects`."""
        return self._of(lane, objects)

    @property
    def fixed(self) -> str:
        """The metadata of a load from memory that never changes."""
        if self._fixed is None:
            self._fixed = f", !invariant.load {self._define('!{}')}"
        return self._fixed

    def loop(self, *, serial: bool = False) -> str:
        """The metadata of the back edge of a new loop.

        Loops whose length is known only at run time are not unrolled: most are vectorised, and for
        the others unrolling made no measurable difference, but took a third of the compile time.
        The exception are inner loops that carry a float from one iteration to the next (`serial`):
        LLVM spills it around a call, twice per iteration (log-sum-exp: 1.6 times its primal, 1.3
        if unrolled).
        """
        if serial:
            return ""
        choice = self._define('!{!"llvm.loop.unroll.runtime.disable"}')
        return f", !llvm.loop {self._define(f'distinct !{{SELF, {choice}}}')}"

    def _of(self, lane: int | None, objects: Iterable[MemoryObject]) -> str:
        kind = self._primals if lane is None else self._shadows[lane]
        mine = frozenset(self._region(o) for o in objects).intersection(kind)
        if not mine:
            return ""
        if (lane, mine) not in self._accesses:
            own = [scope for region, scope in kind.items() if region in mine]
            everything = [self._tape, *self._primals.values(), *self._all_shadows]
            # a scope that several regions share is left out by `_access` where it is in `own`
            self._accesses[lane, mine] = self._access(own, everything)
        return self._accesses[lane, mine]

    def _scopes(self, objects: Iterable[MemoryObject]) -> dict[MemoryObject, str]:
        """A scope per region; regions that may overlap, or are too many, share one."""
        regions = dict.fromkeys(self._region(o) for o in sorted(objects, key=repr))
        alone = [region for region in regions if region != _TOGETHER]
        if len(alone) > _MOST:
            alone = []
        shared = self._scope()
        scopes = {region: self._scope() if region in alone else shared for region in regions}
        return scopes | {_TOGETHER: scopes.get(_TOGETHER, shared)}

    def _region(self, memory: MemoryObject) -> MemoryObject:
        """The object, or the representative of all objects that may overlap it."""
        alone = memory.is_local or (memory.kind == "argument" and self._separate)
        return memory if alone else _TOGETHER

    def _define(self, body: str) -> str:
        name = f"!{self._next}"
        self._next += 1
        self.definitions[name] = f"{name} = {body.replace('SELF', name)}"
        return name

    def _scope(self) -> str:
        return self._define(f"distinct !{{SELF, {self._domain}}}")

    def _access(self, scopes: Iterable[str], disjoint: Iterable[str]) -> str:
        own = dict.fromkeys(scopes)
        inside = self._define(f"!{{{', '.join(own)}}}")
        outside = self._define(
            f"!{{{', '.join(s for s in dict.fromkeys(disjoint) if s not in own)}}}"
        )
        return f", !alias.scope {inside}, !noalias {outside}"
