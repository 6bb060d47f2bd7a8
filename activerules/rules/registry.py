"""The registry of rules, and the lookup of the one that serves a call.

Needs       rules as written: a function, a pattern per argument and one for the result
Gives       `find`, `find_forward`: the most specific rule for Numba types and activities; `epoch`:
            grows with each change of an answer that was given
Invariants  R1  no two rules of a function tie: the second is refused, and nothing changes
            R2  a lookup returns a whole pair or raises; it never falls back to the body
            R3  an activity is lowered (a Const argument passed to a rule for more) only if no rule
                fits as it is
            R4  rules of users and of the library never tie: a user's wins
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from activerules.annotations.activity import BY_NAME, Const
from activerules.errors import NoRuleForActivity, RuleError
from activerules.rules import pattern as patterns
from activerules.rules.choose import (
    RuleQuery,
    choose,
    choose_forward,
    chooses_body,
    element_count,
    is_for_types,
    prefers_body,
    serves_elements,
    takes,
    waits_for_activities,
)
from activerules.rules.consistent import (
    may_replace,
    refuse_dormant,
    refuse_other_package,
    refuse_other_parameters,
    refuse_silencing,
)
from activerules.rules.fingerprint import digest, engine, written_rule
from activerules.rules.nearest import missed_by, near_miss
from activerules.rules.pattern import Pattern
from activerules.rules.rule import (
    RESULT,
    DataPaths,
    ForwardRule,
    Half,
    Kind,
    Rule,
    RuleHalf,
    RulePair,
    display_name,
    is_generic,
    is_of_library,
    parameters_of,
)
from activerules.rules.ties import key_of, refuse_foreign, refuse_ties


@dataclass
class _Entry:
    """All declarations about one function; it keeps the function alive, as its id is the key."""

    function: Any
    rules: dict[Half, list[Rule]] = field(default_factory=dict[Half, list[Rule]])
    inactive: str | None = None  # the module that declares it
    inactive_arguments: set[str | int] = field(default_factory=set[str | int])
    noalias: bool = False
    refusal: str = ""
    opted_out: list[tuple[Pattern, ...] | None] = field(default_factory=lambda: [])
    by_body: set[Half] = field(default_factory=set[Half])  # modes in which its body is right
    recomputed: Rule | None = None

    @property
    def is_inactive(self) -> bool:
        """Whether the whole function was declared to carry no derivative."""
        return self.inactive is not None

    def all_rules(self) -> tuple[Rule, ...]:
        """Its rules in the order of their definition."""
        return tuple(rule for group in self.rules.values() for rule in group)

    def written(self) -> list[str]:
        """All declarations as text, for the fingerprint."""
        name = display_name(self.function)
        stopped = sorted(map(str, self.inactive_arguments))
        facts = (self.is_inactive, stopped, self.noalias, self.refusal, sorted(self.by_body))
        out = [None if s is None else [*map(patterns.show, s)] for s in self.opted_out]
        rules = [written_rule(rule) for rule in self.all_rules()]
        return [f"{name} {facts} {out}", *rules]


@dataclass(frozen=True)
class Treatment:
    """How a call of a registered function is differentiated.

    kept         by a rule: the call is kept; otherwise its body is differentiated
    inactive     positions of the arguments whose derivatives stop at the body
    reason       why the body is differentiated
    missed       the user's rule that comes nearest to the call, and why it does not serve it, or ""
    elementwise  the body calls, for each element, a function served by a rule for numbers
    """

    kept: bool
    inactive: frozenset[int] = frozenset()
    reason: str = ""
    elementwise: bool = False
    missed: str = ""


class Registry:
    """Rules by function: dispatchers, NumPy functions, operators, ctypes pointers. Thread safe."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._lock = threading.RLock()
        self._epoch = 0
        self._asked: set[int] = set()
        self._of_users: set[int] = set()
        self._inactive_types: list[Any] = []
        self._recomputation: Callable[[Any], Rule] | None = None
        self.debug: Any = None

    @property
    def epoch(self) -> int:
        """The version of the rules; code compiled under another epoch is stale.

        It grows when the declarations about a function change that was looked up since it last
        grew: only then can compiled code depend on them. In debug mode it is negative.
        """
        if self.debug is None:
            return self._epoch
        return -(4 * self._epoch + 2 * self.debug.primal + self.debug.derivatives + 4)

    @property
    def fingerprint(self) -> str:
        """A digest of all rules and declarations and of the engine, for the disk cache.

        Declarations by activerules itself are covered by its files, whether they are loaded or not.
        Computed each time: values that rules read may have changed.
        """
        with self._lock:
            entries = (e for key, e in self._entries.items() if key in self._of_users)
            parts = [engine(), str(self.debug), *map(str, self._inactive_types)]
            return digest([*parts, *(part for entry in entries for part in entry.written())])

    def carries_rule(self, function: object) -> bool:
        """Whether calls of `function` may be kept: it has a reverse rule, or is declared inactive
        in whole or in part.
        """
        return self._carries(function, "reverse")

    def carries_forward_rule(self, function: object) -> bool:
        """Like `carries_rule`, for forward mode: a reverse pair does not count."""
        return self._carries(function, "forward")

    def _carries(self, function: object, mode: Half) -> bool:
        entry = self._entry(function)
        if entry is None:
            return False
        declared = (entry.is_inactive, entry.inactive_arguments, entry.refusal)
        return any(declared) or bool(entry.rules.get(mode))

    def treatment(
        self,
        function: object,
        names: Sequence[str],
        argtypes: Sequence[Any],
        mode: Half = "reverse",
        returned: Any = None,
    ) -> Treatment:
        """How a call is differentiated, by the names and types of its arguments, and the type of
        its result as far as that is known.
        """
        entry = self._entry(function)
        if entry is None or entry.is_inactive:
            return Treatment(kept=entry is not None)
        every = entry.rules.get(mode, [])
        parameters = parameters_of(function)
        rules = [rule for rule in every if takes(rule, names, parameters)]
        inactive = self.inactive_arguments(function, names)
        forward = mode == "forward"
        count = element_count(function)  # `out` comes after these
        for_elements = [rule for rule in every if takes(rule, names[:count], parameters)]
        if not inactive and serves_elements(
            function, for_elements, entry.opted_out, argtypes, forward=forward
        ):
            return Treatment(False, reason="its rule for numbers", elementwise=True)
        missed = ""
        if (rules or entry.refusal) and prefers_body(entry.opted_out, rules, argtypes):
            if waits_for_activities(function, entry.opted_out, argtypes):
                return Treatment(kept=True)
            reason = "opt_out"
        elif entry.refusal:
            return Treatment(kept=True)
        elif every and is_generic(function) and not is_for_types(rules, argtypes, forward=forward):
            types = (*argtypes, returned)
            call = RuleQuery("", types, (), forward, tuple(names), parameters)
            missed = near_miss([rule for rule in every if not rule.of_library], call)
            reason = missed or "no rule is for these types"
        elif every:
            return Treatment(kept=True)
        else:
            reason = "it has no rule"
        return Treatment(False, inactive, reason, missed=missed)

    def is_opted_out(
        self, function: object, argtypes: Sequence[Any], mode: Half = "reverse"
    ) -> bool:
        """Whether the rules of a function were opted out of for arguments of these types."""
        entry = self._entry(function)
        if entry is None or waits_for_activities(function, entry.opted_out, argtypes):
            return False
        return prefers_body(entry.opted_out, entry.rules.get(mode, []), argtypes)

    def is_inactive(self, function: object) -> bool:
        """Whether the whole function was declared inactive."""
        entry = self._entry(function)
        return entry is not None and entry.is_inactive

    def inactive_arguments(self, function: object, names: Sequence[str]) -> frozenset[int]:
        """The positions of the arguments (called `names`) that were declared inactive."""
        entry = self._entry(function)
        declared = entry.inactive_arguments if entry is not None else ()
        return frozenset(i for i, name in enumerate(names) if i in declared or name in declared)

    def is_noalias(self, function: object) -> bool:
        """Whether results of the function were promised never to share memory with arguments."""
        entry = self._entry(function)
        return entry is not None and entry.noalias

    def is_inactive_type(self, ty: Any) -> bool:
        """Whether values of a Numba type were declared to carry no derivative."""
        return any(patterns.admits(declared, ty) for declared in self._inactive_types)

    def data_paths(self, function: object) -> DataPaths:
        """How data bypasses the arguments of a function, as declared by all of its rules."""
        halves = [h for rule in self.rules_for(function) for h in rule.halves.values()]
        sent = {h.argument_names.index(name) for h in halves for name in h.sends or ()}
        received = [(h, name) for h in halves for name in h.receives or ()]
        return DataPaths(
            frozenset(sent),
            frozenset(h.argument_names.index(name) for h, name in received if name != RESULT),
            any(name == RESULT for _, name in received),
            any(h.sends is not None or h.receives is not None for h in halves),
        )

    def is_of_user(self, function: object) -> bool:
        """Whether a function has a rule that is not the library's."""
        rules = self.rules_for(function)
        return any(not is_of_library(h.module) for rule in rules for h in rule.halves.values())

    def is_declared(self, function: object) -> bool:
        """Whether anything but the library declares anything about a function."""
        return _identity(function) in self._of_users

    def rules_for(self, function: object) -> tuple[Rule, ...]:
        """The rules of a function in the order of their definition."""
        entry = self._entry(function)
        return () if entry is None else entry.all_rules()

    def functions(self) -> list[Any]:
        """Every function that has rules or declarations."""
        with self._lock:
            return [entry.function for entry in self._entries.values()]

    def add(self, function: Any, which: Half, rule: Rule, half: RuleHalf, replace: bool) -> None:
        """Add one half of a rule; `rule` holds its name and patterns.

        A half of the same signature is replaced if it is from the same module or `replace` is set.
        `AmbiguousRule` (and no change) if it ties with another rule.
        """
        with self._lock:
            entry = self._entries.get(_identity(function)) or _Entry(function)
            group = entry.rules.setdefault("forward" if which == "forward" else "reverse", [])
            equals = [r for r in group if r.of_library == is_of_library(half.module)]
            same = next((r for r in equals if key_of(r) == key_of(rule)), None)
            if same is None:
                refuse_ties(rule, half, equals)
            elif which in same.halves:
                refuse_foreign(same.halves[which], half, rule, replace)
            _refuse_misfit(entry, same or rule, which, half, replace)
            if same is None:
                group.append(rule)
                same = rule
            same.halves[which] = half
            entry.inactive = None  # the later declaration wins
            self._entries[_identity(function)] = entry
            self._changed(function, half.module)

    def attach(self, function: Any, which: Half, rule: Rule, half: RuleHalf) -> None:
        """Add a rule of a new function, which no compiled code calls yet: the epoch stays."""
        with self._lock:
            entry = self._entries.setdefault(_identity(function), _Entry(function))
            group = entry.rules.setdefault("forward" if which == "forward" else "reverse", [])
            if not group:
                group.append(rule)
            group[0].halves[which] = half

    def declare_inactive(
        self,
        function: Any,
        arguments: Iterable[str | int] | None,
        module: str = "",
        *,
        replace: bool = False,
    ) -> None:
        """Declare a function (or, with `arguments`, some of its arguments) to carry no
        derivative.

        `AmbiguousRule` if the declaration, in `module`, would disable another package's rules,
        unless `replace` is set.
        """
        with self._lock:
            entry = self._entries.setdefault(_identity(function), _Entry(function))
            if arguments is None:
                for rule in () if replace else entry.all_rules():
                    if not all(may_replace(module, h.module) for h in rule.halves.values()):
                        refuse_silencing(display_name(function), rule, module)
                entry.inactive = module
            else:
                entry.inactive_arguments.update(arguments)
            self._changed(function, module)

    def declare_inactive_type(self, declared: Any) -> None:
        """Declare a Numba type, or a class of them, to carry no derivative."""
        with self._lock:
            self._inactive_types.append(declared)
            self._begin_epoch()

    def refuse(self, function: Any, why: str) -> None:
        """Keep the calls of a function whose body must not be differentiated: those that no rule
        serves are refused, with the reason `why`. Only activerules itself declares this.
        """
        with self._lock:
            self._entries.setdefault(_identity(function), _Entry(function)).refusal = why
            self._changed(function, __name__)

    def promise_noalias(self, function: Any) -> None:
        """Assume, without a check, that results of a function are new memory."""
        with self._lock:
            self._entries.setdefault(_identity(function), _Entry(function)).noalias = True
            self._changed(function)

    def opt_out(self, function: Any, signature: tuple[Pattern, ...] | None) -> None:
        """Differentiate the body of a function in calls whose types fit the signature."""
        with self._lock:
            entry = self._entries.setdefault(_identity(function), _Entry(function))
            entry.opted_out.append(signature)
            self._changed(function)

    def recompute_with(self, make_rule: Callable[[Any], Rule]) -> None:
        """Set the function that makes a rule for a function with inactive arguments and no rule."""
        self._recomputation = make_rule

    def find(
        self,
        function: Any,
        argument_types: Sequence[Any],
        return_type: Any,
        activities: Sequence[str | Kind],
        result_activity: str | Kind,
        names: Sequence[str] = (),
    ) -> RulePair:
        """The most specific pair for a call.

        Raises `NoRuleForActivity`, `IncompleteRule`, and `AmbiguousRule` if activities can be
        lowered for two rules equally well.
        """
        types = (*argument_types, return_type)
        kinds, given = _kinds(*activities, result_activity), (tuple(names), parameters_of(function))
        call = RuleQuery(display_name(function), types, kinds, False, *given)
        with self._lock, self._with_reason(function):
            rules = self._rules_of(function, "reverse", call)
            chosen = choose(rules, call)
        beside = self._of_other_mode(function, "reverse")
        return replace(chosen, beside=beside, missed=missed_by(rules, call, chosen))

    def find_forward(
        self,
        function: Any,
        argument_types: Sequence[Any],
        return_type: Any,
        activities: Sequence[str | Kind],
        result_activity: str | Kind,
        width: int = 1,
        names: Sequence[str] = (),
    ) -> ForwardRule | None:
        """The most specific forward rule for a call with `width` tangents; None if the function has
        no forward rule at all.

        Activities are Const and Duplicated, also of floats. Raises as `find` does.
        """
        types = (*argument_types, return_type)
        kinds = _kinds(*activities, result_activity)
        given = (tuple(names), parameters_of(function))
        call = RuleQuery(display_name(function), types, kinds, True, *given)
        with self._lock, self._with_reason(function) as reason:
            rules = self._rules_of(function, "forward", call)
            chosen = choose_forward(rules, call, width) if rules or reason else None
        if chosen is None:
            return None
        beside = self._of_other_mode(function, "forward")
        return replace(chosen, beside=beside, missed=missed_by(rules, call, chosen))

    def _of_other_mode(self, function: Any, which: Half) -> str:
        """The location of a user's rule for the other mode, if there is none for this one."""
        users = {
            half: each.location
            for rule in self.rules_for(function)
            for half, each in rule.halves.items()
            if not is_of_library(each.module)
        }
        other: Half = "forward" if which == "reverse" else "reverse"
        return "" if which in users else users.get(other, "")

    @contextmanager
    def _with_reason(self, function: Any) -> Generator[str]:
        """Let a `NoRuleForActivity` say why the body is not differentiated instead."""
        entry = self._entry(function)
        reason = "" if entry is None else entry.refusal
        try:
            yield reason
        except NoRuleForActivity as error:
            error.why = reason or error.why
            raise

    def find_behind(
        self,
        function: Any,
        argument_types: Sequence[Any],
        return_type: Any,
        activities: Sequence[str | Kind],
        result_activity: str | Kind,
    ) -> tuple[RuleQuery, RulePair]:
        """The call as seen in forward mode, and the pair that serves it in reverse mode.

        Activities are those of `find_forward`; it raises as `find` does.
        """
        types = (*argument_types, return_type)
        kinds = _kinds(*activities, result_activity)
        asked = RuleQuery(display_name(function), types, kinds)
        reverse = replace(
            asked,
            kinds=tuple(
                Const if kind is Const else asked.lowered(ty)
                for kind, ty in zip(kinds, types, strict=True)
            ),
        )
        with self._lock:
            return asked, choose(self._rules_of(function, "reverse", reverse), reverse)

    def lacks_forward(self, function: object) -> bool:
        """Whether a function has a user's reverse pair and no forward rule, and its body was not
        declared right in forward mode.
        """
        return self._lacks(function, "forward", "reverse")

    def lacks_reverse(self, function: object) -> bool:
        """Whether a function has a user's forward rule and no reverse pair, and its body was not
        declared right in reverse mode.
        """
        return self._lacks(function, "reverse", "forward")

    def _lacks(self, function: object, mode: Half, other: Half) -> bool:
        entry = self._entry(function)
        if entry is None or entry.inactive or entry.refusal or mode in entry.by_body:
            return False
        own = not entry.rules.get(mode) and self.is_of_user(function)
        return own and bool(entry.rules.get(other))

    def follow_in(self, mode: Half, function: Any) -> None:
        """Declare that differentiating the body of a function is right in a mode."""
        with self._lock:
            self._entries.setdefault(_identity(function), _Entry(function)).by_body.add(mode)
            self._changed(function)

    def _rules_of(self, function: Any, which: Half, call: RuleQuery) -> list[Rule]:
        """The rules that may serve a call: those of the function, or its body as a rule."""
        entry = self._entry(function)
        if entry is None:
            return []
        rules = entry.rules.get(which, [])
        if not rules:
            return self._recomputed(entry) if entry.inactive_arguments else []
        if waits_for_activities(function, entry.opted_out, call.types[:-1]) and chooses_body(
            entry.opted_out, rules, call
        ):
            return self._recomputed(entry)
        return rules

    def _recomputed(self, entry: _Entry) -> list[Rule]:
        if self._recomputation is None:
            return []
        if entry.recomputed is None:
            entry.recomputed = self._recomputation(entry.function)
        return [entry.recomputed]

    def _entry(self, function: object) -> _Entry | None:
        """The declarations about a function, for an answer that compiled code may depend on."""
        key = _identity(function)
        self._asked.add(key)  # first: see `_changed`
        return self._entries.get(key)

    def _changed(self, function: object, module: str = "") -> None:
        """Begin an epoch if compiled code may depend on a function that a module has just declared
        something about. A concurrent lookup is either seen here or gets the new answer.
        """
        if not is_of_library(module):
            self._of_users.add(_identity(function))
        if _identity(function) in self._asked:
            self._begin_epoch()

    def _begin_epoch(self) -> None:
        self._asked.clear()  # first: lookups in the new epoch must not be forgotten
        self._epoch += 1


RULES = Registry()
"""The one registry that the decorators of `rules.define` fill."""


def _identity(function: Any) -> int:
    """The key of a function; a dispatcher and its Python function are the same function."""
    return id(getattr(function, "py_func", function))


def _kinds(*activities: str | Kind) -> tuple[Kind, ...]:
    return tuple(BY_NAME[a] if isinstance(a, str) else a for a in activities)


def _refuse_misfit(entry: _Entry, rule: Rule, which: Half, half: RuleHalf, replace: bool) -> None:
    """Refuse a half that contradicts earlier declarations; with `replace` they are dropped."""
    try:
        refuse_other_package(rule, which, half)
        refuse_other_parameters(rule, which, half)
    except RuleError:
        if not replace:
            raise
        rule.halves.clear()
    if not (replace or entry.inactive is None or may_replace(half.module, entry.inactive)):
        refuse_dormant(rule.name, half, entry.inactive)
