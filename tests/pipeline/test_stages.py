"""The result of a stage is printed where `ACTIVERULES_DUMP` asks for it."""

import numpy as np
from numba import njit

import activerules as ar


def test_the_plan_is_printed_as_a_report(monkeypatch, capsys):
    square = njit(lambda x: np.sum(x * x))
    monkeypatch.setenv("ACTIVERULES_DUMP", "plan")
    ar.grad(square)(np.ones(3))
    printed = capsys.readouterr().err
    assert printed.startswith("==== plan ====\n")
    for part in ("\nactivity\n", "\nkept\n", "\ncomputed again\n"):
        assert printed.count(part) == 1
    assert "Plan(" not in printed
