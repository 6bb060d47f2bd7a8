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
from dataclasses import replace
from typing import Any

from activerules.annotations.activity import BY_NAME, Const
from activerules.callables import display_name, parameters_of
from activerules.errors import NoRuleForActivity, RuleError
from activerules.rules import pattern as patterns
from activerules.rules.choose import RuleQuery, choose, choose_forward
from activerules.rules.consistent import (
    may_replace,
    refuse_dormant,
    refuse_other_package,
    refuse_other_parameters,
    refuse_silencing,
)
from activerules.rules.declarations import Declarations
from activerules.rules.fingerprint import digest, engine
from activerules.rules.nearest import missed_by
from activerules.rules.pattern import Pattern
from activerules.rules.pickled import Declared, declared, identity, lost, mark, note_missing
from activerules.rules.rule import (
    DataPaths,
    ForwardRule,
    Half,
    Kind,
    Rule,
    RuleHalf,
    RulePair,
    is_of_library,
)
from activerules.rules.ties import key_of, redefined_by, refuse_foreign, refuse_ties
from activerules.rules.treatment import (
    Treatment,
    chooses_body,
    is_of_users,
    prefers_body,
    treatment_of,
    waits_for_activities,
)


class Registry:
    """Rules by function: dispatchers, NumPy functions, operators, ctypes pointers. Thread safe."""

    def __init__(self) -> None:
        self._entries: dict[int, Declarations] = {}
        self._lock = threading.RLock()
        self._epoch = 0
        self._looked_up: set[int] = set()
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

    def carries_rule(self, function: object, mode: Half = "reverse") -> bool:
        """Whether calls of `function` may be kept in a mode: it has a rule for that mode, or is
        declared inactive in whole or in part.
        """
        return self._entry(function).carries(mode)

    def uses_body(self, function: object, mode: Half = "reverse") -> bool:
        """Whether every call of `function` is differentiated by its body in a mode: it has nothing
        for that mode, or was opted out of it.
        """
        entry = self._entry(function)
        return not entry.carries(mode) or entry.is_opted_out

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
        return treatment_of(self._entry(function), function, names, argtypes, mode, returned)

    def is_opted_out(
        self, function: object, argtypes: Sequence[Any], mode: Half = "reverse"
    ) -> bool:
        """Whether the rules of a function, or that it is inactive, were opted out of for arguments
        of these types.
        """
        entry = self._entry(function)
        if entry.is_inactive:
            return prefers_body(entry.opted_out, (), argtypes)
        if waits_for_activities(function, entry.opted_out, argtypes):
            return False
        return prefers_body(entry.opted_out, entry.in_mode(mode), argtypes)

    def is_inactive(self, function: object) -> bool:
        """Whether the whole function was declared inactive."""
        return self._entry(function).is_inactive

    def inactive_arguments(self, function: object, names: Sequence[str]) -> frozenset[int]:
        """The positions of the arguments (called `names`) that were declared inactive."""
        return self._entry(function).inactive_positions(names)

    def is_noalias(self, function: object) -> bool:
        """Whether results of the function were promised never to share memory with arguments."""
        return self._entry(function).noalias

    def is_inactive_type(self, ty: Any) -> bool:
        """Whether values of a Numba type were declared to carry no derivative."""
        return any(patterns.admits(declared, ty) for declared in self._inactive_types)

    def data_paths(self, function: object) -> DataPaths:
        """How data bypasses the arguments of a function, as declared by all of its rules."""
        return self._entry(function).data_paths()

    def is_of_user(self, function: object) -> bool:
        """Whether a function has a rule that is not the library's."""
        return self._entry(function).is_of_user

    def is_declared(self, function: object, argtypes: Sequence[Any]) -> bool:
        """Whether anything but the library's rules may serve calls with these types, or keep
        derivatives from them.
        """
        return identity(function) in self._of_users and is_of_users(self._entry(function), argtypes)

    def rules_for(self, function: object) -> tuple[Rule, ...]:
        """The rules of a function in the order of their definition."""
        return self._entry(function).all_rules()

    def functions(self) -> list[Any]:
        """Every function that has rules or declarations."""
        with self._lock:
            return [entry.function for entry in self._entries.values()]

    def add(self, function: Any, which: Half, rule: Rule, half: RuleHalf, replace: bool) -> None:
        """Add one half of a rule; `rule` holds its name and patterns.

        A half of the same signature is replaced if it is from the same module or `replace` is set,
        and so is a rule for all activities by another one for the same types.
        `AmbiguousRule` (and no change) if it ties with another rule.
        """
        with self._lock:
            entry = self._entries.get(identity(function)) or Declarations(function)
            group = entry.group_of(which)
            equals = [r for r in group if r.of_library == is_of_library(half.module)]
            same = next((r for r in equals if key_of(r) == key_of(rule)), None)
            redefined = redefined_by(rule, which, equals) if same is None else []
            for old in (h for r in redefined for h in r.halves.values()):
                refuse_foreign(old, half, rule, replace)
            if same is None:
                refuse_ties(rule, half, [r for r in equals if r not in redefined])
            elif which in same.halves:
                refuse_foreign(same.halves[which], half, rule, replace)
            _refuse_misfit(entry, same or rule, which, half, replace)
            if same is None:
                group[:] = [*(r for r in group if r not in redefined), rule]
                same = rule
            same.halves[which] = half
            entry.inactive = None  # the later declaration wins
            self._entries[identity(function)] = entry
            self._changed(function, half.module)

    def attach(self, function: Any, which: Half, rule: Rule, half: RuleHalf) -> None:
        """Add a rule of a new function, which no compiled code calls yet: the epoch stays."""
        with self._lock:
            entry = self._entries.setdefault(identity(function), Declarations(function))
            group = entry.group_of(which)
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
        with self._declaring(function, module) as entry:
            if arguments is None:
                for rule in () if replace else entry.all_rules():
                    if not all(may_replace(module, h.module) for h in rule.halves.values()):
                        refuse_silencing(display_name(function), rule, module)
                entry.inactive = module
            else:
                entry.inactive_arguments.update(arguments)

    def declare_inactive_type(self, declared: Any) -> None:
        """Declare a Numba type, or a class of them, to carry no derivative."""
        with self._lock:
            self._inactive_types.append(declared)
            self.begin_epoch()

    def refuse(self, function: Any, why: str) -> None:
        """Keep the calls of a function whose body must not be differentiated: those that no rule
        serves are refused, with the reason `why`. Only activerules itself declares this.
        """
        with self._declaring(function, __name__) as entry:
            entry.refusal = why

    def promise_noalias(self, function: Any) -> None:
        """Assume, without a check, that results of a function are new memory."""
        with self._declaring(function) as entry:
            entry.noalias = True

    def opt_out(self, function: Any, signature: tuple[Pattern, ...] | None) -> None:
        """Differentiate the body of a function in calls whose types fit the signature."""
        with self._declaring(function) as entry:
            entry.opted_out.append(signature)

    def recompute_with(self, make_rule: Callable[[Any], Rule]) -> None:
        """Set the function that makes a rule for a function with inactive arguments and no rule."""
        self._recomputation = make_rule

    def find(
        self,
        function: Any,
        types: Sequence[Any],
        activities: Sequence[str | Kind],
        names: Sequence[str] = (),
    ) -> RulePair:
        """The most specific pair for a call; the last type and activity are those of the result.

        Raises `NoRuleForActivity`, `IncompleteRule`, and `AmbiguousRule` if activities can be
        lowered for two rules equally well.
        """
        call = _query(function, types, activities, names, forward=False)
        with self._lock, self._with_reason(function):
            rules = self._rules_of(function, "reverse", call)
            chosen = choose(rules, call)
        beside = self._entry(function).of_other_mode("reverse")
        return replace(chosen, beside=beside, missed=missed_by(rules, call, chosen))

    def find_forward(
        self,
        function: Any,
        types: Sequence[Any],
        activities: Sequence[str | Kind],
        width: int = 1,
        names: Sequence[str] = (),
    ) -> ForwardRule | None:
        """The most specific forward rule for a call with `width` tangents; None if the function has
        no forward rule at all.

        Activities are Const and Duplicated, also of floats; the last type and activity are those of
        the result. Raises as `find` does.
        """
        call = _query(function, types, activities, names, forward=True)
        with self._lock, self._with_reason(function) as reason:
            rules = self._rules_of(function, "forward", call)
            chosen = choose_forward(rules, call, width) if rules or reason else None
        if chosen is None:
            return None
        beside = self._entry(function).of_other_mode("forward")
        return replace(chosen, beside=beside, missed=missed_by(rules, call, chosen))

    @contextmanager
    def _with_reason(self, function: Any) -> Generator[str]:
        """Let a `NoRuleForActivity` say why the body is not differentiated instead."""
        reason = self._entry(function).refusal
        try:
            yield reason
        except NoRuleForActivity as error:
            error.why = reason or error.why
            raise

    def find_behind(
        self,
        function: Any,
        types: Sequence[Any],
        activities: Sequence[str | Kind],
    ) -> tuple[RuleQuery, RulePair]:
        """The call as seen in forward mode, and the pair that serves it in reverse mode.

        Types and activities are those of `find_forward`; it raises as `find` does.
        """
        kinds = _kinds(activities)
        query = RuleQuery(display_name(function), tuple(types), kinds)
        reverse = replace(
            query,
            kinds=tuple(
                Const if kind is Const else query.lowered(ty)
                for kind, ty in zip(kinds, types, strict=True)
            ),
        )
        with self._lock:
            return query, choose(self._rules_of(function, "reverse", reverse), reverse)

    def lacks(self, mode: Half, function: object) -> bool:
        """Whether a function has a user's rule for the other mode and none for this one, and its
        body was not declared right in this one.
        """
        entry = self._entry(function)
        return entry.only_in_other(mode) and mode not in entry.by_body

    def any_lacks_forward(self) -> bool:
        """Whether some function lacks a rule for forward mode."""
        with self._lock:
            entries = [e for key, e in self._entries.items() if key in self._of_users]
        return any(e.only_in_other("forward") and "forward" not in e.by_body for e in entries)

    def trusts_body_in_reverse(self, function: object) -> bool:
        """Whether a function has a user's rule for forward mode and none for reverse mode, and its
        body was declared right in reverse mode.
        """
        entry = self._entry(function)
        return entry.only_in_other("reverse") and "reverse" in entry.by_body

    def trust_body(self, mode: Half, function: Any) -> None:
        """Declare that differentiating the body of a function is right in a mode."""
        with self._declaring(function) as entry:
            entry.by_body.add(mode)

    def _rules_of(self, function: Any, which: Half, call: RuleQuery) -> list[Rule]:
        """The rules that may serve a call: those of the function, or its body as a rule."""
        entry = self._entry(function)
        rules = entry.in_mode(which)
        if not rules:
            return self._recomputed(entry) if entry.inactive_arguments else []
        if waits_for_activities(function, entry.opted_out, call.types[:-1]) and chooses_body(
            entry.opted_out, rules, call
        ):
            return self._recomputed(entry)
        return rules

    def _recomputed(self, entry: Declarations) -> list[Rule]:
        if self._recomputation is None:
            return []
        if entry.recomputed is None:
            entry.recomputed = self._recomputation(entry.function)
        return [entry.recomputed]

    def _entry(self, function: object) -> Declarations:
        """The declarations about a function, for an answer that compiled code may depend on."""
        key = identity(function)
        self._looked_up.add(key)  # first: see `_changed`
        known = self._entries.get(key)
        _refuse_without_rules(function)
        return known or _NOTHING

    @contextmanager
    def _declaring(self, function: Any, module: str = "") -> Generator[Declarations]:
        """The declarations about a function, to which a module adds."""
        with self._lock:
            yield self._entries.setdefault(identity(function), Declarations(function))
            self._changed(function, module)

    def _changed(self, function: object, module: str = "") -> None:
        """Begin an epoch if compiled code may depend on a function that a module has just declared
        something about. A concurrent lookup is either seen here or gets the new answer.
        """
        mark(function, module)
        if not is_of_library(module):
            self._of_users.add(identity(function))
        if identity(function) in self._looked_up:
            self.begin_epoch()

    def begin_epoch(self) -> None:
        """Let no compiled derivative be used again."""
        self._looked_up.clear()  # first: lookups in the new epoch must not be forgotten
        self._epoch += 1


