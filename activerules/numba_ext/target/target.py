"""The Numba target `activerules_ad`: Numba's own compiler, stopped before it optimises.

Needs       Numba's CPU target, from which everything here derives
Gives       `Session`: typing and target contexts, and `compile(dispatcher, argument types)`
Invariants  T1  every callee that is not a runtime function is defined in the module of its caller,
                unoptimised, scalar
            T2  functions of the NRT stay declarations
            T3  nothing is registered in, or compiled for, the CPU target (but the callables of
                marked calls); a CPU compile in progress is not disturbed
            T4  flags that a callee in Numba inherits from the first caller that is compiled are
                part of a twin's key
            T5  the user's functions have line tables, which change no instruction; a statement
                keeps its file where Numba inlines it; Numba's own implementations have none,
                so that LLVM, when it inlines them, gives them the line of the user's call

This is a separate target because on the CPU target every callee is vectorised and unrolled before
its caller links it, and a pipeline class reaches only the top function. Implementations made with
`@overload` follow the target by themselves. Dispatchers do not: wherever Numba resolves one, it is
replaced by its *twin*, the same Python function compiled for this target. At the same point,
callables that carry a rule are replaced by a `RuleFunction` (see `rule_function`).

A session belongs to one state of the rule registry; a later state gets a new session with empty
caches.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import count
from typing import Any, ClassVar

from numba.core import compiler, cpu, dispatcher, externals, fastmathpass, types
from numba.core.base import _wrap_impl
from numba.core.ccallback import CFunc
from numba.core.compiler_lock import global_compiler_lock
from numba.core.descriptors import TargetDescriptor
from numba.core.errors import NumbaDebugInfoWarning
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.target_extension import (
    CPU,
    JitDecorator,
    dispatcher_registry,
    jit_registry,
    target_override,
    target_registry,
)
from numba.core.typing.context import Context as NumbaTypingContext
from numba.core.typing.templates import make_concrete_template
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc
from numba.stencils.stencil import StencilFunc

from activerules.numba_ext.codegen.implementation_keys import ImplementationKeys
from activerules.numba_ext.codegen.protocols import Builder
from activerules.numba_ext.codegen.stubs import StubType
from activerules.numba_ext.codegen.unlinked import compiling_for_cpu, uninherited_flags
from activerules.numba_ext.codegen.unoptimised import (
    AD_TARGET,
    LOWERING,
    ADCodegen,
    ADCodeLibrary,
    NeverCalled,
)
from activerules.numba_ext.substitutes import (
    array_loops,  # noqa: F401  (registers what it implements)
    complex_math,
    counted_generators,
    float_parts,  # noqa: F401
    generators,
    integer_powers,  # noqa: F401
    printing,  # noqa: F401
    single_points,
    typed_items,  # noqa: F401
)
from activerules.numba_ext.substitutes.broadcasting import BroadcastsByAxis
from activerules.numba_ext.substitutes.inactive_values import InactiveValues, NewRecords
from activerules.numba_ext.substitutes.typed_dicts import iteration
from activerules.numba_ext.substitutes.ufuncs import (
    GeneralisedTwin,
    KernelDispatcher,
    VectorizedTwin,
    is_for_each,
)
from activerules.numba_ext.substitutes.visible import substitute
from activerules.numba_ext.target.call_sites import CallSite, CallSites
from activerules.numba_ext.target.declared import declared_signature
from activerules.numba_ext.target.dispatchers import explicit_options, not_compiled
from activerules.numba_ext.target.line_tables import LineTable, on_its_line
from activerules.numba_ext.target.marked_calls import CallTable, MarkedCall
from activerules.numba_ext.target.methods import (
    Method,
    RuledMethod,
    function_of,
    of_context,
    typed_on_cpu,
)
from activerules.numba_ext.target.operators import AugmentedOperator, plain_operator
from activerules.numba_ext.target.pipelines import ad_pipeline, compile_kernel, numbas_pipeline
from activerules.numba_ext.target.rule_function import RuleFunction, rule_function
from activerules.rules.views import RuleView
from activerules.values.tree_items import refuse_of_keys


class ADTarget(CPU):
    """The token of the target; a subclass of CPU, so that CPU implementations serve it."""


# --- contexts ---


class ADTypingContext(NumbaTypingContext):
    """Types globals, closure variables and attributes; replaces functions that the AD target
    compiles differently.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        super().__init__()

    @property
    def session(self) -> Session:
        """The session whose compiled functions this context knows."""
        return self._session

    def resolve_value_type(self, val: Any) -> Any:
        """The Numba type of a Python value used as a constant."""
        # An objmode block has the Python function of the whole, but not its rules.
        if isinstance(val, CPUDispatcher | dispatcher.LiftedCode):
            return self._session.visible(types.Dispatcher(val))
        val = substitute(val)
        ordinary = super().resolve_value_type(val)
        if isinstance(ordinary, types.FunctionType) and not isinstance(val, CFunc):
            # Not Numba's own lowering, which asks the interpreter for the address at every call.
            ordinary = types.ExternalFunctionPointer(val.signature(), _address_of)
        calls = self._session.calls
        if calls.carries_rule(val):
            return rule_function(calls, val, ordinary)
        plain = plain_operator(val)
        if plain is not None and calls.carries_rule(plain):
            return AugmentedOperator(plain, ordinary, calls)
        return self._session.keys.typed_once(ordinary)

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """The signature of a call; `func` is the type of the callee, or the callee itself."""
        if known := self._session.keys.known(func, args, kws):
            return known
        refuse_of_keys(func, args)
        callee = self._session.visible(func)
        function = callee if isinstance(callee, types.Callable) else self._lookup_global(callee)

        def resolve() -> Any:
            return super(ADTypingContext, self).resolve_function_type(callee, args, kws)

        is_method = isinstance(callee, types.BoundFunction) and not isinstance(callee, Method)
        if is_method or isinstance(callee, types.ClassType):
            return typed_on_cpu(super().resolve_function_type, callee, args, kws)
        return self._session.keys.typed(func, function, args, kws, resolve)

    def resolve_getattr(self, typ: Any, attr: str) -> Any:
        """The type of an attribute; that of a method is this context's own."""
        attribute: Any = super().resolve_getattr(typ, attr)
        if attribute is None:
            return None
        function = function_of(typ, attr)
        if function is not None and self._session.calls.carries_rule(function):
            ruled = self.resolve_value_type(function)
            if not ruled.is_followed:
                return RuledMethod(attribute.template, typ, ruled)
        return of_context(attribute, self)

    def _get_global_type(self, gv: Any) -> Any:
        known = super()._get_global_type(gv)
        if known is not None:
            return known
        if isinstance(gv, DUFunc | GUFunc | StencilFunc):
            return super()._get_global_type(self._session.installed(gv))
        # Classes made by @jitclass are registered with the CPU target only.
        cpu_context: Any = cpu_target.typing_context
        return cpu_context._get_global_type(gv)


