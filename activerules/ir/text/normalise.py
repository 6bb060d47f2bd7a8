"""Bring LLVM IR to the normal form the engine reads: optimised, scalar, inlined where possible.

Needs       the text of a module as LLVM prints it, perhaps with additions; the name of the function
            to differentiate
Gives       the text of the module after LLVM's passes (verified); `normal_form.check` then states
            N1..N7
Invariants  T1  the function keeps its name, signature and calling convention
            T2  no loop is vectorised or unrolled: loops are differentiated as scalar loops, and
                derivatives are vectorised afterwards
            T3  LLVM never replaces one side of a comparison by the other (see `equalities`)
            T4  calls of `activerules.ignore.*`, which derivatives define, stay calls in the next
                derivative

Passes      LLVM's own -O2 without vectorisers and unrolling, Numba's reference count pruning,
            then switch lowering, loop-simplify, LCSSA, and names for every value.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from llvmlite import binding

from activerules.errors import UnsupportedIR
from activerules.ir.llvm.verbatim import may_be_replaced
from activerules.ir.llvm.verify import parsed
from activerules.ir.normal.effects import language
from activerules.ir.text.atomics import as_calls
from activerules.ir.text.byte_blocks import as_copies
from activerules.ir.text.clamps import as_choices
from activerules.ir.text.equalities import ALL, EQUALITIES, has_new_equality, hide_comparisons
from activerules.ir.text.handlers import DEFINITION, catching
from activerules.ir.text.single_runs import as_straight_code

llvm: Any = binding  # not annotated: to a type checker all that comes from it is Any

_OPTNONE = re.compile(r"^(?:attributes|define) .*\boptnone\b.*$", re.MULTILINE)
_NO_ATTRIBUTES = re.compile(r"^(attributes #\d+ = \{) (?=\}$)", re.MULTILINE)
_NOINLINE = re.compile(r"^(?:attributes|define) .*\bnoinline\b.*$", re.MULTILINE)
_INLINED = re.compile(r"\bnoinline\b")
_NOT_INLINED = re.compile(r"^attributes( #\d+) = .*\b(?:noinline|optnone)\b", re.MULTILINE)
_HEADER = re.compile(
    r"^(?P<start>define [^@\n]*@(?P<name>\"[^\"]*\"|[-\w$.]+)"
    r"\((?:[^()\"\n]++|\"[^\"\n]*\"|\((?:[^()\n]|\((?:[^()\n]|\([^()\n]*\))*\))*\))*\)"
    r"(?: (?:local_)?unnamed_addr)?(?: addrspace\(\d+\))?)(?P<group> #\d+)?",
    re.MULTILINE,
)
_TYPE_ALIASING = re.compile(r", !tbaa(?:\.struct)? !\d+")
_DERIVATIVE = re.compile(
    r"^define [^\n@]*@\"?activerules\.[^\n(]*\.(?:forward|gradient|augmented)\"?\(", re.MULTILINE
)
_INTERNAL = re.compile(r"^(@\S+ = |@\"[^\"]*\" = |define )(?:internal|private) ", re.MULTILINE)
# Comparisons of floats (`equalities`), functions of ours, assignments of records (`byte_blocks`);
# and copies of so few bytes that LLVM makes integers of them.
_REWRITTEN = re.compile(
    r" fcmp |@activerules\.| x i8\], ptr |@llvm\.mem(?:cpy|move)\.[^\n]* i64 [1248], i1"
)
_IGNORE = re.compile(
    r"^define [^@\n]*(?P<type>double|float) (?P<name>@activerules\.ignore\.\w+)\(.*?^}$",
    re.MULTILINE | re.DOTALL,
)


@cache
def target_machine() -> Any:
    """The host's target machine; initialises LLVM's native target on first use."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(opt=2)


def normalise(text: str, function: str) -> str:
    """Optimise the module in `text` for differentiation of `function`.

    Raises `UnsupportedIR` if LLVM does not accept the text or the module does not define
    `function`. Cost: about 1 ms per 100 instructions.
    """
    optimised = _optimised(text, function, EQUALITIES)
    return _optimised(text, function, ALL) if has_new_equality(optimised) else optimised


def _optimised(text: str, function: str, hidden: str) -> str:
    machine = target_machine()
    text = as_copies(as_straight_code(as_calls(_promised(_allow_passes(text)))))
    text = hide_comparisons(_hide_ignored(as_choices(text)), hidden)
    module = _parsed(_asking_to_inline(text, function))
    _check_defined(module, function)
    if not module.data_layout:
        module.data_layout = str(machine.target_data)
    if not module.triple:
        module.triple = llvm.get_process_triple()
    builder = llvm.create_pass_builder(machine, scalar_tuning())
    if _DERIVATIVE.search(text):
        _prune_references(module, builder)
    builder.getModulePassManager().run(module, builder)
    cleanup = llvm.create_new_module_pass_manager()
    cleanup.add_refprune_pass()
    _lower_invokes(module, builder)
    _add_plain_control(cleanup)
    cleanup.run(module, builder)
    return str(module)


def _prune_references(module: Any, builder: Any) -> None:
    """Remove references that a function takes to its arguments, before derivatives are inlined:
    around code with as many paths as these have, Numba's pruning gives up, and the references are
    lost where it raises.
    """
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_refprune_pass()
    passes.run(module, builder)


def _add_plain_control(cleanup: Any) -> None:
    cleanup.add_simplify_cfg_pass()
    cleanup.add_lower_switch_pass()
    cleanup.add_unify_function_exit_nodes_pass()
    _add_simple_loops(cleanup)


