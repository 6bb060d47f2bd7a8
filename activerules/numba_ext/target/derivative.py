"""The result of the pipeline: a compiled derivative and how to call it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

from activerules.errors import Where
from activerules.ir.derivatives.rulecall import ActivityName
from activerules.values.layout import ValueActivity

if TYPE_CHECKING:
    from activerules.numba_ext.target.marked_calls import MarkedCall


class ArgumentsOverlap(Exception):
    """The arguments of a derivative overlap and its version for that case is not compiled yet.

    Raised before anything has run.
    """


@dataclass(frozen=True)
class Versions:
    """The symbols of a derivative's versions, and which of them a call runs.

    symbol        assumes that no array that is written overlaps another.
    conservative  assumes nothing about overlap; `symbol` itself if that assumes nothing; None if
                  nothing is written: arguments may overlap, shadows may not.
    assumption    i1 symbol(primal parameters, with shadows as in `CompiledDerivative`): whether
                  what `symbol` assumes about the arguments holds, in addition; otherwise the
                  conservative version must be called. None if it assumes nothing.
    deferred      whether the conservative version is still to be compiled: a call that needs it
                  raises `ArgumentsOverlap` before anything has run.
    """

    symbol: str
    conservative: str | None
    assumption: str | None = None
    deferred: bool = False


@dataclass(frozen=True)
class Again:
    """What serves to differentiate the text of a derivative again.

    sources              by the symbol of each forward rule that the text calls: a function that
                         makes, for an AD target context, a library with its IR.
    called               the marked calls without a forward rule (inactive, or of constants), by the
                         symbol of the compiled function that the text calls instead. They become
                         marked calls again.
    ordinary, expensive  whether the text of a gradient can be differentiated, and if so, whether
                         several tangents can share much of its work: see `pipeline.ordinary`.
    """

    sources: Mapping[str, Callable[[Any], Any]] = field(default_factory=lambda: {})
    called: Mapping[str, MarkedCall] = field(default_factory=lambda: {})
    ordinary: bool = False
    expensive: bool = False


@dataclass(frozen=True)
class CompiledDerivative:
    """The derivative of one function for one activity signature, as LLVM IR to link and call.

        i32 symbol(primal parameters, each followed by a shadow pointer if it is Duplicated,
                   ptr derivatives, ptr stats)

    In forward mode (`symbol` ends in `.forward`) neither `derivatives` nor `stats` are parameters,
    floats are Duplicated too, and each such parameter is followed by `width` tangents or shadows.
    In reverse mode `derivatives` are those of all lanes, side by side.

    In split mode it is two functions and a destructor, over `memory` bytes that begin at a multiple
    of 16; they are described in `ir.generate.split`, and `symbol` is their common stem:

        symbol.augmented    symbol.reverse    symbol.drop

    text              LLVM IR that defines all of `versions`.
    function          the name of the function, as users write it.
    result_type       Numba type of what the primal returns.
    return_activity   whether its cotangent (one) is stored in the shadow of the return memory.
    parameters        activity of each LLVM parameter of the primal, `retptr` and `excinfo` first.
    written           per Numba argument: whether the primal writes into it.
    scratch           per Numba argument: whether it is Const but needs a shadow of zeros during the
                      call, because the primal mixes its memory with active memory.
    options           of the mode; "runtime_activity" concerns the caller.
    libraries         Numba code libraries to link with it, and `MachineCode` to load.
    environments      the Numba environments that the text names, which live as long as this: `link`
                      finds them by name in a table of Numba that does not keep them alive.
    memory            bytes the functions of split mode share.
    width             tangents or shadows per Duplicated parameter.
    returns_of_rule   whether the function returns the result of calls with rules, or sums of them:
                      those rules can depend on whether the result is read.
    requested         the function and arguments it was compiled for, as errors name them.
    """

    versions: Versions
    text: str
    function: str
    result_type: Any
    return_activity: ActivityName
    parameters: tuple[ActivityName, ...]
    written: tuple[bool, ...]
    scratch: tuple[bool, ...]
    options: frozenset[str] = frozenset()
    libraries: tuple[Any, ...] = ()
    environments: tuple[Any, ...] = ()
    memory: int = 0
    width: int = 1
    returns_of_rule: bool = False
    again: Again = field(default_factory=Again)
    requested: Where | None = None

    @cached_property
    def draws(self) -> bool:
        """Whether it draws random numbers as `np.random` and `random` do, from a state of the
        thread: one more run then draws others.
        """
        # late: they import much
        from activerules.numba_ext.target.effects import library_draws
        from activerules.numba_ext.target.symbols import RANDOM_STATES

        in_text = any(name in self.text for name in RANDOM_STATES)
        return in_text or any(map(library_draws, self.libraries))

    @property
    def symbol(self) -> str:
        """The symbol of the usual version, or the stem of its functions; it identifies `text`."""
        return self.versions.symbol


@dataclass(frozen=True)
class DerivativeSpec:
    """The derivative that is requested of a function; the key of a compiled derivative.

    argtypes         Numba types of the arguments.
    activities       of each argument.
    return_activity  None: in reverse mode Active if the function returns a float, else Const; in
                     forward mode the tangent of what it returns, if that has one. In forward mode
                     "const" is the only other value.
    mode             "split" is reverse mode as two functions, see `CompiledDerivative`.
    options          of the mode.
    width            number of cotangents or tangents. In reverse mode the derivative may still have
                     width 1, if the sweeps of several cotangents cannot share code.
    deferred         the version for overlapping arguments may be compiled later, see `Versions`.
    again            it is itself differentiated: in forward mode a reverse pair then replaces a
                     missing forward rule.
    needs_primal     whether the primal's result is read, on which rules can depend.
    """

    argtypes: tuple[Any, ...]
    activities: tuple[ValueActivity, ...]
    return_activity: ActivityName | None = None
    mode: Literal["reverse", "split", "forward"] = "reverse"
    options: frozenset[str] = frozenset()
    width: int = 1
    deferred: bool = False
    again: bool = False
    needs_primal: bool = True


class DerivativeCompiler(Protocol):
    """The function by which typing asks the pipelines for a derivative."""

    def __call__(self, function: Any, spec: DerivativeSpec, /) -> CompiledDerivative:
        """Compile a derivative of a dispatcher."""
        ...
