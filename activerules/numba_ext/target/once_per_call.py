"""Code that runs once per call from Python is compiled without optimisation.

An entry for Python takes its arguments apart, tests their memory and calls a derivative. Its own
instructions run once per call; optimising them took a fifth of Numba's own compile of the primal.

Needs       the library and the function that Numba is lowering: an entry that only Python calls
Gives       `leave_unoptimised`, which is called while the entry is lowered
Invariants  E1  the entry itself is optimised: where it raises, only Numba's pruning of reference
                counts gives back the references it holds
            E2  so is what it links: the derivative, which is a function of its own
"""

from __future__ import annotations

from typing import Any

_PYTHON_WRAPPER = "_ZN7cpython"


def leave_unoptimised(library: Any, function: Any) -> None:
    """Have neither `function`, nor the wrapper that Python calls, optimised."""
    for attribute in ("noinline", "optnone"):
        function.attributes.add(attribute)

    def prepare(module: Any) -> None:
        """Stand in for Numba's passes over single functions; passes over the library follow."""
        module.data_layout = library.codegen._data_layout
        for one in module.functions:
            if not one.is_declaration and one.name.startswith(_PYTHON_WRAPPER):
                one.add_function_attribute("noinline")
                one.add_function_attribute("optnone")

    library._optimize_functions = prepare
