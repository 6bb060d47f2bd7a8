"""Files of compiled code: whole and of the right key, or missing."""

from pathlib import Path

import pytest
from numba.core import config

from activerules.numba_ext.codegen import files


def test_a_file_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    path, key = str(tmp_path / "folder" / "a.rule"), 32 * "k"
    assert files.read_file(path, key) is None
    files.write_file(path, key, ("told", b"bitcode"))
    assert files.read_file(path, key) == ("told", b"bitcode")
    assert files.read_file(path, 32 * "l") is None
    whole = Path(path).read_bytes()
    for wrong in (b"", b"\x80\x04).", whole[:20], whole[:-1], whole + b"x", whole.swapcase()):
        Path(path).write_bytes(wrong)
        assert files.read_file(path, key) is None
    assert [file.name for file in (tmp_path / "folder").iterdir()] == ["a.rule"]
    Path(path).unlink()
    Path(path).mkdir()  # in the way
    files.write_file(path, key, ("told", b"bitcode"))
    assert files.read_file(path, key) is None


def test_settings_of_numba_tell_the_code_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    before = files.settings()
    monkeypatch.setattr(config, "BOUNDSCHECK", 1)
    assert files.settings() != before
