"""Gradients of Numba functions at LLVM level, with hand-written rules chosen by activity.

    import activerules as ar

    ar.grad(f)(x)                                        the gradient of a function of one float
    ar.autodiff(ar.Reverse, f, ar.Duplicated(x, dx))     adds the derivative by `x` to `dx`
    @ar.augmented_primal(f), @ar.reverse(f)              a rule for `f`

Everything is described in docs/; the design in docs/design.md. Without Numba, `activerules.ir`
alone is there: the derivative of LLVM IR.
"""

from importlib.util import find_spec

if find_spec("numba") is not None:
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
    from activerules.autodiff import autodiff
    from activerules.errors import (
        ActiveMemoryInConst,
        ActiverulesError,
        ActivityError,
        AmbiguousRule,
        ArityError,
        BatchWidthMismatch,
        FloatBitsInInteger,
        IncompleteRule,
        IRSyntaxError,
        MixedActivity,
        NoRuleForActivity,
        NotAFloatReturn,
        NotCompilable,
        NotYetSupported,
        RuleCheckError,
        RuleDefinitionError,
        RuleError,
        RuleReturnError,
        ShadowMismatch,
        TapeError,
        TapeMismatch,
        UnknownCall,
        UnknownOption,
        UnsupportedIR,
        UnsupportedVersion,
    )
    from activerules.everyday import grad, value_and_grad
    from activerules.explain.collect import explain
    from activerules.explain.tape import tape_bytes
    from activerules.numba_ext.overloads import (
        accumulate,
        active,
        ignore_derivatives,
        make_zero,
        onehot,
    )
    from activerules.rules import library  # noqa: F401  defines the rules that come with it
    from activerules.rules.define import (
        augmented_primal,
        forward,
        has_rule,
        inactive,
        reverse,
        rules_for,
    )
    from activerules.rules.protocol import AugmentedReturn

    stop_gradient = ignore_derivatives

__version__ = "0.1.0"

__all__ = [
    "Active",
    "ActiveMemoryInConst",
    "ActiverulesError",
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
    "IRSyntaxError",
    "IncompleteRule",
    "MixedActivity",
    "MixedDuplicated",
    "NoRuleForActivity",
    "NotAFloatReturn",
    "NotCompilable",
    "NotYetSupported",
    "Reverse",
    "ReverseSplitNoPrimal",
    "ReverseSplitWithPrimal",
    "ReverseWithPrimal",
    "RuleCheckError",
    "RuleDefinitionError",
    "RuleError",
    "RuleReturnError",
    "ShadowMismatch",
    "TapeError",
    "TapeMismatch",
    "UnknownCall",
    "UnknownOption",
    "UnsupportedIR",
    "UnsupportedVersion",
    "accumulate",
    "active",
    "augmented_primal",
    "autodiff",
    "explain",
    "forward",
    "grad",
    "has_rule",
    "ignore_derivatives",
    "inactive",
    "make_zero",
    "onehot",
    "reverse",
    "rules_for",
    "stop_gradient",
    "tape_bytes",
    "value_and_grad",
]
