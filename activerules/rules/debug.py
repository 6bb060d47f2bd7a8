"""Debug mode: whether rules are checked at every call, and what is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from activerules.rules.registry import RULES


@dataclass(frozen=True)
class Checks:
    """primal: the rule is compared with the function; derivatives: with finite differences."""

    primal: bool
    derivatives: bool


class debug_mode:
    """Check every call of a rule at run time; `with debug_mode(): ...` or `debug_mode(True)`.

    A rule that breaks its protocol raises `RuleViolation` there: its result, or what it writes,
    differs from the function's; the derivative differs from finite differences; a shadow
    does not have the shape of the primal, or is not zero; an argument is written that the function
    does not write; the reverse reads what was overwritten since; a derivative is NaN or infinite
    although its inputs are finite; the reverse writes into its tape, or into the result.
    Differentiated functions and rules check their indices, too, as under `boundscheck=True`: a
    derivative writes where the function reads past the end of an array.

    With `primal=False` the function is not run beside its rule, as it should not be if it prints or
    draws random numbers (functions of np.random are recognised); `derivatives=False` leaves out
    finite differences, for a rule that differs from them on purpose. A call that passes one array
    twice is not compared: its shadow gets the derivatives with respect to both arguments.

    The mode applies to the process: code compiled in it has the checks, `@njit` functions compiled
    before do not. Each call costs several runs of the function.
    """

    def __init__(
        self, on: bool | None = None, *, primal: bool = True, derivatives: bool = True
    ) -> None:
        self._checks = Checks(primal, primal and derivatives)
        self._before: Any = None
        if on is not None:
            RULES.debug = self._checks if on else None

    def __enter__(self) -> debug_mode:
        """Turn debug mode on."""
        self._before = RULES.debug
        RULES.debug = self._checks
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the setting from before."""
        RULES.debug = self._before
