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
    """The interface alone: what else is here is for the package itself."""
    return sorted(__all__)
