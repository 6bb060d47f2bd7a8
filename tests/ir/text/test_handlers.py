"""Exceptions that are caught: which functions go on after a handler."""

from activerules.ir.text.handlers import catching
from activerules.ir.text.normalise import canonical

MODULE = canonical("""
declare i32 @personality(...)
declare void @thrower()
declare ptr @begin(ptr)
declare void @rethrow()
define double @goes_on(double %x) personality ptr @personality {
  invoke void @thrower() to label %fine unwind label %pad
pad:
  %caught = landingpad { ptr, i32 } catch ptr null
  br label %handle
handle:
  br label %fine
fine:
  ret double %x
}
define double @throws_again(double %x) personality ptr @personality {
  invoke void @thrower() to label %fine unwind label %pad
fine:
  ret double %x
pad:
  %caught = landingpad { ptr, i32 } catch ptr null
  call void @rethrow()
  unreachable
}
define double @only_cleans_up(double %x) personality ptr @personality {
  invoke void @thrower() to label %fine unwind label %pad
fine:
  ret double %x
pad:
  %passing = landingpad { ptr, i32 } cleanup
  resume { ptr, i32 } %passing
}
define double @plain(double %x) {
  ret double %x
}
""")


def test_h1_functions_that_return_after_a_handler_are_listed():
    assert catching(MODULE) == {"goes_on"}


def test_h1_a_module_without_handlers_has_none():
    assert catching("define void @f() {\n  ret void\n}\n") == set()
