"""The values that the programs of the rows are run at: no ties, none at the edge of a domain."""

from __future__ import annotations

from typing import Any

import numpy as np

_rng = np.random.default_rng(20)
_square = _rng.normal(size=(4, 4)) + 3.0 * np.diag([1.0, 2.0, 3.0, 4.0])

INPUTS: dict[str, Any] = {
    "x": np.array([0.8, -1.3, 0.35, 2.1, -0.6, 1.45]),
    "y": np.array([1.2, 0.4, -0.9, -1.7, 0.75, 2.3]),
    "p": np.array([0.9, 1.7, 0.4, 2.6, 1.3, 3.2]),
    "u": np.array([0.15, -0.42, 0.63, 0.27, -0.81, 0.55]),
    "up": np.array([0.2, 0.5, 1.1, 1.9, 2.4, 3.6]),
    "f": np.array([0.8, -1.3, 0.35, 2.1], dtype=np.float32),
    "missing": np.array([0.8, np.nan, 0.35, 2.1, -0.6, np.nan]),
    "a": _rng.normal(size=(3, 4)),
    "b": _rng.normal(size=(3, 4)),
    "c": _rng.normal(size=(2, 3, 4)),
    "m": _square,
    "spd": _square @ _square.T + np.eye(4),
    "sym": (_square + _square.T) / 2.0,
    "s": 0.7,
    "t": 1.6,
    "n": 3,
    "k": np.array([2, 0, 5, 1]),
    "flags": np.array([True, False, True, True, False, True]),
    "word": "gradient",
}
