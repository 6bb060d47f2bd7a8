"""One module of unoptimised IR, with the flags of its dispatcher; the CPU target unharmed."""

import math
import re
import threading

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest
from numba import float64, int64, types
from numba.core import lowering
from numba.core.registry import cpu_target
from numba.experimental import jitclass
from numba.extending import intrinsic
from numba.typed import Dict

from activerules.errors import NotCompilable
from activerules.numba_ext.target import capture as capture_module
from activerules.numba_ext.target import target
from activerules.numba_ext.target.capture import Captured, capture
from activerules.rules.debug import debug_mode
from activerules.rules.registry import RULES
from numba_ext.target.rule_views import NOTHING, Keeping

VECTOR = float64[::1]
MATRIX = float64[:, ::1]


@numba.njit
def square(x):
    return x * x


@numba.njit
def sum_of_squares(a):
    total = 0.0
    for i in range(a.shape[0]):
        total += square(a[i])
    return total


def module_of(captured: Captured) -> llvm.ModuleRef:
    module = llvm.parse_assembly(captured.text)
    module.verify()
    return module


def defined(captured):
    return [f.name for f in module_of(captured).functions if not f.is_declaration]


def declared(captured):
    names = [f.name for f in module_of(captured).functions if f.is_declaration]
    return [name for name in names if not name.startswith("llvm.")]


def test_c1_target_t1_callees_are_defined_and_the_entry_is_external():
    captured = capture(sum_of_squares, (VECTOR,), rules=NOTHING)
    module = module_of(captured)
    assert module.get_function(captured.symbol).linkage is llvm.Linkage.external
    assert len(defined(captured)) == 2
    assert any("square" in name for name in defined(captured))
    assert set(declared(captured)) <= {"NRT_incref", "NRT_decref"}


def test_target_t1_ir_is_not_optimised():
    captured = capture(sum_of_squares, (VECTOR,), rules=NOTHING)
    assert "alloca" in captured.text
    assert " x double>" not in captured.text


def test_c1_target_t2_numpy_implementations_come_along_and_nrt_stays_declared():
    @numba.njit
    def program(a):
        return np.sort(np.cumsum(a)).sum()

    captured = capture(program, (VECTOR,), rules=NOTHING)
    assert any("cumsum" in name for name in defined(captured))
    assert " x double>" not in captured.text
    assert {"NRT_incref", "NRT_MemInfo_alloc_aligned"} <= set(declared(captured))
    assert not any(name.startswith("_ZN") for name in declared(captured))


def test_plain_function():
    captured = capture(lambda x: x + 1.0, (float64,), rules=NOTHING)
    assert captured.signature.return_type == float64


def test_arguments_name_their_llvm_parameters():
    @numba.njit
    def program(a, n, x=2.0):
        return a[n] * x

    captured = capture(program, (VECTOR, int64), rules=NOTHING)
    a, n, x = captured.arguments
    assert captured.argument_names == ("a", "n", "x")
    assert [slot.role for slot in a.slots] == [
        "meminfo",
        "parent",
        "size",
        "itemsize",
        "data",
        "shape",
        "stride",
    ]
    assert (a.parameters, n.parameters, x.parameters) == (tuple(range(2, 9)), (9,), ())
    entry = module_of(captured).get_function(captured.symbol)
    assert len(list(entry.arguments)) == 10
    assert captured.location == f"{__file__}:{program.py_func.__code__.co_firstlineno}"


# --- flags ---


def quotient(a, i):
    return a[0] / a[i]


@pytest.mark.parametrize("model", ["python", "numpy"])
def test_c2_error_model(model):
    program = numba.njit(error_model=model)(quotient)
    captured = capture(program, (VECTOR, int64), rules=NOTHING)
    assert ("division by zero" in captured.text) == (model == "python")


@pytest.mark.parametrize("checked", [False, True])
def test_c2_boundscheck(checked):
    program = numba.njit(boundscheck=checked, error_model="numpy")(quotient)
    captured = capture(program, (VECTOR, int64), rules=NOTHING)
    assert ("index is out of bounds" in captured.text) == checked


