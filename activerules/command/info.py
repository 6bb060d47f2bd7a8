"""`python -m activerules info`: the facts that a bug report needs."""

from __future__ import annotations

import argparse
import os
import platform
from importlib.metadata import PackageNotFoundError, version

from activerules.command.cache import described
from activerules.explain.text import columns
from activerules.numba_ext.codegen.processor import processor

_PACKAGES = "activerules numba llvmlite numpy scipy rich jax torch pytensor".split()
_SETTINGS = ("ACTIVERULES_", "NUMBA_")


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Add no arguments: the command has none."""


def run(_options: argparse.Namespace) -> int:
    """Print versions, the processor, settings and caches."""
    triple, name, features = processor()
    set_here = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(_SETTINGS)]
    vectors = [
        extension for extension in ("avx2", "avx512f", "neon", "sve") if f"+{extension}" in features
    ]
    rows = [
        *((package, _version(package)) for package in _PACKAGES),
        ("python", f"{platform.python_version()} ({platform.python_implementation()})"),
        ("platform", platform.platform()),
        ("processor", f"{name}, {', '.join(vectors) or 'no vector extension'} ({triple})"),
        ("processors", f"{os.cpu_count()}, for this process {_usable()}"),
        ("settings", ", ".join(set_here) or "none"),
        *(("cache", line) for line in described()),
    ]
    print("\n".join(columns(rows)))
    return 0


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _usable() -> int | None:
    """The number of processors the process may use; None if the system does not tell."""
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count()
