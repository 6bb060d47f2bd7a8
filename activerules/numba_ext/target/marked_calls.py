"""Marked calls: a call of a function that carries a rule stays one opaque call in the captured IR.

Needs       a `RuleView` (which callables carry a rule)
Gives       `RuleFunction`, the Numba type of such a callable while compiling for the AD target; a
            call of it lowers to `call i32 @activerules.rule.<id>(retptr, excinfo, arguments)`, in
            Numba's own calling convention, with the arguments flattened;
            `MarkedCall`, what later stages must know about each such symbol
Invariants  M1  the argument and return types are those of the ordinary CPU compile of the callable
            M2  a NumPy function or operator that the CPU target cannot compile for some argument
                types is not marked for them: its body is captured. An `@njit` function is refused
                then, as is any function whose result is Optional or a generator
            M3  the declaration promises nothing about memory, and any status but 0 is propagated
            M4  one callable and one tuple of argument types give one symbol
            M5  if the registry says that the body is to be differentiated, arguments declared
                inactive are constants in it
            M6  arguments are in the order of the callable's parameters, as in its rules, in
                whatever order a call names them

Typing a marked call compiles the callable for the CPU target with its own flags: the AD compile in
progress has no influence on the result.
"""

from __future__ import annotations

import hashlib
import inspect
import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numba
import numpy as np
from numba.core import cgutils, errors, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.core.imputils import lower_constant
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.typing.templates import Signature, signature

from activerules.annotations.values import ignore_derivatives
from activerules.errors import NotYetSupported
from activerules.ir.llvm.names import in_symbols
from activerules.numba_ext.codegen.protocols import Builder, Context, TypingContext, Value
from activerules.numba_ext.codegen.unlinked import (
    compile_to_link,
    compiling_for_cpu,
    in_order,
    single_call,
)
from activerules.numba_ext.substitutes.counted_generators import counts_otherwise
from activerules.numba_ext.substitutes.ufuncs import FOR_EACH, for_each_element
from activerules.numba_ext.target.effects import is_closed, only_reads, replaces_pointers
from activerules.rules.treatment import Treatment, element_count
from activerules.rules.views import RuleView
from activerules.values.kinds import is_list_of_numbers, leaves_of
from activerules.values.layout import layout_of

SYMBOL_PREFIX = "activerules.rule."

NUMBA_REFUSES = (errors.NumbaError, errors.UnsupportedBytecodeError)
"""What Numba raises for a function it cannot compile; neither is a subclass of the other."""


@dataclass(frozen=True)
class MarkedCall:
    """One marked symbol.

    function        the Python callable that carries the rule
    signature       Numba types of the call, defaults folded in
    argument_names  one per type in `signature.args`
    location        "file:line" of the first call in the captured code, "" before lowering
    cpu_symbol      the callable itself, compiled for the CPU with the same LLVM signature
    library         the code library that defines `cpu_symbol`
    """

    symbol: str
    function: Callable[..., Any]
    name: str
    signature: Signature
    argument_names: tuple[str, ...]
    location: str
    cpu_symbol: str
    library: Any
    fndesc: Any

    @property
    def result_type(self) -> types.Type:
        """The type of the result for rules: without the literals that Numba keeps in it."""
        return types.unliteral(self.signature.return_type)

    @cached_property
    def promises(self) -> tuple[frozenset[bytes], ...]:
        """The attributes that LLVM proved for each parameter of the compiled callable."""
        arguments = self._compiled_function().arguments
        return tuple(frozenset(argument.attributes) for argument in arguments)

    @cached_property
    def only_reads(self) -> bool:
        """Whether the callable leaves its arguments, and all they lead to, unchanged."""
        return only_reads(self._compiled_function())

    @cached_property
    def replaces_pointers(self) -> bool:
        """Whether the callable may replace arrays or objects inside its arguments."""
        if any(map(_is_reflected, self.signature.args)):
            return True  # a copy in it may be one of list items
        no_pointers = all(
            isinstance(ty, types.Array | types.Number) or is_list_of_numbers(ty)
            for ty in self.signature.args
        )
        return replaces_pointers(self._compiled_function(), lists=not no_pointers)

    @cached_property
    def is_closed(self) -> bool:
        """Whether all data enters and leaves the callable through arguments and result."""
        return is_closed(self._compiled_function())

    def _compiled_function(self) -> Any:
        with global_compiler_lock:
            module = self.library._get_module_for_linking()
        return module.get_function(self.cpu_symbol)


