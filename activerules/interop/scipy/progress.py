"""A bar that counts the evaluations of a function."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from activerules import extras


@contextmanager
def counted(function: Callable[..., Any], progress: Any, title: str) -> Generator[Any]:
    """The function, with a bar that each call of it advances by one.

    progress   False for no bar; True for one of tqdm; or an object with `update` and, to show the
               value, `set_postfix`, such as a bar of `tqdm.notebook`, which is left open.
    """
    if progress is False or progress is None:
        yield function
        return
    bar: Any = progress
    if progress is True:
        why = "it draws what `progress=True` asks for"
        bar = extras.load("tqdm", "progress", why).tqdm(desc=title, unit=" evaluations")

    def call(*args: Any, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        if hasattr(bar, "set_postfix"):
            bar.set_postfix(value=f"{_size_of(value):.6g}", refresh=False)
        bar.update(1)
        return value

    try:
        yield call
    finally:
        if progress is True:
            bar.close()


def _size_of(value: Any) -> float:
    """What is shown of a value: a number itself, half the sum of squares of residuals."""
    first = value[0] if isinstance(value, tuple) else value
    array = np.asarray(first)
    return float(array) if array.ndim == 0 else 0.5 * float(np.vdot(array, array).real)
