"""Lowering of generators for the AD target, without leaked references.

Needs       Numba's lowering of generators, of which it changes the ownership of references
Gives       `LowersGenerators`, a lowering class; `iteration`, the next item for loops
Invariants  G1  a yielded value is a new reference; variables that a generator needs later are moved
                into its state, and out of it when it resumes; all others it drops before it yields

In Numba a yielded value is a borrowed reference without an owner, and a generator made in compiled
code never drops its contents. A derivative would leak both, even if nothing raises. How generators
are counted: `counted_generators`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core import ir as numba_ir
from numba.core.generators import GeneratorLower, LowerYield
from numba.core.imputils import RefType, iternext_impl
from numba.core.lowering import Lower

from activerules.numba_ext.codegen.protocols import Builder, Context, Value
from activerules.numba_ext.substitutes.counted_generators import (
    COUNT,
    CountedDescriptor,
    is_counted,
    put,
    refuse_returned,
)

_I64 = ir.IntType(64)
_FINISHED = -1


# --- the generator's own functions ---


class _GeneratorLower(GeneratorLower):
    def __init__(self, lower: Any) -> None:
        super().__init__(lower)
        mangler = self.context.mangler
        self.gendesc = CountedDescriptor.from_generator_fndesc(
            lower.func_ir, self.fndesc, self.gentype, mangler
        )

    def box_generator_struct(self, lower: Any, gen_struct: Any) -> Value:
        """The struct with a count of one, for the caller."""
        return lower.builder.insert_value(gen_struct, _I64(1), COUNT)

    def lower_finalize_func(self, lower: Any) -> None:
        """Emit the functions that drop the contents of a generator, and that take references."""
        super().lower_finalize_func(lower)
        self.context.nrt.lower_retaining(self.gentype, lower.module, self._each_owned)

    def lower_finalize_func_body(self, builder: Builder, genptr: Value) -> None:
        """Drop the arguments, and the variables stored until the generator resumes."""
        builder.function.attributes.add("alwaysinline")
        self._each_owned(builder, genptr, self.context.nrt.decref)

    def _each_owned(
        self, builder: Builder, genptr: Value, does: Callable[[Any, Any, Any], None]
    ) -> None:
        """The body of a function that applies `does` to the arguments and to stored variables."""
        for owned, value in self.arg_packer.load(builder, self.get_args_ptr(builder, genptr)):
            does(builder, owned, value)
        state = self.get_state_ptr(builder, genptr)
        index = builder.load(self.get_resume_index_ptr(builder, genptr))
        end = builder.function.append_basic_block("end")
        waits_at = builder.switch(index, end)
        for number, point in self.geninfo.yield_points.items():
            block = builder.function.append_basic_block(f"waits{number}")
            waits_at.add_case(number, block)
            builder.position_at_end(block)
            for name in sorted(point.live_vars):
                k = self.geninfo.state_vars.index(name)
                owned = self.gentype.state_types[k]
                slot = cgutils.gep_inbounds(builder, state, 0, k)
                does(builder, owned, self.context.unpack_value(builder, owned, slot))
            builder.branch(end)
        builder.position_at_end(end)
        builder.ret_void()


class _Yield(LowerYield):
    """Moves variables into the state, and out of it (G1)."""

    def _kept(self) -> Iterator[tuple[str, Any, Any]]:
        for index, name in zip(self.live_var_indices, self.live_vars, strict=True):
            slot = cgutils.gep_inbounds(self.builder, self.gen_state_ptr, 0, index)
            yield name, self.gentype.state_types[index], slot

    def lower_yield_suspend(self) -> None:
        """Store the variables, and the point at which to resume."""
        for name, owned, slot in self._kept():
            self.context.pack_value(self.builder, owned, self.lower.loadvar(name), slot)
        self._go_on_at(self.inst.index)

    def _go_on_at(self, index: int) -> None:
        self.builder.store(self.resume_index_ptr.type.pointee(index), self.resume_index_ptr)

    def lower_yield_resume(self) -> None:
        """Load the variables; from here on the state is empty, also if the generator raises."""
        self.genlower.create_resumption_block(self.lower, self.inst.index)
        self._go_on_at(_FINISHED)
        for name, owned, slot in self._kept():
            value = self.context.unpack_value(self.builder, owned, slot)
            self.lower.storevar(value, name)


class LowersGenerators(Lower):
    """Lowers a function; generators as G1 says."""

    GeneratorLower = _GeneratorLower

    def setup_function(self, fndesc: Any) -> None:
        """Begin a function; it may not return a generator in another value."""
        refuse_returned(fndesc.restype, fndesc.qualname)
        super().setup_function(fndesc)

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        """Lower an assignment; a new generator is moved into its slot."""
        is_parameter = isinstance(inst.value, numba_ir.Arg) and self.generator_info is not None
        if is_parameter and isinstance(ty, types.Generator) and is_counted(self.context, ty):
            return self._copy_of(ty, self.fnargs[inst.value.index])
        value = super().lower_assign(ty, inst)
        if not _is_call(inst.value) or not is_counted(self.context, ty):
            return value
        slot = cgutils.alloca_once(self.builder, value.type.pointee)
        self.context.nrt.clear(self.builder, ty, slot)
        builder: Any = self.builder
        put(builder, builder.load(value), slot)
        builder.store(_I64(0), cgutils.gep_inbounds(self.builder, value, 0, COUNT))
        return slot

    def _copy_of(self, typ: Any, lent: Any) -> Any:
        """An owned copy of a borrowed generator, which is an argument."""
        struct = self.builder.load(lent)
        slot = cgutils.alloca_once(self.builder, struct.type)
        self.builder.store(self.builder.insert_value(struct, _I64(1), COUNT), slot)
        self.context.nrt.retain(self.builder, typ, slot)
        return slot

    def lower_yield(self, retty: Any, inst: Any) -> Value:
        """Return the yielded value, and emit the block that resumes after it."""
        point = self.generator_info.yield_points[inst.index]
        value, ty = self.loadvar(inst.value.name), self.typeof(inst.value.name)
        yielded = self.gentype.yield_type
        value = self.context.cast(self.builder, value, ty, yielded)
        self.incref(yielded, value)
        step = _Yield(self, point, sorted(point.live_vars))
        step.lower_yield_suspend()
        for name in sorted(point.weak_live_vars):  # needed no longer
            self.delvar(name)
        returned = self.context.get_return_value(self.builder, yielded, value)
        self.call_conv.return_value(self.builder, returned)
        step.lower_yield_resume()
        return self.context.get_constant_generic(self.builder, retty, None)


def _is_call(value: Any) -> bool:
    return isinstance(value, numba_ir.Expr) and value.op == "call"


# --- iteration ---


def iteration(context: Context, fn: Any, args: Any) -> Any:
    """The implementation of `iternext` for a counted generator; None for other calls."""
    if fn == "iternext" and isinstance(args[0], types.Generator) and is_counted(context, args[0]):
        return _next
    return None


@iternext_impl(RefType.NEW)
def _next(context: Context, builder: Builder, sig: Any, args: Sequence[Value], result: Any) -> None:
    """Like Numba's own, but with yielded values as new references."""
    implementation = context.get_generator_impl(sig.args[0])
    status, value = implementation(context, builder, sig, args)
    with cgutils.if_likely(builder, status.is_ok):
        result.set_valid(True)
        result.yield_(value)
    with cgutils.if_unlikely(builder, status.is_stop_iteration):
        result.set_exhausted()
    raised = builder.and_(status.is_error, builder.not_(status.is_stop_iteration))
    with cgutils.if_unlikely(builder, raised):
        context.call_conv.return_status_propagate(builder, status)
