"""Which blocks lie on the way to a successful return, for functions that return a status: R1 and
R2.
"""

from __future__ import annotations

import pytest

from activerules.errors import UnsupportedIR
from activerules.ir.analysis.returns import Returns, analyse_returns, fails_with
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module


def _analysed(body: str, *, status: bool = True) -> Returns:
    text = f"declare i32 @g()\ndeclare void @abort()\ndefine i32 @f(i32 %x, i1 %c) {{\n{body}\n}}\n"
    function = parse_module(text).functions["f"]
    return analyse_returns(function, control_flow(function), status=status)


def _names(returns: Returns) -> set[str]:
    return {block.name for block in returns.live}


JOIN = """
entry:
  br i1 %c, label %good, label %bad
good:
  br label %end
bad:
  br label %end
end:
  %r = phi i32 [ {good}, %good ], [ {bad}, %bad ]
  ret i32 %r
"""


@pytest.mark.parametrize(
    ("good", "bad", "live"),
    [
        ("0", "1", {"entry", "good", "end"}),
        ("0", "-1", {"entry", "good", "end"}),
        ("0", "0", {"entry", "good", "bad", "end"}),
        ("0", "%x", {"entry", "good", "bad", "end"}),
        ("undef", "1", {"entry", "good", "end"}),
    ],
)
def test_r1_blocks_that_end_with_a_constant_error_are_not_live(
    good: str, bad: str, live: set[str]
) -> None:
    assert _names(_analysed(JOIN.format(good=good, bad=bad))) == live


def test_without_status_every_return_is_a_success() -> None:
    assert _names(_analysed(JOIN.format(good="0", bad="1"), status=False)) == {
        "entry",
        "good",
        "bad",
        "end",
    }


TESTED = """
entry:
  %s = call i32 @g()
  %fine = icmp {predicate} i32 %s, {bound}
  br i1 %fine, label %yes, label %no
yes:
  br label %end
no:
  br label %end
end:
  %r = phi i32 [ %s, %yes ], [ %s, %no ]
  ret i32 %r
"""


@pytest.mark.parametrize(
    "predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]
)
@pytest.mark.parametrize("bound", [-2, -1, 0, 1, 2])
def test_a_branch_on_the_status_tells_which_side_can_succeed(predicate: str, bound: int) -> None:
    """The side that zero takes is live, and only that side is."""
    returns = _names(_analysed(TESTED.format(predicate=predicate, bound=bound)))
    unsigned = bound % (1 << 32)
    zero_holds = {
        "eq": bound == 0, "ne": bound != 0, "slt": bound > 0, "sle": bound >= 0, "sgt": bound < 0,
        "sge": bound <= 0, "ult": unsigned > 0, "ule": True, "ugt": False, "uge": unsigned == 0,
    }[predicate]  # fmt: skip
    assert ("yes" if zero_holds else "no") in returns
    assert ("no" if zero_holds else "yes") not in returns


def test_a_status_that_is_chosen() -> None:
    body = JOIN.format(good="0", bad="%chosen").replace(
        "bad:\n", "bad:\n  %chosen = select i1 %c, i32 4, i32 5\n"
    )
    assert "bad" not in _names(_analysed(body))


def test_r2_live_blocks_lead_to_live_blocks() -> None:
    body = JOIN.format(good="0", bad="0").replace(
        "bad:\n  br label %end", "bad:\n  call void @abort()\n  unreachable"
    )
    body = body.replace(", [ 0, %bad ]", "")
    returns = _analysed(body)
    assert _names(returns) == {"entry", "good", "end"}
    for block in returns.live - {returns.exit}:
        assert any(t in returns.live for t in block.successors)


@pytest.mark.parametrize("count", [0, 2])
def test_one_return_block(count: int) -> None:
    body = (
        "entry:\n  unreachable"
        if count == 0
        else ("entry:\n  br i1 %c, label %a, label %b\na:\n  ret i32 0\nb:\n  ret i32 0")
    )
    with pytest.raises(UnsupportedIR, match="N3"):
        _analysed(body)


def test_a_status_after_a_loop_is_the_one_tested_in_it() -> None:
    """In loop-closed form the status that leaves a loop has a phi of its own."""
    returns = _analysed("""
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %more ]
  %s = call i32 @g()
  %fine = icmp eq i32 %s, 0
  br i1 %fine, label %more, label %failed
more:
  %next = add i32 %i, 1
  %again = icmp ne i32 %next, %x
  br i1 %again, label %loop, label %done
failed:
  %status = phi i32 [ %s, %loop ]
  br label %end
done:
  br label %end
end:
  %r = phi i32 [ %status, %failed ], [ 0, %done ]
  ret i32 %r
""")
    assert _names(returns) == {"entry", "loop", "more", "done", "end"}


MERGED = """
entry:
  %s = call i32 @g()
  %failed = icmp ne i32 %s, 0
  br i1 %failed, label %merge, label %next
next:
  %t = call i32 @g()
  %again = icmp ne i32 %t, 0
  br i1 %again, label %merge, label %end
merge:
  %status = phi i32 [ {first}, %entry ], [ %t, %next ]
  %known = icmp eq i32 %status, 7
  br i1 %known, label %other, label %which
which:
  %zero = icmp eq i32 {tested}, 0
  br i1 %zero, label %end, label %fail
other:
  br label %fail
fail:
  %code = phi i32 [ %status, %which ], [ 1, %other ]
  br label %end
end:
  %r = phi i32 [ 0, %next ], [ 0, %which ], [ %code, %fail ]
  ret i32 %r
"""


@pytest.mark.parametrize(
    ("first", "tested", "expected"),
    [("%s", "%status", True), ("0", "%status", False), ("%s", "%x", False)],
)
def test_a_call_whose_result_is_merged_with_others_fails_with_them(
    first: str, tested: str, expected: bool
) -> None:
    returns = _analysed(MERGED.format(first=first, tested=tested))
    calls = [i for i in returns.instructions() if i.opcode == "call"]
    assert fails_with(calls[0], returns) == expected
    assert fails_with(calls[1], returns) == (tested == "%status")
