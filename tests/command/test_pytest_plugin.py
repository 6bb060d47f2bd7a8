"""The package of the page on rules for packages, tested with the plugin of pytest."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "rules_for_your_package.md"
FILE = re.compile(r"```\{code-block\} \w+\n:caption: (\S+)\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The files of the page, and the metadata that installing them writes."""
    folder = tmp_path_factory.mktemp("splines")
    for name, text in FILE.findall(PAGE.read_text()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    metadata = folder / "src" / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    )
    (metadata / "entry_points.txt").write_text(points)
    return folder


def run(package, *options):
    """The exit status of pytest, and its output."""
    own = ["-p", "activerules.command.pytest_plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *own, *options],
        cwd=package,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{package / 'src'}",
            # where it is installed it would be loaded a second time, by its entry point
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_package_of_the_page_passes(package):
    workers = ["-p", "xdist", "-n", "1"] if find_spec("xdist") else []
    status, output = run(package, "--activerules-unchecked=splines", *workers)
    assert "0 of 2 without a check" in output
    assert status == 0


def test_a_rule_without_a_check_is_listed_and_fails(package):
    test = package / "tests" / "test_nothing.py"
    test.write_text(
        "import activerules as ar\nfrom splines import softplus\n\n"
        "def test_slope():\n    assert ar.rules_for(softplus)\n"
    )
    chosen = ["tests/test_nothing.py"]
    status, output = run(package, "--activerules-unchecked=splines", *chosen)
    assert "2 of 2 without a check" in output
    assert re.search(r"softplus\(x: Active\) -> Active   .*src/splines/rules\.py:\d+", output)
    assert status == 1
    assert run(package, *chosen)[0] == 0  # off unless asked for


def test_a_package_without_rules_is_said_to_have_none(package):
    status, output = run(package, "--activerules-unchecked=spline", "tests/test_nothing.py")
    assert "spline defines no rules, or was not imported" in output
    assert status == 1


def test_the_plugin_is_announced_and_imports_nothing():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (module,) = project["entry-points"]["pytest11"].values()
    code = f"import sys, {module}; print({{'numba', 'numpy', 'llvmlite'}} & {{*sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
