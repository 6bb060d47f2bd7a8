"""Views of the registry for the modes and for reports: which calls are kept.

Needs       a Registry
Gives       `RuleView`: the type of what capture sees; `FORWARD_VIEW`, `REVERSE_VIEW`: for either
            mode; `SECOND_VIEW`: for forward mode in code that is differentiated again;
            `FORWARD_REPORT_VIEW`, `REVERSE_REPORT_VIEW`: for reports
Invariants  W1  a report sees more calls, and treats them as they are treated without it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from activerules.callables import is_generic
from activerules.rules.registry import RULES, Registry
from activerules.rules.rule import Half
from activerules.rules.treatment import Treatment

WITHOUT_FORWARD = "it has a reverse rule, and no forward rule"
"""Why forward mode differentiates the body of a function that has rules."""

WITHOUT_REVERSE = "it has a forward rule, and no reverse rule"
"""Why reverse mode does."""

DECLARED_RIGHT = "it has a forward rule, and its body was declared right in reverse mode"
"""Why reverse mode does so without a warning."""


class View:
    """The registry; a subclass keeps other calls."""

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
        """Whether calls of `function` may have to be kept or noted."""
        return self._registry.carries_rule(function)

    def treatment(
        self, function: object, names: Sequence[str], types: Sequence[Any], *, returned: Any = None
    ) -> Treatment:
        """How a call with arguments of these names and types is differentiated; `returned` is the
        type of its result, or None.
        """
        return self._registry.treatment(function, names, types, returned=returned)

    def is_declared(self, function: object, types: Sequence[Any]) -> bool:
        """Whether anything but the library's rules may serve calls with these types, or keep
        derivatives from them.
        """
        return self._registry.is_declared(function, types)

    def is_inactive_type(self, ty: Any) -> bool:
        """Whether the type was declared inactive."""
        return self._registry.is_inactive_type(ty)

    def uses_body(self, function: object) -> bool:
        """Whether every call of `function` is differentiated by its body, whatever its types."""
        return self._registry.uses_body(function)


RuleView = Registry | View
"""What capture sees of the rules."""


class ForwardView(View):
    """The registry in forward mode: the body of a function with only a reverse rule is
    differentiated. Calls of users' functions of that kind are noted, for a warning.
    """

    def carries_rule(self, function: object) -> bool:
        """Whether calls of `function` may have to be kept or noted; those of a pointer, which has
        no body, are not noted.
        """
        registry = self._registry
        lacking = _has_body(function) and registry.lacks("forward", function)
        return registry.carries_rule(function, "forward") or lacking

    def treatment(
        self, function: object, names: Sequence[str], types: Sequence[Any], *, returned: Any = None
    ) -> Treatment:
        """How forward mode differentiates a call: by its rule, or by its body and why."""
        registry = self._registry
        if registry.lacks("forward", function) and registry.treatment(function, names, types).kept:
            return Treatment(False, reason=WITHOUT_FORWARD)
        return registry.treatment(function, names, types, "forward", returned)

    def uses_body(self, function: object) -> bool:
        """Whether every call of `function` is differentiated by its body, whatever its types."""
        return self._registry.uses_body(function, "forward")


class SecondView(ForwardView):
    """The registry in forward mode, in code that is differentiated again: a user's function with
    only a pair is kept, and the pair is differentiated.
    """

    def carries_rule(self, function: object) -> bool:
        """Whether calls of `function` may have to be kept."""
        registry = self._registry
        return registry.carries_rule(function, "forward") or registry.lacks("forward", function)

    def treatment(
        self, function: object, names: Sequence[str], types: Sequence[Any], *, returned: Any = None
    ) -> Treatment:
        """How a call is differentiated: by its forward rule, or by its pair if it has none."""
        mode = self._mode(function)
        return self._registry.treatment(function, names, types, mode, returned)

    def uses_body(self, function: object) -> bool:
        """Whether every call of `function` is differentiated by its body, whatever its types."""
        return self._registry.uses_body(function, self._mode(function))

    def _mode(self, function: object) -> Half:
        return "reverse" if self._registry.lacks("forward", function) else "forward"


class ReverseView(View):
    """The registry in reverse mode: calls of users' functions with only a forward rule are noted,
    and their bodies differentiated, with a warning unless the body was declared right. They are
    noted in that case, too, since a second derivative uses the forward rule.
    """

    def carries_rule(self, function: object) -> bool:
        """Whether calls of `function` may have to be kept or noted; those of a pointer, which has
        no body, are not noted.
        """
        by_body = _has_body(function) and self._why_body(function) is not None
        return super().carries_rule(function) or by_body

    def treatment(
        self, function: object, names: Sequence[str], types: Sequence[Any], *, returned: Any = None
    ) -> Treatment:
        """How a call is treated: by a rule, or by its body and why."""
        treatment = super().treatment(function, names, types, returned=returned)
        reason = self._why_body(function)
        if treatment.kept or reason is None or self._registry.is_opted_out(function, types):
            return treatment
        return replace(treatment, reason=reason)

    def _why_body(self, function: object) -> str | None:
        """Why the body of a function with only a forward rule is differentiated; else None."""
        if self._registry.lacks("reverse", function):
            return WITHOUT_REVERSE
        return DECLARED_RIGHT if self._registry.trusts_body_in_reverse(function) else None


class ReportView(View):
    """A view for a report. It also notes functions that have only a `half` for the other mode,
    users' or not, and whose bodies are therefore differentiated: for the reason `why`.
    """

    def __init__(self, view: View, half: Half, why: str) -> None:
        super().__init__(view._registry)
        self._view, self._why = view, why
        self._half: Half = half

    def carries_rule(self, function: object) -> bool:
        """Whether a report mentions calls of `function`."""
        noted = self._registry.carries_rule(function, self._half)
        return noted or self._view.carries_rule(function)

    def treatment(
        self, function: object, names: Sequence[str], types: Sequence[Any], *, returned: Any = None
    ) -> Treatment:
        """How a call is treated: as it is without a report (W1)."""
        if self._view.carries_rule(function):
            return self._view.treatment(function, names, types, returned=returned)
        return Treatment(False, reason=self._why)

    def uses_body(self, function: object) -> bool:
        """Whether every call of `function` is differentiated by its body (W1)."""
        return not self._view.carries_rule(function) or self._view.uses_body(function)


def _has_body(function: object) -> bool:
    return hasattr(function, "py_func") or is_generic(function)


FORWARD_VIEW = ForwardView(RULES)
SECOND_VIEW = SecondView(RULES)
REVERSE_VIEW = ReverseView(RULES)
FORWARD_REPORT_VIEW = ReportView(FORWARD_VIEW, "reverse", WITHOUT_FORWARD)
REVERSE_REPORT_VIEW = ReportView(View(RULES), "forward", WITHOUT_REVERSE)
