"""What is said twice must agree: versions, releases of Python and Numba, commands."""

import hashlib
import io
import json
import re
import runpy
import sys
import tarfile
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import activerules as ar
from activerules.numba_ext.codegen.numba_versions import TESTED

ROOT = Path(__file__).parents[1]
NOX = (ROOT / "noxfile.py").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_version():
    assert ar.__version__ == PROJECT["version"]


def test_what_is_published_elsewhere_has_the_same_version_and_pins():
    citation = (ROOT / "CITATION.cff").read_text()
    recipe = (ROOT / ".ci/conda-forge/recipe.yaml").read_text()
    assert re.findall(r"^version: (.*)$", citation, re.MULTILINE) == [PROJECT["version"]]
    assert re.findall(r'^  version: "(.*)"$', recipe, re.MULTILINE) == [PROJECT["version"]]
    for needed in [*PROJECT["dependencies"], "python" + PROJECT["requires-python"]]:
        assert f"    - {re.sub('(?=>=)', ' ', needed)}\n" in recipe


def test_commands_of_the_recipe_are_texts():
    """In YAML an item with a colon and a space is a mapping, unless it is quoted."""
    recipe = (ROOT / ".ci/conda-forge/recipe.yaml").read_text()
    items = re.findall(r"^ +- (.*)$", recipe, re.MULTILINE)
    assert any("lambda" in item for item in items)
    for item in items:
        assert item.startswith("'") or ": " not in item, item


def test_the_recipe_is_filled_for_the_source_of_its_version(tmp_path):
    fill = runpy.run_path(str(ROOT / ".ci/conda-forge/fill.py"))["filled"]
    name = f"activerules-{PROJECT['version']}"
    archive = tmp_path / f"{name}.tar.gz"

    def write(version):
        metadata = f"Name: activerules\nVersion: {version}\n".encode()
        info = tarfile.TarInfo(f"{name}/PKG-INFO")
        info.size = len(metadata)
        with tarfile.open(archive, "w:gz") as files:
            files.addfile(info, io.BytesIO(metadata))

    write(PROJECT["version"])
    assert f"  sha256: {hashlib.sha256(archive.read_bytes()).hexdigest()}\n" in fill(archive)
    write("0.0.1")
    with pytest.raises(SystemExit, match="is not of version"):
        fill(archive)
    with pytest.raises(SystemExit, match=r"this is other\.tar\.gz"):
        fill(tmp_path / "other.tar.gz")


def test_pins_are_the_tested_releases():
    """What pip installs is what the package accepts at import."""
    pins = {
        name: tuple(tuple(map(int, bound.split("."))) for bound in bounds)
        for name, *bounds in re.findall(
            r"^(\w+)>=([\d.]+),<([\d.]+)$",
            "\n".join([*PROJECT["dependencies"], "python" + PROJECT["requires-python"]]),
            re.MULTILINE,
        )
    }
    assert pins == TESTED


def test_the_description_links_to_nothing_that_pypi_lacks(monkeypatch):
    """Hatchling is there while the package is built, not where it is tested."""
    interface = SimpleNamespace(MetadataHookInterface=object)
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))["Description"]()
    hook.root, metadata = str(ROOT), {}
    hook.update(metadata)
    text = metadata["readme"]["text"]
    assert all(link.startswith("https://") for link in re.findall(r"\]\((.*?)\)", text))
    assert "- Start, tutorial, and fourteen examples of real work\n" in text
    assert "[-2.  4. -2.]\n" in text


def test_classifiers_name_the_supported_pythons():
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert PROJECT["requires-python"] == ">=3.11,<3.16"
    assert named == ["3.11", "3.12", "3.13", "3.14", "3.15"]
    assert "(3, 11) <= sys.version_info[:2] <= (3, 15)" in (ROOT / ".ci/find-python").read_text()


def test_commands_of_the_contributing_page_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in ("CONTRIBUTING.md", "README.md"):
        for command in re.findall(r"`make ([a-z-]+)[^`]*`", (ROOT / page).read_text()):
            assert command in targets, command


def test_nox_runs_every_supported_numba():
    """`test` runs the newest, which pip installs."""
    (low, high), listed = TESTED["numba"], re.search(r"NUMBAS = (\[.*?\])", NOX)
    assert json.loads(listed[1]) == [f"0.{minor}" for minor in range(low[1], high[1] - 1)]


def test_releases_that_the_readme_names():
    (low, high) = TESTED["numba"]
    assert f"Numba 0.{low[1]} to 0.{high[1] - 1})" in (ROOT / "README.md").read_text()


def test_typed():
    assert (ROOT / "activerules" / "py.typed").exists()