@pytest.mark.parametrize(
    ("fastmath", "written"), [(False, "fdiv double"), (True, "fdiv fast"), ({"nnan"}, "fdiv nnan")]
)
def test_c2_fastmath(fastmath, written):
    program = numba.njit(fastmath=fastmath)(quotient)
    captured = capture(program, (VECTOR, int64), rules=NOTHING)
    assert written in captured.text


def test_c2_debug_option_keeps_bounds_checks_but_not_its_lowering():
    plain = numba.njit(boundscheck=True)(quotient)
    debug = numba.njit(debug=True, _dbg_optnone=False)(quotient)
    first, second = (capture(f, (VECTOR, int64), rules=NOTHING) for f in (plain, debug))
    assert opcodes(first) == opcodes(second)


def test_target_t4_flags_of_a_caller_do_not_leak_into_other_compiles():
    @numba.njit
    def divide(x, y):
        return x / y

    @numba.njit(error_model="numpy")
    def lenient(x, y):
        return divide(x, y)

    @numba.njit(error_model="python")
    def strict(x, y):
        return divide(x, y)

    for program in (lenient, strict, lenient):
        captured = capture(program, (float64, float64), rules=NOTHING)
        assert ("division by zero" in captured.text) == (program is strict)


def test_flags_of_a_compile_in_progress_do_not_leak_into_a_capture():
    captured = []

    @numba.njit
    def divide(x, y):
        return x / y

    @numba.extending.intrinsic
    def capturing(context, x):
        captured.append(capture(divide, (float64, float64), rules=NOTHING))
        return x(x), lambda context, builder, signature, args: args[0]

    @numba.njit(error_model="numpy", fastmath=True)
    def caller(x):
        return capturing(x)

    assert caller(1.0) == 1.0
    assert "division by zero" in captured[0].text
    assert "fast" not in captured[0].text


def test_c2_parallel_becomes_a_sequential_loop():
    @numba.njit(parallel=True)
    def program(a):
        total = 0.0
        for i in numba.prange(a.shape[0]):
            total += a[i]
        return total

    captured = capture(program, (VECTOR,), rules=NOTHING)
    assert "numba_parallel_for" not in captured.text
    assert "gufunc" not in captured.text


# --- recursion ---


@numba.njit
def factorial(n, x):
    return x if n < 1 else n * factorial(n - 1, x)


@numba.njit
def even(n, x):
    return x if n == 0 else odd(n - 1, 2.0 * x)


@numba.njit
def odd(n, x):
    if n == 0:
        return 3.0 * x
    return even(n - 1, x)


def test_self_recursion():
    captured = capture(factorial, (int64, float64), rules=NOTHING)
    assert defined(captured) == [captured.symbol]


@pytest.mark.parametrize("function", [even, odd])
def test_mutual_recursion_calls_by_name(function):
    captured = capture(function, (int64, float64), rules=NOTHING)
    module = module_of(captured)
    assert len(defined(captured)) == 2
    assert not declared(captured)
    pointers = [g for g in module.global_variables if "unresolved" in g.name]
    assert all(not pointer.is_declaration for pointer in pointers)
    entry = module.get_function(captured.symbol)
    assert entry.linkage is llvm.Linkage.external


@jitclass([("value", float64)])
class Kept:
    def __init__(self, value):
        self.value = value


@numba.njit
def product(kept, n):
    if n == 0:
        return kept.value
    return kept.value * product(Kept(kept.value + 1.0), n - 1)


@numba.njit
def product_of_three(x):
    return product(Kept(x), 2)


def test_recursion_among_functions_that_share_a_destructor():
    captured = capture(product_of_three, (float64,), rules=NOTHING)
    assert not [name for name in declared(captured) if "product" in name]


# --- line tables ---


def opcodes(captured):
    function = module_of(captured).get_function(captured.symbol)
    return [i.opcode for block in function.blocks for i in block.instructions]


def test_target_t5_line_tables_change_no_instruction(monkeypatch):
    with_lines = capture(sum_of_squares, (VECTOR,), rules=Keeping())
    subtarget = target.ADContext.subtarget

    def without_lines(self, **settings):
        settings.pop("enable_debuginfo", None)
        return subtarget(self, **settings)

    monkeypatch.setattr(target.ADContext, "subtarget", without_lines)
    plain = capture(sum_of_squares, (VECTOR,), rules=Keeping())
    assert "!dbg" not in plain.text
    assert "!dbg" in with_lines.text
    assert opcodes(with_lines) == opcodes(plain)


