"""`Rules`: the result of `rules_for`, a tuple that prints a line per rule; and pickling of rules.

A rule is pickled by reference, as functions and classes are: unpickling imports its module and
looks the rule up.
"""

from __future__ import annotations

import copyreg
import pickle
from html import escape
from importlib import import_module
from typing import Any

from activerules.rules.registry import RULES
from activerules.rules.rule import Rule


class Rules(tuple[Rule, ...]):
    """Rules in the order of their definition; a notebook shows a table."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return a line per rule: its signature, halves and location."""
        return "\n".join("   ".join(_cells(rule)) for rule in self) or "no rules"

    def _repr_html_(self) -> str:
        """Return the same as an HTML table."""
        if not self:
            return "<p>no rules</p>"
        rows = (
            "<tr>"
            + "".join(f'<td style="text-align: left">{escape(c)}</td>' for c in cells)
            + "</tr>"
            for cells in map(_cells, self)
        )
        names = ("rule", "mode", "defined at")
        head = "".join(f'<th style="text-align: left">{name}</th>' for name in names)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _cells(rule: Rule) -> tuple[str, str, str]:
    return str(rule), ", ".join(rule.halves), rule.location


def _reference(rule: Rule) -> tuple[Any, tuple[str, str, str]]:
    half = next(iter(rule.halves.values()))
    return _rule_again, (half.module, str(rule), _line(rule))


def _rule_again(module: str, written: str, line: str) -> Rule:
    import_module(module)
    for function in RULES.functions():
        for rule in RULES.rules_for(function):
            if (str(rule), _line(rule)) == (written, line):
                return rule
    raise pickle.UnpicklingError(f"there is no rule {written} at line {line} of {module} here")


def _line(rule: Rule) -> str:
    return rule.location.rpartition(":")[2]


copyreg.pickle(Rule, _reference)
