"""`python -m activerules warm`: rules are on disk, and other programs find them there."""

import os
import subprocess
import sys

import pytest

from activerules.command.main import main
from activerules.command.programs import PROGRAMS
from activerules.numba_ext.rules import stored

# Not a program of `warm`: it computes arguments, and keeps one constant.
OTHER_PROGRAM = """
import numpy as np
from numba import njit
import activerules as ar

@njit
def loss(x, y, scale):
    u = x * scale + 1.0
    return np.log(np.vdot(u, y)) + np.vdot(u, u)

x, y = np.array([1.0, 2.0]), np.array([3.0, 0.5])
for argnums in (0, (0, 1)):
    dx = ar.grad(loss, argnums=argnums)(x, y, 0.5)
    dx = dx[0] if argnums else dx
    u = 0.5 * x + 1.0
    np.testing.assert_allclose(dx, 0.5 * y / (u @ y) + u)
"""
WARM_AGAIN = """
from activerules.command.main import main

main(["warm", "np.vdot"])
"""


def in_new_process(folder, *arguments):
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def times_of(folder):
    return {file: file.stat().st_mtime_ns for file in stored.stored_in(folder)}


def test_later_processes_find_the_rules(tmp_path):
    first = in_new_process(tmp_path, "-m", "activerules", "warm", "np.vdot")
    written = times_of(tmp_path)
    assert len(written) >= 3  # one for each choice of active arguments
    assert first[0].endswith(f" {len(written)} files written")
    assert first[1].endswith(f", in {tmp_path}")

    second = in_new_process(tmp_path, "-c", OTHER_PROGRAM + WARM_AGAIN)
    assert second[0].endswith(" 0 files written")
    assert times_of(tmp_path) == written


@pytest.fixture
def nothing_compiled(monkeypatch):
    def fail(*_arguments, **_options):
        pytest.fail("a program was compiled")

    monkeypatch.setattr("activerules.command.warm.grad", fail)


def test_a_directory_that_cannot_be_written_to(tmp_path, monkeypatch, capsys, nothing_compiled):
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "cache"
    monkeypatch.setattr(stored.config, "CACHE_DIR", str(folder))
    assert main(["warm"]) == 2
    err = capsys.readouterr().err
    assert f"CommandError: compiled rules cannot be stored in {folder}: Not a directory" in err
    assert "NUMBA_CACHE_DIR=" in err


def test_no_directory_at_all(monkeypatch, capsys, nothing_compiled):
    monkeypatch.setattr("activerules.command.warm.folders", lambda: [])
    assert main(["warm"]) == 2
    assert "NUMBA_CACHE_DIR=" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["np.linalg.solv"], "CommandError: there is no function `np.linalg.solv` to warm; "),
        (["--types", "float64,int64"], "CommandError: there is no type `int64` to warm; "),
    ],
)
def test_unknown_names_are_listed(capsys, nothing_compiled, arguments, error):
    assert main(["warm", *arguments]) == 2
    err = capsys.readouterr().err
    assert error in err
    assert ("np.linalg.solve, " if "--types" not in arguments else "complex128, ") in err


def test_without_scipy(monkeypatch, capsys, nothing_compiled):
    monkeypatch.setitem(sys.modules, "scipy", None)
    assert main(["warm", "np.dot"]) == 2
    err = capsys.readouterr().err
    assert "MissingExtra: scipy is not installed" in err
    assert 'pip install "activerules[scipy]"' in err


def test_complex_arrays(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(stored.config, "CACHE_DIR", str(tmp_path))
    assert main(["warm", "np.linalg.cond", "--types", "complex128"]) == 0
    written = len(stored.stored_in(tmp_path))
    assert written > 0
    assert f"{written} files written" in capsys.readouterr().out


def test_list(capsys, nothing_compiled):
    assert main(["warm", "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == list(PROGRAMS)
