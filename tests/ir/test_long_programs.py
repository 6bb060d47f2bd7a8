"""Programs as long as generators write them: no stage recurses along a chain of instructions."""

import re

import numpy as np
import pytest

from activerules.ir.generate import assemble
from tests.ir import forward_harness as forward
from tests.ir import harness as reverse
from tests.ir.harness import Active, Const, Duplicated

LENGTH = 700


def chain(step: str, first: str, length: int = LENGTH) -> str:
    """`step` over and over: `{k}` is the number of a value, `{p}` that of the one before."""
    lines = [first, *(step.format(k=k + 1, p=k) for k in range(length))]
    return "\n".join(line.strip() for text in lines for line in text.strip().splitlines())


FLOATS = f"""
define double @f(double %x) {{
{
    chain(
        '''
    %s{k} = call double @llvm.sin.f64(double %y{p})
    %y{k} = fadd double %s{k}, %x
''',
        "%y0 = fmul double %x, %x",
    )
}
ret double %y{LENGTH}
}}
declare double @llvm.sin.f64(double)
"""

INTEGERS = f"""
define double @f(double %x, i64 %n) {{
{
    chain(
        '''
    %t{k} = mul i64 %i{p}, 3
    %u{k} = add i64 %t{k}, 7
    %i{k} = and i64 %u{k}, 1023
''',
        "%i0 = add i64 %n, 1",
    )
}
%factor = sitofp i64 %i{LENGTH} to double
%square = fmul double %x, %x
%y = fmul double %square, %factor
ret double %y
}}
"""

POINTERS = f"""
define double @f(ptr %x, i64 %n) {{
{
    chain(
        '''
    %p{k} = getelementptr i8, ptr %p{p}, i64 %n
''',
        "%p0 = getelementptr i8, ptr %x, i64 0",
        LENGTH // 2,
    )
}
%v = load double, ptr %p{LENGTH // 2}, align 8
%y = fmul double %v, %v
store double 1.0, ptr %p{LENGTH // 2}, align 8
ret double %y
}}
"""

CHOICES = f"""
define double @f(double %x) {{
{
    chain(
        '''
    %c{k} = fcmp olt double %y{p}, 2.0
    %h{k} = fmul double %y{p}, 0.5
    %l{k} = fadd double %h{k}, %x
    %m{k} = fmul double %h{k}, %x
    %y{k} = select i1 %c{k}, double %l{k}, double %m{k}
''',
        "%y0 = fmul double %x, %x",
    )
}
ret double %y{LENGTH}
}}
"""

BRANCHES = f"""
define double @f(double %x) {{
{
    chain(
        '''
    %c{k} = fcmp olt double %y{p}, 2.0
    br i1 %c{k}, label %low{k}, label %high{k}
    low{k}:
    %o{k} = fmul double %y{p}, 0.5
    %l{k} = fadd double %o{k}, %x
    br label %join{k}
    high{k}:
    %h{k} = call double @llvm.sin.f64(double %y{p})
    br label %join{k}
    join{k}:
    %y{k} = phi double [ %l{k}, %low{k} ], [ %h{k}, %high{k} ]
''',
        "%y0 = fmul double %x, %x",
        LENGTH // 5,
    )
}
ret double %y{LENGTH // 5}
}}
declare double @llvm.sin.f64(double)
"""

JOIN = """
    %c{k} = fcmp olt double %y{p}, 2.0
    br i1 %c{k}, label %low{k}, label %join{k}
    low{k}:
    %s{k} = call double @llvm.sin.f64(double %y{p})
    br label %join{k}
    join{k}:
    %z{k} = phi double [ %s{k}, %low{k} ], [ %x, %join{p} ]
    %q{k} = fmul double %z{k}, %z{k}
    %y{k} = fadd double %y{p}, %q{k}
"""


def joins(length: int) -> str:
    """Branches around each of which a sum is needed that can be computed again."""
    first = """
    br label %join0
    join0:
    %y0 = fmul double %x, %x
    """
    body = chain(JOIN, first, length)
    return f"""
define double @f(double %x) {{
{body}
ret double %y{length}
}}
declare double @llvm.sin.f64(double)
"""


MEMORY = f"""
define double @f(ptr %x) {{
{
    chain(
        '''
    %a{k} = load double, ptr %x, align 8
    %b{k} = fmul double %a{k}, 0.999
    %y{k} = fadd double %b{k}, %y{p}
    store double %b{k}, ptr %x, align 8
''',
        "%y0 = fadd double 0.0, 0.0",
    )
}
%last = load double, ptr %x, align 8
%y = fmul double %last, %y{LENGTH}
ret double %y
}}
"""

PROGRAMS = {
    "floats": (FLOATS, [Active], [0.7]),
    "integers": (INTEGERS, [Active, Const], [0.7, 11]),
    "pointers": (POINTERS, [Duplicated, Const], [np.array([0.7, 1.3]), 0]),
    "choices": (CHOICES, [Active], [0.7]),
    "branches": (BRANCHES, [Active], [0.7]),
    "joins": (joins(LENGTH // 5), [Active], [0.01]),
    "memory": (MEMORY, [Duplicated], [np.array([0.7])]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_reverse(name):
    text, activities, arguments = PROGRAMS[name]
    reverse.check_gradient(text, "f", activities, arguments, opt=0, calls=1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward(name):
    text, activities, arguments = PROGRAMS[name]
    forward.check_forward(text, "f", activities, arguments, opt=0)


LOOPS = """
define double @f(ptr %x, i64 %n) {
entry:
  %state = alloca [2 x double], align 8
  store double 0.5, ptr %state, align 8
  br label %loop

loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = getelementptr double, ptr %x, i64 %i
  %v = load double, ptr %at, align 8
  %s = load double, ptr %state, align 8
  %p = fmul double %v, %s
  %t = call double @llvm.sin.f64(double %p)
  store double %t, ptr %at, align 8
  %u = fadd double %t, %s
  store double %u, ptr %state, align 8
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %n
  br i1 %again, label %loop, label %end

end:
  %y = load double, ptr %state, align 8
  ret double %y
}
declare double @llvm.sin.f64(double)
"""


def test_the_sweeps_of_a_long_function_stay_functions(monkeypatch):
    """Frame, tape and the local array go from one to the other through memory then."""
    monkeypatch.setattr(assemble, "INLINED", 0)
    arguments = [np.linspace(0.3, 1.2, 300), 300]  # more than the tape's first chunk holds
    text = reverse.check_gradient(LOOPS, "f", [Duplicated, Const], arguments)
    assert re.findall(r"@f\.(\w+)\(.*\) noinline", text) == ["augmented", "reverse"]


def test_the_sweep_does_not_compute_in_each_block_what_the_last_one_computed():
    """Otherwise the code grew with the square of the number of branches."""
    short, long = (
        len(reverse.check_gradient(joins(length), "f", [Active], [0.01], opt=0).splitlines())
        for length in (20, 80)
    )
    assert long < 5 * short
