"""The pages do what they say: every Python block runs, and prints the text block below it."""

import ast
import contextlib
import importlib.util
import io
import os
import re
import runpy
import subprocess
import sys
from collections import Counter
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = (ROOT / "docs", ROOT / "docs" / "howto", ROOT / "docs" / "reference")
PAGES = [ROOT / "README.md", *(p for folder in FOLDERS for p in sorted(folder.glob("*.md")))]
OPTIONAL = {
    "jax": "jax",
    "numba_packages": "numba_stats",
    "pymc": "pytensor",
    "torch": "torch",
}
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    """The Python blocks of a page, each with the output that is claimed, or ""."""
    return BLOCK.findall(page.read_text())


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # when it is imported
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda page: page.name)
def test_python_blocks_run(page, tmp_path):
    """The blocks of a page are one program; each is followed by a mark in the output."""
    if page.parent.name == "howto" and page.stem in OPTIONAL:
        pytest.importorskip(OPTIONAL[page.stem])
    mark = "---- end of block ----"
    found = blocks(page)
    program = tmp_path / f"{page.stem.lower()}_blocks.py"
    program.write_text("".join(f"{code}\nprint({mark!r})\n" for code, _ in found))
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        runpy.run_path(str(program))
    printed = output.getvalue().split(mark + "\n")
    for (code, claimed), got in zip(found, printed[:-1], strict=True):
        if claimed:
            assert got == claimed, code