def optimise_alone(module: Any, *, unless: str) -> None:
    """Optimise a module that is linked into others before those are normalised, which is quicker
    then. It is left as it is if the passes need a rewritten text, or if the pattern `unless` is
    found in its text.
    """
    text = str(module)
    if not re.search(unless, text) and not _REWRITTEN.search(text):
        builder = llvm.create_pass_builder(target_machine(), scalar_tuning())
        builder.getModulePassManager().run(module, builder)


def simple_loops(text: str) -> str:
    """`text` with its loops in normal form again, after control flow was changed."""
    module = _parsed(text)
    passes = llvm.create_new_module_pass_manager()
    _add_simple_loops(passes)
    passes.run(module, llvm.create_pass_builder(target_machine(), scalar_tuning()))
    return str(module)


def _add_simple_loops(passes: Any) -> None:
    passes.add_loop_simplify_pass()
    passes.add_lcssa_pass()
    passes.add_instruction_namer_pass()


def _lower_invokes(module: Any, builder: Any) -> None:
    """Turn invokes into calls, except in functions that go on after an exception.

    Code that an exception only passes through is never reversed.
    """
    text = str(module)
    if " invoke " not in text:
        return
    lower = llvm.create_new_function_pass_manager()
    lower.add_lower_invoke_pass()
    handlers = catching(text)
    for function in module.functions:
        if not function.is_declaration and function.name not in handlers:
            lower.run(function, builder)


def canonical(text: str) -> str:
    """`text` as LLVM prints it: one instruction per line, no comments among them.

    Raises `UnsupportedIR` if LLVM refuses it.
    """
    return str(_parsed(text))


def exposed(text: str) -> str:
    """`text` with internal globals and functions made external.

    LLVM splits, renames and folds internal definitions; the derivative has to share them with the
    code that it is linked with.
    """
    return _INTERNAL.sub(lambda start: start[1], text)


def _parsed(text: str) -> Any:
    return parsed(text, "LLVM does not accept the module", "check it with `opt -passes=verify`")


def _check_defined(module: Any, function: str) -> None:
    defined = [f.name for f in module.functions if not f.is_declaration]
    if function not in defined:
        raise UnsupportedIR(
            what=f"the module defines no function {function}",
            why="functions it defines: " + (", ".join(defined[:10]) or "none"),
            instead=["give the name as it is written after `define … @`"],
        )


def scalar_tuning() -> Any:
    """LLVM's -O2 without vectorisation, unrolling and interleaving."""
    tuning = llvm.create_pipeline_tuning_options(2)
    tuning.loop_vectorization = False
    tuning.slp_vectorization = False
    tuning.loop_unrolling = False
    tuning.loop_interleaving = False
    return tuning


def _asking_to_inline(text: str, function: str) -> str:
    """`text` with the callees `alwaysinline`, unless they are `noinline` or `optnone`, which LLVM
    does not accept together with it, or may be replaced by the linker.

    In the text, because llvmlite before 0.48 adds an attribute to the result of a function.
    """
    untouched = {function} | _calling_themselves(text)
    otherwise = set(_NOT_INLINED.findall(text))

    def mark(header: re.Match[str]) -> str:
        attributes = text[header.end() : text.index("{", header.end())]
        exempt = header["name"].strip('"') in untouched or header["group"] in otherwise
        exempt = exempt or "noinline" in attributes or "optnone" in attributes
        exempt = exempt or may_be_replaced(header["start"])
        return header[0] if exempt else f"{header['start']} alwaysinline{header['group'] or ''}"

    return _HEADER.sub(mark, text)


def _allow_passes(text: str) -> str:
    """Drop `optnone`, and the `noinline` that goes with it.

    Code compiled without optimisation (clang -O0) carries both, on every function.
    """
    if "optnone" not in text:
        return text
    allowed = _OPTNONE.sub(lambda line: re.sub(r"\b(?:optnone|noinline) ?", "", line[0]), text)
    return _NO_ATTRIBUTES.sub(r'\1 "activerules.optimised" ', allowed)  # LLVM wants no empty one


def _promised(text: str) -> str:
    """`text` with the declarations that say what LLVM cannot see."""
    for name, declaration in language().declarations.items():
        if f"@{name}(" in text:
            # without an anchor, `re` looks for the first word at once: five times as fast
            text = re.sub(rf"declare [^@\n]*@{re.escape(name)}\([^\n]*", declaration, text)
    return text


def inline_all(text: str) -> str:
    """`text` with `noinline` dropped from all functions.

    Type-based alias metadata is dropped, too: it may hold only as long as each function is
    compiled on its own.
    """
    inlined = _NOINLINE.sub(lambda line: _INLINED.sub('"activerules.inlined"', line[0]), text)
    return _TYPE_ALIASING.sub("", inlined) if inlined != text else text


def _calling_themselves(text: str) -> set[str]:
    """Names of the functions of a module with a call of themselves.

    It searches the text: walking over the instructions with llvmlite took as long as the passes.
    """
    names: set[str] = set()
    for definition in DEFINITION.finditer(text):
        name = definition["name"]
        if f"@{name}" not in definition["body"]:
            continue
        call = re.compile(rf"^.*\b(?:call|invoke) .*@{re.escape(name)}(?![-\w$.])", re.MULTILINE)
        if call.search(definition["body"]):
            names.add(name.strip('"'))
    return names


def _hide_ignored(text: str) -> str:
    """Turn the functions that stop derivatives into declarations, so that their calls stay."""
    if "@activerules.ignore." not in text:
        return text
    return _IGNORE.sub(lambda m: f"declare {m['type']} {m['name']}({m['type']})", text)
