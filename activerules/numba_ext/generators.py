"""Generators of which every reference is dropped: how the AD target lowers them.

Needs       Numba's lowering of generators, of which this changes who owns what
Gives       `LowersGenerators`, for what lowers a function; `data_models` and `CountingNRT`, for a
            target context; `iteration`, what loops call; `counts_otherwise`, what must not go to
            code that Numba lowers
Invariants  G1  what is yielded is a new reference; what a generator needs later is moved into its
                state, and out of it when it goes on; everything else it drops before it yields
            G2  a generator counts the variables that hold it, and drops its state and arguments
                with the last of them
            G3  the struct begins as Numba's does
            G4  where a function raises it drops the generators in its places, whatever the count

Numba lends what is yielded, though nobody holds it any more, and never drops what a generator holds
that was made in compiled code. Both would be lost by a derivative, too, even where nothing raises;
and where something raises, nothing could be said of it (`ir/held_references`), as no way drops it.

A generator is a struct on the stack of the function that made it. Where Numba copies the struct
(what is returned, what waits in another generator, an argument of one), the copy is a generator of
its own, as it is with Numba, and so has references of its own to what both hold; the last reference
to the struct moves it, and nothing is counted.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core import ir as numba_ir
from numba.core.callconv import RETCODE_NONE, RETCODE_OK, RETCODE_STOPIT
from numba.core.datamodel.manager import DataModelManager
from numba.core.datamodel.models import GeneratorModel
from numba.core.datamodel.registry import default_manager
from numba.core.generators import GeneratorDescriptor, GeneratorLower, LowerYield
from numba.core.imputils import RefType, iternext_impl
from numba.core.lowering import Lower
from numba.core.runtime.context import NRTContext

_I64 = ir.IntType(64)
_COUNT = 3  # behind the index, the arguments, and the state
_FINISHED = -1
_RETURNS = (RETCODE_OK, RETCODE_NONE, RETCODE_STOPIT)


class CountedGenerator(GeneratorModel):
    """Numba's struct, and behind it how many variables hold the generator."""

    def __init__(self, nrt: CountingNRT, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type)
        self._nrt = nrt
        self._be_type = ir.LiteralStructType([*self._be_type.elements, _I64])
        self._be_ptr_type = self._be_type.as_pointer()

    def from_data(self, builder: Any, value: Any) -> Any:
        """The struct in a place on the stack, one for each place in the code."""
        place = cgutils.alloca_once(builder, value.type)
        _put(builder, value, place)
        return place

    def as_data(self, builder: Any, value: Any) -> Any:
        """The struct, for a reference that is given: it is moved with the last one; before that it
        is copied, and what it holds has new references. There may be no generator.
        """
        with builder.if_else(cgutils.is_not_null(builder, value)) as (there, nowhere):
            with there:
                self._nrt.move(builder, self._fe_type, value)
                struct = super().as_data(builder, value)
                struct = builder.insert_value(struct, _I64(1), _COUNT)
                known = builder.block
            with nowhere:
                nothing = builder.block
        found = builder.phi(struct.type)
        found.add_incoming(struct, known)
        found.add_incoming(struct.type(None), nothing)
        return found


def _put(builder: Any, value: Any, place: Any) -> None:
    """Write a generator where another may be: variables that still hold that hold this now.

    If a call fails whose exception is caught, a variable holds what it has not returned.
    """
    counter = cgutils.gep_inbounds(builder, place, 0, _COUNT)
    count = builder.extract_value(value, _COUNT)
    count = builder.select(cgutils.is_null(builder, count), _I64(1), count)
    count = builder.add(count, builder.load(counter))
    builder.store(builder.insert_value(value, count, _COUNT), place)


def data_models(context: Any) -> DataModelManager:
    """Numba's data models, but for generators, for a target context and its copies."""
    found = DataModelManager().chain(default_manager)
    # not `context.nrt`: that is of each copy, and may count nothing
    found.register(types.Generator, partial(CountedGenerator, CountingNRT(context, True)))
    return found


