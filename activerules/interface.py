"""Every public name of activerules; the package `activerules` looks its names up here.

Importing it loads Numba, and what Numba must know of these names. The engine and the rules that
come with activerules are loaded with the first derivative that is compiled. Packages that only
define rules import `activerules.annotations` and `activerules.rules`, which load neither the engine
nor Numba; with the first rule defined, the rules that come with activerules are loaded, and Numba
with them.
"""

from typing import TYPE_CHECKING, Any

from activerules.annotations.activity import (
    Active,
    Annotation,
    BatchDuplicated,
    BatchDuplicatedNoNeed,
    Const,
    Duplicated,
    DuplicatedNoNeed,
    MixedDuplicated,
)
from activerules.annotations.signature import (
    Forward,
    ForwardWithPrimal,
    Reverse,
    ReverseSplitNoPrimal,
    ReverseSplitWithPrimal,
    ReverseWithPrimal,
)
from activerules.annotations.values import tree_add
from activerules.api.autodiff import autodiff
from activerules.api.checkpoint import checkpoint
from activerules.api.grad import grad, value_and_grad
from activerules.api.hessian import hessian
from activerules.api.hvp import hvp
from activerules.api.jacobian_by_size import jacobian
from activerules.api.jacobian_forward import jacfwd
from activerules.api.jacobian_reverse import jacrev
from activerules.api.jvp import jvp
from activerules.api.split import autodiff_thunk
from activerules.api.vjp import vjp
from activerules.errors import (
    ActiveMemoryInConst,
    ActiverulesError,
    ActiverulesWarning,
    ActivityError,
    AmbiguousRule,
    ArityError,
    BatchWidthMismatch,
    CommandError,
    FloatBitsInInteger,
    ForeignArrayError,
    FrozenArrayWarning,
    IncompleteRule,
    IRSyntaxError,
    MissingExtra,
    MissingForwardWarning,
    MissingReverseWarning,
    MixedActivity,
    NoRuleForActivity,
    NotAFloatReturn,
    NotCompilable,
    NotYetSupported,
    RepeatedValues,
    RuleArgumentsOverlap,
    RuleCheckError,
    RuleDefinitionError,
    RuleError,
    RuleReturnError,
    RuleViolation,
    ShadowMismatch,
    SparsityMismatch,
    TangentMismatch,
    TangentNotImplemented,
    TapeError,
    TapeMismatch,
    UndeclaredDataWarning,
    UnknownCall,
    UnknownOption,
    UnsupportedIR,
    UnsupportedVersion,
    UnusedRuleWarning,
)
from activerules.explain.tape import tape_bytes
from activerules.nested import rewrite  # noqa: F401
from activerules.numba_ext.calls.overloads import (
    accumulate,
    active,
    ignore_derivatives,
    make_zero,
    onehot,
)
from activerules.numba_ext.codegen.unlinked import refresh
from activerules.numba_ext.tangents import dataless  # noqa: F401
from activerules.parallel_loops.parallel import parallel
from activerules.process_memory import keep_freed_memory
from activerules.rules.debug import debug_mode
from activerules.rules.define import (
    augmented_primal,
    forward,
    has_rule,
    inactive,
    inactive_type,
    noalias,
    opt_out,
    reverse,
    rules_for,
)
from activerules.rules.protocol import AugmentedReturn

if TYPE_CHECKING:
    from activerules.explain.collect import explain

stop_gradient = ignore_derivatives

refresh()
keep_freed_memory()


def __getattr__(name: str) -> Any:
    """Load `explain`, which reports on all parts of the engine, at its first use."""
    if name != "explain":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from activerules.explain.collect import explain

    return explain


__all__ = [
    "Active",
    "ActiveMemoryInConst",
    "ActiverulesError",
    "ActiverulesWarning",
    "ActivityError",
    "AmbiguousRule",
    "Annotation",
    "ArityError",
    "AugmentedReturn",
    "BatchDuplicated",
    "BatchDuplicatedNoNeed",
    "BatchWidthMismatch",
    "CommandError",
    "Const",
    "Duplicated",
    "DuplicatedNoNeed",
    "FloatBitsInInteger",
    "ForeignArrayError",
    "Forward",
    "ForwardWithPrimal",
    "FrozenArrayWarning",
    "IRSyntaxError",
    "IncompleteRule",
    "MissingExtra",
    "MissingForwardWarning",
    "MissingReverseWarning",
    "MixedActivity",
    "MixedDuplicated",
    "NoRuleForActivity",
    "NotAFloatReturn",
    "NotCompilable",
    "NotYetSupported",
    "RepeatedValues",
    "Reverse",
    "ReverseSplitNoPrimal",
    "ReverseSplitWithPrimal",
    "ReverseWithPrimal",
    "RuleArgumentsOverlap",
    "RuleCheckError",
    "RuleDefinitionError",
    "RuleError",
    "RuleReturnError",
    "RuleViolation",
    "ShadowMismatch",
    "SparsityMismatch",
    "TangentMismatch",
    "TangentNotImplemented",
    "TapeError",
    "TapeMismatch",
    "UndeclaredDataWarning",
    "UnknownCall",
    "UnknownOption",
    "UnsupportedIR",
    "UnsupportedVersion",
    "UnusedRuleWarning",
    "accumulate",
    "active",
    "augmented_primal",
    "autodiff",
    "autodiff_thunk",
    "checkpoint",
    "debug_mode",
    "explain",
    "forward",
    "grad",
    "has_rule",
    "hessian",
    "hvp",
    "ignore_derivatives",
    "inactive",
    "inactive_type",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "make_zero",
    "noalias",
    "onehot",
    "opt_out",
    "parallel",
    "reverse",
    "rules_for",
    "stop_gradient",
    "tape_bytes",
    "tree_add",
    "value_and_grad",
    "vjp",
]
