"""A plugin of pytest: `pytest --activerules-unchecked=PACKAGE` lists rules without a check.

Those are the rules that PACKAGE and its modules define, and that no `check_rule` of the session
went through. The exit status is then 1. Without the option nothing is imported.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import pytest

OPTION = "--activerules-unchecked"
_SENT = "activerules_rules"


def pytest_addoption(parser: Any) -> None:
    """Add the option."""
    group = parser.getgroup("activerules")
    group.addoption(
        OPTION,
        metavar="PACKAGE",
        default="",
        help="after the tests, list the rules of PACKAGE that check_rule did not check, and fail",
    )


def pytest_configure(config: Any) -> None:
    """Watch the session, if asked to."""
    package = config.getoption(OPTION)
    if package:
        config.pluginmanager.register(Unchecked(package), "activerules_unchecked")


class Unchecked:
    """The rules of a package, and those that were checked, in this process and its workers."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.rules: dict[str, str] = {}
        self.checked: set[str] = set()

    def pytest_sessionfinish(self, session: Any) -> None:
        """Collect; a worker of pytest-xdist sends what it found to its controller."""
        rules, checked = _rules_of(self.package)
        sent = getattr(session.config, "workeroutput", None)
        if sent is not None:
            sent[_SENT] = (rules, sorted(checked))
            return
        self.rules.update(rules)
        self.checked |= checked
        if (not self.rules or self._missing()) and session.exitstatus == 0:
            session.exitstatus = 1

    @pytest.hookimpl(optionalhook=True)  # a hook of pytest-xdist
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker found."""
        rules, checked = getattr(node, "workeroutput", {}).get(_SENT, ({}, ()))
        self.rules.update(rules)
        self.checked.update(checked)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """List them."""
        missing = self._missing()
        if not self.rules:
            lines = [f"{self.package} defines no rules, or was not imported"]
        else:
            lines = [f"{len(missing)} of {len(self.rules)} without a check"]
            lines += [f"{rule}   {location}" for location, rule in missing.items()]
        terminalreporter.section(f"rules of {self.package}")
        for line in lines:
            terminalreporter.write_line(line)

    def _missing(self) -> dict[str, str]:
        return {at: rule for at, rule in sorted(self.rules.items()) if at not in self.checked}


def _rules_of(package: str) -> tuple[dict[str, str], set[str]]:
    """The rules of the package by the location of their first half, and the locations of those
    that were checked.
    """
    if "activerules" in sys.modules:
        rules = import_module("activerules.rules.registry").RULES
        every = [rule for function in rules.functions() for rule in rules.rules_for(function)]
    else:
        every = []
    by_location = {
        rule.location: str(rule)
        for rule in every
        if any(f"{half.module}.".startswith(f"{package}.") for half in rule.halves.values())
    }
    checks = sys.modules.get("activerules.testing.rule")
    checked = set() if checks is None else checks.CHECKED
    return by_location, {
        rule.location for rule in every if any(h.location in checked for h in rule.halves.values())
    }