@dataclass(frozen=True)
class FollowedCall:
    """A call of a function with rules whose body is differentiated instead, and the reason.

    `caller` is the symbol of the function that contains the call; `missed` the user's rule that
    comes nearest to it, and why it does not serve it.
    """

    function: Any
    location: str
    reason: str
    caller: str
    missed: str = ""

    @property
    def name(self) -> str:
        """The name of the function, for messages."""
        return display_name(self.function)


class CallTable:
    """The marked calls of one capture session, and the types of callables with rules."""

    def __init__(self, rules: RuleView) -> None:
        self._rules = rules
        self._types: dict[int, RuleFunction] = {}
        self._calls: dict[str, MarkedCall] = {}
        self._locations: dict[str, dict[str, str]] = {}
        self._followed: dict[tuple[str, str, str], FollowedCall] = {}

    def carries_rule(self, value: Any) -> bool:
        """Whether `value` is a callable with a rule."""
        known = callable(value) or hasattr(value, "__wrapper_address__")
        return known and self._rules.carries_rule(value)

    def is_inactive_type(self, ty: Any) -> bool:
        """Whether values of the type carry no derivative."""
        return self._rules.is_inactive_type(types.unliteral(ty))

    def treatment(self, call: MarkedCall) -> Treatment:
        """How to treat a call that could be marked."""
        return self._treatment(
            call.function, call.argument_names, call.signature.args, returned=call.result_type
        )

    def keeps(self, function: Any, names: Sequence[str], argtypes: Sequence[types.Type]) -> bool:
        """Whether calls of `function` with arguments of these types are marked."""
        return self.carries_rule(function) and self._treatment(function, names, argtypes).kept

    def _treatment(
        self, function: Any, names: Sequence[str], argtypes: Sequence[types.Type], **returned: Any
    ) -> Treatment:
        args = tuple(map(plain_type, argtypes))
        found = self._rules.treatment(function, names, args, **returned)
        if found.kept and is_loop(function, args) and not self._rules.is_declared(function, args):
            return Treatment(kept=False, reason="a loop costs less than its rule")
        return found

    def function_type(self, value: Any, ordinary: types.Type) -> RuleFunction:
        """The type of the callable `value`; without its rule that would be `ordinary`."""
        # By identity: ctypes functions are unhashable. The type keeps `value` alive, so no id is
        # reused.
        key = id(value)
        if key not in self._types:
            self._types[key] = RuleFunction(value, ordinary, self)
        return self._types[key]

    def add(self, call: MarkedCall) -> None:
        """Add a call, unless its symbol is known already."""
        self._calls.setdefault(call.symbol, call)

    def located(self, symbol: str, loc: Any, caller: str) -> None:
        """Record where the function `caller` first calls `symbol`; `loc` is Numba's location."""
        if loc.filename != FOR_EACH:
            known = self._locations.setdefault(symbol, {})
            known.setdefault(caller, f"{loc.filename}:{loc.line}")

    def follow(self, followed: FollowedCall) -> None:
        """Record a call of a function with rules whose body is differentiated."""
        self._followed[followed.name, followed.location, followed.caller] = followed

    def followed_in(self, callers: Collection[str]) -> tuple[FollowedCall, ...]:
        """The recorded `FollowedCall`s in functions of these symbols, each location once."""
        recorded = {(c.name, c.location): c for c in self._followed.values() if c.caller in callers}
        return tuple(recorded.values())

    def get(self, symbol: str, callers: Collection[str]) -> MarkedCall:
        """The record of `symbol`, with its location in one of `callers`; KeyError if it is not
        marked.
        """
        known = self._locations.get(symbol, {})
        location = next((known[c] for c in callers if c in known), "")
        if location != self._calls[symbol].location:
            self._calls[symbol] = replace(self._calls[symbol], location=location)
        return self._calls[symbol]


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
        if any(map(counts_otherwise, seen_here)):
            followed = self._follow(context, args, kws, "an argument is a generator")
            if followed is not None and isinstance(self.function, CPUDispatcher):
                raise self._unserved("with a generator that holds arrays", "rules cannot take that")
            return followed
        try:
            marked, pysig = compile_for_cpu(self.function, tuple(map(on_cpu, args)), cpu_kws)
        except NUMBA_REFUSES as error:
            followed = self._follow(context, args, kws, "Numba cannot compile it by itself")
            if followed is not None and isinstance(self.function, CPUDispatcher):
                raise self._unserved(f"({', '.join(map(str, args))})", str(error)) from error
            return followed
        returned = marked.signature.return_type
        if isinstance(returned, types.Optional | types.Generator):
            raise self._unserved(
                f"to return {returned}",
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
        ad_args = tuple(
            seen_here.get(arg, arg) if isinstance(arg, types.Callable) else arg
            for arg in marked.signature.args
        )
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


def is_loop(function: Any, argtypes: Sequence[Any]) -> bool:
    """Whether `implementations` has a loop for a call: for the product of two real vectors."""
    return any(function is product for product in (np.dot, operator.matmul)) and all(
        isinstance(x, types.Array) and x.ndim == 1 and x.dtype in (types.float32, types.float64)
        for x in argtypes
    )


def _is_reflected(ty: Any) -> bool:
    return any(isinstance(leaf, types.List | types.Set) for leaf in leaves_of(ty))


def _is_memory(ty: Any) -> bool:
    return not all(isinstance(leaf, types.Number) for leaf in leaves_of(ty))


def plain_type(ty: types.Type) -> types.Type:
    """The type of an argument's value; of an omitted argument, that of its default."""
    return numba.typeof(ty.value) if isinstance(ty, types.Omitted) else types.unliteral(ty)


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


def display_name(function: Any) -> str:
    """The name of a callable as users write it, with the module for those of NumPy and SciPy."""
    function = getattr(function, "py_func", function)
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    if not isinstance(name, str):
        return type(function).__name__
    module = getattr(function, "__module__", None) or ""
    if module in ("numpy.random", "random"):  # methods of an instance that has no name
        return f"{module}.{function.__name__}"
    name = name.rpartition("<locals>.")[2]
    return f"{module}.{name}" if module.split(".")[0] in ("numpy", "math", "scipy") else name


def on_cpu(arg: Any) -> Any:
    """The type that an argument has on the CPU target; only those of functions differ."""
    if isinstance(arg, RuleFunction):
        context: Any = cpu_target.typing_context
        return context.resolve_value_type(arg.function)
    if isinstance(arg, types.Dispatcher):
        return types.Dispatcher(getattr(arg.dispatcher, "original", arg.dispatcher))
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
        args = tuple(map(types.unliteral, args))
        kws = {name: types.unliteral(ty) for name, ty in kws.items()}
        template, pysig, folded, _ = function.get_call_template(args, kws)
        resolved = template(function.targetdescr.typing_context).apply(folded, {})
        if resolved is None:
            raise errors.TypingError(f"no compiled signature of {display_name(function)} fits")
        result = function.overloads[resolved.args]
    return _marked_call(function, result, pysig), pysig


def _marked_call(function: Any, result: Any, pysig: inspect.Signature) -> MarkedCall:
    cpu_symbol = result.fndesc.llvm_func_name
    name = display_name(function)
    digest = hashlib.sha256(cpu_symbol.encode()).hexdigest()[:12]
    return MarkedCall(
        symbol=f"{SYMBOL_PREFIX}{in_symbols(name)}.{digest}",
        function=function,
        name=name,
        signature=signature(result.signature.return_type, *result.signature.args),
        argument_names=tuple(pysig.parameters),
        location="",
        cpu_symbol=cpu_symbol,
        library=result.library,
        fndesc=result.fndesc,
    )