def test_target_t5_line_tables_name_the_line():
    captured = capture(sum_of_squares, (VECTOR,), rules=NOTHING)
    line = sum_of_squares.py_func.__code__.co_firstlineno + 4
    multiply = re.search(r"call i32 @\S*square\S*\(.*!dbg (!\d+)", captured.text)
    assert multiply is not None
    assert f"{multiply[1]} = !DILocation(line: {line}," in captured.text


def test_lines_of_array_expressions_cost_no_parse_of_the_file(monkeypatch):
    """Numba parses the whole file for the line of a definition; an expression has one each."""

    @numba.njit
    def program(a, b):
        return (a + 2.0 * b)[0] + (a * b - b)[1]

    def parsed(function):
        raise AssertionError(f"the file of {function} was parsed")

    monkeypatch.setattr(lowering, "get_func_body_first_lineno", parsed)
    captured = capture(program, (VECTOR, VECTOR), rules=NOTHING)
    line = program.py_func.__code__.co_firstlineno + 2
    multiply = re.search(r"= fmul double .*!dbg (!\d+)", captured.text)
    assert multiply is not None
    assert f"{multiply[1]} = !DILocation(line: {line}," in captured.text


# --- errors ---


def test_what_numba_cannot_compile():
    @numba.njit
    def program(x):
        return x + "text"

    with pytest.raises(NotCompilable, match=r"program\(float64\)") as caught:
        capture(program, (float64,), rules=NOTHING)
    assert isinstance(caught.value.__cause__, numba.core.errors.TypingError)
    assert __file__ in str(caught.value)


def test_what_numba_cannot_compile_is_said_as_of_the_function_alone():
    @numba.njit
    def program(x):
        return np.dot(x, 1.0)

    with pytest.raises(NotCompilable) as caught:
        capture(program, (VECTOR,), rules=NOTHING)
    assert "dot(" in caught.value.why
    assert "implementations.py" not in caught.value.why


def test_a_plain_function_that_is_called():
    def plain(x):
        return x

    with pytest.raises(NotCompilable) as caught:
        capture(numba.njit(lambda x: plain(x)), (float64,), rules=NOTHING)
    assert caught.value.instead[0] == "@njit for the plain functions that it calls"


def test_wrong_number_of_arguments():
    with pytest.raises(NotCompilable):
        capture(square, (float64, float64), rules=NOTHING)


# --- the CPU target ---


@numba.njit
def loop(a):
    total = 0.0
    for i in range(a.shape[0]):
        total += square(a[i]) * math.exp(a[i])
    return total


@numba.njit(fastmath=True)
def fast_loop(a):
    total = 0.0
    for i in range(a.shape[0]):
        total += square(a[i])
    return total


def fresh(dispatcher):
    """A dispatcher that has compiled nothing yet."""
    return numba.jit(**dispatcher.targetoptions)(dispatcher.py_func)


def without_identities(ir):
    """CPU IR without what differs from one compile of a function to the next."""
    ir = re.sub(r"B\d?v\d+B", "", ir)
    return re.sub(r"(?m)^; ModuleID.*|0x[0-9a-f]+|\$\d+", "", ir)


@pytest.mark.parametrize("function", [loop, fast_loop])
def test_c4_target_t3_cpu_code_is_the_same_before_and_after(function):
    a = np.linspace(0.0, 1.0, 7)
    before, after = fresh(function), fresh(function)
    expected = before(a)
    capture(function, (VECTOR,), rules=Keeping(square))
    assert after(a) == expected
    (old,), (new,) = (f.inspect_llvm().values() for f in (before, after))
    assert without_identities(old) == without_identities(new)
    assert "activerules" not in new


def test_c4_target_t3_capturing_compiles_nothing_for_the_cpu():
    function, callee = fresh(loop), fresh(square)
    scope = {"square": callee, "math": math}
    code = function.py_func.__code__
    program = numba.njit(type(function.py_func)(code, scope, "program"))
    capture(program, (VECTOR,), rules=NOTHING)
    assert not program.signatures
    assert not callee.signatures


