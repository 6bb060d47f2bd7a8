"""Write docs/design.md: one example through every stage, and one each for rules, objects and nested
derivatives. Run by `make generate`.
"""

import inspect
import math
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import llvmlite.binding as llvm
import numba
import numpy as np
from numba import float64, int64, njit
from numba.experimental import jitclass

import activerules as ar
from activerules.callables import python_function
from activerules.ir.llvm.printer import print_function
from activerules.ir.plan.layout import make_layout
from activerules.ir.plan.plan import Plan
from activerules.ir.plan.rendering import render_plan
from activerules.nested import gradient_rules
from activerules.numba_ext.target.derivative import DerivativeSpec
from activerules.pipeline.derivation import Derivation
from activerules.pipeline.reverse import derive
from activerules.testing import gradient_fd
from activerules.values.layout import Array, Node, Struct, layout_of

PAGE = Path(__file__).with_name("design.md")
TEMPLATE = Path(__file__).with_name("design.template")


@njit
def chain(x):
    """The example: a recurrence, so that the reverse sweep needs old values."""
    s = 1.0
    for i in range(len(x)):
        s = math.sin(s) * x[i]
    return s


@njit
def root(a):
    """The cube root of a >= 0, by Newton's method."""
    x = max(a, 1.0)
    while abs(x * x * x - a) > 1e-14 * a:
        x -= (x * x * x - a) / (3.0 * x * x)
    return x


@ar.augmented_primal(root)
def root_augmented(config, ret: ar.Active, a: ar.Active):
    """The tape is the root itself."""
    x = root(a.val)
    return ar.AugmentedReturn(x, None, x)


@ar.reverse(root)
def root_reverse(config, dret: ar.Active, x, a: ar.Active):
    """x**3 = a, so 3 x**2 dx = da."""
    return dret.val / (3.0 * x * x)


@njit
def surface(a):
    """The example of a rule: a face of the cube of volume a."""
    return root(a) ** 2


@jitclass([("rates", float64[::1]), ("amount", float64)])
class Decay:
    """The example of an object."""

    def __init__(self, rates, amount):
        self.rates = rates
        self.amount = amount


@njit
def left(model, t):
    """What is left of all substances after a time."""
    s = 0.0
    for rate in model.rates:
        s += model.amount * math.exp(-rate * t)
    return s


@njit
def power(x, n):
    """x**n, by squaring: the gradient has a tape."""
    y = 1.0
    while n > 0:
        if n % 2 == 1:
            y *= x
        x *= x
        n //= 2
    return y


@njit
def slope(x, n):
    """The example of a nested derivative: n x**(n-1)."""
    return ar.grad(power)(x, n)


def versions() -> str:
    """What the printed text depends on; Numba names values after bytecode offsets."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"Numba {numba.__version__}, LLVM {llvm.llvm_version_info[0]}, Python {python}"


def readable(text: str) -> str:
    """Short names instead of mangled ones and of hashes; no debug metadata, no machine's memory."""
    text = re.sub(r"_ZN\w*?\d(chain|surface|left|slope)B\w*", r"\1", text)
    text = re.sub(r"activerules\.(\w+)\.[0-9a-f]{20}", r"\1", text)
    text = re.sub(r"(activerules\.(?:rule|rulecode)\.\w+)\.[0-9a-f]{12,32}", r"\1", text)
    text = re.sub(r"(@activerules\.site)\.[0-9a-f]{16}", r"\1", text)
    text = re.sub(r" (\S*/)?generate_design\.py:\d+| <string>:1$", "", text, flags=re.M)
    text = re.sub(r", ![\w.]+ ![0-9]+", "", text)
    text = re.sub(r"(@activerules\.tape\.open\(.*i64) \d+\)", r"\1 <limit>)", text)
    text = re.sub(r" (noalias|noundef|writeonly|readnone|readonly|captures\(none\))", "", text)
    return text.strip()


def raw_loop(captured: str) -> str:
    """The first lines of the function as Numba emits it."""
    start = captured.index("define", captured.index("chain"))
    return "\n".join(captured[start:].splitlines()[:24]) + "\n  ..."


def function_text(derivation: Derivation[Plan], suffix: str) -> str:
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


def source(*functions: Any) -> str:
    """The source of functions and classes, without their docstrings."""
    texts = [inspect.getsource(python_function(f)).strip() for f in functions]
    return without_docstrings("\n\n\n".join(texts))


def source_of_class(name: str) -> str:
    """The source of a class of this module, of which a decorator has made something else."""
    text = Path(__file__).read_text()
    found = re.search(rf"^@jitclass.*\nclass {name}:\n(?:(?:    .*)?\n)*", text, re.MULTILINE)
    if not found:
        raise LookupError(f"no class {name} here")
    return without_docstrings(found[0].strip())


