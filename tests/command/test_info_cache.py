"""`python -m activerules info` and `cache`: what is there, and that it can be removed."""

import subprocess
import sys

import numba
import numpy as np
import pytest

from activerules.command.main import main
from activerules.numba_ext.codegen.processor import processor
from activerules.numba_ext.rules import stored


def test_info_has_what_a_bug_report_needs(capsys, monkeypatch):
    monkeypatch.setenv("NUMBA_OPT", "3")
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in out.splitlines()}
    assert (rows["numba"], rows["numpy"]) == (numba.__version__, np.__version__)
    assert processor()[1] in rows["processor"]
    assert "NUMBA_OPT=3" in rows["settings"]
    assert str(stored.folders()[0]) in out


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache directory of two rules and a derivative, and a file of somebody else."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    (tmp_path / "one").mkdir()
    for name in ("activerules-rule-a.1.rule", "one/activerules-rule-b.2.rule", "one/mine.rule"):
        (tmp_path / name).write_bytes(b"12")
    (tmp_path / "one" / "module.f.grad_f-1.py311.0.derivative").touch()
    return tmp_path


def test_cache_says_what_there_is(capsys, folder):
    assert main(["cache"]) == 0
    assert capsys.readouterr().out == f"{folder}: 3 compiled rules and derivatives, 0.0 MiB\n"


def test_clear_removes_rules_and_nothing_else(capsys, folder):
    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out == "3 compiled rules and derivatives removed\n"
    assert [file.name for file in folder.rglob("*.rule")] == ["mine.rule"]
    assert main(["cache", "--clear", str(folder / "one")]) == 0
    assert capsys.readouterr().out == "0 compiled rules and derivatives removed\n"


def test_a_folder_that_is_not_there(capsys, folder):
    assert main(["cache", "--clear", str(folder / "nowhere")]) == 2
    assert "CommandError: there is no folder" in capsys.readouterr().err
    assert stored.stored_in(folder)


def test_a_reader_that_closes_the_pipe_is_no_wrong_gradient():
    """Exit status 1 is for gradients; and `head` wants no traceback."""
    command = [sys.executable, "-m", "activerules", "info"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        run.stdout.close()
        assert (run.stderr.read(), run.wait()) == (b"", 2)
