"""Compiled stubs as values inside `@njit`: a callable without data, or one that carries some.

Numba gives all dispatchers in a tuple one function type. A stub has a type of its own, which keeps
them distinct; calls go to the dispatcher behind it.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.core.imputils import lower_constant
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox

from activerules.numba_ext.codegen.protocols import Builder, Context, TypingContext, Value


class StubType(types.Callable, types.Opaque):
    """The type of one compiled stub."""

    def __init__(self, dispatcher: Any) -> None:
        self.stub = types.Dispatcher(dispatcher)
        super().__init__(f"stub({self.stub})")

    @property
    def key(self) -> Any:
        """The key by which Numba compares types."""
        return self.stub.key

    def get_call_type(self, context: TypingContext, args: Any, kws: Any) -> Any:
        """The signature of a call, which is compiled now."""
        callee_type = context.resolve_value_type(self.stub.dispatcher)
        return callee_type.get_call_type(context, args, kws)

    def get_call_signatures(self) -> Any:
        """The signatures compiled so far."""
        return self.stub.get_call_signatures()

    def get_impl_key(self, sig: Any) -> Any:
        """The key by which the target context finds the compiled function."""
        return self.stub.get_impl_key(sig)


class Stub:
    """A dispatcher as such a value in Python."""

    def __init__(self, dispatcher: Any) -> None:
        self.dispatcher = dispatcher


@typeof_impl.register(Stub)
def _typeof_stub(value: Stub, c: Any) -> StubType:
    return StubType(value.dispatcher)


def carries_no_data(numba_class: type[types.Type]) -> None:
    """Represent values of these types by nothing at run time; Python's are constants."""
    register_model(numba_class)(models.OpaqueModel)

    @lower_constant(numba_class)
    def _constant(context: Context, builder: Builder, ty: Any, value: Any) -> Value:
        return context.get_dummy_value()

    @unbox(numba_class)
    def _unbox(ty: Any, value: Any, c: Any) -> NativeValue:
        return NativeValue(c.context.get_dummy_value())


carries_no_data(StubType)