@intrinsic
def capture_here(typing_context):
    """Captures `mean` while the call is lowered: its caller is typed, and half of it compiled."""

    def codegen(context, builder, signature, args):
        capture(numba.njit(mean), (VECTOR,), rules=Keeping())
        return context.get_dummy_value()

    return types.none(), codegen


def mean(a):
    return np.mean(a)


def around_a_capture(a):
    capture_here()
    return np.mean(a)


def test_a_compile_around_it_finds_the_implementations_it_typed():
    assert numba.njit(around_a_capture)(np.arange(4.0)) == 1.5
    capture(numba.njit(around_a_capture), (VECTOR,), rules=NOTHING)


@numba.njit
def sum_of_items(n):
    table = Dict.empty(int64, float64)
    table[n] = 1.5
    total = 0.0
    for key, value in table.items():
        total += key * value
    return total


def test_a_method_in_use_is_not_the_method_of_another_target():
    """Numba has one type of it for all contexts, as long as somebody holds it: what is compiled for
    one target, the others would take for theirs."""
    rules = Keeping()
    session = capture_module._session(rules)
    contexts = (
        session.typing_context,
        target.Session(rules).typing_context,
        cpu_target.typing_context,
    )
    for context in contexts:
        context.refresh()
    found = types.DictType(int64, float64)
    held = [context.resolve_getattr(found, "items") for context in contexts]
    assert len(set(held)) == 3
    assert held[0] == held[0].copy(found)
    capture(fresh(sum_of_items), (int64,), rules=rules)
    assert fresh(sum_of_items)(2) == 3.0
    capture(fresh(sum_of_items), (int64,), rules=rules)


def test_debug_mode_leaves_what_is_compiled_outside_of_it():
    plain = capture_module._session(RULES)
    with debug_mode():
        checked = capture_module._session(RULES)
        assert checked is not plain
    assert capture_module._session(RULES) is plain
    with debug_mode(derivatives=False):
        assert capture_module._session(RULES) not in (plain, checked)
    with debug_mode():
        assert capture_module._session(RULES) is checked


def test_captures_from_several_threads():
    a = np.linspace(0.0, 1.0, 5)
    failures = []

    def work(index):
        @numba.njit
        def callee(x):
            return x * index

        @numba.njit
        def program(a):
            return callee(a.sum()) + np.dot(a, a)

        try:
            rules = Keeping(callee) if index % 2 else NOTHING
            captured = capture(program, (VECTOR,), rules=rules)
            assert len(captured.marked) == index % 2
            np.testing.assert_allclose(program(a), a.sum() * index + a @ a)
            assert "activerules" not in "".join(program.inspect_llvm().values())
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_none_and_tuples_return():
    @numba.njit
    def program(x):
        return (x, (x + 1.0, 2)), None

    captured = capture(program, (float64,), rules=NOTHING)
    assert isinstance(captured.signature.return_type, types.Tuple)


def test_an_iterator_that_an_inlined_function_returns_is_refused_in_plain_words():
    @numba.njit(inline="always")
    def numbered(x):
        return enumerate(x)

    @numba.njit
    def program(x):
        total = 0.0
        for k, item in numbered(x):
            total += k * item
        return total

    assert program(np.arange(3.0)) == 5.0
    with pytest.raises(NotCompilable, match=r"inline=\"always\"(?s:.*)`enumerate\(…\)`"):
        capture(program, (VECTOR,), rules=NOTHING)


def test_the_line_of_a_definition_is_above_its_first_statement():
    captured = capture(sum_of_squares, (VECTOR,), rules=NOTHING)
    line = sum_of_squares.py_func.__code__.co_firstlineno + 1  # a decorator is in between
    assert re.search(
        rf'DISubprogram\([^\n]*name: "[^"]*sum_of_squares"?[^\n]*line: {line},', captured.text
    )


def test_a_recursive_function_of_no_loaded_module_is_refused_in_plain_words():
    """Numba calls it by another name than it has; called itself, it ends the process."""
    scope = {"np": np, "__name__": "not_loaded"}
    exec("def down(x, n): return x if n == 0 else down(np.sin(x), n - 1)", scope)
    scope["down"] = numba.njit(scope["down"])
    with pytest.raises(NotCompilable, match="does not find a recursive function"):
        capture(scope["down"], (VECTOR, int64), rules=NOTHING)
