"""Functions and globals by name: what is found in a text, and what is changed there."""

from activerules.ir.text import symbols
from activerules.ir.text.normalise import canonical

TEXT = canonical("""
@"rule.table of f" = external global ptr
@plain = global double 0.0
declare i32 @rule.one(ptr, ptr)
declare i32 @rule.two(ptr, i64)
declare double @helper(double)
define i32 @f(ptr %retptr, ptr %a, i64 %n) {
  %x = load double, ptr @plain
  %y = call double @helper(double %x)
  %status = call i32 @rule.one(ptr %retptr, ptr %a)
  %other = call i32 @helper.more(i64 %n)
  ret i32 %status
}
declare i32 @helper.more(i64)
define i32 @g(ptr %p) {
  ret i32 3
}
""")


def changed(after):
    """The lines that differ: as they were, and as they are."""
    before = TEXT.splitlines()
    return [(a, b) for a, b in zip(before, after.splitlines(), strict=True) if a != b]


def test_y1_names_are_found_by_their_beginnings():
    assert set(symbols.called(TEXT, "rule.")) == {"rule.one", "rule.two"}
    assert symbols.globals_named(TEXT, "pla") == ["plain"]
    assert {"rule.table of f", "plain", "helper", "helper.more", "f"} <= set(symbols.names_in(TEXT))
    assert symbols.is_loaded(TEXT, "plain")
    assert not symbols.is_loaded(TEXT, "rule.table of f")
    assert not symbols.has_unnamed(TEXT)
    assert symbols.has_unnamed(TEXT + "%p = inttoptr i64 %n to ptr")


def test_y2_a_function_gets_another_name_and_those_that_begin_alike_do_not():
    after = symbols.renamed(TEXT, "helper", "other")
    assert "@helper(" not in after
    assert after.count("@helper.more(") == TEXT.count("@helper.more(")
    assert len(changed(after)) == 2


def test_y2_attributes_reach_the_parameters_that_are_named():
    after = symbols.with_parameters(TEXT, {"rule.one": [1]}, "nocapture ")
    assert changed(after) == [
        ("declare i32 @rule.one(ptr, ptr)", "declare i32 @rule.one(ptr, ptr nocapture )")
    ]
    after = symbols.with_promises(TEXT, "f", {2: "noundef"})
    ((before, line),) = changed(after)
    assert line == before.replace("i64 %n", "i64 noundef %n")
    text = "define void @f(ptr initializes((0, 8), (16, 24)) %p, i64 range(i64 0, 5) %n) {"
    after = symbols.with_promises(text, "f", {1: "noundef"})
    assert after == text.replace("i64 range", "i64 noundef range")


def test_y2_results_get_attributes_by_name_or_first_parameter():
    after = symbols.with_results(TEXT, "range(i32 -4, 1)", prefix="rule.")
    assert len(changed(after)) == 2
    assert all("range" in line and "@rule." in line for _, line in changed(after))
    after = symbols.with_statuses(TEXT, "noundef", parameter="retptr", unless="7")
    ((_, line),) = changed(after)
    assert line.startswith("define noundef i32 @f(")
    assert symbols.with_statuses(TEXT, "noundef", parameter="retptr", unless="3") == TEXT


def test_y2_definitions_replace_declarations_and_bring_what_they_call():
    definition = "define double @helper(double %x) {\n  %r = call double @deep(double %x)\n"
    definition += "  ret double %r\n}"
    needed = {"deep": "declare double @deep(double)", "unused": "declare void @unused()"}
    after = symbols.with_definitions(TEXT, {"helper": definition}, needed)
    assert "declare double @helper" not in after
    assert after.count(definition) == 1
    assert needed["deep"] in after
    assert needed["unused"] not in after
    assert symbols.with_definitions(TEXT, {"absent": "define void @absent()"}, {}) == TEXT


def test_y2_pointers_resolved_by_name_become_constants():
    ((before, line),) = changed(symbols.resolved(TEXT, "rule.table of "))
    assert before == '@"rule.table of f" = external global ptr'
    assert line == '@"rule.table of f" = internal constant ptr @"f"'