def counts_otherwise(typ: Any) -> bool:
    """Whether in a value there are generators that hold references, which Numba's code counts
    otherwise.
    """
    if not isinstance(typ, types.IteratorType | types.BaseTuple | types.Optional):
        return False
    inner = default_manager[typ].traverse_types()
    return any(isinstance(t, types.Generator) and _holds_references(t) for t in inner)


def _holds_references(typ: types.Generator) -> bool:
    held = (*typ.arg_types, *typ.state_types)
    return any(default_manager[t].contains_nrt_meminfo() or counts_otherwise(t) for t in held)


# --- the generator's own functions ---


class _Descriptor(GeneratorDescriptor):
    """Tells a generator that was lowered here from one that Numba lowered."""

    __slots__ = ()


class _GeneratorLower(GeneratorLower):
    def __init__(self, lower: Any) -> None:
        super().__init__(lower)
        mangler = self.context.mangler
        self.gendesc = _Descriptor.from_generator_fndesc(
            lower.func_ir, self.fndesc, self.gentype, mangler
        )

    def box_generator_struct(self, lower: Any, gen_struct: Any) -> Any:
        """With the count of who called it."""
        return lower.builder.insert_value(gen_struct, _I64(1), _COUNT)

    def lower_finalize_func(self, lower: Any) -> None:
        """What drops all that a generator holds, and what takes references to it."""
        super().lower_finalize_func(lower)
        self.context.nrt.lower_holding(self.gentype, lower.module, self._each_held)

    def lower_finalize_func_body(self, builder: Any, genptr: Any) -> None:
        """Drop the arguments, and what waits for the generator to go on."""
        builder.function.attributes.add("alwaysinline")
        self._each_held(builder, genptr, self.context.nrt.decref)

    def _each_held(self, builder: Any, genptr: Any, does: Callable[[Any, Any, Any], None]) -> None:
        """The code of a function that does something to the arguments, and to what waits."""
        for held, value in self.arg_packer.load(builder, self.get_args_ptr(builder, genptr)):
            does(builder, held, value)
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
                held = self.gentype.state_types[k]
                place = cgutils.gep_inbounds(builder, state, 0, k)
                does(builder, held, self.context.unpack_value(builder, held, place))
            builder.branch(end)
        builder.position_at_end(end)
        builder.ret_void()


class _Yield(LowerYield):
    """Moves variables into the state, and out of it (G1)."""

    def _kept(self) -> Iterator[tuple[str, Any, Any]]:
        for index, name in zip(self.live_var_indices, self.live_vars, strict=True):
            place = cgutils.gep_inbounds(self.builder, self.gen_state_ptr, 0, index)
            yield name, self.gentype.state_types[index], place

    def lower_yield_suspend(self) -> None:
        """Keep the variables, and where to go on."""
        for name, held, place in self._kept():
            self.context.pack_value(self.builder, held, self.lower.loadvar(name), place)
        self._go_on_at(self.inst.index)

    def _go_on_at(self, index: int) -> None:
        self.builder.store(self.resume_index_ptr.type.pointee(index), self.resume_index_ptr)

    def lower_yield_resume(self) -> None:
        """Go on with the variables; from now on the state has nothing, also if this raises."""
        self.genlower.create_resumption_block(self.lower, self.inst.index)
        self._go_on_at(_FINISHED)
        for name, held, place in self._kept():
            known = self.lower.place_of(held)
            if known is None:
                value = self.context.unpack_value(self.builder, held, place)
                self.lower.owns(held, value)
            else:
                _put(self.builder, self.builder.load(place), known)
                value = known
            self.lower.storevar(value, name)


