"""Reading command-line arguments: functions of modules, annotations, values, files."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numba import types

from activerules.annotations.activity import KINDS, Annotation
from activerules.errors import ActiverulesError, ActivityError, CommandError, Where


def load_function(written: str) -> Any:
    """The object that `module:name` or `path/to/file.py:name` names; imports the module.

    Raises `CommandError` if there is no such module or name, or the module cannot be imported.
    """
    source, colon, name = written.rpartition(":")
    if not colon:
        raise CommandError(
            f"`{written}` names no function",
            instead=["module:function", "path/to/file.py:function"],
        )
    named: Any = _load_module(source)
    for part in name.split("."):
        if not hasattr(named, part):
            file = getattr(named, "__file__", None) or ""
            raise CommandError(f"{source} has no function `{name}`", where=[("in", source, file)])
        named = getattr(named, part)
    if not callable(named):
        raise CommandError(
            f"`{name}` is not a function but {type(named).__name__}",
            where=[("in", source, "")],
        )
    return named


def _load_module(source: str) -> ModuleType:
    if not source.endswith(".py"):
        if not source or importlib.util.find_spec(source.partition(".")[0]) is None:
            raise CommandError(f"there is no module {source}", instead=["path/to/file.py:function"])
        return _imported(source, lambda: importlib.import_module(source))
    path = Path(source)
    if not path.is_file():
        raise CommandError(f"there is no file {source}")
    spec = importlib.util.spec_from_file_location(path.stem, path.absolute())
    assert spec is not None
    assert spec.loader is not None
    module, loader = importlib.util.module_from_spec(spec), spec.loader
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.absolute().parent))
    _imported(source, lambda: loader.exec_module(module))
    return module


def _imported(source: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except ActiverulesError:
        raise
    except (Exception, SystemExit) as error:
        raise CommandError(
            f"{source} cannot be imported: {type(error).__name__}: {error}",
            where=_location_of(error),
            why="the module of a function is imported, which runs its code",
        ) from error


def _location_of(error: BaseException) -> list[Where]:
    """The line that an import stopped at, unless it is in the import system itself."""
    if isinstance(error, SyntaxError) and error.filename:
        return [("at the line", (error.text or "").strip(), f"{error.filename}:{error.lineno}")]
    frame = traceback.extract_tb(error.__traceback__)[-1]
    if "importlib" in frame.filename:
        return []
    return [("at the line", frame.line or "", f"{frame.filename}:{frame.lineno}")]


def read_annotation(written: str) -> Any:
    """`Duplicated[float64[:, ::1]]` as an annotation, or a type of Numba."""
    try:
        return _evaluated(written, {})
    except Exception as error:
        raise ActivityError(
            f"`{written}` is not an annotation: {error}",
            instead=["Active[float64]", "Duplicated[float64[::1]]", "Const[int64]"],
        ) from error


def read_argument(written: str) -> Any:
    """`float64[::1]`, `Const[int64]`, or a value: `np.linspace(0, 1, 5)`."""
    try:
        return _evaluated(written, {"np": np})
    except Exception as error:
        raise CommandError(
            f"`{written}` is neither a type nor a value: {type(error).__name__}: {error}",
            instead=["float64[::1]", "Const[int64]", "np.linspace(0, 1, 5)"],
        ) from error


def _evaluated(written: str, modules: dict[str, Any]) -> Any:
    names: dict[str, Any] = {name: getattr(types, name) for name in types.__all__}
    names |= {kind.__name__: kind for kind in (*KINDS, Annotation, types.Tuple, types.UniTuple)}
    # the command line is that of the user who runs the command: there is no one to guard against
    return eval(written, {"__builtins__": {}}, names | modules)


def write_file(path: Path, text: str) -> None:
    """Write a whole file. Raises `CommandError` if that is not possible, and then leaves nothing.

    An existing file is replaced once everything is written; a pipe or device is written to.
    """
    path = path.resolve()
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        try:
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CommandError(f"{path} cannot be written: {reason}") from error
