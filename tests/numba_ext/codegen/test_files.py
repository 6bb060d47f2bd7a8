"""Files of compiled code: whole and of the right key, or missing."""

import os
from pathlib import Path

import pytest
from numba.core import config

from activerules.numba_ext.codegen import files


def test_f1_a_file_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    path, key = str(tmp_path / "folder" / "a.rule"), 32 * "k"
    assert files.read_file(path, key) is None
    files.write_file(path, key, ("symbol", b"bitcode"))
    assert files.read_file(path, key) == ("symbol", b"bitcode")
    assert files.read_file(path, 32 * "l") is None
    whole = Path(path).read_bytes()
    for wrong in (b"", b"\x80\x04).", whole[:20], whole[:-1], whole + b"x", whole.swapcase()):
        Path(path).write_bytes(wrong)
        assert files.read_file(path, key) is None
    assert [file.name for file in (tmp_path / "folder").iterdir()] == ["a.rule"]


def test_f2_a_file_is_replaced_by_one_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, key = str(tmp_path / "a.rule"), 32 * "k"
    files.write_file(path, key, "old")
    moved: list[str] = []

    def replace(source: str, target: str) -> None:
        assert files.read_file(source, key) == "new"  # complete when it takes the name
        assert files.read_file(target, key) == "old"
        moved.append(target)
        rename(source, target)

    rename = os.replace
    monkeypatch.setattr(files.os, "replace", replace)
    files.write_file(path, key, "new")
    assert moved == [path]
    assert files.read_file(path, key) == "new"


def test_f3_a_file_that_cannot_be_written_is_not(tmp_path: Path) -> None:
    path, key = tmp_path / "a.rule", 32 * "k"
    path.mkdir()  # in the way
    files.write_file(str(path), key, ("symbol", b"bitcode"))
    assert files.read_file(str(path), key) is None
    assert [file.name for file in tmp_path.iterdir()] == ["a.rule"]


def test_settings_of_numba_tell_the_code_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    before = files.settings()
    monkeypatch.setattr(config, "BOUNDSCHECK", 1)
    assert files.settings() != before
