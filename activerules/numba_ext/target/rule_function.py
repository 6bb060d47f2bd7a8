"""The Numba type of a callable with rules, in code compiled for the AD target.

Needs       a `CallTable`
Gives       `rule_function`: the type, a `RuleFunction`. A marked call of it lowers to
            `call i32 @activerules.rule.<id>(retptr, excinfo, arguments)`, in Numba's own calling
            convention, with the arguments flattened; for other calls it behaves as the callable's
            ordinary type
            `compile_for_cpu`, `on_cpu`: the callable as the CPU target compiles it
Invariants  M1 to M6 of `marked_calls`

Typing a marked call compiles the callable for the CPU target with its own flags: the AD compile in
progress has no influence on the result.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from numba.core import cgutils, errors, types
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.core.imputils import lower_constant
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.typing.templates import signature

from activerules.annotations.values import ignore_derivatives
from activerules.callables import display_name
from activerules.errors import NotYetSupported
from activerules.ir.derivatives.rulecall import MARKED_PREFIX
from activerules.ir.llvm.names import in_symbols
from activerules.numba_ext.codegen.implementation_keys import TypedOnce
from activerules.numba_ext.codegen.protocols import Builder, Context, TypingContext, Value
from activerules.numba_ext.codegen.types import runtime_type
from activerules.numba_ext.codegen.unlinked import (
    compile_to_link,
    compiling_for_cpu,
    in_order,
    single_call,
)
from activerules.numba_ext.substitutes.array_loops import steps_otherwise
from activerules.numba_ext.substitutes.counted_generators import counts_otherwise
from activerules.numba_ext.substitutes.ufuncs import for_each_element
from activerules.numba_ext.target.marked_calls import (
    CallTable,
    FollowedCall,
    MarkedCall,
)
from activerules.rules.pattern import type_name
from activerules.rules.treatment import element_count
from activerules.values.kinds import items_of, leaves_of
from activerules.values.layout import layout_of

NUMBA_REFUSES = (errors.NumbaError, errors.UnsupportedBytecodeError)
"""The errors by which Numba refuses a function; neither is a subclass of the other."""


def rule_function(table: CallTable, value: Any, ordinary: types.Type) -> RuleFunction:
    """The type of the callable `value`; without its rule that would be `ordinary`."""
    # By identity: ctypes functions are unhashable. The type keeps `value` alive, so no id is
    # reused.
    if id(value) not in table.types:
        table.types[id(value)] = RuleFunction(value, ordinary, table)
    return table.types[id(value)]


class RuleFunction(types.Callable, types.Opaque):
    """Numba type of a callable that carries a rule.

    For calls that the rule cannot serve it behaves as `ordinary`.
    """

    def __init__(self, function: Any, ordinary: Any, table: CallTable) -> None:
        self.function = function
        self.ordinary = ordinary
        self._table = table
        self._marked: dict[tuple[types.Type, ...], MarkedCall] = {}
        self._followed: dict[tuple[types.Type, ...], tuple[frozenset[int], str, str]] = {}
        self._elementwise: Any = None
        self._by_element: set[tuple[types.Type, ...]] = set()
        self.is_followed = False
        super().__init__(f"RuleFunction({display_name(function)}, {id(table)}, {id(function)})")

    def __deepcopy__(self, memo: Any) -> RuleFunction:
        """Itself: passes that copy types, as `literal_unroll` does, compare them by identity."""
        return self

    def get_call_type(
        self, context: TypingContext, args: Sequence[Any], kws: dict[str, Any]
    ) -> Any:
        """The signature of a call: that of the CPU compile where marked (M1), else of `ordinary`
        (M2).
        """
        seen_here = {on_cpu(arg): arg for arg in (*args, *kws.values())}
        cpu_kws = {name: on_cpu(arg) for name, arg in kws.items()}
        if any(counts_otherwise(ty) or steps_otherwise(ty) for ty in seen_here):
            followed = self._follow(context, args, kws, "an argument is an iterator")
            if followed is not None and isinstance(self.function, CPUDispatcher):
                raise self._unserved("with an iterator", "rules cannot take that")
            return followed
        try:
            marked, pysig = compile_for_cpu(self.function, tuple(map(on_cpu, args)), cpu_kws)
        except NUMBA_REFUSES as error:
            followed = self._follow(context, args, kws, "Numba cannot compile it by itself")
            if followed is not None and isinstance(self.function, CPUDispatcher):
                takes_literals = isinstance(error, errors.ForceLiteralArg)
                why = "`literally` in it asks for literals" if takes_literals else str(error)
                raise self._unserved(f"({', '.join(map(type_name, args))})", why) from error
            return followed
        returned = marked.signature.return_type
        if isinstance(returned, types.Optional | types.Generator):
            raise self._unserved(
                f"to return {type_name(returned)}",
                "a rule cannot return that: None has no shadow, nor has a generator",
            )
        treatment = self._table.treatment(marked)
        if treatment.elementwise:
            return self._for_each_element(context, marked, cpu_kws)
        if not treatment.kept and not _needs_rule(marked, treatment.inactive):
            stopped = [marked.argument_names[i] for i in sorted(treatment.inactive)]
            named = f"{', '.join(stopped)} inactive, and " if stopped else ""
            reason = named + treatment.reason
            return self._follow(context, args, kws, reason, treatment.inactive, treatment.missed)
        ad_args = tuple(seen_here.get(arg, arg) for arg in marked.signature.args)
        self._marked[ad_args] = marked
        self._table.add(marked)
        return signature(returned, *ad_args).replace(pysig=pysig)

    def _unserved(self, what: str, why: str) -> NotYetSupported:
        """The error for a call that no rule can serve, and whose body may not replace it."""
        return NotYetSupported(
            f"a call of {display_name(self.function)} {what}, which has a rule or is inactive",
            why=why,
            instead=["split the function: a rule for the part that returns numbers or arrays"],
        )

    def _follow(
        self,
        context: TypingContext,
        args: Sequence[Any],
        kws: dict[str, Any],
        reason: str,
        inactive: frozenset[int] = frozenset(),
        missed: str = "",
    ) -> Any:
        """The signature of a call whose body is differentiated; `inactive` arguments are constants
        in it, `missed` is the rule that nearly serves it.
        """
        twin = getattr(self.ordinary, "dispatcher", None)
        if twin is not None and twin.is_compiling and context.callstack.match(twin.py_func, args):
            raise NotYetSupported(
                f"a call of {display_name(self.function)} in its own body",
                why=f"its body is differentiated ({reason}), which cannot call the whole function",
                instead=["an @njit function without rules that does the recursion, called by this"],
            )
        # `np.ravel(x)` may be `x.ravel()` there, which must not be `np.ravel(x)` again.
        self.is_followed, before = True, self.is_followed
        try:
            followed = self.ordinary.get_call_type(context, args, kws)
        finally:
            self.is_followed = before
        if followed is not None:
            self._followed[followed.args] = (inactive, reason, missed)
        return followed

    def _for_each_element(
        self, context: TypingContext, marked: MarkedCall, kws: dict[str, Any]
    ) -> Any:
        """The signature of a call with arrays, as one call per element."""
        if self._elementwise is None:
            count = element_count(self.function)
            each = for_each_element(self.function, tuple(f"x{i}" for i in range(count or 0)))
            self._elementwise = context.resolve_value_type(each)
        typed = self._elementwise.get_call_type(context, marked.signature.args, kws)
        self._by_element.add(typed.args)
        return typed

    def get_call_signatures(self) -> Any:
        """Known signatures, for Numba's error messages."""
        return self.ordinary.get_call_signatures()

    def get_impl_key(self, sig: Any) -> Any:
        """Numba's key of the implementation: the symbol, if the call is marked."""
        marked = self.marked_call(sig)
        return marked.symbol if marked else self.unmarked(sig).get_impl_key(sig)

    def is_known(self, sig: Any) -> bool:
        """Whether a call with this signature has been typed."""
        return any(sig.args in k for k in (self._marked, self._followed, self._by_element))

    def unmarked(self, sig: Any) -> Any:
        """The type of the callable as an unmarked call is compiled."""
        return self._elementwise if sig.args in self._by_element else self.ordinary

    def marked_call(self, sig: Any) -> MarkedCall | None:
        """The marked call for a resolved signature; None if the callable's body is used."""
        return self._marked.get(sig.args)

    def without_mark(self, context: Context, sig: Any, implementation: Any) -> Any:
        """The implementation of a call whose body is differentiated, with constants for its
        inactive arguments; or of one call per element, whose location is recorded.
        """
        if sig.args in self._by_element:
            return _Stopping(context, implementation, sig.args, frozenset(), self._locate)
        if sig.args not in self._followed:
            return implementation
        inactive, reason, missed = self._followed[sig.args]
        function, table = self.function, self._table

        def record(loc: Any, caller: str) -> None:
            location = f"{loc.filename}:{loc.line}"
            table.follow(FollowedCall(function, location, reason, caller, missed))

        return _Stopping(context, implementation, sig.args, inactive, record)

    def _locate(self, loc: Any, caller: str) -> None:
        for marked in self._marked.values():
            self._table.located(marked.symbol, loc, caller)

    def implementation(self, marked: MarkedCall) -> Callable[..., Any]:
        """The lowering of `marked`, in the form Numba's target context registers."""
        table = self._table

        def lower_marked_call(
            context: Context, builder: Builder, sig: Any, args: Sequence[Value], loc: Any = None
        ) -> Any:
            if loc is not None:
                table.located(marked.symbol, loc, builder.function.name)
            return _lower(marked, context, builder, args)

        return lower_marked_call


