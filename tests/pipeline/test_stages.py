"""The result of a stage is printed where `ACTIVERULES_DUMP` asks for it."""

import numpy as np
from numba import njit

import activerules as ar
from activerules.pipeline.stages import STAGES


def test_the_plan_is_printed_as_a_report(monkeypatch, capsys):
    square = njit(lambda x: np.sum(x * x))
    monkeypatch.setenv("ACTIVERULES_DUMP", "plan")
    ar.grad(square)(np.ones(3))
    printed = capsys.readouterr().err
    assert printed.startswith("==== plan ====\n")
    for part in ("\nactivity\n", "\nkept\n", "\ncomputed again\n"):
        assert printed.count(part) == 1
    assert "Plan(" not in printed


def test_a_name_that_is_no_stage_is_told_once_per_derivative(monkeypatch, capsys):
    monkeypatch.setenv("ACTIVERULES_DUMP", "plans")
    ar.grad(njit(lambda x: x * x))(2.0)
    printed = capsys.readouterr().err
    assert printed.count("ACTIVERULES_DUMP=plans is no stage; there are capture, ") == 1


def test_all_prints_every_stage(monkeypatch, capsys):
    monkeypatch.setenv("ACTIVERULES_DUMP", "all")
    ar.grad(njit(lambda x: x * x))(2.0)
    printed = capsys.readouterr().err
    assert all(f"==== {stage} ====\n" in printed for stage in STAGES)
    assert printed.count("====") == 2 * len(STAGES)
