"""`DerivedFunction`: a function made from another one, which `grad`, `jacobian` and others return.

A call from Python runs a compiled stub, which is recompiled when rules have been registered since.
As a global or captured variable inside `@njit` the object is that stub.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, ParamSpec, SupportsIndex, TypeVar

from numba import TypingError, types
from numba.extending import typeof_impl

from activerules.annotations.signature import GradientSpec
from activerules.annotations.trees import are_flat, flattened, restored
from activerules.callables import location_of
from activerules.errors import ActiverulesError, ArityError
from activerules.numba_ext.calls import call_arguments
from activerules.numba_ext.calls.error_context import presentable, run_compiled
from activerules.numba_ext.calls.intrinsics import gradient_of
from activerules.numba_ext.codegen.arity import of_count, takes_any_number
from activerules.numba_ext.codegen.entry_points import ENTRY_POINT
from activerules.numba_ext.codegen.made_once import COMPILED, LastMade, MadeOnce
from activerules.numba_ext.codegen.on_disk import compiled_stub, found_by_name
from activerules.numba_ext.codegen.stubs import Stub
from activerules.numba_ext.codegen.unlinked import linked_form
from activerules.numba_ext.codegen.unoptimised import compiles_for_derivative
from activerules.numba_ext.target.derivative import ArgumentsOverlap
from activerules.numba_ext.target.dispatchers import OPTIONS, require_known, with_options
from activerules.rules.registry import RULES, with_rules
from activerules.rules.written import replacement_of

ArgNums = int | str | tuple[int | str, ...]
P = ParamSpec("P")  # the parameters of the function, which a derivative keeps
R = TypeVar("R")  # what the derivative returns


_DERIVATIVES = {
    "grad": "gradient of",
    "value_and_grad": "value and the gradient of",
    "hessian": "Hessian of",
    "hvp": "product of a vector and the Hessian of",
    **dict.fromkeys(("jacobian", "jacfwd", "jacrev"), "Jacobian of"),
}


# What functions made alike have in common, as `grad(f)(x)` may stand in a loop: a token by the
# dispatcher, and by the function as it was given, where there are no options, all attributes.
_tokens = MadeOnce()
_attributes = LastMade()


class _Token:
    """The identity of functions made alike. `served` is the stub that served a call of one, after
    the epoch of the rules that it was compiled with.
    """

    served: tuple[int, Any] = (-1, None)


class DerivedFunction(Generic[P, R]):
    """A function made from another one; `dispatcher` is the `@njit` function behind it.

    Its stub calls `form(spec, function, *arguments)`, which has a compiled form. `own_options` are
    accepted in addition to those of `numba.njit`. `suffix` ends its name.
    """

    __signature__: inspect.Signature
    form: Callable[..., Any]
    kind: str
    own_options: tuple[str, ...] = ()
    suffix: str = ""

    def __init__(
        self, function: Any, argnums: ArgNums, *, with_value: bool = False, options: dict[str, Any]
    ) -> None:
        alike = not options and type(argnums) in (int, str, tuple)
        key: Any = (type(self), repr(argnums), with_value) if alike else None
        known = _attributes.find(function, key) if alike else None
        if known is not None:
            self.__dict__.update(known)
            return
        require_known(options, self.own_options)
        self._maker = "value_and_grad" if with_value else self.kind
        _require_no_values(self._maker, function, argnums)
        self._function, self._own_options = function, options
        self._target, options = with_options(function, options)
        self._options = options
        found_by_name(self._target)
        spec = read_spec(self._target, argnums, with_value)
        self._spec = replace(spec, holomorphic=bool(options.get("holomorphic")))
        plain = self._target.py_func
        imitate(self, plain, self._own_signature(inspect.signature(plain)))
        self.__doc__ = self._described(plain)
        self.__name__ = f"{self._maker}_{self.__name__}{self.suffix}"
        token_key = type(self), self._spec, repr(sorted(options.items()))
        self._token = _tokens.get(self._target, token_key, _Token)
        if alike:
            _attributes.put(function, key, self.__dict__.copy())

    @property
    def dispatcher(self) -> Any:
        """The stub, compiled with the rules that are registered now."""
        return self._dispatcher()

    @property
    def differentiated(self) -> Any:
        """The `@njit` function that this one was made from."""
        return self._target

    @property
    def argnums(self) -> tuple[int, ...]:
        """The positions of the arguments that it is differentiated with respect to."""
        return self._spec.argnums

    @property
    def linked(self) -> Any:
        """The same for the function that is being compiled: only linked into it, unless it may be
        on disk, or that function is differentiated.
        """
        made = self.dispatcher
        return (
            made if self._options.get("cache") or compiles_for_derivative() else linked_form(made)
        )

    @property
    def targetoptions(self) -> Mapping[str, Any]:
        """The options of the function, and its own; named like this attribute of a dispatcher."""
        return {**self._target.targetoptions, **self._options}

    def _dispatcher(self, *, deferred: bool = False) -> Any:
        return COMPILED.get(
            self._target, (self._token, deferred), lambda: self._make_dispatcher(deferred)
        )

    def _make_dispatcher(self, deferred: bool) -> Any:
        stub = self._make_stub(replace(self._spec, deferred=deferred))
        options = {k: v for k, v in self._options.items() if k in OPTIONS}
        purpose = type(self).__qualname__, self._maker, self._spec, deferred
        return compiled_stub(stub, self._target, options, *purpose, **ENTRY_POINT)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the compiled stub."""
        epoch, run = self._token.served
        positional: Any = args
        named: Any = kwargs
        flat = are_flat(args) and (not kwargs or are_flat(kwargs.values()))
        if not flat:
            positional, named = (
                flattened(args),
                {k: flattened(value) for k, value in kwargs.items()},
            )
        try:
            if epoch == RULES.epoch and self._is_served_as_given(positional, named):
                try:
                    result = run(*positional, **named)
                    return result if flat else restored(result)
                except ArgumentsOverlap:
                    pass  # nothing has run
            result = self._run(*positional, **named)
        except (TypingError, ActiverulesError, TypeError) as error:
            if isinstance(error, TypeError):
                self._require_call(args, kwargs)
                if not isinstance(error, ActiverulesError):
                    raise
            self._explain(error, positional)
            raise presentable(error, (*positional, *named.values())) from error.__cause__
        except ValueError:
            call_arguments.types_of((*positional, *named.values()))  # raises for an empty list
            raise
        return result if flat else restored(result)

    def _is_served_as_given(self, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Whether the stub that served a call can be given these arguments."""
        return True

    def _explain(self, error: Exception, args: Sequence[Any]) -> None:
        """Add to an error what only the arguments tell."""

    def _require_call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise `ArityError` if the arguments do not fit the parameters."""
        call_arguments.require_call(self._target, args, kwargs)

    def _own_signature(self, signature: inspect.Signature) -> inspect.Signature:
        """The signature of this function, given that of the function it is made from. (Packages
        that fit functions, such as iminuit, take an attribute `_parameters` for their own.)
        """
        return signature

    def _make_stub(self, spec: GradientSpec) -> Any:
        """Return the stub as a plain function, with the same parameters and defaults."""
        plain = self._target.py_func
        of_count(self._target, 0)  # raises for what has no compiled form
        accepted = self._own_signature(inspect.signature(plain))
        parameters = accepted.parameters.values()
        names = ", ".join("*" * (p.kind is p.VAR_POSITIONAL) + p.name for p in parameters)
        source = f"def stub{_bare(accepted)}: return _form(_spec, _target, {names})\n"
        # without data: an address in the stub would keep Numba from caching its callers
        scope = {"_form": type(self).form, "_spec": spec, "_target": Stub(self._target)}
        stub = replacement_of(plain, source, scope, name="stub")
        positional = [p.default for p in parameters if p.kind is not p.KEYWORD_ONLY]
        stub.__defaults__ = tuple(x for x in positional if x is not inspect.Parameter.empty) or None
        stub.__kwdefaults__ = plain.__kwdefaults__
        stub.__name__ = self.__name__
        argnums = "_".join(map(str, spec.argnums))
        variant = f"{argnums}{'_holomorphic' * spec.holomorphic}"
        stub.__qualname__ = f"{plain.__qualname__}.{self.__name__}_{variant}"
        return stub

    def _run(self, /, *args: Any, **kwargs: Any) -> Any:
        epoch, run = RULES.epoch, self.dispatcher
        result = run_compiled(run, *args, **kwargs)
        self._token.served = epoch, run
        return result

    def _described(self, plain: Any) -> str:
        """The docstring for `help`: which derivative this is, and the docstring of the function."""
        parameters = list(inspect.signature(plain).parameters)
        last = len(parameters) - 1
        names = [f"`{parameters[min(k, last)]}`" for k in self._spec.argnums]
        what = f"The {_DERIVATIVES[self._maker]} `{plain.__name__}` with respect to"
        return "\n\n".join(filter(None, [f"{what} {', '.join(names)}.", plain.__doc__]))

    @property
    def _shown(self) -> dict[str, Any]:
        """The options that were given, for `repr`."""
        return self._own_options

    def __repr__(self) -> str:
        """Return how the function is made: `grad(loss, cache=True) with respect to argument 0`."""
        options = "".join(f", {k}={v!r}" for k, v in self._shown.items())
        which = f"argument{'s' * (not self._spec.single)} {self._spec.given}"
        return f"{self._maker}({self._target.py_func.__name__}{options}) with respect to {which}"

    def __reduce__(self) -> Any:
        """Pickle what the function was made from; it is recompiled when it is unpickled."""
        with_value = self._spec.with_value
        made_from = type(self), self._function, self._spec.given, with_value, self._own_options
        return with_rules(_unpickled, made_from)


def _unpickled(
    kind: type[DerivedFunction[..., Any]],
    function: Any,
    argnums: ArgNums,
    with_value: bool,
    options: Any,
) -> DerivedFunction[..., Any]:
    return kind(function, argnums, with_value=with_value, options=options)


def imitate(derived: Any, plain: Callable[..., Any], signature: inspect.Signature) -> None:
    """Give a derived function the attributes of the plain one, and this signature, without what is
    returned: a derivative returns something else.
    """
    annotations = {"__annotations__", "__annotate__"}  # up to Python 3.13, and later
    functools.update_wrapper(derived, plain, {*functools.WRAPPER_ASSIGNMENTS} - annotations)
    derived.__signature__ = signature.replace(return_annotation=inspect.Signature.empty)
    derived.__annotations__ = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if parameter.annotation is not parameter.empty
    }


