"""The import layers of the package, read from its syntax trees.

    errors < annotations < rules < rules.library
    ir.types, ir.model, ir.parser, ir.printer < ir.analysis < ir.derive
    all of those, values.layout < numba_ext, values < requests, pipeline, autodiff, everyday
    < testing, explain

A module imports only from its own layer or from one below, and `ir` runs without Numba.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "activerules"
ROOT = Path(__file__).parents[1] / PACKAGE

# The longest prefix that matches decides. A layer may import any layer with a smaller or the same
# number; `rules` and `ir` stand side by side: neither may import the other.
LAYERS = {
    "errors": 0,
    "fallbacks": 1,
    "frame_room": 0,
    "help": 1,
    "annotations": 1,
    "values.argument": 2,
    "values": 7,
    "values.layout": 1,
    "rules": 2,
    "rules.library": 3,
    "chainrules": 8,
    "ir": 6,
    "ir.types": 3,
    "ir.model": 3,
    "ir.names": 3,
    "ir.escaped_names": 3,
    "ir.scalable": 3,
    "ir.never_returning": 3,
    "ir.aliases": 3,
    "ir.allocators": 3,
    "ir.builder": 3,
    "ir.by_value": 3,
    "ir.byte_blocks": 3,
    "ir.cfg": 3,
    "ir.complex_calls": 3,
    "ir.constants": 3,
    "ir.redirect": 3,
    "ir.copying": 3,
    "ir.handlers": 3,
    "ir.library_calls": 3,
    "ir.masked": 3,
    "ir.growing_stack": 3,
    "ir.constant_parts": 3,
    "ir.devirtualise": 3,
    "ir.float_bits": 3,
    "ir.leaves": 3,
    "ir.vector_parts": 3,
    "ir.reading": 4,
    "ir.scalarise": 3,
    "ir.short_axes": 3,
    "ir.lexer": 3,
    "ir.location": 3,
    "ir.normal_form": 3,
    "ir.equalities": 3,
    "ir.normalise": 3,
    "ir.one_entry": 3,
    "ir.operand_parser": 3,
    "ir.instruction_parser": 3,
    "ir.parser": 3,
    "ir.printer": 3,
    "ir.promises": 3,
    "ir.refusal": 3,
    "ir.rulecall": 3,
    "ir.runtime_calls": 3,
    "ir.analysis": 4,
    "ir.retype": 4,
    "ir.decide": 4,
    "ir.forward_loads": 4,
    "ir.derive": 5,
    "ir.differentiate": 6,
    "numba_ext": 7,
    "requests": 8,
    "stages": 8,
    "unserved": 8,
    "frozen": 8,
    "pipeline": 8,
    "directional": 8,
    "jacobian_blocks": 8,
    "jacobian_columns": 8,
    "jacobians": 8,
    "list_arguments": 8,
    "nested_lists": 8,
    "second": 8,
    "hessian_products": 8,
    "auxiliary": 8,
    "gradient_rules": 8,
    "nested_lanes": 8,
    "nested_rewrite": 8,
    "nested_options": 8,
    "nested_pullbacks": 8,
    "forward_pipeline": 8,
    "compile_derivative": 8,
    "autodiff": 8,
    "thunk": 8,
    "pullback": 8,
    "reverse_jacobians": 8,
    "everyday": 8,
    "recompute": 8,
    "testing": 9,
    "explain": 9,
    "interface": 10,
    "__main__": 10,
}
NUMBA_FREE = ("errors", "help", "ir")
LLVMLITE_ONLY_IN = ("ir.normalise", "ir.derive.assemble", "numba_ext", "values.identity")


def modules() -> list[str]:
    """Dotted names inside the package: `ir.model`, `rules` for a package, "" for the whole."""
    names = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def path_of(name: str) -> Path:
    base = ROOT.joinpath(*name.split(".")) if name else ROOT
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def imports(name: str) -> Iterator[tuple[str, int]]:
    """Absolute names imported anywhere in a module (function bodies too), with the line."""
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


def prefix_of(name: str) -> str | None:
    """The entry of LAYERS that covers a dotted name inside the package."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in LAYERS:
            return ".".join(parts[:length])
    return None


def internal_imports(name: str) -> Iterator[tuple[str, int]]:
    for target, line in imports(name):
        if target.startswith(PACKAGE + "."):
            yield target.removeprefix(PACKAGE + "."), line


INNER_MODULES = [name for name in modules() if name]


@pytest.mark.parametrize("name", INNER_MODULES)
def test_every_module_has_a_layer(name):
    assert prefix_of(name) is not None, f"{name} stands in no layer: add it to LAYERS"


@pytest.mark.parametrize("name", INNER_MODULES)
def test_imports_point_to_lower_layers(name):
    own = prefix_of(name)
    wrong = []
    for target, line in internal_imports(name):
        layer = prefix_of(target)
        if layer is None or own is None or LAYERS[layer] > LAYERS[own]:
            wrong.append(f"{path_of(name)}:{line} imports {target}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", INNER_MODULES)
def test_rules_and_engine_do_not_know_each_other(name):
    top = name.split(".")[0]
    forbidden = {"rules": "ir", "ir": "rules"}.get(top)
    wrong = [t for t, _ in internal_imports(name) if forbidden and t.split(".")[0] == forbidden]
    assert not wrong, f"{name} imports {wrong}"


@pytest.mark.parametrize("name", [n for n in INNER_MODULES if n.split(".")[0] in NUMBA_FREE])
def test_engine_needs_no_numba(name):
    wrong = [t for t, _ in imports(name) if t.split(".")[0] == "numba"]
    assert not wrong, f"{name} imports {wrong}"


@pytest.mark.parametrize("name", modules())
def test_llvmlite_stays_at_the_two_ends(name):
    if name.startswith(LLVMLITE_ONLY_IN):
        return
    wrong = [t for t, _ in imports(name) if t.split(".")[0] == "llvmlite"]
    assert not wrong, f"{name} imports {wrong}"


@pytest.mark.parametrize("name", modules())
def test_private_numba_api_stays_in_numba_ext(name):
    """`numba.core` and below is Numba's own business; only `numba_ext`, and the walks over values
    in IR, may know it: what a type is made of (`values.layout`) needs none of it.
    """
    if name.split(".")[0] in ("numba_ext", "values") and name != "values.layout":
        return
    private = ("numba.core", "numba.np", "numba.cpython")
    wrong = [t for t, _ in imports(name) if t.startswith(private)]
    assert not wrong, f"{name} imports {wrong}"
