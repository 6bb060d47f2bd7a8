"""Second names of functions and variables."""

from activerules.ir.foreign.aliases import own_names, unaliased

TEXT = """\
@text = constant [5 x i8] c"@sq. "
@value = global double 2.0
@second = internal alias double, ptr @value
@sq = alias double (double), ptr @square
@again = internal alias double (double), ptr @sq
@weak = weak alias double (double), ptr @square
@once = linkonce alias double (double), ptr @square
define double @f(double %x) {
  %c = load double, ptr @second
  %y = call double @again(double %c)
  %z = call double @weak(double %y)
  %w = call double @once(double %z)
  ret double %w
}
define double @square(double %x) {
  %y = fmul double %x, %x
  ret double %y
}
"""


def test_i1_names_that_another_module_may_change_stay():
    assert own_names(TEXT) == {"second": "value", "sq": "square", "again": "square"}
    text = unaliased(TEXT)
    assert "call double @square(double %c)" in text
    assert "load double, ptr @value" in text
    assert "call double @weak(double %y)" in text
    assert "call double @once(double %z)" in text


def test_i2_the_lines_that_define_the_names_stay():
    def above(text):
        return text.partition("define")[0]

    assert [line.split()[0] for line in above(unaliased(TEXT)).splitlines()] == [
        line.split()[0] for line in above(TEXT).splitlines()
    ]
    assert above(unaliased(TEXT)).count(" alias ") == above(TEXT).count(" alias ")
    assert 'c"@sq. "' in unaliased(TEXT)