class _Stopping:
    """An implementation that is recorded, and passes constants for some arguments (M5)."""

    def __init__(
        self,
        context: Context,
        implementation: Any,
        args: Sequence[Any],
        inactive: frozenset[int],
        record: Callable[[Any, str], None],
    ) -> None:
        self._record = record
        self._context = context
        self._implementation = implementation
        self._args = args
        self._inactive = inactive

    def __getattr__(self, name: str) -> Any:
        return getattr(self._implementation, name)

    def __call__(self, builder: Builder, args: Sequence[Value], loc: Any = None) -> Any:
        if loc is not None:
            self._record(loc, builder.function.name)
        context = self._context
        passed = list(args)
        stopped = [i for i in self._inactive if layout_of(self._args[i]).numbers.any]
        for i in stopped:
            ty = self._args[i]
            passed[i] = context.compile_internal(
                builder, lambda x: ignore_derivatives(x), signature(ty, ty), [args[i]]
            )
        result = self._implementation(builder, passed, loc)
        for i in stopped:
            context.nrt.decref(builder, self._args[i], passed[i])
        return result


def _needs_rule(call: MarkedCall, inactive: frozenset[int]) -> bool:
    """Whether an inactive argument cannot be replaced by a constant copy, because it is memory that
    the function may write or store.
    """
    memory = [
        ty
        for i, ty in enumerate(call.signature.args)
        if i in inactive and layout_of(ty).numbers.any and _is_memory(ty)
    ]
    if not memory:
        return False
    if not isinstance(call.function, CPUDispatcher):
        module = getattr(call.function, "__module__", None) or ""
        if module.split(".")[0] == "numpy":
            return False
        raise NotYetSupported(
            f"inactive {memory[0]} argument of {call.name}",
            instead=[f"put the call of {call.name} into an @njit function of its own"],
        )
    return True


