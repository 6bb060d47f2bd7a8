"""`check_rule`: checks of a rule in every situation in which the engine may use it.

One identity covers all situations. Let c be a random cotangent of the result, c_j one of the final
contents of the array a_j, and v a random direction of argument i. Then the derivative by the rule
with respect to argument i is compared with the finite difference along v of

    phi(args) = <c, result> + sum of <c_j, a_j at the end>        over the Duplicated a_j

Each finite difference is taken once, with an estimate of its error; the situations share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from activerules.errors import NoRuleForActivity
from activerules.rules.plugins import load_once
from activerules.rules.registry import RULES
from activerules.testing.check_direct import check_direct
from activerules.testing.check_forward import ForwardCheck
from activerules.testing.check_pairs import PairCheck
from activerules.testing.chosen import Tolerance
from activerules.testing.halves import require_noalias
from activerules.testing.reference import Reference
from activerules.testing.schemes import FiniteDifference
from activerules.testing.situations import arg, arguments_of, is_explicit

__all__ = ["arg", "check_rule"]

# The locations of the rules that were checked in this process, for the plugin of pytest.
CHECKED: set[str] = set()


def check_rule(
    f: Callable[..., Any],
    *args: Any,
    ret: Any = None,
    compiled: bool = True,
    seed: int = 0,
    directions: Sequence[Any] | Mapping[str, Any] | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    fdm: FiniteDifference | None = None,
    **kwargs: Any,
) -> None:
    """Check every rule of `f` at a point.

    Arguments
        f         a function with rules; its own code (or a plain function) is the reference.
        args      plain values: every activity that fits and that a rule admits; `arg(x, A | B)`:
                  these activities; annotations: that activity. Values are copied, never written.
                  Keyword arguments (`kwargs`) are put in order; a default that is left out is
                  Const.
        ret       the activity of the result, a class or a union of them; by default the one with a
                  derivative, and Const if the function writes into an argument.
        compiled  also compile the rules; False: only interpret them, in a fraction of the time.
        seed      of the random shadows, cotangents and directions.
        directions  one per argument, in order or by name, of the type and shape of the argument;
                  None, or left out: a random one. For arguments that cannot vary freely: a
                  symmetric direction for a symmetric matrix.
        rtol, atol  tolerances of derivatives and values, in addition to the error of the finite
                  differences: for functions that are noisy, or iterate to a tolerance.
        fdm       the scheme of the finite differences: `forward_fdm(5)` for an argument at a
                  boundary, `central_fdm(3, max_range=1e-3)` near one.

    Objects are instances of a jitclass, StructRefs, records, arrays of records, `numba.typed.List`
    and `Dict`: the direction is such an object, with a number in each float. Python's lists and
    dictionaries are refused.

    Checked for a pair: every combination of activities, each with arguments kept and with arguments
    overwritten between the halves, with and without `needs_primal`; always interpreted, and
    compiled in every combination of activities. Shadows start non-zero. For a forward rule: every
    combination, and that it leaves arguments, and tangents of those that are not written, as they
    are. Both in batches: a second cotangent and one of zero on the same tape, and rules for two
    tangents. For `rrule` and `frule`, if they exist: arity, and the same derivatives.
    Compared: the result and the final contents of arguments; derivatives, with finite differences
    and their error estimates, and between the two modes: <ȳ, ẏ> = <x̄, ẋ>; Const and overwritten
    memory, which a rule must not change.

    Raises
        RuleCheckError      with rule, argument and situation, found and expected value.
        NoRuleForActivity   no rule serves the activities that were asked for.
        NotCompilable       Numba does not compile the rule.
        ValueError          directions do not fit the arguments, are zero, or are of a constant.
        TypeError           `f` is no function, or an option is not of its type.
    """
    if not callable(f):
        raise TypeError(f"check_rule takes a function, and its arguments, not {f!r}")
    load_once()
    arguments = arguments_of(f, args, kwargs)
    explicit = is_explicit(args, kwargs)
    tolerance = Tolerance(rtol, atol, fdm)
    reference = Reference(f, arguments, ret, seed, directions, tolerance)
    require_noalias(f, reference.result, reference.ends)
    pairs = PairCheck(reference, explicit=explicit)
    rules = RULES.rules_for(f)
    halves = {half for rule in rules for half in rule.halves}
    checked = pairs.run(compiled) if "reverse" in halves else set[str]()
    if "forward" in halves:
        checked |= ForwardCheck(reference, pairs.terms).run(compiled)
    CHECKED.update(checked)
    if not (check_direct(reference) or checked):
        raise NoRuleForActivity(
            f"{reference.name} has no rule that serves these arguments",
            where=[("a rule that exists", str(rule), rule.location) for rule in rules],
            why=""
            if reference.varies
            else "none of them varies: numbers that are not integers do, "
            "arrays of them, objects and tuples of these, if they are not Const",
            instead=[] if rules else ["check_gradient, for a function without rules"],
        )