@typeof_impl.register(DerivedFunction)
def _typeof_derived_function(value: DerivedFunction[..., Any], _context: Any) -> Any:
    return types.Dispatcher(value.linked)


def read_spec(dispatcher: Any, argnums: ArgNums, with_value: bool) -> GradientSpec:
    """The specification, with `argnums` converted to positions of parameters.

    Raises `ArityError` if there is no such parameter, or one is named twice.
    """
    names = list(inspect.signature(dispatcher.py_func).parameters)
    unlimited = takes_any_number(dispatcher.py_func)
    single = not isinstance(argnums, tuple | list)
    indices = []
    for argnum in [argnums] if single else argnums:
        if isinstance(argnum, str):
            indices.append(_index_of(dispatcher, argnum))
            continue
        if isinstance(argnum, bool | type) or not isinstance(argnum, SupportsIndex):
            raise _wrong_argnums(
                dispatcher, f"has {argnum!r}, which is neither a number nor a name"
            )
        index = operator.index(argnum)
        if index < 0 and not unlimited:
            index += len(names)
        if index < 0 or (index >= len(names) and not unlimited):
            raise _wrong_argnums(dispatcher, f"has {argnum}")
        indices.append(index)
    repeated = [k for k in indices if indices.count(k) > 1]
    if repeated or not indices:
        named = [*of_count(dispatcher, 1 + max(repeated, default=0)).parameters]
        fault = f"names `{named[repeated[0]]}` twice" if repeated else "names no argument"
        raise _wrong_argnums(dispatcher, fault)
    return GradientSpec(tuple(indices), single, with_value)