_NOTHING = Declarations(None)
"""The declarations about a function without any."""

RULES = Registry()
"""The one registry that the decorators of `rules.define` fill."""


def with_rules(make: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """What `__reduce__` returns for an object that is made from functions: the process that reads
    it imports the modules that declare something here, and refuses functions without their rules.
    """
    return _made_with_rules, (declared(), make, arguments)


def _made_with_rules(there: Declared, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    if note_missing(there):
        RULES.begin_epoch()
    return make(*arguments)


def _refuse_without_rules(function: Any) -> None:
    """Refuse a function that was pickled, itself or by its name, and is here without its rules."""
    modules = ", ".join(m for m in sorted(lost(function)) if not is_of_library(m))
    if not modules:
        return
    name = display_name(function)
    raise RuleError(
        f"{name}, which was pickled, has rules that this process does not know",
        why=f"a pickle has the code of a compiled function, or the name of another one, and no "
        f"rules: {name} has no rules of {modules} here",
        instead=[f"put the rules of {name} at the top of a module that both processes import"],
    )


def _query(
    function: Any,
    types: Sequence[Any],
    activities: Sequence[str | Kind],
    names: Sequence[str],
    *,
    forward: bool,
) -> RuleQuery:
    """The call to find a rule for; the last type and activity are those of the result."""
    known = (tuple(names), parameters_of(function))
    return RuleQuery(display_name(function), tuple(types), _kinds(activities), forward, *known)


def _kinds(activities: Sequence[str | Kind]) -> tuple[Kind, ...]:
    return tuple(BY_NAME[a] if isinstance(a, str) else a for a in activities)


def _refuse_misfit(
    entry: Declarations, rule: Rule, which: Half, half: RuleHalf, replace: bool
) -> None:
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
