"""What a reader is shown of symbols and instructions."""

import pytest

from activerules.ir.llvm.names import plain_name
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.refusal import MOST_SHOWN, shown


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZN8__main__1hB3v23B38c8tJTIeFIjxB2IKSgI4CrvQClQZ6FczSBAA_3dE5ArrayIdLi1EE", "h"),
        ("_ZN1m1f12_3clocals_3e12_3clambda_3eB2v1Ed", "<lambda>"),
        ("_ZN1m15gr_c3_b6_c3_9feB2v1Ed", "größe"),
        ("_ZN1m8x_ab_bcdB2v1Ed", "x_ab_bcd"),
        ("_Z5powerd", "power"),
        ('"f g"', '"f g"'),
        ("malloc", "malloc"),
    ],
)
def test_the_name_behind_a_symbol(symbol, name):
    assert plain_name(symbol) == name


def test_an_instruction_is_shown_on_one_line():
    operands = ", ".join(f"i64 %a{k}" for k in range(40))
    types = ", ".join(40 * ["i64"])
    module = parse_module(f"""
declare i64 @_ZN8__main__1hB3v23E({types})
define i64 @f({operands}) {{
entry:
  %r = call i64 @_ZN8__main__1hB3v23E({operands}), !dbg !7
  ret i64 %r
}}
""")
    text = shown(next(module.functions["f"].instructions()))
    assert text.startswith("%r = call i64 @h(i64 %a0, i64 %a1,")
    assert text.endswith(" …")
    assert len(text) <= MOST_SHOWN