def _index_of(dispatcher: Any, name: str) -> int:
    """The position of the parameter of that name."""
    parameters = inspect.signature(dispatcher.py_func).parameters
    if name not in parameters or parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
        raise _wrong_argnums(dispatcher, f"has {name!r}")
    return list(parameters).index(name)


def _require_no_values(kind: str, function: Any, argnums: Any) -> None:
    """Raise `ArityError` for `grad(f, x)`, which gives values where argnums belong."""
    numbers = argnums if isinstance(argnums, tuple | list) else [argnums]
    if numbers and all(isinstance(p, float | complex) or getattr(p, "ndim", 0) for p in numbers):
        name = getattr(function, "__name__", "f")
        raise ArityError(
            f"{kind}({name}) returns a function, and is passed the arguments of that function",
            why=f"the second argument of {kind} is argnums: which arguments to differentiate "
            "with respect to",
            instead=[f"{kind}({name})(x)"],
        )


def _wrong_argnums(dispatcher: Any, fault: str) -> ArityError:
    plain = dispatcher.py_func
    bare = _bare(inspect.signature(plain))
    names = list(bare.parameters)
    instead = f"a number from 0 to {len(names) - 1}, a name, or a tuple of different ones"
    takes = f"has {len(names)} arguments"
    if not names:
        takes, instead = "has no arguments", "pass what to differentiate with respect to: f(x)"
    elif takes_any_number(plain):
        takes = "takes any number of arguments"
        instead = "a number from 0, a name, or a tuple of different ones"
    elif len(names) == 1:
        takes, instead = "has one argument", "0, a name, or a tuple of different ones"
    return ArityError(
        f"argnums {fault}, and {plain.__name__} {takes}",
        where=[("in the derivative of", f"{plain.__name__}{bare}", location_of(plain))],
        instead=[instead],
    )


def _bare(signature: inspect.Signature) -> inspect.Signature:
    """The parameters alone: names and kinds, without defaults, annotations and result."""
    parameters = signature.parameters.values()
    return inspect.Signature([p.replace(default=p.empty, annotation=p.empty) for p in parameters])


class GradientFunction(DerivedFunction[P, R]):
    """What `grad` and `value_and_grad` return: a function that computes gradients."""

    form = staticmethod(gradient_of)
    kind = "grad"

    def _run(self, /, *args: Any, **kwargs: Any) -> Any:
        # A stub that is stored on disk, or that compiled callers use, must serve every call.
        epoch = RULES.epoch
        if not (self._options.get("cache") or COMPILED.find(self._target, (self._token, False))):
            deferred = self._dispatcher(deferred=True)
            try:
                result = run_compiled(deferred, *args, **kwargs)
            except ArgumentsOverlap:
                pass  # nothing has run; what the next stub raises has no context
            else:
                self._token.served = epoch, deferred
                return result
        return super()._run(*args, **kwargs)
