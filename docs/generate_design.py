"""Write docs/design.md: one example through every stage. Run by `make generate`."""

import inspect
import math
import platform
import re
from pathlib import Path

import llvmlite.binding as llvm
import numba
import numpy as np
from numba import float64, njit

import activerules as ar
from activerules.ir.llvm.printer import print_function
from activerules.ir.plan.rendering import render_plan
from activerules.numba_ext.target.derivative import DerivativeSpec
from activerules.pipeline.reverse import Derivation, derive
from activerules.testing import gradient_fd

PAGE = Path(__file__).with_name("design.md")
TEMPLATE = Path(__file__).with_name("design.template")


@njit
def chain(x):
    """The example: a recurrence, so that the reverse sweep needs old values."""
    s = 1.0
    for i in range(len(x)):
        s = math.sin(s) * x[i]
    return s


def versions() -> str:
    """What the printed text depends on; Numba names values after bytecode offsets."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"Numba {numba.__version__}, LLVM {llvm.llvm_version_info[0]}, Python {python}"


def readable(text: str) -> str:
    """Short names instead of mangled ones and of hashes; no debug metadata, no machine's memory."""
    text = re.sub(r"_ZN\w*5chain\w*", "chain", text)
    text = re.sub(r"activerules\.chain\.[0-9a-f]{20}", "chain", text)
    text = re.sub(r", ![\w.]+ ![0-9]+", "", text)
    text = re.sub(r"(@activerules\.tape\.open\(.*i64) \d+\)", r"\1 <limit>)", text)
    text = re.sub(r" (noalias|noundef|writeonly|readnone|readonly|captures\(none\))", "", text)
    return text.strip()


def raw_loop(captured: str) -> str:
    """The first lines of the function as Numba emits it."""
    start = captured.index("define", captured.index("chain"))
    return "\n".join(captured[start:].splitlines()[:24]) + "\n  ..."


def function_text(derivation: Derivation, suffix: str) -> str:
    """One generated function out of the module that goes to LLVM."""
    found = re.search(
        rf"^define [^\n]*{re.escape(suffix)}\(.*?^}}", derivation.gradient.text, re.DOTALL | re.M
    )
    if not found:
        raise LookupError(f"no function {suffix} in the derivative")
    return found[0]


def result() -> str:
    """The gradient, and what finite differences say."""
    x = np.array([0.5, 1.5, 2.0])
    gradient = np.round(ar.grad(chain)(x), 6)
    differences = np.round(gradient_fd(chain, (x,)), 6)
    call = ">>> ar.grad(chain)(np.array([0.5, 1.5, 2.0]))"
    return f"{call}\n{gradient!r}\n# finite differences: {differences}"


def parts() -> dict[str, str]:
    """Every marked part of the template."""
    array = float64[::1]
    derivation = derive(chain, DerivativeSpec((array,), ("duplicated",), "active"))
    primal = next(f for f in derivation.module.functions.values() if "chain" in f.name)
    captured = derivation.captured.text
    return {
        "versions": versions(),
        "source": inspect.getsource(chain.py_func).strip(),
        "capture-lines": str(len(captured.splitlines())),
        "capture": readable(raw_loop(captured)),
        "normalised": readable(print_function(primal)),
        "plan": readable(render_plan(derivation.plan, derivation.layout)),
        "augmented": readable(function_text(derivation, ".augmented")),
        "reverse": readable(function_text(derivation, ".reverse")),
        "gradient": readable(function_text(derivation, ".gradient")),
        "result": result(),
    }


def render() -> str:
    """The whole page."""
    page = TEMPLATE.read_text()
    for name, text in parts().items():
        page = page.replace("{{" + name + "}}", text)
    return page


if __name__ == "__main__":
    PAGE.write_text(render())