class LowersGenerators(Lower):
    """Lowers a function; if it is a generator, so that it keeps to G1.

    Where one generator of a type is there at a time, it has one place, wherever it was made, and if
    it comes from the state: LLVM makes values of what is in it.
    """

    GeneratorLower = _GeneratorLower

    def place_of(self, typ: Any) -> Any:
        """The place of generators of a type; None if two may be there at a time."""
        if not isinstance(typ, types.Generator) or not _is_counted(self.context, typ):
            return None
        if typ not in self._places:
            place_type = self.context.get_value_type(typ).pointee
            one = self._one_at_a_time(typ)
            self._places[typ] = cgutils.alloca_once(self.builder, place_type) if one else None
            if one:
                self.owns(typ, self._places[typ])
        return self._places[typ]

    def setup_function(self, fndesc: Any) -> None:
        """Begin with a function: places are on its stack."""
        super().setup_function(fndesc)
        self._places: dict[Any, Any] = {}
        self._owned: list[tuple[Any, Any]] = []

    def owns(self, typ: Any, place: Any) -> None:
        """Note that only variables of this function hold what is in a place."""
        if isinstance(typ, types.Generator) and _is_counted(self.context, typ):
            self._owned.append((typ, place))

    def post_lower(self) -> None:
        """Where the function raises, no variable is left that holds what is in its places (G4)."""
        self._clear_where_it_raises()
        super().post_lower()

    def _clear_where_it_raises(self) -> None:
        b = self.builder
        ends = [(block, block.terminator) for block in self.function.blocks]
        raising = [(block, end) for block, end in ends if _raises(end)] if self._owned else []
        if not raising:
            return
        leaving = self.function.append_basic_block("raises")
        with b.goto_block(leaving):
            status = b.phi(ir.IntType(32))
            for typ, place in self._owned:
                self.context.nrt.clear(b, typ, place)
            b.ret(status)
        for block, end in raising:
            status.add_incoming(end.operands[0], block)
            block.instructions.remove(end)
            block.terminator = None
            b.position_at_end(block)
            b.branch(leaving)

    def _one_at_a_time(self, typ: Any) -> bool:
        """Whether a generator is made only where no other is used any more, and has no other
        origin.
        """
        models = self.context.data_model_manager
        others = {t for t in self.fndesc.typemap.values() if not isinstance(t, types.Generator)}
        holders = (t for t in others if _may_hold_generators(self.context, t))
        if any(typ in models[t].traverse_types() for t in holders):
            return False
        points = self.generator_info.yield_points.values() if self.generator_info else ()
        if any(sum(self._is(name, typ) for name in point.live_vars) > 1 for point in points):
            return False  # each is a generator of its own behind that
        for block, used in self._used_behind(typ):
            for i in reversed(block.body):
                if isinstance(i, numba_ir.Assign) and self._is(i.target.name, typ):
                    used.discard(i.target.name)
                    known = not used if _is_call(i.value) else self._names(i.value, typ)
                    if not known:
                        return False
                used |= self._reads(i, typ)
        return True

    def _used_behind(self, typ: Any) -> list[tuple[Any, set[str]]]:
        """Blocks, and the variables of a type that are read behind each."""
        before: dict[int, set[str]] = {label: set() for label in self.blocks}
        while True:
            behind = {
                label: set().union(*(before[t] for t in block.terminator.get_targets()))
                for label, block in self.blocks.items()
            }
            found = {label: set(used) for label, used in behind.items()}
            for label, block in self.blocks.items():
                for i in reversed(block.body):
                    if isinstance(i, numba_ir.Assign):
                        found[label].discard(i.target.name)
                    found[label] |= self._reads(i, typ)
            if found == before:
                return [(block, behind[label]) for label, block in self.blocks.items()]
            before = found

    def _reads(self, i: Any, typ: Any) -> set[str]:
        """The variables of a type that a statement reads."""
        if isinstance(i, numba_ir.Del):
            return set()
        value = i.value if isinstance(i, numba_ir.Assign) else i
        if isinstance(value, numba_ir.Var):
            read = [value]
        else:
            read = value.list_vars() if isinstance(value, numba_ir.Inst) else []
        return {one.name for one in read if self._is(one.name, typ)}

    def _names(self, value: Any, typ: Any) -> bool:
        """Whether a value is a generator that a variable holds."""
        if isinstance(value, numba_ir.Expr) and value.op in ("getiter", "cast"):
            value = value.value
        return isinstance(value, numba_ir.Var) and self._is(value.name, typ)

    def _is(self, name: str, typ: Any) -> bool:
        return self.typeof(name) == typ

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        """What is assigned; a generator in the place it has."""
        if isinstance(inst.value, numba_ir.Arg) and self.generator_info is not None:
            if isinstance(ty, types.Generator) and _is_counted(self.context, ty):
                return self._copy_of(ty, self.fnargs[inst.value.index])
        value = super().lower_assign(ty, inst)
        if not _is_call(inst.value) or not _is_counted(self.context, ty):
            return value
        place = self.place_of(ty)
        if place is None:
            place = cgutils.alloca_once(self.builder, value.type.pointee)
            self.owns(ty, place)
        self.context.nrt.clear(self.builder, ty, place)
        _put(self.builder, self.builder.load(value), place)
        self.builder.store(_I64(0), cgutils.gep_inbounds(self.builder, value, 0, _COUNT))
        return place

    def _copy_of(self, typ: Any, lent: Any) -> Any:
        """A generator that a variable can go on with; what is lent stays an argument."""
        struct = self.builder.load(lent)
        place = cgutils.alloca_once(self.builder, struct.type)
        self.builder.store(self.builder.insert_value(struct, _I64(1), _COUNT), place)
        self.owns(typ, place)
        self.context.nrt.hold(self.builder, typ, place)
        return place

    def decref(self, typ: Any, val: Any) -> None:
        """Drop what a variable has; LLVM is told where that is, if it is anywhere."""
        place = self.place_of(typ)
        if place is None:
            super().decref(typ, val)
        else:
            self.context.nrt.drop(self.builder, typ, val, place)

    def lower_yield(self, retty: Any, inst: Any) -> Any:
        """Return what is yielded, and go on behind that."""
        point = self.generator_info.yield_points[inst.index]
        value, found = self.loadvar(inst.value.name), self.typeof(inst.value.name)
        yielded = self.gentype.yield_type
        value = self.context.cast(self.builder, value, found, yielded)
        self.incref(yielded, value)
        step = _Yield(self, point, sorted(point.live_vars))
        step.lower_yield_suspend()
        for name in sorted(point.weak_live_vars):  # not needed any more
            self.delvar(name)
        returned = self.context.get_return_value(self.builder, yielded, value)
        self.call_conv.return_value(self.builder, returned)
        step.lower_yield_resume()
        return self.context.get_constant_generic(self.builder, retty, None)


