"""Each invariant that a module of `ir` states has a test that is named after it.

The docstring of a module lists them under `Invariants`, by a letter and a digit. The invariant `A1`
of `analysis/activity.py` is proved in `tests/ir/analysis/test_activity.py`, by tests whose names
begin with `test_a1_`; one that proves several names them all, as `test_a1_a2_…`.
"""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
IR = TESTS.parents[1] / "activerules" / "ir"
MODULES = sorted(path.relative_to(IR) for path in IR.rglob("*.py"))


def stated(module: Path) -> set[str]:
    """The invariants in the docstring of a module: `A1  an integer is never active`."""
    text = ast.get_docstring(ast.parse((IR / module).read_text())) or ""
    return set(re.findall(r"^(?:Invariants)? *([A-Z]\d)  \S", text, re.MULTILINE))


def named(module: Path) -> set[str]:
    """The invariants that tests of a module are named after."""
    path = TESTS / module.parent / f"test_{module.name}"
    tree = ast.parse(path.read_text() if path.exists() else "")
    tests = (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    prefixes = (re.match(r"test_((?:[a-z]\d_)+)", name) for name in tests)
    return {one.upper() for found in prefixes if found for one in found[1].split("_") if one}


@pytest.mark.parametrize("module", [m for m in MODULES if stated(m) or named(m)], ids=str)
def test_every_invariant_has_a_test_named_after_it(module):
    assert named(module) == stated(module)


PASSES = [
    m for m in MODULES if m.parts[0] in {"analysis", "generated", "normal", "rewrite", "text"}
]


def test_every_pass_and_analysis_states_invariants():
    """Its own, or those of another module that it keeps: `M1 of facts`."""
    texts = {m: ast.get_docstring(ast.parse((IR / m).read_text())) or "" for m in PASSES}
    passes = [m for m, text in texts.items() if re.search(r"^Needs {7}", text, re.MULTILINE)]
    assert [str(m) for m in passes if "\nInvariants  " not in texts[m]] == []
