"""Functions that link LLVM text, in an importable module as Numba's cache needs it."""

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from activerules.numba_ext.codegen.link import make_library
from activerules.numba_ext.target.capture import capture
from numba_ext.target.rule_views import Keeping

GRADIENT_OF_PRODUCT = """
define i32 @activerules.test.product.gradient(double %x, double %y, ptr %derivatives) {
  store double %y, ptr %derivatives
  %second = getelementptr inbounds double, ptr %derivatives, i64 1
  store double %x, ptr %second
  ret i32 0
}
"""


@numba.njit
def product(x, y):
    return x * y


@intrinsic
def gradient_of_product(typing_context, x, y):
    def codegen(context, builder, signature, args):
        name = "activerules.test.product.gradient"
        context.add_linking_libs([make_library(context, name, GRADIENT_OF_PRODUCT)])
        pair = context.get_value_type(signature.return_type)
        derivatives = cgutils.alloca_once(builder, pair)
        double = ir.DoubleType()
        function_type = ir.FunctionType(ir.IntType(32), [double, double, pair.as_pointer()])
        function = cgutils.get_or_insert_function(builder.module, function_type, name)
        builder.call(function, [*args, derivatives])
        return builder.load(derivatives)

    return types.UniTuple(types.float64, 2)(types.float64, types.float64), codegen


@numba.njit(cache=True)
def cached_caller(x, y):
    return gradient_of_product(x, y)


@numba.njit
def raiser(n):
    if n < 0:
        raise ValueError("negative: " + str(n))
    return n


@intrinsic
def captured_raiser(typing_context, n):
    """Calls what was captured of `raiser`, linked back under the name of the captured function."""

    def codegen(context, builder, signature, args):
        captured = capture(raiser, (types.int64,), rules=Keeping())
        library = make_library(context, "activerules.test.raiser", captured.text)
        context.add_linking_libs([library])
        fndesc = captured.fndesc
        function = context.declare_function(builder.module, fndesc)
        status, result = context.call_conv.call_function(
            builder, function, fndesc.restype, fndesc.argtypes, args
        )
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return result

    return types.int64(types.int64), codegen


@numba.njit
def call_raiser(n):
    return captured_raiser(n)


@numba.njit(cache=True)
def cached_call_raiser(n):
    return captured_raiser(n)
