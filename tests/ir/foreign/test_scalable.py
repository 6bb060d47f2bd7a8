"""Vectors whose length the machine knows: refused before LLVM, whose passes end the process."""

import subprocess
import sys

SCALABLE = """
from activerules.errors import UnsupportedIR
from activerules import Active
from activerules.ir import differentiate

BODY = '''
  %v = insertelement <vscale x 2 x double> zeroinitializer, double %x, i32 0
  %w = shufflevector <vscale x 2 x double> %v, <vscale x 2 x double> poison,
    <vscale x 2 x i32> zeroinitializer
  %e = extractelement <vscale x 2 x double> %w, i32 1
  ret double %e
}
'''
PAIR = '''
%pair = type { <vscale x 2 x double>, <vscale x 2 x double> }
define double @f(double %x) {
  %v = load %pair, ptr null
  %a = extractvalue %pair %v, 0
  %e = extractelement <vscale x 2 x double> %a, i32 0
  ret double %e
}
'''
COUNT = '''
define double @f(double %x) {
  %a = alloca target("aarch64.svcount")
  store double %x, ptr %a
  %y = load double, ptr %a
  ret double %y
}
'''
CALLS = "define double @f(double %x) { %y = call double @g(double %x) ret double %y }"
SQUARES = "define double @f(double %x) { %y = fmul double %x, %x ret double %y }"
OTHER = "define double @g(double %x) {" + BODY
for text in ("define double @f(double %x) {" + BODY, PAIR, CALLS + OTHER, COUNT):
    try:
        differentiate(text, "f", [Active])
    except UnsupportedIR as error:
        print(error.what[:2], error.where[0][1])
made = differentiate(SQUARES + OTHER, "f", [Active])
print("@f.gradient" in made and "<vscale x 2 x double>" in made)
"""


def test_scalable_vectors_are_refused_where_the_derivative_would_reach_them():
    done = subprocess.run([sys.executable, "-c", SCALABLE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["N7 f", "N7 f", "N7 g", "N7 f", "True"]