def _is_memory(ty: Any) -> bool:
    return not all(isinstance(leaf, types.Number) for leaf in leaves_of(ty))


register_default(RuleFunction)(models.OpaqueModel)


@lower_constant(RuleFunction)
def _rule_function_constant(context: Context, builder: Builder, ty: Any, pyval: Any) -> Value:
    return context.get_dummy_value()


def _lower(marked: MarkedCall, context: Context, builder: Builder, args: Sequence[Value]) -> Any:
    fndesc = marked.fndesc
    convention = context.call_conv
    function_type = convention.get_function_type(fndesc.restype, fndesc.argtypes)
    callee = cgutils.get_or_insert_function(builder.module, function_type, marked.symbol)
    callee.attributes.add("noinline")
    status, result = convention.call_function(
        builder, callee, fndesc.restype, fndesc.argtypes, args
    )
    # Not `status.is_error`, which accepts the "None" status of Optional results; M2 excludes those.
    failed = builder.icmp_signed("!=", status.code, status.code.type(0))
    with cgutils.if_unlikely(builder, failed):
        convention.return_status_propagate(builder, status)
    return result


def on_cpu(arg: Any) -> Any:
    """The type that an argument has on the CPU target: others for functions and tuples of them."""
    if isinstance(arg, RuleFunction):
        context: Any = cpu_target.typing_context
        return context.resolve_value_type(arg.function)
    if isinstance(arg, types.Dispatcher):
        return types.Dispatcher(getattr(arg.dispatcher, "original", arg.dispatcher))
    if isinstance(arg, TypedOnce):
        return types.Function(arg.templates)
    if isinstance(arg, types.BaseTuple):
        items = items_of(arg)
        plain = tuple(map(on_cpu, items))
        if plain != items:
            return types.BaseTuple.from_types(plain, getattr(arg, "instance_class", None))
    return arg


def compile_for_cpu(
    function: Any, args: tuple[Any, ...], kws: dict[str, Any]
) -> tuple[MarkedCall, inspect.Signature]:
    """Compile a callable for the CPU target as if it were called from Python; Numba's errors pass
    through.
    """
    with compiling_for_cpu():
        if not isinstance(function, CPUDispatcher):
            kws = in_order(function, kws)
            stub = single_call(function, len(args), tuple(kws))
            result = compile_to_link(stub, (*args, *kws.values()))
            pysig = inspect.signature(stub.py_func)
            return _marked_call(function, result, pysig), pysig
        args = tuple(map(runtime_type, args))
        kws = {name: runtime_type(ty) for name, ty in kws.items()}
        compiled = getattr(function, "in_derivatives", function)
        template, pysig, folded, _ = compiled.get_call_template(args, kws)
        resolved = template(function.targetdescr.typing_context).apply(folded, {})
        if resolved is None:
            raise errors.TypingError(f"no compiled signature of {display_name(function)} fits")
        result = compiled.overloads[resolved.args]
    return _marked_call(function, result, pysig), pysig


def _marked_call(function: Any, result: Any, pysig: inspect.Signature) -> MarkedCall:
    cpu_symbol = result.fndesc.llvm_func_name
    name = display_name(function)
    digest = hashlib.sha256(cpu_symbol.encode()).hexdigest()[:12]
    return MarkedCall(
        symbol=f"{MARKED_PREFIX}{in_symbols(name)}.{digest}",
        function=function,
        name=name,
        signature=signature(result.signature.return_type, *result.signature.args),
        argument_names=tuple(pysig.parameters),
        location="",
        cpu_symbol=cpu_symbol,
        library=result.library,
        fndesc=result.fndesc,
    )
