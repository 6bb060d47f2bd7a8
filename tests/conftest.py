"""Fixtures and settings shared by all tests."""

import os

# Numba reads its settings once, at import: allocation counts are needed to see leaks.
os.environ.setdefault("NUMBA_NRT_STATS", "1")
# Parallel loops are tested with more threads than there may be cores.
os.environ.setdefault("NUMBA_NUM_THREADS", "4")

import gc
from collections.abc import Callable, Generator, Iterator
from dataclasses import fields, replace
from functools import partial

import hypothesis
import numba
import pytest

from activerules.pipeline.stack_space import with_stack_space
from tests import less_compiling

hypothesis.settings.register_profile("project", deadline=None, derandomize=True)
hypothesis.settings.load_profile("project")

# Compilers make garbage by the million objects, and what they keep is kept for good: a sixth of the
# time of these tests would go into looking through it again and again.
gc.set_threshold(1_000_000, 1_000, 1_000)
# In parts that the processor's cache holds, what is to be freed is found in less time.
NEW_OBJECTS_BETWEEN_COLLECTIONS = 50_000

if not {"ALL_PROGRAMS", "FUZZ_PROGRAMS"} & os.environ.keys():  # by night, Numba is as it is
    less_compiling.apply()


def pytest_runtest_teardown() -> None:
    """What is alive after a while is not looked at again."""
    if gc.get_count()[0] > NEW_OBJECTS_BETWEEN_COLLECTIONS:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """pytest calls the test where what it compiles has room: Numba's own compiler, too."""
    test = pyfuncitem.obj
    pyfuncitem.obj = partial(with_stack_space, test)
    try:
        return (yield)
    finally:
        pyfuncitem.obj = test


def pytest_addoption(parser: pytest.Parser) -> None:
    """Goldens are rewritten by intent only; then the difference is read."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


@pytest.fixture
def unfreed() -> Callable[[Callable[[], object]], int]:
    """`unfreed(action)`: how many allocations of Numba's runtime `action` makes and never frees.

    The action runs once before it is counted: compiled constants live as long as the process. An
    exception that it catches may keep arrays alive until the collector comes.
    """
    from numba.core.runtime import rtsys

    def count(action: Callable[[], object]) -> int:
        action()
        gc.collect()
        gc.freeze()  # nor is what is alive now looked at again
        before = rtsys.get_allocation_stats()
        action()
        gc.collect()
        after = rtsys.get_allocation_stats()
        return (after.alloc - before.alloc) - (after.free - before.free)

    return count


@pytest.fixture
def rules_of_this_test() -> Iterator[None]:
    """What the test declares of functions that everybody uses is forgotten after it."""
    import activerules.numba_ext.substitutes.generator_draws
    import activerules.rules.library  # noqa: F401  (not to be forgotten)
    from activerules.rules import pickled
    from activerules.rules.registry import RULES

    def copied(entry):
        parts = {f.name: getattr(entry, f.name) for f in fields(entry)}
        containers = {k: type(v)(v) for k, v in parts.items() if isinstance(v, list | set)}
        rules = {half: list(group) for half, group in entry.rules.items()}
        return replace(entry, rules=rules, **containers)

    before, of_users = {k: copied(entry) for k, entry in RULES._entries.items()}, {*RULES._of_users}
    names = {module: {*functions} for module, functions in pickled._declaring.items()}
    yield
    RULES._entries.clear()
    RULES._entries.update(before)
    RULES._of_users = of_users
    pickled._declaring.clear()
    pickled._declaring.update(names)
    RULES.begin_epoch()


@pytest.fixture(params=[1, min(4, numba.config.NUMBA_NUM_THREADS)], ids="{}_threads".format)
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """How many threads run parallel loops."""
    numba.set_num_threads(request.param)
    yield request.param
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
