"""Every public name of activerules in one place; `import activerules` looks names up here.

Importing it loads the whole of activerules. Packages that only define rules import
`activerules.annotations` and `activerules.rules`, which load neither the engine nor Numba; with the
first rule defined, the rules that come with activerules are loaded, and Numba with them.
"""

from activerules import auxiliary, nested_rewrite  # noqa: F401
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
from activerules.autodiff import autodiff
from activerules.directional import jacfwd, jvp
from activerules.errors import (
    ActiveMemoryInConst,
    ActiverulesError,
    ActiverulesWarning,
    ActivityError,
    AmbiguousRule,
    ArityError,
    BatchWidthMismatch,
    FloatBitsInInteger,
    FrozenArrayWarning,
    IncompleteRule,
    IRSyntaxError,
    MissingForwardWarning,
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
    TangentMismatch,
    TangentNotImplemented,
    TapeError,
    TapeMismatch,
    UndeclaredDataWarning,
    UnknownCall,
    UnknownOption,
    UnsupportedIR,
    UnsupportedVersion,
)
from activerules.everyday import grad, value_and_grad
from activerules.explain.collect import explain
from activerules.explain.tape import tape_bytes
from activerules.hessian_products import hvp
from activerules.numba_ext import tangents  # noqa: F401
from activerules.numba_ext.overloads import (
    accumulate,
    active,
    ignore_derivatives,
    make_zero,
    onehot,
)
from activerules.numba_ext.target import refresh
from activerules.pullback import vjp
from activerules.recompute import checkpoint
from activerules.reverse_jacobians import jacobian, jacrev
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
from activerules.second import hessian
from activerules.thunk import autodiff_thunk

stop_gradient = ignore_derivatives

refresh()

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
    "Const",
    "Duplicated",
    "DuplicatedNoNeed",
    "FloatBitsInInteger",
    "Forward",
    "ForwardWithPrimal",
    "FrozenArrayWarning",
    "IRSyntaxError",
    "IncompleteRule",
    "MissingForwardWarning",
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
    "TangentMismatch",
    "TangentNotImplemented",
    "TapeError",
    "TapeMismatch",
    "UndeclaredDataWarning",
    "UnknownCall",
    "UnknownOption",
    "UnsupportedIR",
    "UnsupportedVersion",
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
    "reverse",
    "rules_for",
    "stop_gradient",
    "tape_bytes",
    "tree_add",
    "value_and_grad",
    "vjp",
]
