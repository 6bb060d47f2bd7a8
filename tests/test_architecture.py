"""The layers of the package, read from its syntax trees: imports go down, and nowhere else.

Each row of LAYERS imports from the rows above it alone: what stands in one row stands side by side.
A package of `ir` or `numba_ext` has a row of its own, so that the order of the folders is that of
the flow. `ir` runs without Numba.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = "activerules"
ROOT = Path(__file__).parents[1] / PACKAGE

# From the ground up. A module belongs to the longest entry that its name begins with.
LAYERS = """
errors
annotations   callables   extras   process_memory
values.layout   values.overwriting
rules
rules.library
ir.llvm
ir.derivatives
ir.normal.effects
ir.text
ir.normal
ir.analysis.returns   ir.analysis.calls
ir.analysis.memory
ir.analysis.types
ir.analysis.loops
ir.analysis
ir.rewrite
ir.plan
ir.tape
ir.generate
ir.generated
ir.foreign
ir
numba_ext.codegen
values
numba_ext.substitutes
numba_ext.target
numba_ext.calls
numba_ext.split   numba_ext.replaced
numba_ext.rules
numba_ext.tangents
numba_ext
pipeline
api
nested   parallel_loops
chainrules
explain
interface
interop   testing
command
__main__
"""
LAYER_OF = {entry: height for height, row in enumerate(LAYERS.split("\n")) for entry in row.split()}

# What a lower layer calls of a higher one, and why: a module above says who, when it is imported.
HOOKS = {
    "use_compiled": "annotations know nothing of Numba, which knows classes of objects and lists",
    "use_compiler": "rules are compiled for a derivative, and may ask for derivatives themselves",
    "use_nested": "what stands for a derivative that is differentiated is written with `api`",
}

MOST_MODULES, MOST_LINES = 20, 550
NUMBA_FREE = ("errors", "command.main", "command.help", "ir")
LLVMLITE_ONLY_IN = ("ir.text.normalise", "ir.llvm.verify", "values", "numba_ext")
PRIVATE_NUMBA_ONLY_IN = ("values", "numba_ext")
WHAT_A_TYPE_IS = ("values.layout", "values.argument")


def modules() -> list[str]:
    """Dotted names inside the package: `ir.llvm.model`, `rules` for a package, "" for the whole."""
    names = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def path_of(name: str) -> Path:
    base = ROOT.joinpath(*name.split(".")) if name else ROOT
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(path_of(name).read_text())


@cache
def imports(name: str) -> list[tuple[str, int]]:
    """Absolute names imported anywhere in a module (function bodies too), with the line."""
    return [*_imports(name)]


def _imports(name: str) -> Iterator[tuple[str, int]]:
    path = path_of(name)
    package = (PACKAGE + "." + name if name else PACKAGE).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*start, *([node.module] if node.module else [])])
            for alias in node.names:
                yield f"{source}.{alias.name}", node.lineno


def layer_of(name: str) -> str | None:
    """The entry of LAYERS that covers a dotted name inside the package."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in LAYER_OF:
            return ".".join(parts[:length])
    return None


def internal_imports(name: str) -> Iterator[tuple[str, int]]:
    for target, line in imports(name):
        if target.startswith(PACKAGE + "."):
            yield target.removeprefix(PACKAGE + "."), line


def of_each(names: Iterable[str]) -> Callable[[Callable[[str], None]], Callable[[], None]]:
    """A check of a module as one test of all these modules, which lists those that fail."""
    found = [*names]
    assert found

    def test_of(check: Callable[[str], None]) -> Callable[[], None]:
        def test() -> None:
            failed = []
            for name in found:
                try:
                    check(name)
                except AssertionError as error:
                    failed.append(f"{name or PACKAGE}: {error}")
            assert not failed, "\n".join(failed)

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return test_of


MODULES = frozenset(modules())
INNER_MODULES = sorted(MODULES - {""})


def is_below(target: str, name: str) -> bool:
    """Whether a module may import another one."""
    own, layer = layer_of(name), layer_of(target)
    return own is not None and layer is not None and (own == layer or height(layer) < height(own))


def height(layer: str) -> int:
    return LAYER_OF[layer]


