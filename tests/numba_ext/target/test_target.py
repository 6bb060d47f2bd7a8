"""T3: importing activerules and differentiating change nothing of how Numba compiles otherwise."""

import subprocess
import sys

PROGRAM = """
import re
import sys
from inspect import isclass

import numpy as np
from numba import njit


def lists(x):
    pairs = [(x[0], 1), (x[1], 2)]
    pairs.insert(0, (x[2], 3))
    pairs.pop(1)
    pairs[0:1] = [(x[1], 4), (x[0], 5)]
    del pairs[1:2]
    return pairs[0][0] * pairs[-1][0]


def broadcast(x):
    return (np.sin(x * x[:1] + x) / x).sum()


def compiled():
    texts = {}
    for function in (lists, broadcast):
        made = njit(function)
        made.compile("(float64[::1],)")
        (text,) = made.inspect_llvm().values()
        # numbers and addresses in names, which differ from compile to compile
        texts[function.__name__] = re.sub(
            r"\\d+v\\d+(?=B)|\\d+(?= x i8\\] c.missing )|((?<=_expr_)|(?<= at ))0x[0-9a-f]+"
            r"|(?<=\\.pickle)(data|buf)\\.\\d+",
            "",
            text,
        )
    return texts


def of_numba():
    found = {}
    for name, module in list(sys.modules.items()):
        if module is None or name.split(".")[0] not in ("numba", "llvmlite"):
            continue
        for key, value in list(vars(module).items()):
            if not key.startswith("__"):
                found[f"{name}.{key}"] = value
            if isclass(value) and value.__module__.split(".")[0] in ("numba", "llvmlite"):
                of = f"{value.__module__}.{value.__qualname__}"
                found |= {f"{of}.{inner}": each for inner, each in list(vars(value).items())}
    return found


compiled()
before, plain = of_numba(), compiled()
assert plain == compiled()

import activerules as ar

for function in (lists, broadcast):
    ar.grad(njit(function))(np.arange(1.0, 4.0))
after = of_numba()
assert plain == compiled(), "plain functions are compiled in another way"
print("\\n".join(sorted(name for name in before if before[name] is not after.get(name))))
"""


def test_plain_functions_are_compiled_as_without_activerules():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=600, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [], "attributes of Numba's were assigned"
