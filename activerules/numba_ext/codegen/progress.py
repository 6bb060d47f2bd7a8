"""The progress of a long compilation, on the last line of a terminal.

After two seconds a line on stderr names the function and the stage; it is removed at the end.
Nothing is printed if stderr is not a terminal, or if `ACTIVERULES_PROGRESS=0` is set. After the
stages of a derivative, while Numba still compiles the function that calls it, LLVM is at work.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from numba.core.compiler_lock import global_compiler_lock
from numba.core.event import Listener, register, unregister

AFTER, EVERY = 2.0, 0.25

_CLEAR = "\r\x1b[K"
# the events of Numba's lock, which a thread holds while it compiles
_LOCK = "numba:compiler_lock"


class Progress(Listener):
    """Prints what has taken longer than `AFTER` seconds, and again every `EVERY` seconds."""

    def __init__(self) -> None:
        self._doing: list[tuple[str, str]] = []
        self._function = ""
        self._enclosed = False  # whether Numba compiles a caller of the derivative
        self._begun = 0.0
        self._shown = False
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None

    @contextmanager
    def stage(self, function: str, name: str) -> Generator[None]:
        """A context for a stage in the derivation of a function."""
        if not _wanted():
            yield
            return
        doing = function, name
        with self._guard:
            self._doing.append(doing)
            if self._thread is None or not self._thread.is_alive():
                self._begun, self._enclosed = time.monotonic(), global_compiler_lock.is_locked()
                self._function = function
                self._thread = threading.Thread(target=self._tell, daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._guard:
                self._doing.remove(doing)
                self._clear_if_over()

    def on_start(self, event: Any) -> None:
        """Do nothing: the thread may only be waiting for Numba's lock."""

    def on_end(self, event: Any) -> None:
        """Stop when the compiling thread releases Numba's lock."""
        if self._enclosed and not global_compiler_lock.is_locked():
            with self._guard:
                self._enclosed = False
                self._clear_if_over()

    def _tell(self) -> None:
        register(_LOCK, self)
        try:
            while True:
                with self._guard:
                    if not (self._doing or self._enclosed):
                        return
                    self._show(time.monotonic() - self._begun)
                time.sleep(EVERY)
        finally:
            unregister(_LOCK, self)

    def _show(self, seconds: float) -> None:
        if seconds > AFTER:
            text = f"activerules: derivative of {self._function}: {self._now()}, {seconds:.0f} s"
            _write(_CLEAR + text[: shutil.get_terminal_size().columns - 1])
            self._shown = True

    def _clear_if_over(self) -> None:
        if self._shown and not (self._doing or self._enclosed):
            _write(_CLEAR)
            self._shown = False

    def _now(self) -> str:
        """The innermost stage, and the function if it is another one, such as a rule."""
        if not self._doing:
            return "LLVM"
        function, name = self._doing[-1]
        return name if function == self._function else f"{name} of {function}"


def _wanted() -> bool:
    stream = sys.stderr
    silenced = os.environ.get("ACTIVERULES_PROGRESS") == "0"
    return stream is not None and not silenced and stream.isatty()


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


PROGRESS = Progress()
