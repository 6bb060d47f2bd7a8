"""Calls by the line they are on: which one leads to a symbol, and when Numba is asked."""

import math
from types import SimpleNamespace

import numpy as np
from numba import float64
from numba.core import types
from numba.core.compiler import run_frontend
from numba.core.ir import Assign, Expr

from activerules.numba_ext.target.call_sites import CallSites

SIGNATURE = float64(float64)
CODE = {"np.linalg.cond": ["numba_ez_gesdd", "shared"], "np.sinc": ["shared"], "math.erf": ["erf"]}


def two_on_a_line(a, x):
    return np.linalg.cond(a) * np.sinc(x)


def one_on_a_line(a, x):
    return math.erf(x)


def recorded(function):
    """The calls in a function, its line, and the names of the calls whose code was asked for."""
    asked = []

    def modules_of(site):
        asked.append(site.name)
        names = (SimpleNamespace(name=name, blocks=()) for name in CODE[site.name])
        return [SimpleNamespace(functions=[*names])]

    sites, func_ir = CallSites(modules_of), run_frontend(function)
    for block in func_ir.blocks.values():
        for call in block.find_insts(Assign):
            if isinstance(call.value, Expr) and call.value.op == "call":
                sites.add(func_ir, call.value, types.pyobject, SIGNATURE)
    return sites, f"{__file__}:{function.__code__.co_firstlineno + 1}", asked


def test_w1_code_is_asked_for_where_a_symbol_leads_to_one_of_several_calls():
    sites, line, asked = recorded(two_on_a_line)
    assert asked == []
    assert sites.call_at(line, "numba_ez_gesdd").name == "np.linalg.cond"
    assert asked == ["np.linalg.cond", "np.sinc"]
    sites, line, asked = recorded(one_on_a_line)
    assert sites.call_at(line, "erf").name == "math.erf"
    assert asked == []


def test_w2_a_call_is_named_if_no_other_on_its_line_leads_to_the_symbol():
    sites, line, _ = recorded(two_on_a_line)
    assert sites.call_at(line, "shared") is None
    assert sites.call_at(line, "elsewhere") is None
    assert sites.call_at(line, None) is None  # a call through a pointer: there is none
    # code that is not available is that of the method that has its name
    assert sites.call_at(line, "random_sinc").name == "np.sinc"
