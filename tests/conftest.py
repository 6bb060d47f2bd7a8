"""Fixtures and settings shared by all tests."""

import os

# Numba reads its settings once, at import: allocation counts are needed to see leaks.
os.environ.setdefault("NUMBA_NRT_STATS", "1")

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import hypothesis
import pytest

hypothesis.settings.register_profile("project", deadline=None, derandomize=True)
hypothesis.settings.load_profile("project")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Goldens are rewritten by intent only; then the difference is read."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


@pytest.fixture
def no_leak() -> Callable:
    """A context manager: what is allocated inside from Numba's runtime is freed inside.

    Compile and create arrays before it: compiled constants live as long as the process.
    """
    from numba.core.runtime import rtsys

    @contextmanager
    def balanced() -> Iterator[None]:
        before = rtsys.get_allocation_stats()
        yield
        after = rtsys.get_allocation_stats()
        assert after.alloc - before.alloc == after.free - before.free
        assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free

    return balanced
