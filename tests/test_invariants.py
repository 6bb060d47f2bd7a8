"""Each invariant that a module states has a test that is named after it.

The docstring of a module lists them under `Invariants`, by a letter and a digit. The invariant `A1`
of `ir/analysis/activity.py` is proved in `tests/ir/analysis/test_activity.py`, by tests whose names
begin with `test_a1_`; one that proves several names them all, as `test_a1_a2_…`. Outside `ir` the
test of a whole derivative may be the proof: anywhere in `tests`, after the name of the module, as
`test_memory_k2_…` for `numba_ext/calls/memory.py`.
"""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "activerules"
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def stated(module: Path) -> set[str]:
    """The invariants in the docstring of a module: `A1  an integer is never active`."""
    text = ast.get_docstring(ast.parse((PACKAGE / module).read_text())) or ""
    return set(re.findall(r"^(?:Invariants)? *([A-Z]\d)  \S", text, re.MULTILINE))


def named(module: Path) -> set[str]:
    """The invariants that tests of a module are named after."""
    path = TESTS / module.parent / f"test_{module.name}"
    own = invariants_in(re.findall(r"^def test_((?:[a-z]\d_)+)", read(path), re.MULTILINE))
    if module.parts[0] == "ir":
        return own
    elsewhere = invariants_in(named_with_a_module()[module.stem])
    # two modules may share a name, as `rules/registry` and `chainrules/registry`
    shared = sum(m.stem == module.stem for m in MODULES if m.parts[0] != "ir") > 1
    return own | (elsewhere & stated(module) if shared else elsewhere)


def invariants_in(names: list[str]) -> set[str]:
    """The invariants in parts of names of tests: `a1_a2_` has A1 and A2."""
    return {one.upper() for name in names for one in name.split("_") if one}


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@cache
def named_with_a_module() -> dict[str, list[str]]:
    """By the name of a module, what follows it in names of tests: `test_memory_k2_…` has `k2_`."""
    invariants: dict[str, list[str]] = defaultdict(list)
    stems = sorted((m.stem for m in MODULES if m.parts[0] != "ir"), key=len, reverse=True)
    pattern = re.compile(rf"(?<=_)({'|'.join(stems)})_((?:[a-z]\d_)+)")
    for path in TESTS.rglob("test_*.py"):
        for name in re.findall(r"^ *def (test_\w+)", path.read_text(), re.MULTILINE):
            for stem, letters in pattern.findall(name):
                invariants[stem].append(letters)
    return invariants


@pytest.mark.parametrize("module", [m for m in MODULES if stated(m) or named(m)], ids=str)
def test_every_invariant_has_a_test_named_after_it(module):
    assert named(module) == stated(module)


PASSES = [
    module
    for module in MODULES
    if module.parts[0] == "ir"
    and module.parts[1] in {"analysis", "generated", "normal", "rewrite", "text"}
]


def test_every_pass_and_analysis_states_invariants():
    """Its own, or those of another module that it keeps: `M1 of facts`."""
    texts = {m: ast.get_docstring(ast.parse((PACKAGE / m).read_text())) or "" for m in PASSES}
    passes = [m for m, text in texts.items() if re.search(r"^Needs {7}", text, re.MULTILINE)]
    assert [str(m) for m in passes if "\nInvariants  " not in texts[m]] == []
