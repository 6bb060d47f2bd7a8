"""Activities and activity signatures: the vocabulary everything else shares."""

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

__all__ = [
    "Active",
    "Annotation",
    "BatchDuplicated",
    "BatchDuplicatedNoNeed",
    "Const",
    "Duplicated",
    "DuplicatedNoNeed",
    "MixedDuplicated",
]


def __dir__() -> list[str]:
    """The public names only; others are for the package itself."""
    return sorted(__all__)
