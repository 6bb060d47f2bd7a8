"""Packages that announce rules by an entry point."""

import os
import subprocess
import sys

import pytest

from activerules.rules import plugins


@pytest.mark.parametrize("folders", [("first", "second"), ("second", "first")])
def test_packages_are_imported_in_the_order_of_their_names(folders, tmp_path, monkeypatch):
    """Wherever they are installed: of two that exclude each other the same one has its rules."""
    names = dict(zip(folders, ("zebra", "antelope"), strict=True))
    for folder, name in names.items():
        site = tmp_path / folder
        metadata = site / f"{name}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[activerules.rules]\n{name} = {name}_rules\n")
        (site / f"{name}_rules.py").write_text("")
    for folder in ("second", "first"):
        monkeypatch.syspath_prepend(str(tmp_path / folder))
    modules = [f"{name}_rules" for name in ("antelope", "zebra")]
    try:
        plugins.load_once.__wrapped__()
        assert [name for name in sys.modules if name in modules] == modules
    finally:
        for module in modules:
            sys.modules.pop(module, None)


RULES = """
from activerules.chainrules import frule, rrule
from doubling import double

@rrule.register(double)
def double_rrule(f, x):
    return 2.0 * x, lambda dy: (None, 2.0 * dy)

@frule.register(double)
def double_frule(dargs, f, x):
    return 2.0 * x, 2.0 * dargs[1]
"""


@pytest.mark.parametrize("call", ["rrule(double, 3.0)", "frule((None, 1.0), double, 3.0)"])
def test_a_direct_call_is_a_use_that_imports_them(call, tmp_path):
    metadata = tmp_path / "doubling-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: doubling\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[activerules.rules]\ndoubling = doubling_rules\n")
    (tmp_path / "doubling.py").write_text("def double(x):\n    return x + x\n")
    (tmp_path / "doubling_rules.py").write_text(RULES)
    program = f"""
from activerules.chainrules import frule, rrule
from doubling import double
assert {call}[0] == 6.0
"""
    path = os.pathsep.join([str(tmp_path), *sys.path])
    subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": path}, check=True
    )
