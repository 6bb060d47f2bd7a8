"""The limits of tape and stack, also where the system does not say what there is."""

import os

from activerules.pipeline import limits


def test_limits_are_those_of_the_machine():
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < limits.tape_limit() <= memory * 3 // 4
    assert 0 < limits.stack_limit() <= 7 << 20


def test_a_system_without_limits(monkeypatch):
    monkeypatch.setattr(limits, "find_spec", {"resource": None}.get)
    monkeypatch.delattr(os, "sysconf_names")
    assert limits.stack_limit() == 7 << 17
    assert limits.tape_limit() == (1 << 63) - 1
