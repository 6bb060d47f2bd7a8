"""Idioms of front ends other than Numba's, as statements of random programs in all three forms.

("icopy", base, i, base, j)   a double copied as an i64
("bits", k, how, e)           s[k] = e with its sign changed by integer arithmetic
("tab", t, base, i)           a table of two pointers: tab[t] = &base[i]
("get", k, i)                 p[k] = tab[i & 1]
("tabcopy", i, j)             tab[i & 1] = tab[j & 1], by memmove
("tabswap",)                  the pointers swapped as integers
("rec", i, field, e)          an array of two structs { double, i64, double }: a double of one
("reci", i, k)                its integer
("reccopy", i, j)             a struct copied whole
("recs", k, i, field)         s[k] = a double of a struct, times its integer
("proc", base, i, base, j, e) a call, not inlined, that reads and writes through both pointers
("down", base, i, e, n)       a recursive call that walks along an array
"""

from __future__ import annotations

from typing import Any

from tests.ir.program_language import FLOATS, MASK, OFFSETS, POINTERS, Node

SIGNS = ("neg", "abs", "negabs")
_MASKS = {"neg": ("xor", -(1 << 63)), "abs": ("and", (1 << 63) - 1), "negabs": ("or", -(1 << 63))}
KINDS = "icopy bits tab get tabcopy tabswap rec reci reccopy recs proc down".split()


def make(kind: str, g: Any) -> Node:
    """A statement of this kind, by a `Generator`."""
    r = g.rng
    field = r.choice([0, 2])
    match kind:
        case "icopy":
            return (kind, g.base(), g.integer(1), g.base(), g.integer(1))
        case "bits":
            return (kind, r.randrange(FLOATS), r.choice(SIGNS), g.number(1))
        case "rec":
            return (kind, g.integer(1), field, g.bounded(2))
        case "recs":
            return (kind, r.randrange(FLOATS), g.integer(1), field)
        case "proc":
            return (kind, g.base(), g.integer(1), g.base(), g.integer(1), g.bounded(1))
        case "down":
            return (kind, g.base_array(), g.integer(1), g.bounded(1), g.integer(1))
        case "tabcopy" | "reccopy" | "reci":
            return (kind, g.integer(1), g.integer(1))
    return _make_table(kind, g)


def _make_table(kind: str, g: Any) -> Node:
    match kind:
        case "tab":
            return (kind, g.rng.randrange(2), g.base_array(), g.integer(1))
        case "get":
            return (kind, g.rng.randrange(POINTERS), g.integer(1))
    return (kind,)


# --- on dual numbers ---


def start(e: Any, zero: Any) -> None:
    """What an `Evaluation` begins with; `zero()` is a dual zero."""
    e.tab = [(e.arrays["a"], 0), (e.arrays["loc"], 2)]
    e.rec = [[zero(), k, zero()] for k in range(2)]


def evaluate(e: Any, statement: Node, unary: Any, binary: Any) -> None:
    """Run one; `unary` and `binary` are arithmetic of duals by name."""
    match statement:
        case ("icopy", to, i, source, j):
            target, at = e.base(to)
            origin, begin = e.base(source)
            target[at + (e.integer(i) & MASK)] = origin[begin + (e.integer(j) & MASK)]
        case ("bits", k, how, p):
            value = unary("fabs", e.number(p)) if how != "neg" else e.number(p)
            e.s[k] = value if how == "abs" else unary("neg", value)
        case ("tab", t, base, i):
            e.tab[t] = (e.base(base)[0], e.integer(i) & OFFSETS)
        case ("get", k, i):
            e.p[k] = e.tab[e.integer(i) & 1]
        case ("tabcopy", i, j):
            e.tab[e.integer(i) & 1] = e.tab[e.integer(j) & 1]
        case ("tabswap",):
            e.tab = e.tab[::-1]
        case ("proc" | "down", *_):
            _run_call(e, statement, unary, binary)
        case _:
            _run_record(e, statement, binary)


def _run_record(e: Any, statement: Node, binary: Any) -> None:
    match statement:
        case ("rec", i, field, p):
            value = e.number(p)
            e.rec[e.integer(i) & 1][field] = value
        case ("reci", i, k):
            e.rec[e.integer(i) & 1][1] = e.integer(k) & 3
        case ("reccopy", i, j):
            e.rec[e.integer(i) & 1] = list(e.rec[e.integer(j) & 1])
        case ("recs", k, i, field):
            record = e.rec[e.integer(i) & 1]
            e.s[k] = binary("*", record[field], e.constant(float(record[1])))


def _run_call(e: Any, statement: Node, unary: Any, binary: Any) -> None:
    match statement:
        case ("proc", to, i, source, j, p):
            v = e.number(p)
            target, at = e.base(to)
            origin, begin = e.base(source)
            at, begin = at + (e.integer(i) & MASK), begin + (e.integer(j) & MASK)
            before, other = target[at], origin[begin]
            target[at] = unary("sin", binary("+", binary("*", before, v), other))
            origin[begin] = unary("tanh", binary("*", origin[begin], v))
        case ("down", base, i, p, n):
            v = e.number(p)
            array, at = e.base(base)
            at += e.integer(i) & OFFSETS
            for _ in range(e.integer(n) & OFFSETS):
                array[at] = v = unary("tanh", binary("*", array[at], v))
                v = binary("+", v, e.x)
                at += 1


