"""Comparisons of floats that were hidden from LLVM are restored."""

import pytest

from activerules.ir.llvm.parser import parse_module
from activerules.ir.normal.comparisons import restore_comparisons
from activerules.ir.text.equalities import ALL, EQUALITIES, hide_comparisons
from tests.ir.text.test_equalities import COMPARED, comparisons


@pytest.mark.parametrize("predicates", [EQUALITIES, ALL])
def test_q2_hidden_comparisons_are_restored_without_flags(predicates):
    module = parse_module(hide_comparisons(COMPARED, predicates))
    restore_comparisons(module)
    for i in module.functions["f"].instructions():
        if i.name in comparisons(COMPARED):
            before = comparisons(COMPARED)[i.name]
            assert (i.opcode, i.type) == ("fcmp", before.type)
            assert i.attributes["predicate"] == before.attributes["predicate"]
            assert [o.ref for o in i.operands] == [o.ref for o in before.operands]
    assert comparisons(COMPARED)["not"].flags == ("nnan",)
    assert next(i for i in module.functions["f"].instructions() if i.name == "not").flags == ()
