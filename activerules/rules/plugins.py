"""Packages that announce rules by the entry point group `activerules.rules`.

    [project.entry-points."activerules.rules"]
    springs = "springs.rules"

They are imported when the interface is first used, or a rule is called or checked directly, so that
programs need not import them.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import entry_points

GROUP = "activerules.rules"


@cache
def load_once() -> None:
    """Import the announced modules, unless that was done before; warn of those that cannot be
    imported.

    In the order of their names, not of the folders they were installed in: of two packages whose
    rules exclude each other, the same one has its rules on every machine.
    """
    for point in sorted(entry_points(group=GROUP)):
        try:
            point.load()
        except Exception as error:
            warnings.warn(
                f"the rules of {point.value} (entry point {point.name!r}) are missing: "
                f"{type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
