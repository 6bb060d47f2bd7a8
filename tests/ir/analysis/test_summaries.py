"""Summaries of functions that call each other: a fixpoint, and how much work finds it."""

from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.summaries import ModuleSummaries, Variant
from activerules.ir.llvm.parser import parse_module
from activerules.ir.text.normalise import normalise

LAST = """
define double @g0(ptr %p, ptr %q, double %x) noinline {
  store double %x, ptr %p
  %y = load double, ptr %q
  ret double %y
}
"""
LINK = """
define double @g{k}(ptr %p, ptr %q, double %x) noinline {{
  %y = call double @g{below}(ptr %p, ptr %q, double %x)
  %z = call double @g{further}(ptr %p, ptr %p, double %y)
  ret double %z
}}
"""
EACH_OTHER = """
define double @even(ptr %p, ptr %q, i64 %n) noinline {
  %done = icmp eq i64 %n, 0
  br i1 %done, label %last, label %more
last:
  store double 1.0, ptr %p
  ret double 1.0
more:
  %m = sub i64 %n, 1
  %y = call double @odd(ptr %q, ptr %p, i64 %m)
  ret double %y
}
define double @odd(ptr %p, ptr %q, i64 %n) noinline {
  %x = load double, ptr %q
  %m = sub i64 %n, 1
  %y = call double @even(ptr %p, ptr %q, i64 %m)
  %z = fmul double %x, %y
  ret double %z
}
"""


class Counted(ModuleSummaries):
    """Counts how often a function is summarised."""

    looks = 0

    def _summarise(self, variant):
        self.looks += 1
        return super()._summarise(variant)

    def assert_converged(self):
        for variant, summary in self._summaries.items():
            assert summary | self._summarise(variant) == summary
        assert not self._new
        assert not self._grown


def _summaries(text, function):
    return Counted(parse_module(normalise(text, function)), EngineCalls(None))


def _chain(length):
    links = [LINK.format(k=k, below=k - 1, further=max(k - 2, 0)) for k in range(1, length)]
    return LAST + "".join(links)


def test_a_long_chain_of_calls_is_looked_at_twice():
    """Each function is called with one object for both arguments, and with two."""
    length = 60
    summaries = _summaries(_chain(length), f"g{length - 1}")
    found = summaries.of(Variant(f"g{length - 1}", (0, 1, None), apart=True, status=False))
    assert {place.root for place in found.writes} == {0}
    assert {place.root for place in found.reads} == {0, 1}
    assert summaries.looks <= 2 * 2 * length + 2
    summaries.assert_converged()


def test_functions_that_call_each_other_converge():
    summaries = _summaries(EACH_OTHER, "even")
    found = summaries.of(Variant("even", (0, 1, None), apart=True, status=False))
    assert {place.root for place in found.writes} == {0, 1}
    assert {place.root for place in found.reads} == {0, 1}
    summaries.assert_converged()
