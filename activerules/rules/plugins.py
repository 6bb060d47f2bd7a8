"""Packages that announce rules by the entry point group `activerules.rules`.

    [project.entry-points."activerules.rules"]
    springs = "springs.rules"

They are imported when the interface is first used, so that programs need not import them.
"""

from __future__ import annotations

import warnings
from importlib.metadata import entry_points

GROUP = "activerules.rules"


def load() -> None:
    """Import the announced modules; warn of those that cannot be imported."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:
            warnings.warn(
                f"the rules of {point.value} (entry point {point.name!r}) are missing: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
