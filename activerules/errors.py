"""Every exception of activerules, and the one function that turns an exception into its text.

An error says what happened, where (from the user's own call inwards), why, and what to write
instead. It is built from fields, never from one formatted string, so that outer layers can add what
only they know: they append entries to `where` as the error passes through them. The docstring of a
class is its help page (docs/errors.md, `python -m activerules help NAME`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

Where = tuple[str, str, str]

_INDENT = "  "
_UNSAID = frozenset({"instruction", "names_callee", "groups"})
_WIDEST = 72
"""The widest entry of `where` that the column of locations is aligned to."""


class ActiverulesError(Exception):
    """Base class of all errors of activerules.

    Fields
        what       one sentence, the first line of the text.
        where      entries (label, text, "file:line" or ""), printed in order.
        why        the reason, one or more lines.
        instead    alternatives to write; several are printed as Either / Or.
        reproduce  a command line that shows the error again.
    """

    # What the engine tells the layers above: the instruction that is refused, whether it is a call
    # that is refused because of its callee, and the arguments whose memory is concerned. None of it
    # is part of the text, or pickled.
    instruction: object = None
    names_callee: bool = False
    groups: tuple[object, ...] = ()

    def __init__(
        self,
        what: str = "",
        where: Sequence[Where] = (),
        why: str = "",
        instead: Sequence[str] = (),
        reproduce: str = "",
    ) -> None:
        """The fields may be positional: compiled code raises the class with constant arguments."""
        super().__init__(what)
        self.what = what
        self.where: list[Where] = list(where)
        self.why = why
        self.instead: list[str] = [instead] if isinstance(instead, str) else list(instead)
        self.reproduce = reproduce

    def add_where(self, label: str, text: str, location: str = "") -> None:
        """Append an entry to `where`; for the layers that the error passes through."""
        self.where.append((label, text, location))

    def __str__(self) -> str:
        """Return the whole text, see `render`."""
        return render(self)

    def __reduce__(self) -> tuple[type, tuple[str], dict[str, object]]:
        """Pickle by fields: an error may cross a process boundary."""
        state = {k: v for k, v in self.__dict__.items() if k not in _UNSAID}
        return type(self), (self.what,), state


def render(error: ActiverulesError) -> str:
    """Return the text of an error: what, where, why, instead, reproduce, help.

    Empty parts are left out.
    """
    paragraphs = [error.what]
    if error.where:
        paragraphs.append(_render_where(error.where))
    advice = [("Why", error.why)] if error.why else []
    advice += zip(_alternative_labels(len(error.instead)), error.instead, strict=True)
    if advice:
        paragraphs.append(_render_labelled(advice))
    last = [("Reproduce", error.reproduce)] if error.reproduce else []
    last.append(("Help", f"python -m activerules help {type(error).__name__}"))
    paragraphs.append(_render_labelled(last))
    return "\n\n".join(paragraphs)


def _alternative_labels(count: int) -> list[str]:
    if count < 2:
        return ["Instead"] * count
    return ["Either", *["Or"] * (count - 1)]


def _render_where(entries: Sequence[Where]) -> str:
    label_width = max(len(label) for label, _, _ in entries) + 3
    lengths = [len(text) for _, text, location in entries if location and len(text) <= _WIDEST]
    text_width = max(lengths, default=0) + 3
    return "\n".join(
        f"{_INDENT}{label:<{label_width}}{f'{text}   ':<{text_width}}{location}".rstrip()
        for label, text, location in entries
    )


def _render_labelled(entries: Sequence[tuple[str, str]]) -> str:
    width = max(len(label) for label, _ in entries) + 2
    lines = []
    for label, text in entries:
        body = textwrap.indent(text, " " * (len(_INDENT) + width)).lstrip()
        lines.append(f"{_INDENT}{label:<{width}}{body}")
    return "\n".join(lines)


# --- the engine: what no derivative can be made for ---


class UnsupportedIR(ActiverulesError):
    """The LLVM IR has something outside the normal form, or an instruction without a known
    derivative.

    The text names the opcode or intrinsic and the source line it comes from. Rewrite that line, or
    give the function that contains it a rule (`augmented_primal` and `reverse`): the body of a
    function with a rule is not differentiated.
    """


class IRSyntaxError(UnsupportedIR):
    """A line of LLVM IR that the parser does not understand; the text quotes the line."""


class UnknownCall(ActiverulesError):
    """Active data reaches an external function whose derivative is not known.

    Give the function a rule, or declare it `inactive` if its result does not depend smoothly on its
    arguments.
    """


class FloatBitsInInteger(ActiverulesError):
    """The bits of an active float pass through integer arithmetic and come back as a float.

    No derivative is defined for integer arithmetic, and a silent zero would be wrong. Write the
    operation in floating point (`abs(x)`, `math.copysign`), give the function a rule, or stop the
    gradient with `ignore_derivatives`.

    The same error is raised for a list, dictionary or object of which it is not known where its
    floats are, and where its integers and pointers: for example an argument that is passed on to a
    recursive function. Pass arrays of numbers to that function.
    """


class ActiveMemoryInConst(ActiverulesError):
    """Active data is stored into memory that was passed as Const, and read back.

    The memory has no shadow, so the derivative would be lost. Pass the array as `Duplicated(x,
    make_zero(x))`. Arrays of floats, and lists, dictionaries and objects with them, get such a
    shadow automatically; the error is about other memory, as lists of Python.
    """


class MixedActivity(ActiverulesError):
    """A pointer may point to active or to Const memory, and which one is only known at run time.

    Mark both arrays Duplicated, or copy the Const one before the program chooses between them. The
    error is about constant global arrays, arrays of integers and lists of Python; other Const
    arguments get a shadow for the duration of the call automatically.
    """


# --- the interface: what a call of activerules may look like ---


class NotYetSupported(ActiverulesError, NotImplementedError):
    """Something that activerules does not support, alone or in this combination; the text says why,
    and what to write instead.
    """


class UnknownOption(ActiverulesError, AttributeError):
    """An option that a mode does not have; the text lists those it has."""


class ActivityError(ActiverulesError, TypeError):
    """An annotation does not fit its value.

    Active holds floats: their derivative is returned. Arrays are `Duplicated(x, dx)`: the
    derivative is added to `dx`. Integers, booleans, strings and None are Const.
    """


class ArityError(ActiverulesError, TypeError):
    """The number of arguments is not the one the differentiated function takes."""


class ShadowMismatch(ActiverulesError, ValueError):
    """The shadow of a Duplicated argument does not fit its primal; or two arguments of `tree_add`
    do not fit each other.

    A shadow must have the primal's dtype, shape and strides, and must not overlap it or another
    argument: `make_zero(x)` makes a shadow that fits. Items of the primal must not share memory
    either, as those of `np.broadcast_to(x, (4, 3))` do: pass a copy of it. Nothing has run when
    this is raised.
    """


class SparsityMismatch(ActiverulesError, ValueError):
    """The sparsity pattern of a Jacobian or Hessian does not fit: it has the wrong shape, or there
    are entries outside it that are not zero.

    The pattern is nonzero wherever the derivative may be, at any point: for an `if`, it has the
    entries of both branches. Entries outside it would be added to others; they are found because
    each matrix is multiplied by a random vector and compared with a derivative along it.
    `sparsity="detect"` finds the pattern at each path that the function takes.
    """


class BatchWidthMismatch(ActiverulesError, ValueError):
    """The batched arguments of one call have different numbers of shadows."""


class NotAFloatReturn(ActiverulesError, TypeError):
    """A gradient was asked for, and the function does not return one float.

    Return one float (a sum, a loss), or use `jacobian` for functions that return arrays.
    """


class NotCompilable(ActiverulesError):
    """Numba cannot compile the function in nopython mode; its own error is the `__cause__`.

    Or its compiler is turned off (`NUMBA_DISABLE_JIT`): derivatives are made from its output.
    """


class TapeError(ActiverulesError):
    """A tape was used twice, or with arguments other than those it was made from."""


class UnsupportedVersion(ActiverulesError, ImportError):
    """The installed Numba or Python is not one that activerules was tested with."""


class CommandError(ActiverulesError):
    """What is written after `python -m activerules` cannot be used.

    The text says why: the module cannot be imported or has no function of that name; an argument
    is neither a type nor a value; the function raises an exception at the point where it is
    checked; or a file cannot be written. A report is written as a whole or not at all. The exit
    status is 2, as for every error.
    """


# --- rules ---


class RuleError(ActiverulesError):
    """Base class of the errors about rules."""


class RuleDefinitionError(RuleError, TypeError):
    """The definition of a rule is wrong: its parameters, annotations, or function."""


class AmbiguousRule(RuleError):
    """Two rules for one function fit the same calls and neither is more specific.

    Make the annotations of one of them more specific. `replace=True` replaces a rule that another
    module defined. The error is also raised where the two halves of a rule come from different
    packages, or one package has a rule for a function that another one declares `inactive`; there,
    too, `replace=True` decides.
    """


class IncompleteRule(RuleError):
    """A function has only one half of a rule: `augmented_primal` without `reverse`, or vice versa.

    Both halves must have the same annotations for the arguments of the function and for its result.
    """


class NoRuleForActivity(RuleError):
    """A function has rules, but none for the activities its arguments have at this call.

    The body of the function is not differentiated instead: that would silently ignore its rules.
    Add a rule for these activities (the text holds a skeleton), or widen one that exists
    (`x: Const | Duplicated`).
    """


class RuleReturnError(RuleError, TypeError):
    """A rule returns something other than its protocol asks for; the text says what was found and
    what was expected.
    """


class RuleViolation(RuleError):
    """A rule breaks the contract of rules; the text says which rule, at which call, and how.

    Debug mode finds this; `debug_mode` lists everything it checks. Without it the derivative would
    have been silently wrong. One violation is always looked for: a rule that replaces the arrays of
    an object instead of writing into them.
    """

    def __init__(
        self, what: str = "", found: float | None = None, expected: float | None = None
    ) -> None:
        """`found` is the derivative along a direction, `expected` that by finite differences."""
        known = found is not None and expected is not None
        super().__init__(f"{what}: found {found:.9g}, expected {expected:.9g}" if known else what)


class RuleArgumentsOverlap(RuleError, ValueError):
    """Two arguments of a function with a rule share memory, and the function writes into it.

    The formulas of a rule assume that its arguments do not share memory. Pass a copy, or write the
    rule for a function of one array.
    """


class TapeMismatch(RuleError, TypeError):
    """The tape that `augmented_primal` makes is not one that `reverse` can take."""


class TangentNotImplemented(RuleError, NotImplementedError):
    """A requested derivative depends on one that a rule leaves out.

    The rule returned `NotImplementedTangent(info)` for it; `info` says where to read more.
    """


class TangentMismatch(RuleError, ValueError):
    """A tangent or cotangent does not have the type or the shape of its primal."""


class RepeatedValues(ActiverulesError, ArithmeticError):
    """The eigenvectors, or singular vectors, of two equal values have no derivative.

    They may be any basis of the space they span, so neither they nor a function computed from them
    can be differentiated. The values themselves, `eigvalsh(a)` or `svd(a)[1]`, can, and so can the
    vectors of other values. Some functions are still smooth in the matrix, such as its
    exponential or its square root. Compute them without the vectors, or give them a rule: that of
    the orthogonal factor U Vᵀ, in docs/maths.md, is an example. Values count as equal if
    they differ by no more than the rounding error of the decomposition.
    """

    def __init__(
        self, what: str = "", first: int = 0, second: int = 0, value: float = 0.0, gap: float = 0.0
    ) -> None:
        """`first` and `second` number the equal values; `second` is -1 if the first is zero."""
        if what:
            super().__init__(what)
            return
        pair = f"values {first} and {second} are equal ({value:.6g}, {gap:.1e} apart)"
        alone = f"singular value {first} is zero"
        super().__init__(
            f"vectors have no derivative here: {alone if second < 0 else pair}",
            why="the vectors of equal values are any basis of their space, and the derivative of\n"
            "a function of them is not in theirs",
            instead=[
                "use the values alone, or vectors of other values",
                "give the function of the matrix that is computed from them a rule",
            ],
        )


# --- bridges to other packages ---


class MissingExtra(ActiverulesError, ImportError):
    """A bridge of `activerules.interop`, a sparse derivative, or `python -m activerules warm` needs
    a package that is not installed.

    Each bridge has an extra of its name: `pip install "activerules[jax]"`. Sparse matrices are
    those of SciPy, `pip install "activerules[scipy]"`, and Numba compiles products of matrices and
    `np.linalg` with SciPy's BLAS: without it, Numba refuses programs that use them.
    """


class ForeignArrayError(ActiverulesError, TypeError):
    """An array of another package that compiled code cannot compute with.

    It lies on a GPU, has a layout other than strided, or is not in double precision. The bridges do
    not convert: a copy from a device, or another precision, is for the program to choose. Integers
    and booleans are constant arguments.
    """


# --- testing ---


class RuleCheckError(ActiverulesError, AssertionError):
    """A derivative disagrees with finite differences, or a rule breaks a promise: that of `saves`,
    `keeps_shadow=False` or `noalias`. The text says argument, direction, found and expected value.
    """


# --- warnings ---


class ActiverulesWarning(UserWarning):
    """Base class of all warnings of activerules: a derivative may not be what its author means.

    `warnings.simplefilter("error", ar.ActiverulesWarning)` turns them into errors.
    """


class UndeclaredDataWarning(ActiverulesWarning):
    """A rule does not run at a call because no active data passes from arguments to results there,
    yet the function communicates by other means, through which active data may pass.

    Declare that in the rule: `sends=` names the arguments whose data leaves through a queue, a
    socket or memory that is no argument, `receives=` those whose data enters like that (`"ret"`:
    the result). The rule then runs at every call. `sends=()` says that there is no such data. The
    warning is given once per line.
    """


class FrozenArrayWarning(ActiverulesWarning):
    """A function that is differentiated uses an array that is not one of its arguments, but global
    or captured from an enclosing function. Numba compiles the values of such an array into the
    function, and into its derivative, as constants: neither sees what is written into it later.

    Pass it as an argument: `grad`, `hvp`, Jacobians and the others accept functions of any number
    of arguments, and differentiate with respect to those of `argnums`. For a table that does not
    change, `table.setflags(write=False)` says so. The warning is given once per array and function.
    """


class UnusedRuleWarning(ActiverulesWarning):
    """A call is not served by a rule of yours that is for its types: the number of its arguments is
    another, it names other arguments, or the rule admits other activities. The rule that comes with
    activerules serves the call instead, or the body of the function is differentiated.

    If that is not what you mean, write a rule for the call as it is: with a parameter for each
    argument that is passed, or wider annotations (`Const | Duplicated`). If it is,
    `warnings.simplefilter("ignore", ar.UnusedRuleWarning)` says so. Rules for other types are not
    mentioned. The warning is given once per line.
    """


class MissingForwardWarning(ActiverulesWarning):
    """Forward mode differentiates the body of a function that has a reverse rule but no forward
    rule. If the rule was written because differentiating the body is wrong (a loop that converges,
    code with a limit), this tangent is wrong as well.

    Write `@ar.forward(f)`, or `frule.register(f)`. `ar.opt_out(f, mode="forward")` declares that
    differentiating the body is right, and silences the warning. Second derivatives (`hessian`,
    `hvp`, a gradient of a gradient) differentiate the reverse rule instead. The warning is given
    once per function.
    """


class MissingReverseWarning(ActiverulesWarning):
    """Reverse mode differentiates the body of a function that has a forward rule but no reverse
    rule. If the rule was written because differentiating the body is wrong (a loop that converges,
    code with a limit), this gradient is wrong as well.

    Write `@ar.augmented_primal(f)` and `@ar.reverse(f)`, or `rrule.register(f)`.
    `ar.opt_out(f, mode="reverse")` declares that differentiating the body is right, and silences
    the warning. The warning is given once per function.
    """
