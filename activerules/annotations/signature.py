"""The modes of differentiation with their options, and what is asked for besides.

A mode is an immutable object; each of its options returns another mode.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from activerules.annotations.activity import Annotation, DuplicatedNoNeed
from activerules.errors import ActivityError, NotYetSupported, UnknownOption


@dataclass(frozen=True)
class GradientSpec:
    """What `grad`, `value_and_grad` and Jacobians ask for.

    argnums      positions of the arguments to differentiate with respect to.
    single       whether `argnums` was one number: the gradient is then not in a tuple.
    with_value   whether the function's value is returned with the gradient.
    holomorphic  whether arguments and result are complex, and f'(z) is asked for.
    deferred     whether the version for overlapping arguments is compiled only when a call needs
                 it.
    auxiliary    for a function that returns `(value, aux)`: the class of the Jacobian of its value.
    """

    argnums: tuple[int, ...]
    single: bool
    with_value: bool
    holomorphic: bool = False
    deferred: bool = False
    auxiliary: type | None = None

    @property
    def given(self) -> int | tuple[int, ...]:
        """The argnums as they were given: one number, or a tuple."""
        return self.argnums[0] if self.single else self.argnums


@dataclass(frozen=True)
class SplitSpec:
    """What `autodiff_thunk` and `vjp` ask for.

    result          the activity of the return value; `Annotation` for the one that fits its type.
    arguments       the activity of each argument.
    returns_primal  whether `augmented` also returns what the function returned.
    repeated        whether the reverse may run several times over one tape; its caller then says
                    when the first run begins and the last ends.
    options         the options of the mode.
    """

    result: type[Annotation]
    arguments: tuple[type[Annotation], ...]
    returns_primal: bool
    repeated: bool = False
    options: frozenset[str] = frozenset()

    @property
    def wants_primal(self) -> bool:
        """Whether what the function returned is asked for, and the activity does not forgo it."""
        return self.returns_primal and self.result is not DuplicatedNoNeed


@dataclass(frozen=True)
class PlainSpec:
    """How plain values make up the annotated arguments of a call.

    request   what the call asks for: a mode, or a `SplitSpec`.
    result    the activity given for the return value, if there was one.
    kinds     for each argument, the annotation whose fields its values are; None for a bare value.
    deferred  whether the version for overlapping arguments is compiled only when a call needs it.
    """

    request: Mode | SplitSpec
    result: type[Annotation] | None
    kinds: tuple[type[Annotation] | None, ...]
    deferred: bool = False


_OPTIONS = ("with_primal", "runtime_activity", "strong_zero", "holomorphic", "vector_math", "fast")


@dataclass(frozen=True, repr=False)
class Mode:
    """A mode of `autodiff` or `autodiff_thunk`: `Reverse`, `Forward`, `ReverseSplitNoPrimal` …

    direction        "reverse" or "forward".
    returns_primal   whether the result also holds what the function returned.
    split            whether augmented primal and reverse are separate functions.
    options          names of the options that were asked for.
    """

    direction: str
    returns_primal: bool = False
    split: bool = False
    options: frozenset[str] = frozenset()

    def with_primal(self) -> Mode:
        """Return the mode that also gives the function's own result."""
        return replace(self, returns_primal=True)

    def runtime_activity(self) -> Mode:
        """Return the mode in which an array that is its own shadow is constant: the pointers are
        compared when the derivative is called. Rules see `config.runtime_activity`.
        """
        return self._with("runtime_activity")

    def strong_zero(self) -> Mode:
        """Return the mode in which a zero cotangent or tangent stays zero even where a partial
        derivative is infinite or NaN. Rules see `config.strong_zero`, and decide for themselves.
        """
        return self._with("strong_zero")

    def holomorphic(self) -> Mode:
        """Return the mode that gives f'(z) of a holomorphic function of Active complex numbers."""
        if self.direction != "reverse" or self.split:
            raise NotYetSupported(
                f"the option .holomorphic() of {self} is not yet supported",
                instead=["Reverse.holomorphic()"],
            )
        return self._with("holomorphic")

    def vector_math(self) -> Mode:
        """Return the mode in which sin, exp, log, pow and the like may be computed for several
        iterations of a loop at once, in the function itself, as the derivative computes it, and in
        the sweeps: by vector functions of the C library (libmvec), whose error is at most 4 units
        in the last place. All else, the order of sums included, is as without the option. It has no
        effect where the machine has no such functions: see the page on platforms.
        """
        return self._with("vector_math")

    def fast(self, reassociate: bool = True, vector_math: bool = True) -> Mode:
        """Return the mode that trades the last digits of values and derivatives for speed.

        reassociate  sums and products may be evaluated in another order, as with
                     `fastmath={"reassoc"}`, in the code of the derivative only.
        vector_math  as the option of that name.
        """
        names = ("reassociate",) * reassociate + ("vector_math",) * vector_math
        return replace(self, options=self.options | set(names))

    def _with(self, option: str) -> Mode:
        return replace(self, options=self.options | {option})

    if not TYPE_CHECKING:  # type checkers report what the class does not have themselves

        def __getattr__(self, name: str) -> Any:
            """Raise `UnknownOption`, an AttributeError, which names the options there are."""
            raise UnknownOption(
                f"a mode has no option {name!r}",
                instead=[f"one of {', '.join('.' + option + '()' for option in _OPTIONS)}"],
            )

    def require_supported(self) -> None:
        """Raise `ActivityError` unless `autodiff` can run the mode."""
        if self.split:
            raise ActivityError(
                f"{self} is a mode of autodiff_thunk", instead=["Reverse", "ReverseWithPrimal"]
            )

    def _repr_html_(self) -> str:
        """Return the public name of the mode, for notebooks."""
        return f"<code>{self}</code>"

    def __str__(self) -> str:
        """Return the public name of the mode."""
        direction = self.direction.capitalize() + ("Split" if self.split else "")
        if self.returns_primal:
            direction += "WithPrimal"
        elif self.split:
            direction += "NoPrimal"
        plain = sorted(self.options - {"reassociate", "vector_math"})
        return direction + "".join(f".{option}()" for option in plain) + self._speed()

    __repr__ = __str__

    def _speed(self) -> str:
        if "reassociate" not in self.options:
            return ".vector_math()" * ("vector_math" in self.options)
        return ".fast()" if "vector_math" in self.options else ".fast(vector_math=False)"


def no_mode(first: object, following: object) -> ActivityError:
    """The error for a first argument of `autodiff` that is no mode; `following` is its second."""
    name = getattr(first, "__name__", None) or "f"
    if isinstance(following, Mode):
        what = "autodiff is given a function before its mode"
        instead = f"autodiff({following}, {name}, …)"
    else:
        what = "the first argument of autodiff is a mode such as Reverse"
        instead = f"autodiff(Reverse, {name}, …)" if callable(first) else "autodiff(Reverse, f, …)"
    return ActivityError(what, instead=[instead])


Reverse = Mode("reverse")
ReverseWithPrimal = Mode("reverse", returns_primal=True)
Forward = Mode("forward")
ForwardWithPrimal = Mode("forward", returns_primal=True)
ReverseSplitNoPrimal = Mode("reverse", split=True)
ReverseSplitWithPrimal = Mode("reverse", returns_primal=True, split=True)