def without_docstrings(text: str) -> str:
    """Source without its docstrings of one line."""
    return re.sub(r'\n *"""[^"]*"""\n+', "\n", text)


def section(text: str, *names: str) -> str:
    """The sections of a rendered plan with these titles."""
    blocks = text.split("\n\n")
    return "\n\n".join(block for block in blocks if block.splitlines()[0] in names)


def excerpt(text: str, first: str, last: str) -> str:
    """The lines of a function from one that contains `first` to the next that contains `last`."""
    lines = text.splitlines()
    start = next(k for k, line in enumerate(lines) if first in line)
    stop = next(k for k, line in enumerate(lines) if k >= start and last in line)
    return "\n".join(lines[start : stop + 1])


def tree(node: Node, name: str, indent: str = "") -> list[str]:
    """A line per node of a description."""
    if isinstance(node, Struct):
        lines = [f"{indent}{name}: {node.kind}"]
        for key, part in node.fields:
            lines += tree(part, str(key), indent + "  ")
        return lines
    kind = "array, by reference" if isinstance(node, Array) else "number, by value"
    found = node.element.numba_type if isinstance(node, Array) else node.numba_type
    return [f"{indent}{name}: {kind}, of {found}"]


def planned(derivation: Derivation[Plan]) -> str:
    """The plan as text."""
    return readable(render_plan(derivation.plan, make_layout(derivation.plan)))


def primal_of(derivation: Derivation[Plan], name: str) -> str:
    """The normalised function."""
    found = next(f for f in derivation.module.functions.values() if name in f.name)
    return readable(print_function(found))


def rule_parts() -> dict[str, str]:
    """A call with rules through the stages."""
    d = derive(surface, DerivativeSpec((float64,), ("active",), "active"))
    return {
        "rule-source": source(root, root_augmented, root_reverse, surface),
        "rule-normalised": primal_of(d, "surface"),
        "rule-plan": section(planned(d), "kept", "calls with rules"),
        "rule-reverse": excerpt(
            readable(function_text(d, ".reverse")), "entry.reverse:", "llvm.memset"
        ),
    }


def object_parts() -> dict[str, str]:
    """An argument that is an instance."""
    instance = Decay.class_type.instance_type  # pyright: ignore[reportAttributeAccessIssue]
    d = derive(left, DerivativeSpec((instance, float64), ("duplicated", "const"), "active"))
    return {
        "object-source": source_of_class("Decay") + "\n\n\n" + source(left),
        "object-tree": "\n".join(tree(layout_of(instance), "model")),
        "object-augmented": excerpt(readable(function_text(d, ".augmented")), "define", "%ar2 ="),
        "object-reverse": excerpt(
            readable(function_text(d, ".reverse")), "model.1.shadow, i64 32", "store double"
        ),
    }


def nested_parts() -> dict[str, str]:
    """A gradient inside a function that is differentiated; the functions written for it."""
    written: list[str] = []
    write = gradient_rules.function_from

    def record(text: str, *more: Any, **options: Any) -> Any:
        written.append(text)
        return write(text, *more, **options)

    with mock.patch.object(gradient_rules, "function_from", record):
        d = derive(slope, DerivativeSpec((float64, int64), ("active", "const"), "active"))
    call = ">>> [ar.grad(slope)(2.0, 3), ar.grad(ar.grad(slope))(2.0, 3)]"
    found = [float(f(2.0, 3)) for f in (ar.grad(slope), ar.grad(ar.grad(slope)))]
    return {
        "nested-source": source(power, slope),
        "nested-function": clean(written, "def gradient("),
        "nested-rule": clean(written, "def along(", "def rule(_config, _dret"),
        "nested-plan": section(planned(d), "calls with rules"),
        "nested-result": f"{call}\n{found}\n# 6 x and 6",
    }


def clean(texts: Sequence[str], *starts: str) -> str:
    """The written functions that begin so, one of each."""
    found = [next(t for t in texts if t.startswith(start)) for start in starts]
    spaced = (t.replace(", )", ",)") for t in found)
    return "\n\n\n".join(re.sub(r"return \((.+, .+),\)", r"return (\1)", t) for t in spaced)


def parts() -> dict[str, str]:
    """Every marked part of the template."""
    return {**engine_parts(), **rule_parts(), **object_parts(), **nested_parts()}


def engine_parts() -> dict[str, str]:
    """The first example through every stage."""
    array = float64[::1]
    derivation = derive(chain, DerivativeSpec((array,), ("duplicated",), "active"))
    captured = derivation.captured.text
    return {
        "versions": versions(),
        "source": inspect.getsource(chain.py_func).strip(),
        "capture-lines": str(len(captured.splitlines())),
        "capture": readable(raw_loop(captured)),
        "normalised": primal_of(derivation, "chain"),
        "plan": planned(derivation),
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
