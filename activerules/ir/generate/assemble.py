"""From a plan to the text of a module: generated functions, and everything they refer to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from activerules.ir.generate.assumptions import build_check
from activerules.ir.generate.augmented import build_augmented
from activerules.ir.generate.forward import build_forward
from activerules.ir.generate.gradient import build_enter, build_gradient, uses_tape
from activerules.ir.generate.reverse import build_reverse
from activerules.ir.generate.scopes import Scopes
from activerules.ir.generate.split import build_split
from activerules.ir.llvm.model import Function, Instruction, Module
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_function, print_module
from activerules.ir.llvm.verbatim import attribute_groups, names_in, spelt_out, without_location
from activerules.ir.normal.effects import COPIED_SIZE, COPY_RESIZED, language
from activerules.ir.plan.forward_plan import ForwardPlan
from activerules.ir.plan.layout import Layout, make_layout
from activerules.ir.plan.plan import Plan
from activerules.ir.tape import runtime
from activerules.ir.tape.struct_copies import rows_function

# If the two sweeps have more instructions than this together, they are not inlined. The time of
# LLVM's loop passes depends on the size of the whole function (a gradient of 500 lines: 7.2 s as
# one function, 5.1 s as two), and one so long does not keep the frame in registers anyway.
INLINED = 8000


def generate(
    plan: Plan, layout: Layout | None = None
) -> tuple[list[Function], dict[str, str], Layout]:
    """The two sweeps of a derivative, their callers, and three functions per derived pair; also the
    declarations they need, and the layout of the tape: the given one, or that of `make_layout`.
    """
    layout = layout or make_layout(plan)
    declarations: dict[str, str] = {}
    sweeps = _sweeps(plan, layout, declarations)
    pairs: list[Function] = []
    for callee in plan.pairs:
        frame = make_layout(callee)
        pairs += _sweeps(callee, frame, declarations)
        pairs.append(build_enter(callee, frame, declarations))
    tape = uses_tape([*sweeps, *pairs])
    if plan.request.caller.split:
        callers = build_split(plan, layout, tape, declarations)
    else:
        callers = [build_gradient(plan, layout, tape, declarations)]
    if plan.assumptions:
        callers.append(build_check(plan, declarations))
    return _with_parents([*sweeps, *callers, *pairs]), declarations, layout


def _with_parents(functions: list[Function]) -> list[Function]:
    """New functions, whose blocks now know where they belong."""
    for function in functions:
        for block in function.blocks:
            block.parent = function
    return functions


def _sweeps(plan: Plan, layout: Layout, declarations: dict[str, str]) -> list[Function]:
    scopes = Scopes(plan, plan.request.width)
    sweeps = [
        build_augmented(plan, layout, scopes, declarations),
        build_reverse(plan, layout, scopes, declarations),
    ]
    declarations |= scopes.definitions
    if sum(len(block.instructions) for sweep in sweeps for block in sweep.blocks) > INLINED:
        for sweep in sweeps:
            sweep.suffix = "noinline"
    return sweeps


def generate_forward(plan: ForwardPlan) -> tuple[list[Function], dict[str, str]]:
    """The forward derivative, followed by those of callees, and the declarations they need."""
    declarations: dict[str, str] = {}
    functions: list[Function] = []
    for part in (plan, *plan.pairs):
        scopes = Scopes(part, plan.request.width)
        functions.append(build_forward(part, scopes, declarations, plan.recursive))
        declarations |= scopes.definitions
    return _with_parents(functions), declarations


def assemble(
    source: Module, functions: list[Function], declarations: dict[str, str], *, whole: bool
) -> str:
    """The text of a module with the generated functions.

    whole: add them to all that `source` holds; otherwise take over only what they refer to,
    directly or not, and leave `activerules.ignore.*` and `activerules.chunk.*` to be defined
    where the text is linked.
    """
    result = Module(
        header=list(source.header), types=dict(source.types), trailer=list(source.trailer)
    )
    if whole:
        result.globals.update(source.globals)
        result.functions.update(source.functions)
    else:
        result.trailer = [line for line in source.trailer if line.startswith("attributes")]
        _take_over(source, result, functions)
    for function in functions:
        result.functions[function.name] = function
    support = _support(functions, whole=whole)
    supplied = {
        name: text
        for name, text in support.functions.items()
        if name not in result.functions or result.functions[name].is_declaration
    }
    for name in supplied:
        result.functions.pop(name, None)
    result.trailer += [line for line in support.trailer if line not in result.trailer]
    missing = [
        text
        for name, text in declarations.items()
        if name not in supplied and name not in result.functions and name not in result.globals
    ]
    parts = [print_module(result)]
    for text in supplied.values():
        parts += [text, ""]
    return "\n".join([*parts, *missing, ""])


def with_missing(source: Module, functions: list[Function], normalised: Module) -> Module:
    """`source`, with definitions that `functions` refer to and only the normalised module has.

    These are functions, and named structs, which LLVM renames each time it reads a text. It also
    renumbers attribute groups, so the attributes of what is added are written out.
    """
    groups = attribute_groups(normalised)
    source.types.update({k: t for k, t in normalised.types.items() if k not in source.types})
    todo = {name for f in functions for name in f.mentioned()}
    while todo:
        name = todo.pop()
        definition = normalised.functions.get(name)
        if definition is None or name in source.functions:
            continue
        source.functions[name] = _without_groups(definition, groups)
        if not definition.is_declaration:
            _without_debug(definition)
            todo.update(definition.mentioned())
    return source


def _without_groups(function: Function, groups: Mapping[str, str]) -> Function:
    function.suffix = spelt_out(function.suffix, groups)
    for i in function.instructions():
        if "call_attributes" in i.attributes:
            i.attributes["call_attributes"] = spelt_out(i.attributes["call_attributes"], groups)
    return function


@dataclass(frozen=True)
class _Support:
    """The text of support functions, by name, and the metadata they refer to."""

    functions: Mapping[str, str]
    trailer: Sequence[str]


def _support(functions: list[Function], *, whole: bool) -> _Support:
    called = sorted({i.callee_name or "" for f in functions for i in f.instructions()})
    texts: list[str] = []
    if any(name.startswith(runtime.PREFIX) for name in called):
        texts += [runtime.TEXT, runtime.CHUNKS if whole else runtime.CHUNKS_ELSEWHERE]
    counted = language().counted
    own = counted.definitions if counted is not None else dict[str, str]()
    texts += dict.fromkeys(own[name] for name in called if name in own)
    if whole and (runtime.STACK_LEFT in called or runtime.STACK_FLOOR in called):
        texts.append(runtime.STACK_TEXT.replace("define ", "define internal "))
    if runtime.COPY_ROWS in called:
        texts.append(runtime.COPY_ROWS_TEXT)
    if COPY_RESIZED in called or COPIED_SIZE in called:
        texts.append(runtime.RESIZED_TEXT)
    texts += map(rows_function, called)
    for kind, name in (("double", "f64"), ("float", "f32")):
        if whole and f"activerules.ignore.{name}" in called:
            texts.append(
                f"define internal {kind} @activerules.ignore.{name}({kind} %x) alwaysinline {{\n"
                f"entry:\n  ret {kind} %x\n}}\n"
            )
    return _read_support("\n".join(texts))


@cache
def _read_support(text: str) -> _Support:
    """The functions in a text; cached, as many derivatives need the same ones."""
    module = parse_module(text)
    printed = {name: print_function(function) for name, function in module.functions.items()}
    return _Support(printed, tuple(module.trailer))


def _take_over(source: Module, result: Module, functions: list[Function]) -> None:
    """Copy the globals and functions of `source` that `functions` refer to, directly or not."""
    todo = {name for f in functions for name in f.mentioned()}
    done: set[str] = {f.name for f in functions}
    while todo:
        name = todo.pop()
        if name in done:
            continue
        done.add(name)
        if name in source.globals:
            result.globals[name] = source.globals[name]
            todo.update(names_in(source.globals[name]))
        elif name in source.functions:
            function = source.functions[name]
            result.functions[name] = _without_debug(function)
            todo.update(function.mentioned())


def _without_debug(function: Function) -> Function:
    for i in function.instructions():
        i.attributes.pop("metadata", None)
    function.suffix = without_location(function.suffix)
    for block in function.blocks:
        block.instructions = [i for i in block.instructions if not _is_debug(i)]
    return function


def _is_debug(i: Instruction) -> bool:
    return i.opcode == "call" and (i.callee_name or "").startswith("llvm.dbg.")
