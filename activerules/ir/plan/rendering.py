"""The plan of a derivative as text, with the registers' own names.

Needs       a plan and its layout
Gives       `render_plan`: all of it; `render_activity`, `render_kept`, `render_computed`: parts
            `marked_calls`, `is_computation`, `in_order`: the entries of its lists, and their order
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.nodes import Node, Primal, Shadow
from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.model import Block, Instruction
from activerules.ir.llvm.printer import print_instruction
from activerules.ir.plan.facts import Facts
from activerules.ir.plan.layout import Layout
from activerules.ir.plan.plan import Plan
from activerules.ir.plan.reasons import NameOf, describe, name_of_memory, why_kept, why_served

_WIDEST = 72
_SYMBOLS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def render_plan(plan: Plan, layout: Layout) -> str:
    """The text of a whole plan."""
    paragraphs: list[tuple[str, list[str]]] = [
        (_headline(plan), []),
        ("activity", render_activity(plan)),
        ("loops", _loops(plan, layout)),
        ("kept", render_kept(plan, layout)),
        ("computed again", render_computed(plan)),
        ("calls with rules", _calls(plan)),
    ]
    return "\n\n".join("\n".join([title, *lines]) for title, lines in paragraphs) + "\n"


def _headline(plan: Plan) -> str:
    request = plan.request
    parameters = ", ".join(f"%{p.argument.name}: {p.activity}" for p in request.parameters)
    return f"{request.display_name}({parameters}) -> {request.returned.kind}"


def render_activity(plan: Plan) -> list[str]:
    """Every instruction, followed by whether it is active, or a pointer that has a shadow."""
    lines: list[str] = []
    for block in plan.flow.order:
        dead = "" if block in plan.returns.live else "   error path: not differentiated"
        lines.append(f"  {block.name}:{dead}")
        lines += _columns((_bare(i), _activity_of(i, block, plan)) for i in block.instructions)
    return lines


def _activity_of(i: Instruction, block: Block, plan: Plan) -> str:
    if block not in plan.returns.live:
        return ""
    if i.type.is_pointer:
        return "has a shadow" if plan.activity.has_shadow(i) else ""
    if plan.activity.is_active(i) or i in plan.needs:
        return "active"
    carries = [name for name in ("varied", "useful") if i in getattr(plan.activity, name)]
    return f"only {carries[0]}" if carries else ""


def _loops(plan: Plan, layout: Layout) -> list[str]:
    return _columns(
        (
            f"%{loop.header.name}",
            f"depth {loop.depth}",
            _length_of(loop, plan),
            f"{layout.rows[loop].size if loop in layout.rows else 0} bytes per iteration",
        )
        for loop in plan.flow.loops
    )


def _length_of(loop: Loop, plan: Plan) -> str:
    if loop not in plan.reversal.loops:
        return "nothing to undo"
    count = plan.loops[loop].trip_count
    if count is None:
        return "length unknown until it ends"
    goes_on = f"while {_SYMBOLS[count.predicate[-2:]]} {count.bound.ref}"
    return f"length known: from {count.start.ref} by {count.step} {goes_on}"


def render_kept(plan: Plan, layout: Layout) -> list[str]:
    """The kept nodes, each with a description, its bytes per call or iteration, and the reason."""
    return _columns(
        (
            repr(node),
            describe(node, plan, _naming(plan)),
            _bytes_of(node, plan, layout),
            _reason(node, plan),
        )
        for node in in_order(plan.cache.kept, plan)
    )


def _bytes_of(node: Node, plan: Plan, layout: Layout) -> str:
    home, entries = plan.home(node), plan.per_entry(node)
    size = layout.field(node, home).size if entries is None else entries.size
    per = "call" if home is None else f"iteration of %{home.header.name}"
    if entries is not None:
        per = f"entry that %{entries.loop.header.name} reads, per {per}"
    return f"{size} byte{'s' * (size != 1)} per {per}"


def _reason(node: Node, plan: Plan) -> str:
    reason = why_kept(node, plan)
    by = f" by: {_bare(reason.culprit)}" if reason.culprit is not None else ""
    return reason.text + by


def render_computed(plan: Plan) -> list[str]:
    """The nodes that the reverse sweep recomputes, each with a description."""
    nodes = (n for n in in_order(plan.cache.computed, plan) if is_computation(n))
    return _columns((repr(node), describe(node, plan, _naming(plan))) for node in nodes)


def _naming(plan: Plan) -> NameOf:
    """Name argument memory by the common part of its parameters' names: `%arg.x`."""
    groups: dict[object, list[str]] = {}
    for parameter in plan.request.parameters:
        groups.setdefault(parameter.group, []).append(parameter.argument.name)
    names = {group: _common_part(parts) for group, parts in groups.items()}

    def name_of(memory: MemoryObject) -> str:
        if memory.kind == "argument" and names.get(memory.key):
            return f"%{names[memory.key]}"
        return name_of_memory(memory)

    return name_of


def _common_part(names: Sequence[str]) -> str:
    """`arg.x` for `arg.x.0` and `arg.x.1`; a single name as it is."""
    parts = zip(*(name.split(".") for name in names), strict=False)
    return ".".join(each[0] for each in takewhile(lambda each: len(set(each)) == 1, parts))


def _calls(plan: Plan) -> list[str]:
    rows: list[tuple[str, str, str]] = []
    for call in marked_calls(plan):
        use = plan.rules.get(call)
        what = use.code.description if use is not None else why_served(call, plan)
        rows.append((call.ref, describe(Primal(call), plan), what))
    return _columns(rows)


def marked_calls(plan: Facts) -> list[Instruction]:
    """The live calls of functions with rules, in order."""
    calls = (i for i in plan.returns.instructions() if i.opcode == "call")
    return [call for call in calls if plan.calls.marked(call) is not None]


def is_computation(node: Node) -> bool:
    """Whether the reverse sweep needs an instruction to recompute a node."""
    match node:
        case Primal(value) | Shadow(value):
            return isinstance(value, Instruction) and value.opcode != "alloca"
        case _:
            return True


def in_order(nodes: Iterable[Node], plan: Plan) -> list[Node]:
    """Nodes in the order of the program, values before control flow."""
    position = {i: k for k, i in enumerate(plan.request.function.instructions())}

    def key(node: Node) -> tuple[int, str]:
        value = getattr(node, "value", getattr(node, "call", None))
        return position.get(value, len(position)), repr(node)  # type: ignore[arg-type]

    return sorted(nodes, key=key)


def _bare(i: Instruction) -> str:
    """An instruction without its metadata and attributes."""
    attributes = {k: v for k, v in i.attributes.items() if k not in {"metadata", "call_attributes"}}
    copy = Instruction(
        i.opcode, i.type, i.operands, i.name, i.flags, i.blocks, i.callee, attributes
    )
    return print_instruction(copy)


def _columns(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows as aligned, indented lines; a column is at most `_WIDEST` wide."""
    table = [list(row) for row in rows]
    if not table:
        return ["    none"]
    widths = [max(min(len(row[k]), _WIDEST) for row in table) for k in range(len(table[0]))]
    return [
        ("    " + "   ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True))).rstrip()
        for row in table
    ]
