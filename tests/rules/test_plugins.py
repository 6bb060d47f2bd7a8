"""Packages that announce rules by an entry point."""

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
        plugins.load()
        assert [name for name in sys.modules if name in modules] == modules
    finally:
        for module in modules:
            sys.modules.pop(module, None)
