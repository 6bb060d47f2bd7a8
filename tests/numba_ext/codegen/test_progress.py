"""A long compile says on a terminal what it is doing; a short one says nothing."""

import io
import sys
import threading
import time

import pytest
from numba.core.compiler_lock import global_compiler_lock

from activerules.numba_ext.codegen import progress as module
from activerules.numba_ext.codegen.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_terminal(monkeypatch):
    """Make stderr a terminal, in the test itself: pytest sets stderr after fixtures have run."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.delenv("ACTIVERULES_PROGRESS", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(module, "AFTER", 0.0)
    monkeypatch.setattr(module, "EVERY", 0.01)
    return stream


def ended(progress):
    progress._thread.join(timeout=10)
    return not progress._thread.is_alive()


def waits_for(terminal, text):
    """Whether a text is written, within ten seconds."""
    deadline = time.monotonic() + 10
    while text not in terminal.getvalue() and time.monotonic() < deadline:
        time.sleep(0.01)
    return text in terminal.getvalue()


def test_names_function_and_stage_and_leaves_nothing(monkeypatch):
    terminal = on_terminal(monkeypatch)
    progress = Progress()
    with progress.stage("loss", "plan"):
        assert waits_for(terminal, "\r\x1b[Kactiverules: derivative of loss: plan, 0 s")
        with progress.stage("solve", "capture"):
            assert waits_for(terminal, "derivative of loss: capture of solve, ")
    assert ended(progress)
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_what_numba_does_afterwards_is_told(monkeypatch):
    terminal = on_terminal(monkeypatch)
    progress = Progress()
    with global_compiler_lock:
        with progress.stage("loss", "verify"):
            assert waits_for(terminal, "verify")
        assert waits_for(terminal, "derivative of loss: LLVM, ")
    assert ended(progress)
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_short_compile_says_nothing(monkeypatch):
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(module, "AFTER", 60.0)
    progress = Progress()
    with progress.stage("loss", "plan"):
        time.sleep(0.05)
    assert ended(progress)
    assert terminal.getvalue() == ""


def test_a_line_fits_the_terminal(monkeypatch):
    terminal = on_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "30")
    progress = Progress()
    with progress.stage("a_function_with_a_long_name", "plan"):
        assert waits_for(terminal, "derivative")
    assert ended(progress)
    assert max(map(len, terminal.getvalue().split("\r\x1b[K"))) == 29


def test_silence(monkeypatch):
    on_terminal(monkeypatch)
    monkeypatch.setenv("ACTIVERULES_PROGRESS", "0")
    progress = Progress()
    with progress.stage("loss", "plan"):
        assert progress._thread is None
    monkeypatch.delenv("ACTIVERULES_PROGRESS")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    before = threading.active_count()
    with progress.stage("loss", "plan"):
        assert threading.active_count() == before


def test_a_stage_that_raises_is_over(monkeypatch):
    on_terminal(monkeypatch)
    progress = Progress()
    with pytest.raises(ValueError, match="no"), progress.stage("loss", "plan"):
        raise ValueError("no")
    assert ended(progress)
