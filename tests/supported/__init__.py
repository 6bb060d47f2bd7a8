"""What Numba supports of NumPy and Python, as small programs, and a runner that differentiates
each: the source of docs/coverage.md.

A row is `name  statements; …; result`; its parameters are the names of `inputs.INPUTS` that occur
in it, and what is differentiated is `weigh(result)`, a weighted sum of all that the result holds.
"""

from supported.numpy_rows import NUMPY
from supported.python_rows import PYTHON
from supported.rows import Row, parse

ROWS: list[Row] = [row for section in (NUMPY, PYTHON) for row in parse(section)]

__all__ = ["ROWS", "Row"]