@of_each(INNER_MODULES)
def test_every_module_is_in_a_layer(name):
    package = name if path_of(name).name == "__init__.py" else name.rpartition(".")[0] or name
    closest = layer_of(name)
    assert closest is not None, f"{name} is in no layer: add it to LAYERS"
    covers_all = closest.split(".")[0] not in {"ir", "numba_ext"}
    assert covers_all or closest in (package, name), f"{package} has no row in LAYERS"


@of_each(INNER_MODULES)
def test_imports_go_down(name):
    wrong = [
        f"{path_of(name)}:{line} imports {target}"
        for target, line in internal_imports(name)
        if not is_below(target, name)
    ]
    assert not wrong, "\n".join(wrong)


def test_what_turns_up_is_listed():
    calls = [
        statement.value.func.id
        for name in MODULES
        for statement in tree_of(name).body
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Name)
        and statement.value.func.id.startswith("use_")
    ]
    assert sorted(calls) == sorted(HOOKS)


@of_each(modules())
def test_what_differs_between_versions_is_in_one_module(name):
    """Numba's version is asked for, and what it may not have is looked for, nowhere else; what is
    kept on disk has the version in its key.
    """
    if name == "numba_ext.codegen.numba_versions":
        return
    tree = tree_of(name)
    asked = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in ("__version__", "version_info")
        and name != "numba_ext.codegen.files"
    ]
    tried = [
        inner.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Try)
        for inner in node.body
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]
    assert asked + tried == [], f"{path_of(name)}: lines {asked + tried}"


def test_every_row_is_a_package_or_a_module():
    assert set(LAYER_OF) <= MODULES


def test_a_package_can_be_seen_at_once():
    sizes = Counter(name.rpartition(".")[0] for name in INNER_MODULES)
    assert {package: size for package, size in sizes.items() if size > MOST_MODULES} == {}


def test_a_module_can_be_read_at_once():
    lengths = {name: path_of(name).read_text().count("\n") for name in INNER_MODULES}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def test_a_name_stands_for_one_module_or_for_two():
    names = Counter(
        name.rpartition(".")[2] for name in INNER_MODULES if path_of(name).name != "__init__.py"
    )
    assert {name: count for name, count in names.items() if count > 2} == {}


@of_each(INNER_MODULES)
def test_rules_and_engine_do_not_know_each_other(name):
    top = name.split(".")[0]
    forbidden = {"rules": "ir", "ir": "rules"}.get(top)
    wrong = [t for t, _ in internal_imports(name) if forbidden and t.split(".")[0] == forbidden]
    assert not wrong, f"{name} imports {wrong}"


@of_each([n for n in INNER_MODULES if {n, n.split(".")[0]} & {*NUMBA_FREE}])
def test_engine_needs_no_numba(name):
    wrong = [t for t, _ in imports(name) if t.split(".")[0] == "numba"]
    assert not wrong, f"{name} imports {wrong}"


@of_each(modules())
def test_llvmlite_stays_at_the_two_ends(name):
    if name.startswith(LLVMLITE_ONLY_IN):
        return
    wrong = [t for t, _ in imports(name) if t.split(".")[0] == "llvmlite"]
    assert not wrong, f"{name} imports {wrong}"


@of_each(modules())
def test_private_numba_api_stays_where_it_is_known(name):
    """`numba.core` and below is Numba's own business; the rest of the package does not know it."""
    if name.split(".")[0] in PRIVATE_NUMBA_ONLY_IN and name not in WHAT_A_TYPE_IS:
        return
    private = ("numba.core", "numba.np", "numba.cpython")
    wrong = [t for t, _ in imports(name) if t.startswith(private)]
    assert not wrong, f"{name} imports {wrong}"


NUMBAS_SYMBOLS = re.compile(
    r"NRT_|\bNRT\b|\bnrt|numba_|\b_?Py[A-Z_]|NumbaEnv|activerules\.(dict|object)\."
)