# --- as LLVM IR ---


def declare(w: Any) -> None:
    """The memory a `Lowering` begins with."""
    w.allocas += [
        "  %tab = alloca [2 x ptr]",
        "  %rec = alloca [2 x { double, i64, double }]",
    ]
    w.put("store ptr %a, ptr %tab")
    w.put("%tab.1 = getelementptr ptr, ptr %tab, i64 1")
    w.put("store ptr %loc.2, ptr %tab.1")
    for k in range(2):
        for field, value in enumerate(("double 0.0", f"i64 {k}", "double 0.0")):
            place = _member(w, str(k), field)
            w.put(f"store {value}, ptr {place}")


def _entry(w: Any, i: str) -> str:
    return w.new(f"getelementptr ptr, ptr %tab, i64 {i}")


def _member(w: Any, i: str, field: int) -> str:
    record = "{ double, i64, double }"
    return w.new(f"getelementptr {record}, ptr %rec, i64 {i}, i32 {field}")


def lower(w: Any, statement: Node) -> None:
    """Write one."""
    match statement:
        case ("icopy", to, i, source, j):
            value = w.new(f"load i64, ptr {w.address(source, j)}")
            w.put(f"store i64 {value}, ptr {w.address(to, i)}")
        case ("bits", k, how, p):
            bits = w.new(f"bitcast double {w.number(p)} to i64")
            opcode, mask = _MASKS[how]
            changed = w.new(f"{opcode} i64 {bits}, {mask}")
            w.put(f"store i64 {changed}, ptr %s{k}")
        case ("tab", t, base, i):
            address = w.address(base, i, OFFSETS)
            w.put(f"store ptr {address}, ptr {_entry(w, str(t))}")
        case ("get", k, i):
            pointer = w.new(f"load ptr, ptr {_entry(w, w.masked(i, 1))}")
            w.put(f"store ptr {pointer}, ptr %p{k}")
        case ("tabcopy", i, j):
            _move(w, _entry(w, w.masked(i, 1)), _entry(w, w.masked(j, 1)), 8)
        case ("tabswap",):
            one, two = w.new("load i64, ptr %tab"), w.new("load i64, ptr %tab.1")
            w.put(f"store i64 {two}, ptr %tab")
            w.put(f"store i64 {one}, ptr %tab.1")
        case ("proc", to, i, source, j, p):
            v, target, origin = w.number(p), w.address(to, i), w.address(source, j)
            w.put(f"call void @proc(ptr {target}, ptr {origin}, double {v})")
        case ("down", base, i, p, n):
            v, at, count = w.number(p), w.address(base, i, OFFSETS), w.masked(n, OFFSETS)
            w.put(f"call void @down(ptr {at}, double {v}, double %x, i64 {count})")
        case _:
            _lower_record(w, statement)


def _lower_record(w: Any, statement: Node) -> None:
    match statement:
        case ("rec", i, field, p):
            value = w.number(p)
            w.put(f"store double {value}, ptr {_member(w, w.masked(i, 1), field)}")
        case ("reci", i, k):
            value = w.masked(k, 3)
            w.put(f"store i64 {value}, ptr {_member(w, w.masked(i, 1), 1)}")
        case ("reccopy", i, j):
            _move(w, _member(w, w.masked(i, 1), 0), _member(w, w.masked(j, 1), 0), 24)
        case ("recs", k, i, field):
            at = w.masked(i, 1)
            count = w.new(f"load i64, ptr {_member(w, at, 1)}")
            factor = w.new(f"sitofp i64 {count} to double")
            value = w.new(f"load double, ptr {_member(w, at, field)}")
            w.put(f"store double {w.new(f'fmul double {value}, {factor}')}, ptr %s{k}")


def _move(w: Any, to: str, source: str, size: int) -> None:
    w.put(f"call void @llvm.memmove.p0.p0.i64(ptr {to}, ptr {source}, i64 {size}, i1 false)")


HELPERS = """
define internal void @proc(ptr %p, ptr %q, double %v) noinline {
  %before = load double, ptr %p
  %other = load double, ptr %q
  %bv = fmul double %before, %v
  %sum = fadd double %bv, %other
  %s = call double @sin(double %sum)
  store double %s, ptr %p
  %now = load double, ptr %q
  %nv = fmul double %now, %v
  %t = call double @tanh(double %nv)
  store double %t, ptr %q
  ret void
}
define internal void @down(ptr %p, double %v, double %x, i64 %n) {
  %done = icmp eq i64 %n, 0
  br i1 %done, label %end, label %more
more:
  %old = load double, ptr %p
  %ov = fmul double %old, %v
  %t = call double @tanh(double %ov)
  store double %t, ptr %p
  %next = fadd double %t, %x
  %q = getelementptr double, ptr %p, i64 1
  %m = sub i64 %n, 1
  call void @down(ptr %q, double %next, double %x, i64 %m)
  ret void
end:
  ret void
}
"""
