"""Numba's compiler pipelines as the AD target runs them.

Needs       the passes that replace Numba's own
Gives       `ad_pipeline` for the user's functions, `numbas_pipeline` for implementations of Numba,
            `compile_kernel` for functions that Numba generates during lowering
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from numba.core import compiler
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import AnnotateTypes, NativeLowering, NopythonTypeInference
from numba.core.untyped_passes import InlineInlinables

from activerules.numba_ext.codegen.protocols import Context
from activerules.numba_ext.substitutes.array_literals import ArrayLiterals, LongDisplays
from activerules.numba_ext.target.line_tables import KernelLowering, LoweringWithLines
from activerules.numba_ext.target.operators import RuledOperators


@cache
def _pipeline(pipeline_class: Any, replaced: Callable[[Any], list[Any]]) -> Any:
    """The pipeline in which `replaced` gives the steps, (pass, description), for each step."""

    class ADPipeline(pipeline_class):
        def define_pipelines(self) -> Any:
            pipelines = super().define_pipelines()
            for pipeline in pipelines:
                steps = [step for original in pipeline.passes for step in replaced(original)]
                pipeline.passes = steps
                pipeline.finalize()
            return pipelines

    return ADPipeline


def ad_pipeline(pipeline_class: Any) -> Any:
    """The pipeline for the user's functions.

    It does not inline `inline="always"` functions, whose rules would be lost, nor annotate types
    for display. It builds array literals without lists, calls operators that have rules, and lowers
    with line tables.
    """
    return _pipeline(pipeline_class, _ad_steps)


def numbas_pipeline(pipeline_class: Any) -> Any:
    """The pipeline for Numba's own functions: with line tables, without types for display."""
    return _pipeline(pipeline_class, _lowered)


def _lowered(step: Any, lowering: Any = LoweringWithLines) -> list[Any]:
    if step[0] is AnnotateTypes:
        return []
    return [(lowering, step[1])] if step[0] is NativeLowering else [step]


def _ad_steps(step: Any) -> list[Any]:
    if step[0] is InlineInlinables:
        return []
    if step[0] is NopythonTypeInference:
        return [
            (LongDisplays, "long list displays built at once"),
            (ArrayLiterals, "array literals without lists"),
            (RuledOperators, "operators with rules as calls"),
            step,
        ]
    return _lowered(step)


_Kernels = _pipeline(compiler.Compiler, partial(_lowered, lowering=KernelLowering))


def compile_kernel(context: Context, kernel: Any, signature: Any, locals: Any, flags: Any) -> Any:
    """Compile a function that Numba generates during lowering, as for an array expression.

    Does what `BaseContext._compile_subroutine_no_cache` does, which has Numba's own pipeline built
    in; with line tables, that parses the user's source file once per array expression.
    """
    if flags is None:
        flags = compiler.Flags()
        inherited = ConfigStack.top_or_none()
        flags.nrt = inherited is not None and bool(inherited.nrt)
    flags.no_compile = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    library = context.codegen().create_library(kernel.__name__)
    pipeline = _Kernels(
        context.typing_context,
        context,
        library,
        signature.args,
        signature.return_type,
        flags,
        locals or {},
    )
    return pipeline.compile_extra(kernel)
