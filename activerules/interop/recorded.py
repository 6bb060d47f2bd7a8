"""A pullback that goes on from the forward sweep in which the function was run.

JAX and PyTensor call a function and its pullback apart, with nothing but arrays in between. So the
function that is run has one more result, the number of its tape, and the pullback one more
argument, that number. It may find no tape, as when it is called a second time: then it runs the
function again, so that what is kept decides about time alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit

from activerules.interop.functions import ArrayFunction, Batched, Derived, Kind, arguments
from activerules.interop.tapes import TAPES
from activerules.rules.written import function_from

_NUMBER: Kind = (np.dtype(np.int64), 0)


def recorded(function: ArrayFunction, wrt: tuple[int, ...]) -> ArrayFunction | None:
    """The function with one more result, the number of a tape for the cotangents of the arguments
    in `wrt`; None if it has such a result already.
    """
    if isinstance(function, Batched):
        item = recorded(function.origin, wrt)
        return None if item is None else item.batched()
    if isinstance(function, _Recorded):
        return None
    return function.derivative("recorded", wrt, lambda: _Recorded(function, wrt))


def continued(function: ArrayFunction) -> ArrayFunction:
    """The function of one more argument, the number of a tape: its pullback for the same arguments
    as the tape goes on from there.
    """
    if isinstance(function, Batched):
        return continued(function.origin).batched()
    return function.derivative("continued", (), lambda: _Continued(function))


class _Recorded(Derived):
    def __init__(self, function: ArrayFunction, wrt: tuple[int, ...]) -> None:
        super().__init__(function, function.kinds, (*function.results, _NUMBER))
        self._wrt = wrt

    def run(self, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """The results and the number."""
        function = self.origin
        args = arguments(arrays, [True] * len(arrays))  # a tape may refer to them
        out, pull = function.record(args, self._wrt)
        results = function.apart((out,) if function.single else out, [*map(np.asarray, args)])
        return [*results, np.asarray(TAPES.keep((self._wrt, pull)))]

    def pushforward(self, wrt: tuple[int, ...]) -> ArrayFunction:
        """That of the function: the number has no tangent."""
        return self.origin.pushforward(wrt)

    def pullback(self, wrt: tuple[int, ...]) -> ArrayFunction:
        """That of the function, likewise."""
        return self.origin.pullback(wrt)


class _Continued(Derived):
    def __init__(self, function: ArrayFunction) -> None:
        super().__init__(function, (*function.kinds, _NUMBER), function.results)

    @property
    def single(self) -> bool:
        """Like the function itself."""
        return self.origin.single

    @cached_property
    def written(self) -> tuple[bool, ...]:
        """Like the function itself."""
        return (*self.origin.written, False)

    def record(self, args: Sequence[Any], wrt: tuple[int, ...]) -> tuple[Any, Any]:
        """The tape of that number, without a result; or a new one."""
        kept_wrt, pull = TAPES.take(int(args[-1])) or (None, None)
        return (None, pull) if kept_wrt == wrt else self.origin.record(args[:-1], wrt)

    @cached_property
    def dispatcher(self) -> Any:
        """The function in compiled form, which is needed to differentiate its derivatives."""
        names = "".join(f"x{k}, " for k, _ in enumerate(self.origin.kinds))
        source = f"def continued({names}number):\n    return function({names})\n"
        scope = {"function": self.origin.dispatcher}
        return njit(function_from(source, "continued", scope, module=__name__))
