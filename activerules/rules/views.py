"""The registry as the modes, and reports about them, see it: which calls stay calls.

Needs       a Registry
Gives       `FORWARD_VIEW`, `SECOND_VIEW`: of forward mode, and of forward mode in code that is
            differentiated again; `ForwardReportView`, `ReverseReportView`: of a report
Invariants  W1  a report meets more calls, and nothing becomes of them that does not without it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from activerules.rules.registry import RULES, Registry, Treatment
from activerules.rules.rule import Half, is_generic

WITHOUT_FORWARD = "it has a reverse rule, and no forward rule"
"""Why forward mode follows the body of a function that has rules."""


class ForwardView:
    """The registry as forward mode sees it: a function that only has a reverse rule is its body. A
    user's function of that kind is met, so that one can say so.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    @property
    def epoch(self) -> int:
        """The epoch of the registry."""
        return self._registry.epoch

    @property
    def debug(self) -> Any:
        """The debug setting of the registry."""
        return self._registry.debug

    def carries_rule(self, function: object) -> bool:
        """Tell whether calls of `function` may have to be kept, or noted: none of a pointer,
        which has no body to follow.
        """
        registry = self._registry
        has_body = hasattr(function, "py_func") or is_generic(function)
        return registry.carries_forward_rule(function) or (
            has_body and registry.lacks_forward(function)
        )

    def treatment(self, function: object, names: Sequence[str], found: Sequence[Any]) -> Treatment:
        """How forward mode treats a call: by which rule, or by its body and why."""
        registry = self._registry
        if registry.lacks_forward(function) and registry.treatment(function, names, found).kept:
            return Treatment(False, reason=WITHOUT_FORWARD)
        return registry.treatment(function, names, found, "forward")

    def is_inactive_type(self, found: Any) -> bool:
        """Whether the registry has the type as inactive."""
        return self._registry.is_inactive_type(found)


class SecondView(ForwardView):
    """The registry as forward mode sees it in code that is differentiated again: a user's function
    that only has a pair is kept, and the pair is differentiated.
    """

    def carries_rule(self, function: object) -> bool:
        """Tell whether calls of `function` may have to be kept."""
        registry = self._registry
        return registry.carries_forward_rule(function) or registry.lacks_forward(function)

    def treatment(self, function: object, names: Sequence[str], found: Sequence[Any]) -> Treatment:
        """How a call is treated: by its forward rule, or by its pair where it has no other."""
        mode: Half = "reverse" if self._registry.lacks_forward(function) else "forward"
        return self._registry.treatment(function, names, found, mode)


class ForwardReportView(ForwardView):
    """The same for a report: every function that only has a reverse rule is met."""

    def carries_rule(self, function: object) -> bool:
        """Tell whether `function` has anything a report says something about."""
        return super().carries_rule(function) or self._registry.carries_rule(function)

    def treatment(self, function: object, names: Sequence[str], found: Sequence[Any]) -> Treatment:
        """How a call is treated: as it is without a report."""
        if super().carries_rule(function):
            return super().treatment(function, names, found)
        return Treatment(False, reason=WITHOUT_FORWARD)


class ReverseReportView:
    """The registry for a report of reverse mode: a function that only has a forward rule is met,
    and is its body.
    """

    def __init__(self, registry: Registry) -> None:
        self._all = registry

    @property
    def epoch(self) -> int:
        """The epoch of the registry."""
        return self._all.epoch

    @property
    def debug(self) -> Any:
        """The debug setting of the registry."""
        return self._all.debug

    def carries_rule(self, function: object) -> bool:
        """Tell whether `function` has anything a report says something about."""
        return self._all.carries_rule(function) or self._all.carries_forward_rule(function)

    def is_inactive_type(self, found: Any) -> bool:
        """Whether the registry has the type as inactive."""
        return self._all.is_inactive_type(found)

    def treatment(self, function: object, names: Sequence[str], found: Sequence[Any]) -> Treatment:
        """How a call is treated: as it is without a report."""
        if self._all.carries_rule(function):
            return self._all.treatment(function, names, found)
        return Treatment(False, frozenset(), "it has a forward rule, and no reverse rule")


FORWARD_VIEW = ForwardView(RULES)
SECOND_VIEW = SecondView(RULES)
