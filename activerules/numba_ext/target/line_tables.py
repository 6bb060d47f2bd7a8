"""Line tables: the source line of each instruction, and no other debug information.

Needs       a function that Numba lowers with debug information
Gives       `LineTable`: lines, no variables, no types (T5 of `target`)
            `on_its_line`: the kernel of an array expression, with the line it is written on
            `LoweringWithLines`: Numba's lowering pass, reading the line of a definition from the
            code object. Numba parses the whole source file for it, a twentieth of the time of a
            capture
            `KernelLowering`: the same for functions that Numba generates during lowering, one for
            every array expression
"""

from __future__ import annotations

from os.path import abspath, basename, dirname
from types import FunctionType
from typing import Any

from numba.core import debuginfo
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering

from activerules.numba_ext.codegen.protocols import Builder
from activerules.numba_ext.substitutes.dynamic_raises import RaisesComputed
from activerules.numba_ext.substitutes.generators import LowersGenerators
from activerules.numba_ext.target.function_values import CallsValues
from activerules.rules.written import definition_line

_ARRAY_EXPRESSION = "__numba_array_expr_"


def on_its_line(kernel: Any, builder: Builder) -> Any:
    """The kernel of an array expression, with the source line of that expression.

    Numba compiles it from a one-line text, which it takes for line 1 of the user's file. `builder`
    is at the expression that is being lowered. Other functions are returned unchanged.
    """
    at = builder.debug_metadata
    if at is None or not kernel.__name__.startswith(_ARRAY_EXPRESSION):
        return kernel
    code = kernel.__code__.replace(co_firstlineno=dict(at.operands)["line"])
    return FunctionType(code, kernel.__globals__, kernel.__name__)


class LineTable(debuginfo.DIBuilder):
    """The source line of each instruction, and nothing else: no variables, no types.

    statement   the position of the statement that is being lowered; it is not in the file of the
                function if Numba inlined it (`inline="always"`)
    """

    statement: Any = None

    def _di_location(self, line: int) -> Any:
        scope: Any = self.subprograms[-1]
        path = self.filepath if self.statement is None else abspath(self.statement.filename)
        if path != self.filepath:
            parts = {"directory": dirname(path), "filename": basename(path)}
            file = self.module.add_debug_info("DIFile", parts)
            block = {"scope": scope, "file": file, "discriminator": 0}
            scope = self.module.add_debug_info("DILexicalBlockFile", block)
        position = {"line": line, "column": 1, "scope": scope}
        return self.module.add_debug_info("DILocation", position)

    def mark_variable(self, *args: Any, **kws: Any) -> None:
        """Do nothing: a declared variable would not be promoted from memory to a register."""

    def _di_subroutine_type(self, line: int, function: Any, argmap: Any) -> Any:
        return self.module.add_debug_info(
            "DISubroutineType", {"types": self.module.add_metadata([])}
        )


class _FindsDefinition:
    func_ir: Any

    def _compute_def_location(self) -> Any:
        return self.func_ir.loc.with_lineno(definition_line(self.func_ir.func_id.code))


class _Lower(_FindsDefinition, RaisesComputed, LowersGenerators, CallsValues):
    def lower_inst(self, inst: Any) -> None:
        """Lower a statement as Numba does, with its own file in the line table."""
        table: Any = self.debuginfo
        table.statement = self.loc
        super().lower_inst(inst)

    def lower_call(self, resty: Any, expr: Any) -> Any:
        """Lower as Numba does, and record the call for errors about what it leads to."""
        callee, signature = self.typeof(expr.func.name), self.fndesc.calltypes[expr]
        self.context.note_call(self.func_ir, expr, callee, signature)
        return super().lower_call(resty, expr)


class _LowerKernel(_FindsDefinition, Lower):
    pass


@register_pass(mutates_CFG=True, analysis_only=False)
class LoweringWithLines(NativeLowering):
    """Numba's lowering pass, with a lowering class that writes line tables."""

    _name = "activerules_lowering"
    lowering_class: Any = _Lower


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(NativeLowering):
    """Like Numba's own lowering pass; calls are not recorded, since the user wrote none of them."""

    _name = "activerules_kernel_lowering"
    lowering_class: Any = _LowerKernel