@of_each([n for n in INNER_MODULES if n.split(".")[0] == "ir"])
def test_the_engine_knows_no_symbol_of_numba(name):
    """What is keyed on them is in one table: `numba_ext.target.symbols`."""
    if name.startswith("ir.foreign"):
        return
    strings = [
        node
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    wrong = [f"{path_of(name)}:{s.lineno}" for s in strings if NUMBAS_SYMBOLS.search(s.value)]
    assert not wrong, "\n".join(wrong)


# Who looks for patterns in the text of LLVM IR. Everybody else has the parsed model, or asks these.
BEFORE_LLVM = ("ir.text", "ir.foreign")  # which makes of other compilers' text what Numba writes
THE_PARSER = ("ir.llvm",)
BEFORE_LINKING = ("numba_ext.codegen.link",)
# Patterns in names, versions and messages, not in IR.
OF_OTHER_TEXT = (
    "ir.derivatives.table",
    "ir.plan.dictionaries",
    "ir.plan.reasons",
    "numba_ext.codegen.numba_versions",
    "numba_ext.rules.said_by_numba",
)
PATTERNS_IN = BEFORE_LLVM + THE_PARSER + BEFORE_LINKING + OF_OTHER_TEXT
OF_IR = ("ir", "numba_ext", "pipeline")
LOOK_FOR_PATTERNS = [
    name
    for name in INNER_MODULES
    if name.split(".")[0] in OF_IR and "re" in {target for target, _ in imports(name)}
]


def covers(entry: str, name: str) -> bool:
    return name == entry or name.startswith(f"{entry}.")


def test_text_of_llvm_is_touched_in_three_places():
    assert [n for n in LOOK_FOR_PATTERNS if not any(covers(e, n) for e in PATTERNS_IN)] == []


def test_every_place_that_is_allowed_is_needed():
    unused = [e for e in PATTERNS_IN if not any(covers(e, n) for n in LOOK_FOR_PATTERNS)]
    assert unused == []


# The two laws of docs/design.md: rewriting ends before analyses are taken for facts, and a
# generator neither analyses nor refuses.

REWRITES = "ir.rewrite.prepare.prepare"
REWRITTEN_ONLY_IN = "ir.plan.analyses"


def modules_of(*packages: str) -> list[str]:
    return [n for n in INNER_MODULES if any(f"{n}.".startswith(f"{p}.") for p in packages)]


@of_each(modules_of("ir.analysis", "ir.plan"))
def test_an_analysis_and_a_plan_change_nothing(name):
    """One module of the plan asks for all rewrites at once, and no module writes code."""
    builders = {"Builder", "LaneBuilder"}
    wrong = [
        target
        for target, _ in internal_imports(name)
        if target.rpartition(".")[2] in builders
        or (target.startswith("ir.rewrite.") and (target, name) != (REWRITES, REWRITTEN_ONLY_IN))
    ]
    assert not wrong, f"{name} imports {wrong}"


@of_each(modules_of("ir.plan", "ir.generate", "pipeline"))
def test_only_who_makes_plans_prepares_and_analyses(name):
    """From facts on, the function that a plan is about stays as it is."""
    makers = {"ir.plan.planning", "ir.plan.forward_plan"}
    stages = {"ir.plan.analyses.prepared", "ir.plan.facts.analyse"}
    wrong = [target for target, _ in internal_imports(name) if target in stages]
    assert not wrong or name in makers, f"{name} imports {wrong}"


@of_each(modules_of("ir.generate"))
def test_a_generator_does_not_analyse(name):
    """It may know what results of analyses are, the classes; not how they are found."""
    wrong = [
        target
        for target, _ in internal_imports(name)
        if target.startswith(("ir.analysis.", "ir.normal.normal_form."))
        and not target.rpartition(".")[2][0].isupper()
    ]
    assert not wrong, f"{name} imports {wrong}"


@of_each(modules_of("ir.generate"))
def test_a_generator_does_not_refuse(name):
    errors = [t for t, _ in internal_imports(name) if t.startswith(("errors", "ir.llvm.refusal"))]
    raised = [
        ast.unparse(node)
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.Raise)
        and not (isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) == "AssertionError")
    ]
    assert not errors + raised, f"{name}: {errors + raised}"


def plans() -> list[tuple[str, ast.ClassDef]]:
    """The classes of facts and plans."""
    return [
        (name, node)
        for name in modules_of("ir.plan")
        for node in tree_of(name).body
        if isinstance(node, ast.ClassDef) and node.name in {"Facts", "Plan", "ForwardPlan"}
    ]


@pytest.mark.parametrize("node", [n for _, n in plans()], ids=[n.name for _, n in plans()])
def test_a_plan_is_complete_when_it_is_made(node):
    """Frozen, without a field that has a default or can be written into."""
    assert any("frozen=True" in ast.unparse(each) for each in node.decorator_list)
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    assert fields
    assert all(field.value is None for field in fields)
    assert not [
        f for f in map(ast.unparse, fields) if ": dict" in f or ": list" in f or ": set" in f
    ]
