"""The LLVM functions through which the engine calls a compiled rule.

Their convention is in `ir.derivatives.rulecall`.

Needs       a `CompiledRule`: both halves compiled for the CPU, and how each argument gets to them
Gives       `build(rule, symbols)`: a finalised code library that defines augmented, reverse and (if
            it is needed) drop
Invariants  W1  a rule function borrows its arguments; results belong to their reader, and
                unread results are released
            W2  scratch shadows live for one call, on its error path too
            W3  a status other than 0 and its exception are passed on unchanged
            W4  an exception in a rule leaks no memory of the engine, although Numba's own code does
                not release its references when it raises

The engine does not store a result that is Const at the call between the two halves. If the reverse
takes it, it is stored with the tape.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from activerules.annotations.activity import Active, Const
from activerules.numba_ext.codegen.protocols import Emit, Value, entry_builder
from activerules.numba_ext.rules.caller import POINTER, NewLibrary, RuleCaller
from activerules.numba_ext.rules.checks import copy_of, own_leaf
from activerules.numba_ext.rules.compiled import (
    CompiledRule,
    RuleParameter,
    SavedArgument,
    Symbols,
    needs_drop,
    shadow_arrays,
)
from activerules.numba_ext.rules.parts import leaves_in
from activerules.numba_ext.rules.returned import (
    call_of_rule,
    check_alike,
    check_apart,
    check_object,
    check_objects,
    checked,
    identities,
    may_meet,
)
from activerules.numba_ext.rules.tapes import of_result
from activerules.values.kinds import anonymous, derivative_type, items_of
from activerules.values.layout import Node, layout_of
from activerules.values.walk import rebuild

_LIBRARY = "activerules.rules.library."
# Modules whose rules return new shadows, and make results of nothing but values.
_NEW_SHADOWS = (_LIBRARY, "activerules.api.checkpoint")


def build(rule: CompiledRule, symbols: Symbols) -> Any:
    """Build the functions named in `symbols` and compile them; drop only if the tape holds
    references.
    """
    library = NewLibrary(symbols.augmented)
    halves: list[_Half] = [
        _Augmented(library, rule, symbols.augmented),
        _Reverse(library, rule, symbols.reverse),
    ]
    if rule.new_shadow is not None:
        halves.append(_NewShadow(library, rule, symbols.new_shadow))
    for half in halves:
        half.build()
    if needs_drop(rule):
        _build_drop(library, rule, symbols.drop)
    return library.finished(halves)


class _Half(RuleCaller):
    """A builder of the function through which the engine calls one half of a rule pair."""

    leading: tuple[str, ...]

    def __init__(self, library: NewLibrary, rule: CompiledRule, name: str) -> None:
        super().__init__(library, name, rule, self.leading)
        self.rule = rule

    def build(self) -> None:
        """Emit the body."""
        raise NotImplementedError


class _NewShadow(_Half):
    leading = ("ret", "new", "excinfo")

    def build(self) -> None:
        new_shadow = self.rule.new_shadow
        shadow = self.call(new_shadow, [self.load_result("ret")])
        self.store_result("new", shadow, new_shadow.signature.return_type)
        self.finish()


class _Augmented(_Half):
    leading = ("ret", "ret_shadow", "excinfo", "tape")

    def fields(self) -> list[list[Any]]:
        """The fields of the arguments; those that may be overwritten have no owner if the rule is
        one of the library. Such a rule runs no function of a user, so it stores its arguments
        nowhere but on its tape, where they are copied (P1 of `tapes`). Counting references costs as
        much as the product of two short rows.
        """
        fields = super().fields()
        if self.rule.augmented.fndesc.modname.startswith(_LIBRARY):
            for i in {position for _, position, _ in self.rule.detachers if position >= 0}:
                fields[i][0] = self.without_owner(self.arguments[i].value_type, fields[i][0])
        return fields

    def build(self) -> None:
        rule, context, builder = self.rule, self.context, self.builder
        dummies = [context.get_dummy_value(), context.get_dummy_value()]
        saved = {each.index: self._copied_argument(each) for each in rule.saved if not each.after}
        fields = self.fields()
        arguments = self.annotated(fields)
        with checked(self, fields) as objects:
            returned = call_of_rule(self, rule.augmented, [*dummies, *arguments], fields)
            self.pending.append((rule.augmented.signature.return_type, returned))
            saved |= {each.index: self._copied_argument(each) for each in rule.saved if each.after}
        (primal, primal_type), (shadow, shadow_type), tape = self._checked(returned, fields)
        values = [value for value, *_ in fields]
        result = self.cast(primal, primal_type, self.return_type)
        own = [self._copied_result(result)] if rule.keeps_value else []
        tape = self._own_tape(tape, rule.augmented_types[2], result, values)
        parts = [tape]
        if rule.carries_result:
            carried, shadow_type = self._carried(result, shadow)
            parts += carried
        parts += [
            *(saved[each.index] for each in rule.saved),
            *(known[0] for known in objects),
            *own,
        ]
        if len(parts) > 1:
            tape = context.make_tuple(builder, rule.stored_type, parts)
        if rule.marked.result_type != types.none:
            self.store_result("ret", primal, primal_type)
        if rule.result_activity == "duplicated":
            self.store_result("ret_shadow", shadow, shadow_type)
        else:
            context.nrt.decref(builder, shadow_type, shadow)
        self._store_tape(tape)
        self.finish()

    def _checked(self, returned: Value, fields: Sequence[Sequence[Any]]) -> tuple[Any, Any, Any]:
        """Primal and shadow, with their types, checked; and the tape."""
        primal, shadow, tape = (self.builder.extract_value(returned, i) for i in range(3))
        primal_type, shadow_type, _ = self.rule.augmented_types
        if primal_type == types.none != self.return_type:  # a number that is not read
            primal, primal_type = self.context.get_constant_null(self.return_type), self.return_type
        results = (primal, primal_type), (shadow, shadow_type)
        self._keep_apart(*results, fields)
        check_alike(self, *results)
        return *results, tape

    def _copied_argument(self, saved: SavedArgument) -> Any:
        copy = self.call(saved.copy, [self.primals[saved.index]])
        self.pending.append((saved.copy_type, copy))
        return copy

    def _copied_result(self, result: Value) -> Any:
        """The result, with copies of its arrays: the program may write to them."""

        def copied_leaf(em: Emit, leaf: Node, value: Value) -> Value:
            ty = leaf.numba_type
            if not isinstance(ty, types.Array):
                return value
            copier = self.helper(copy_of, ty)
            copied = self.call(copier, [value])
            self.pending.append((ty, copied))
            return self.cast(copied, copier.signature.return_type, ty)

        return rebuild(self.em, layout_of(self.return_type), (result,), copied_leaf)

    def _keep_apart(
        self, primal: tuple[Any, Any], shadow: tuple[Any, Any], passed: Sequence[Sequence[Any]]
    ) -> None:
        """Return an error if an array that the rule returns is not new memory."""
        has_new_shadow = self.rule.augmented.fndesc.modname.startswith(_NEW_SHADOWS)
        shadowed = self.rule.result.dval is not None and not has_new_shadow
        others = [(primal, [shadow])] if shadowed else []
        count = 1 if has_new_shadow else 2
        fields = self.typed(passed, slice(count))
        results = [primal, shadow] if shadowed else [primal]
        for result, more in [*((r, fields) for r in results), *others]:
            check_apart(self, result, more)

    def _own_tape(
        self, tape: Value, tape_type: types.Type, primal: Value, values: Sequence[Value]
    ) -> Value:
        """The tape, with a copy of each array in it that the program may write to."""
        if not self.rule.detachers:
            return tape
        argument_types = [argument.value_type for argument in self.arguments]
        changing = dict(enumerate(zip(argument_types, values, strict=True)))
        for k, leaf in enumerate(leaves_in(self.builder, self.return_type, primal)):
            changing[of_result(k)] = leaf
        tested = [
            may_meet(self, (ty, value), changing[position])
            for ty, value in leaves_in(self.builder, tape_type, tape)
            for array, position, _ in self.rule.detachers
            if array == ty
        ]
        pending, slot = list(self.pending), cgutils.alloca_once_value(self.builder, tape)
        replaced: list[tuple[types.Type, Any]] = []

        def detached(em: Emit, leaf: Node, value: Value) -> Value:
            ty = leaf.numba_type
            for array, position, function in self.rule.detachers:
                if array == ty:
                    changing_type, changing_value = changing[position]
                    detacher = self.helper(function, ty, changing_type)
                    new = self.call(detacher, [value, changing_value])
                    new = self.cast(new, detacher.signature.return_type, ty)
                    self.pending.append((ty, new))
                    replaced.append((ty, value))
                    value = new
            return value

        with self.builder.if_then(reduce(self.builder.or_, tested), likely=False):
            own = rebuild(self.em, layout_of(tape_type), (tape,), detached)
            self.builder.store(own, slot)
            self._release(*replaced)
        self.pending[:] = pending  # nothing fails from here on
        return self.builder.load(slot)

    def _carried(self, result: Any, shadow: Value) -> tuple[list[Any], types.Type]:
        """The fields of `dret`, now owned by the tape, and the type of the shadow that remains to
        be released.
        """
        rule, context, builder = self.rule, self.context, self.builder
        shadow_type = rule.augmented_types[1]
        return_type = rule.marked.result_type
        if rule.result.kind is Active or rule.zero_result:
            # The cotangent of a result that no active code reads is zero.
            return [context.get_constant_null(return_type)], shadow_type
        context.nrt.incref(builder, return_type, result)
        if rule.result.dval is not None:
            return [
                result,
                self.cast(shadow, shadow_type, rule.result.dval),
            ], types.none
        return [result], shadow_type

    def _store_tape(self, tape: Value) -> None:
        stored_type = self.rule.stored_type
        if stored_type == types.none:
            return
        model = self.context.data_model_manager.lookup(stored_type)
        self.builder.store(
            model.as_data(self.builder, tape), self.typed_pointer("tape", model.get_data_type())
        )


class _Reverse(_Half):
    leading = ("ret", "ret_shadow", "excinfo", "tape", "derivatives")

    def borrowed(self, value_type: types.Type, value: Value) -> Any:
        """The value without its owner: nothing that the reverse returns can refer to it."""
        return self.without_owner(value_type, value)

    def build(self) -> None:
        rule, context, builder = self.rule, self.context, self.builder
        tape, dret, rest = self._tape_and_cotangent()
        saved, known = rest[: len(rule.saved)], rest[len(rule.saved) :]
        for check, then in zip(rule.checks.objects, known, strict=True):
            check_object(self, check, self.primals[check.index], then, 2)
        for argument, copy in zip(rule.saved, saved, strict=True):
            passed = self.arguments[argument.index].value_type
            if argument.restored is None:
                self.primals[argument.index] = self.as_passed(passed, copy, argument.copy_type)
            else:
                restored = self.helper(argument.restored, argument.copy_type, passed)
                args = [copy, self.primals[argument.index]]
                self.primals[argument.index] = self.made_for(passed, restored, args)
        fields = self.fields()
        tape = self._copied(tape, rule.augmented_types[2], self._shadows(fields))
        args = [context.get_dummy_value(), dret, tape, *self.annotated(fields)]
        objects = identities(self, fields)
        returned = self.call(rule.reverse, args)
        check_objects(self, fields, objects)
        return_type = rule.reverse.signature.return_type
        self._store_derivatives(returned, return_type)
        context.nrt.decref(builder, return_type, returned)
        self.finish()

    def _shadows(self, fields: Sequence[Sequence[Any]]) -> Value:
        """The tuple of all shadows that are arrays."""
        every = self.typed(fields, slice(1, None))
        shadows = [value for value, ty in every if isinstance(ty, types.Array)]
        return self.context.make_tuple(self.builder, shadow_arrays(self.arguments), shadows)

    def _copied(self, value: Value, ty: types.Type, shadows: Value) -> Any:
        """The tape, with copies of those arrays that the reverse may write into."""

        def copied(em: Emit, leaf: Node, value: Value) -> Value:
            ty = leaf.numba_type
            if ty not in self.rule.copied:
                return value
            copier = self.helper(own_leaf, ty, shadow_arrays(self.arguments))
            made = self.call(copier, [value, shadows])
            made = self.cast(made, copier.signature.return_type, ty)
            self.scratch.append((ty, made))
            return made

        if not self.rule.copied:
            return value
        return rebuild(self.em, layout_of(ty), (value,), copied)

    def _tape_and_cotangent(self) -> tuple[Any, Any, list[Any]]:
        """The rule's own tape, `dret`, and the rest of the stored tape, see
        `CompiledRule.stored_type`.
        """
        rule, context = self.rule, self.context
        tape, fields, rest = self._unpacked(self._load_tape())
        if not rule.carries_result:
            if rule.result.kind is Const:
                fields = [context.get_dummy_value()]
            elif rule.result.kind is Active:
                fields = [self.load_result("ret_shadow")]
            else:
                loaded = [self.load_result("ret"), self.load_result("ret_shadow")]
                fields = list(map(self.without_owner, rule.result.fields, loaded))
        if rule.keeps_value:
            fields[0] = rest.pop()
        return tape, self.annotate(rule.result, *fields), rest

    def _unpacked(self, stored: Any) -> tuple[Any, list[Any], list[Any]]:
        rule = self.rule
        count = len(rule.result.fields) if rule.carries_result else 0
        if not (count or rule.saved or rule.checks.objects or rule.keeps_value):
            return stored, [], []
        tape, *rest = cgutils.unpack_tuple(self.builder, stored)
        return tape, rest[:count], rest[count:]

    def _load_tape(self) -> Value:
        stored_type = self.rule.stored_type
        if stored_type == types.none:
            return self.context.get_dummy_value()
        model = self.context.data_model_manager.lookup(stored_type)
        return model.load_from_data_pointer(
            self.builder, self.typed_pointer("tape", model.get_data_type())
        )

    def _store_derivatives(self, returned: Value, return_type: types.Type) -> None:
        context, builder = self.context, self.builder
        parameters = self.rule.returned
        if not parameters:
            return
        floats: list[Any] = []
        for index, parameter in zip(self.rule.derivatives, parameters, strict=True):
            value, ty = returned, return_type
            if index is not None:
                value = builder.extract_value(returned, index)
                ty = items_of(return_type)[index]
            wanted = derivative_type(parameter.value_type)
            if isinstance(ty, types.BaseAnonymousTuple) and ty != wanted:
                wanted = anonymous(wanted)  # a plain tuple is accepted for a named one
            value = context.cast(builder, value, ty, wanted)
            for entry_type, entry in self._entries(parameter, wanted, value):
                packer = context.get_arg_packer([entry_type])
                floats += _floats(packer.as_arguments(builder, [entry]))
        address = self.typed_pointer(
            "derivatives", ir.LiteralStructType([each.type for each in floats])
        )
        for i, value in enumerate(floats):
            builder.store(value, cgutils.gep_inbounds(builder, address, 0, i))

    def _entries(
        self, parameter: RuleParameter, ty: types.Type, value: Value
    ) -> list[tuple[types.Type, Any]]:
        """The derivatives of the parts that are Active at the call."""
        if not parameter.is_split:
            return [(ty, value)]
        leaves = leaves_in(self.builder, ty, value)
        return [
            leaf
            for i, leaf in zip(parameter.parts, leaves, strict=True)
            if self.arguments[i].activity == "active"
        ]


def _floats(values: Sequence[Any]) -> list[Any]:
    return [each for each in values if isinstance(each.type, ir.FloatType | ir.DoubleType)]


def _build_drop(library: NewLibrary, rule: CompiledRule, name: str) -> None:
    function = ir.Function(library.module, ir.FunctionType(ir.VoidType(), [POINTER]), name)
    context, builder = library.context, entry_builder(function)
    model = context.data_model_manager.lookup(rule.stored_type)
    address = builder.bitcast(function.args[0], model.get_data_type().as_pointer())
    context.nrt.decref(builder, rule.stored_type, model.load_from_data_pointer(builder, address))
    builder.ret_void()