def _is_call(value: Any) -> bool:
    return isinstance(value, numba_ir.Expr) and value.op == "call"


def _raises(end: Any) -> bool:
    """Whether a block ends with the status of an exception."""
    return isinstance(end, ir.Ret) and end.operands[0] not in _RETURNS


# --- who holds a generator ---


class CountingNRT(NRTContext):
    """Counts references to generators, too (G2)."""

    def incref(self, builder: Any, typ: Any, value: Any) -> None:
        """Count a reference to each generator in a value."""
        super().incref(builder, typ, value)
        for found, place in self._generators(builder, typ, value):
            builder.call(self._counting(builder, found, "take", 1), [place, place])

    def decref(self, builder: Any, typ: Any, value: Any) -> None:
        """Drop a reference to each generator in a value."""
        super().decref(builder, typ, value)
        for found, place in self._generators(builder, typ, value):
            self.drop(builder, found, place, place)

    def hold(self, builder: Any, typ: Any, value: Any) -> None:
        """Take references to what a value holds that was copied, and has none."""
        super().incref(builder, typ, value)
        for found, place in self._generators(builder, typ, value):
            self._context.get_generator_impl(found)  # links it
            builder.call(self._holding(builder.module, found), [place])

    def move(self, builder: Any, typ: Any, place: Any) -> None:
        """Give away a reference to a generator whose struct will be copied."""
        if not _is_counted(self._context, typ):
            return
        counter = cgutils.gep_inbounds(builder, place, 0, _COUNT)
        count = builder.load(counter)
        with builder.if_then(builder.icmp_signed(">", count, _I64(1))):
            self.hold(builder, typ, place)
        builder.store(builder.sub(count, _I64(1)), counter)

    def clear(self, builder: Any, typ: Any, place: Any) -> None:
        """Drop the generator in a place, if one is there that nobody can reach after that."""
        builder.call(self._clearing(builder, typ), [place])

    def drop(self, builder: Any, typ: Any, value: Any, place: Any) -> None:
        """Drop a reference to a generator that is in a place, if a variable has it."""
        builder.call(self._counting(builder, typ, "drop", -1), [value, place])

    def _generators(self, builder: Any, typ: Any, value: Any) -> Iterator[tuple[Any, Any]]:
        if isinstance(typ, types.Generator):
            if _is_counted(self._context, typ):
                yield typ, value
        elif _may_hold_generators(self._context, typ):
            for inner, get in self._context.data_model_manager[typ].traverse(builder):
                if _may_hold_generators(self._context, inner):
                    yield from self._generators(builder, inner, get(value))

    def _counting(self, builder: Any, typ: Any, verb: str, change: int) -> Any:
        """The function that changes the count; there may be no generator yet."""
        function, known = self._function(builder, typ, verb, 2)
        if known:
            return function
        b = ir.IRBuilder(function.append_basic_block("entry"))
        value, place = function.args
        with b.if_then(cgutils.is_not_null(b, value)):
            counter = cgutils.gep_inbounds(b, place, 0, _COUNT)
            count = b.add(b.load(counter), _I64(change))
            b.store(count, counter)
            if change < 0:
                with b.if_then(cgutils.is_null(b, count)):
                    self._finalize(b, typ, place)
        b.ret_void()
        return function

    def _clearing(self, builder: Any, typ: Any) -> Any:
        function, known = self._function(builder, typ, "clear", 1)
        if known:
            return function
        b = ir.IRBuilder(function.append_basic_block("entry"))
        (place,) = function.args
        count = b.load(cgutils.gep_inbounds(b, place, 0, _COUNT))
        with b.if_then(b.icmp_signed(">", count, _I64(0))):
            self._finalize(b, typ, place)
        b.ret_void()
        return function

    def lower_holding(self, typ: Any, module: Any, each_held: Any) -> None:
        """The function that takes references to what a generator holds whose struct was copied."""
        function = self._holding(module, typ)
        function.attributes.add("alwaysinline")
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        each_held(builder, function.args[0], self.hold)

    def _holding(self, module: Any, typ: Any) -> Any:
        function_type = ir.FunctionType(ir.VoidType(), [self._context.get_value_type(typ)])
        name = f"hold_{self._context.get_generator_desc(typ).mangled_name}"
        return cgutils.get_or_insert_function(module, function_type, name)

    def _finalize(self, builder: Any, typ: Any, place: Any) -> None:
        function_type = ir.FunctionType(ir.VoidType(), [place.type])
        name = self._context.get_generator_desc(typ).llvm_finalizer_name
        builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), [place])

    def _function(self, builder: Any, typ: Any, verb: str, arity: int) -> tuple[Any, bool]:
        """A function of this module, and whether it is there already."""
        self._context.get_generator_impl(typ)  # links it
        name = f"activerules.generator.{verb}.{self._context.get_generator_desc(typ).mangled_name}"
        known = builder.module.globals.get(name)
        if known is not None:
            return known, True
        place_type = self._context.get_value_type(typ)
        function_type = ir.FunctionType(ir.VoidType(), [place_type] * arity)
        function = cgutils.get_or_insert_function(builder.module, function_type, name)
        function.linkage = "linkonce_odr"
        function.attributes.add("alwaysinline")
        return function, False


def _is_counted(context: Any, typ: Any) -> bool:
    known = context._generators.get(typ)
    return known is not None and isinstance(known[0], _Descriptor)


_holders: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def _may_hold_generators(context: Any, typ: Any) -> bool:
    if typ not in _holders:
        members = context.data_model_manager[typ].traverse(None)
        inner = (_may_hold_generators(context, member) for member, _ in members)
        _holders[typ] = isinstance(typ, types.Generator) or any(inner)
    return _holders[typ]


# --- what loops call ---


def iteration(context: Any, fn: Any, args: Any) -> Any:
    """What is called for the next value of a generator that was lowered here."""
    if fn == "iternext" and isinstance(args[0], types.Generator) and _is_counted(context, args[0]):
        return _next
    return None


@iternext_impl(RefType.NEW)
def _next(context: Any, builder: Any, sig: Any, args: Any, result: Any) -> None:
    """As Numba's own, which takes what is yielded for borrowed."""
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