def _address_of(function: types.WrapperAddressProtocol) -> int:
    return function.__wrapper_address__()


class ADContext(BroadcastsByAxis, NewRecords, InactiveValues):
    """Lowers as the CPU does, to `ADCodeLibrary` objects and without Python wrappers."""

    DIBuilder = LineTable

    def __init__(self, session: Session) -> None:
        self._session = session
        self._defined: set[tuple[str, Any]] = set()
        super().__init__(session.typing_context, AD_TARGET)
        self.data_model_manager = counted_generators.data_models(self)

    @cached_property
    def nrt(self) -> Any:
        """The code generator for reference counting, which also counts references to generators."""
        return counted_generators.CountingNRT(self, self.enable_nrt)

    @global_compiler_lock
    def init(self) -> None:
        """Set up code generation; Numba calls it once."""
        self.is32bit = False
        self._internal_codegen = ADCodegen("activerules.ad")
        externals.c_math_functions.install(self)

    def refresh(self) -> None:
        """Load new registrations; the target's own implementations come after Numba's, so that they
        win for equal signatures.
        """
        super().refresh()
        self.install_registry(LOWERING)

    def note_call(self, func_ir: Any, expr: Any, callee: Any, signature: Any) -> None:
        """Record a call in a function that is being lowered."""
        self._session.sites.add(func_ir, expr, callee, signature)

    def is_inactive_type(self, ty: Any) -> bool:
        """Whether values of a type were declared to carry no derivative."""
        return self._session.calls.is_inactive_type(ty)

    def enter(self, call: MarkedCall) -> None:
        """Add a marked call that this context has not lowered itself."""
        self._session.calls.add(call)

    def get_ufunc_info(self, ufunc_key: Any) -> Any:
        """The loops of a ufunc, some of them in the target's own form."""
        own = {**complex_math.ufunc_loops(ufunc_key), **single_points.ufunc_loops(ufunc_key)}
        return {**super().get_ufunc_info(ufunc_key), **own}

    def _compile_subroutine_no_cache(
        self, builder: Builder, impl: Any, sig: Any, locals: Any = None, flags: Any = None
    ) -> Any:
        """Compile as on the CPU, but with this target's lowering, and the source line of an array
        expression.
        """
        result = compile_kernel(self, on_its_line(impl, builder), sig, locals, flags)
        self.active_code_library.add_linking_library(result.library)
        return result

    def post_lowering(self, mod: Any, library: Any) -> None:
        """Finish as on the CPU, but without linking the NRT (T2)."""
        if self.fastmath:
            fastmathpass.rewrite_module(mod, self.fastmath)

    def create_cpython_wrapper(self, *args: Any, **kws: Any) -> None:
        """Do nothing: the function is never called from Python."""

    def create_cfunc_wrapper(self, *args: Any, **kws: Any) -> None:
        """Do nothing: the function is never called from C."""

    def get_executable(self, library: Any, fndesc: Any, env: Any) -> NeverCalled:
        """Link the callees in; there is nothing to execute."""
        library._ensure_finalized()
        return NeverCalled(env, library)

    def get_function(self, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
        """The implementation of a call, for the AD target."""
        if isinstance(fn, StubType):
            fn, sig = fn.stub, sig.as_function()
        if isinstance(fn, RuledMethod):
            fn, sig = fn.owner, sig.as_function()
        iterating = iteration(fn, sig.args) or generators.iteration(self, fn, sig.args)
        if iterating is not None:
            return _wrap_impl(iterating, self, sig)
        fn = self._session.visible(fn)
        if isinstance(fn, RuleFunction):
            if not fn.is_known(sig):
                # A method, typed through the CPU dispatcher.
                fn.get_call_type(self.typing_context, sig.args, {})
            marked = fn.marked_call(sig)
            if marked is None:
                followed = self.get_function(fn.unmarked(sig), sig, _firstcall)
                return fn.without_mark(self, sig, followed)
            # A function argument may have two types for one symbol: the CPU dispatcher, and its
            # twin.
            args = sig.as_function().args
            if (marked.symbol, args) not in self._defined:
                self._defined.add((marked.symbol, args))
                self.insert_func_defn([(fn.implementation(marked), marked.symbol, args)])
        elif isinstance(fn, types.Dispatcher) and isinstance(fn.dispatcher, ADDispatcher):
            # Function arguments and methods were typed by the CPU dispatcher, which compiles
            # nothing for this target.
            fn.dispatcher.compile(tuple(sig.args))
        with self._session.keys.lowering(fn, sig.args):
            return super().get_function(fn, sig, _firstcall)


class ADDescriptor(TargetDescriptor):
    """The contexts of a session (by default the one that is compiling), as a dispatcher's
    descriptor.
    """

    options = cpu.CPUTargetOptions

    def __init__(self, session: Session | None = None, *, lines: bool = False) -> None:
        self._session = session
        self._lines = lines
        super().__init__(AD_TARGET)

    @property
    def typing_context(self) -> ADTypingContext:
        """The typing context of the session."""
        return (self._session or Session.current()).typing_context

    @property
    def target_context(self) -> ADContext:
        """The target context of the session, with line tables or without."""
        session = self._session or Session.current()
        return session.target_context_with_lines if self._lines else session.target_context


# --- dispatchers ---


class ADDispatcher(dispatcher.Dispatcher):
    """A Python function compiled for the AD target of one session.

    `original` is its CPU dispatcher; None for Numba's own functions.
    """

    # Numba reads the class attribute for "the" target; a twin has the contexts of its session.
    targetdescr = ADDescriptor()
    _numbers = count()

    def __init__(
        self,
        session: Session,
        py_func: Any,
        options: dict[str, Any],
        *,
        lines: bool,
        original: Any = None,
        **settings: Any,
    ) -> None:
        self.session = session
        self.original = original
        self.targetdescr = ADDescriptor(session, lines=lines)
        self._number = next(self._numbers)
        super().__init__(py_func, targetoptions=options, **settings)

    def __repr__(self) -> str:
        """Unlike that of any other: Numba takes two StructRef types of one name for one type, and
        the name has those of the functions in the fields.
        """
        return f"{type(self).__name__}({self.py_func}, {self._number})"

    def compile(self, sig: Any) -> Any:
        """Compile for a tuple of Numba types, or a signature."""
        if isinstance(sig, tuple):
            declared = declared_signature(self.original, sig)
            sig = declared if declared is not None and declared.args == sig else sig
        with target_override(AD_TARGET):
            return super().compile(sig)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """The template that types a call: from the declared signature that fits, if any."""
        own: Any = self
        pysig, folded = own._compiler.fold_argument_types(args, kws)
        declared = declared_signature(self.original, folded)
        if declared is None:
            return super().get_call_template(args, kws)
        self.compile(declared)
        chosen = self.overloads[declared.args].signature
        name = self.py_func.__name__
        return make_concrete_template(f"CallTemplate({name})", name, [chosen]), pysig, folded, {}

    def get_function_type(self) -> Any:
        """The type of the function as a value, if its signature is declared."""
        return None if self.original is None else self.original.get_function_type()

    def add_overload(self, cres: Any) -> None:
        """Record a compile result; it has no entry point for Numba's C dispatcher."""
        self.overloads[tuple(cres.signature.args)] = cres
        self.session.libraries[cres.fndesc.llvm_func_name] = cres.library


class ADJit(JitDecorator):
    """The decorator that compiles `@overload` implementations for this target."""

    def __init__(self, *functions: Any, **options: Any) -> None:
        self._functions = functions
        self._options = options

    def __call__(self, *functions: Any) -> ADDispatcher:
        """Make a dispatcher in the session that is compiling."""
        options = dict(self._options)
        for name in ("target", "cache"):
            options.pop(name, None)
        settings = {
            "locals": dict(options.pop("locals", {})),
            "pipeline_class": numbas_pipeline(options.pop("pipeline_class", compiler.Compiler)),
        }
        options.setdefault("nopython", True)
        (function,) = functions or self._functions
        session = Session.current()
        explicit = explicit_options(options, checked=False)  # Numba's code stays in bounds
        return ADDispatcher(session, function, explicit, lines=False, **settings)


target_registry[AD_TARGET] = ADTarget
dispatcher_registry[ADTarget] = ADDispatcher
jit_registry[ADTarget] = ADJit


class Session:
    """The contexts, twins and marked calls for one state of the rule registry."""

    _active: ClassVar[list[Session]] = []

    def __init__(self, rules: RuleView) -> None:
        self.epoch = rules.epoch
        # A derivative writes where the function reads, so an index out of bounds does more harm.
        self._checked = rules.debug is not None
        self.calls = CallTable(rules)
        self.keys = ImplementationKeys()
        self.sites = CallSites(self._modules_of)
        self.libraries: dict[str, ADCodeLibrary] = {}
        self._twins: weakref.WeakKeyDictionary[Any, dict[tuple[str, str], ADDispatcher]]
        self._twins = weakref.WeakKeyDictionary()
        self._ufuncs: dict[int, tuple[Any, Any]] = {}
        # Both contexts choose implementations by the target that is current while they are made or
        # refreshed.
        with self._compiling():
            self.typing_context = ADTypingContext(self)
            self.target_context = ADContext(self)
            # The flag `debuginfo` would also change how variables are lowered.
            self.target_context_with_lines = self.target_context.subtarget(enable_debuginfo=True)

    @classmethod
    def current(cls) -> Session:
        """The session that is compiling; only meaningful under Numba's compiler lock."""
        return cls._active[-1]

    def _modules_of(self, site: CallSite) -> list[Any]:
        """The LLVM modules with the code that a call leads to."""
        callee = site.callee
        if isinstance(callee, RuleFunction):
            callee = callee.unmarked(site.signature)
        with self._compiling():
            implementation = self.target_context.get_function(callee, site.signature)
            return [library._final_module for library in getattr(implementation, "libs", ())]

    def compile(self, function: CPUDispatcher, args: tuple[types.Type, ...]) -> Any:
        """Compile a dispatcher for the AD target; returns Numba's compile result, raises Numba's
        errors.
        """
        with self._compiling():
            twin = self.twin(function)
            twin.compile(args)
            self.keys.forget()
            return twin.overloads[args]

    @contextmanager
    def _compiling(self) -> Generator[None, None, None]:
        with ExitStack() as stack:
            stack.enter_context(global_compiler_lock)
            stack.enter_context(target_override(AD_TARGET))
            # The flags of a compile in progress around this one do not apply here.
            stack.enter_context(uninherited_flags())
            # Numba warns about functions without a source file, some of which are its own.
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore", NumbaDebugInfoWarning)
            self._active.append(self)
            stack.callback(self._active.pop)
            yield

    def twin(self, original: Any) -> ADDispatcher:
        """The AD dispatcher of a CPU dispatcher, under the flags that it inherits at this point.

        Raises `NotYetSupported` for code that runs in the interpreter.
        """
        if isinstance(original, dispatcher.LiftedCode):
            raise not_compiled(original)
        options = explicit_options(original.targetoptions, checked=self._checked)
        key = (str(options["error_model"]), str(options["fastmath"]))
        twins = self._twins.setdefault(original, {})
        if key not in twins:
            twins[key] = ADDispatcher(
                self,
                original.py_func,
                options,
                lines=True,
                original=original,
                locals=dict(original.locals),
                pipeline_class=ad_pipeline(original._compiler.pipeline_class),
            )
        return twins[key]

    def visible(self, callee: Any) -> Any:
        """Replace the type of a callee that was typed for the CPU by the type of the twin, or by a
        `RuleFunction`.
        """
        if not isinstance(callee, types.Dispatcher):
            return callee
        original = callee.dispatcher
        if isinstance(original, ADDispatcher):
            return callee
        twin = self.twin(original)
        ordinary = types.Dispatcher(twin)
        # Numba knows a call of itself by the type of a dispatcher; the call from outside was noted.
        is_itself = twin.is_compiling and self.calls.uses_body(original)
        if self.calls.carries_rule(original) and not is_itself:
            return rule_function(self.calls, original, ordinary)
        return ordinary

    def installed(self, original: Any) -> Any:
        """The twin of a `@vectorize`, `@guvectorize` or `@stencil` function, registered here."""
        if id(original) not in self._ufuncs:
            self._ufuncs[id(original)] = (original, self._installed(original))
        return self._ufuncs[id(original)][1]

    def _installed(self, original: Any) -> Any:
        if isinstance(original, StencilFunc):
            return self._stencil(original)
        contexts = self.typing_context, self.target_context
        if isinstance(original, GUFunc):
            builder: Any = original.gufunc_builder  # pyright: ignore[reportAttributeAccessIssue]
            kernels = self._kernels(original, builder.targetoptions)
            return GeneralisedTwin.of(original, kernels, *contexts)
        twin = VectorizedTwin.of(original, self._kernels(original, original.targetoptions))
        for context in contexts:  # for the twin's methods, which have just been registered
            context.refresh()
        return twin

    def _kernels(self, original: Any, options: dict[str, Any]) -> KernelDispatcher:
        return KernelDispatcher(
            original,
            explicit_options(options, checked=self._checked),
            ADDescriptor(self, lines=not is_for_each(original._dispatcher.py_func)),
            for_ad=lambda: target_override(AD_TARGET),
            for_cpu=compiling_for_cpu,
        )

    def _stencil(self, original: Any) -> Any:
        """The twin of a stencil, typed and compiled for the AD target."""
        twin: Any = StencilFunc(original.kernel_ir, original.mode, dict(original.options))
        twin.kws = original.kws
        twin._typingctx, twin._targetctx = self.typing_context, self.target_context
        twin._install_type(self.typing_context)
        return twin