def load(script: str):
    """A script of docs/, as a module."""
    spec = importlib.util.spec_from_file_location(script, ROOT / "docs" / f"{script}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_errors_page_is_current():
    """`make generate` rewrites it."""
    script = load("generate_errors")
    assert script.PAGE.read_text() == script.render()


def test_the_page_of_what_is_used_of_numba_is_current():
    """`make generate` rewrites it. A name that Numba does not have fails where it is read."""
    script = load("generate_numba_private")
    assert script.PAGE.read_text() == script.render()


def test_the_page_of_all_rules_is_current():
    """`make generate` rewrites it. In a process of its own: other tests register rules, too."""
    script = load("generate_rules")
    code = "import generate_rules; print(generate_rules.render(), end='')"
    rendered = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": f"{script.PAGE.parent}:{script.PAGE.parent.parent}"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert script.PAGE.read_text() == rendered.stdout


def test_the_design_page_is_current():
    """`make generate` rewrites it. Other versions print other names, but the same sections."""
    script = load("generate_design")
    page, now = script.PAGE.read_text(), script.render()
    if f"*Last checked: {script.versions()}." in page:
        assert page == now
    assert re.findall(r"^#+ .*", page, re.MULTILINE) == re.findall(r"^#+ .*", now, re.MULTILINE)
    assert "{{" not in now


@pytest.mark.parametrize("page", [*PAGES, *DECISIONS], ids=lambda page: page.name)
def test_links_to_files_exist(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        path = (page.parent / target).resolve()
        if path.parent == ROOT / "docs" / "gallery":  # written when the site is built
            folder = ROOT / "examples" / "gallery"
            path = folder if path.stem == "index" else folder / f"{path.stem}.py"
        assert path.exists(), target


def modules_named_in(text):
    """Modules and folders of the package, as they are named in the pages: `ir/plan/plan.py`."""
    folders = "|".join(sorted(p.name for p in (ROOT / "activerules").iterdir() if p.is_dir()))
    return re.findall(rf"`(?:activerules/)?((?:{folders})/[a-z_/]*(?:\.py)?)`", text)


@pytest.mark.parametrize(
    "page",
    [
        ROOT / "CONTRIBUTING.md",
        ROOT / "docs" / "glossary.md",
        ROOT / "docs" / "design.md",
        *DECISIONS,
    ],
    ids=lambda page: page.name,
)
def test_modules_named_in_pages_exist(page):
    for name in modules_named_in(page.read_text()):
        assert (ROOT / "activerules" / name).exists(), name


def test_the_map_names_every_folder():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for init in (ROOT / "activerules").rglob("__init__.py"):
        assert f"{init.parent.name}/" in text, init.parent


def test_the_demo_runs_and_draws(tmp_path, monkeypatch, capsys):
    plot, demo = tmp_path / "fit.png", str(ROOT / "examples" / "lotka_volterra.py")
    monkeypatch.setattr(sys, "argv", [demo, str(plot)])
    runpy.run_path(demo, run_name="__main__")
    plt.close("all")
    assert plot.stat().st_size > 10_000
    printed = capsys.readouterr().out
    difference = float(re.search(r"largest difference (\S+)", printed)[1])
    assert difference < 1e-6
    losses = re.search(r"loss (\S+) -> (\S+):", printed)
    assert float(losses[2]) < float(losses[1]) - 30.0


def test_fragments_of_the_changelog_are_named_by_kind():
    """A release sorts them by the second part of their names, as changelog.d/README.md says."""
    fragments = {p for p in (ROOT / "changelog.d").iterdir() if p.name != "README.md"}
    kinds = r"[a-z0-9-]+\.(added|changed|fixed|removed)\.md"
    assert [p.name for p in fragments if not re.fullmatch(kinds, p.name)] == []
    assert [p.name for p in fragments if not p.read_text().strip()] == []


def test_every_decision_is_in_the_index():
    folder = ROOT / "docs" / "decisions"
    index = (folder / "index.md").read_text()
    for page in folder.glob("0*.md"):
        title = page.read_text().splitlines()[0].removeprefix("# ")
        number, _, rest = title.partition(" ")
        assert f"- [{number}]({page.name}) {rest}\n" in index
        assert f"\n{page.stem}\n" in index


def test_every_decision_has_a_status():
    """Accepted, or superseded by a page that exists; the index lists numbers without a page."""
    folder = ROOT / "docs" / "decisions"
    pages = {page.name[:4]: page.read_text() for page in folder.glob("0*.md")}
    merged = (folder / "index.md").read_text().partition("## Merged pages")[2]
    for number, page in pages.items():
        status = re.match(rf"# {number} .+\n\nStatus: (Accepted|Superseded by \[\d{{4}}\])", page)
        assert status, number
        others = set(re.findall(r"\b00\d\d\b", page))
        assert others - set(pages) - set(re.findall(r"\b00\d\d\b", merged)) == set(), number


def test_the_page_for_newcomers_names_what_there_is():
    page = (ROOT / "docs" / "coming_from.md").read_text()
    packages = {"ar": "activerules", "cr": "activerules.chainrules"}
    packages["testing"] = "activerules.testing"
    names = re.findall(r"`(ar|cr|testing)\.([\w.]+)", page)
    assert len(names) > 50
    for package, name in names:
        attrgetter(name)(import_module(packages[package]))


# what EnzymeRules and ChainRulesCore export
ENZYME_RULES = """RevConfig RevConfigWidth FwdConfig FwdConfigWidth AugmentedReturn needs_primal
    needs_shadow width overwritten runtime_activity strong_zero primal_type shadow_type tape_type
    has_easy_rule easy_scalar_rule set_runtime_activity set_strong_zero forward augmented_primal
    reverse inactive inactive_noinl inactive_type noalias"""
CHAIN_RULES = """frule rrule RuleConfig HasReverseMode NoReverseMode HasForwardsMode NoForwardsMode
    frule_via_ad rrule_via_ad non_differentiable opt_out scalar_rule thunk not_implemented ProjectTo
    canonicalize unthunk zero_tangent add!! is_inplaceable_destination ignore_derivatives
    StructuralTangent Tangent MutableTangent NoTangent InplaceableThunk Thunk ZeroTangent
    AbstractZero AbstractThunk backing"""


def test_the_page_for_newcomers_answers_for_every_name_of_theirs():
    page = (ROOT / "docs" / "coming_from.md").read_text()
    rows = {row.split(" | ")[0] for row in page.splitlines() if row.startswith("| ")}
    named = set(re.findall(r"[\w!]+", " ".join(rows)))
    here = set(re.findall(r"`(?:ar|cr)\.(\w+)", page))  # the same name, on the right
    assert set((ENZYME_RULES + " " + CHAIN_RULES).split()) - named - here == set()


def test_rules_in_the_pages_are_short_and_do_not_branch():
    """A rule is at most 15 lines, both halves of a pair together."""
    lengths = Counter()
    for number, (block, _) in enumerate(one for page in PAGES for one in blocks(page)):
        for node in ast.parse(block).body:
            if isinstance(node, ast.FunctionDef) and (rule := RULE.match(decorator_of(node))):
                lengths[number, rule[1]] += node.end_lineno - node.lineno + 2
                assert not any(isinstance(n, ast.If | ast.IfExp) for n in ast.walk(node))
    assert len(lengths) >= 8
    assert max(lengths.values()) <= 15


RULE = re.compile(r"(?:ar\.(?:augmented_primal|reverse|forward)|[fr]rule\.register)\((\w+)")


def decorator_of(node):
    return ast.unparse(node.decorator_list[0]) if node.decorator_list else ""
