"""The examples in docstrings give what they say, and the API reference lists every public name."""

import doctest
import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

from activerules import interface

ROOT = Path(__file__).parents[1]
WITH_EXAMPLES = sorted(
    path for path in (ROOT / "activerules").rglob("*.py") if ">>> " in path.read_text()
)
REFERENCE = ROOT / "docs" / "reference"


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.stem)
def test_examples_of_docstrings(path):
    """Every public name is there, as after `from activerules import *`."""
    if path.parent.name == "interop":
        pytest.importorskip(path.stem)
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    module = import_module(name.removesuffix(".__init__"))
    names = {name: getattr(interface, name) for name in interface.__all__}
    result = doctest.testmod(module, extraglobs=names)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("package", ["activerules", "chainrules", "testing", "ir"])
def test_every_public_name_is_in_the_reference(package):
    """`debug_mode` of chainrules is that of activerules."""
    name = package if package == "activerules" else f"activerules.{package}"
    public = set(interface.__all__ if package == "activerules" else import_module(name).__all__)
    listed = set()
    for page in REFERENCE.glob("*.md"):
        for block in re.findall(r"```\{eval-rst\}\n(.*?)```", page.read_text(), re.DOTALL):
            if f".. currentmodule:: {name}\n" in block:
                listed |= set(re.findall(r"^   (\w+)$", block, re.MULTILINE))
    assert listed == public - ({"debug_mode"} if package == "chainrules" else set())


def test_errors_in_docstrings_link_to_their_pages():
    written = runpy.run_path(str(ROOT / "docs" / "_ext" / "docstrings.py"))["rewritten"]
    [_, rubric, _, text, _] = written(["Raises", "    ArityError if `ArityError` fits, see"])
    assert rubric == ".. rubric:: Raises"
    assert text == ":exc:`~activerules.ArityError` if ``ArityError`` fits, see"
