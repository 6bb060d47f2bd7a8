"""Compiling a rule function: facts about the call become constants before types are inferred.

`active(x)`, `config.needs_primal` and `x.val is None` are known from the types of the rule's
arguments. Written into Numba's IR as constants, they let its branch pruning remove what does not
apply, so that a branch for Duplicated arguments need not type-check where the argument is Const.
"""

from __future__ import annotations

import operator
from typing import Any

from numba.core import ir, types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.ir_utils import find_const, find_outer_value, get_definition, guard
from numba.core.untyped_passes import InlineClosureLikes

from activerules.annotations.activity import Const
from activerules.numba_ext.codegen.protocols import UntypedPass
from activerules.numba_ext.codegen.types import AnnotationType, ConfigType
from activerules.rules.protocol import active


@register_pass(mutates_CFG=False, analysis_only=False)
class RuleFacts(UntypedPass):
    """Replaces `active(x)`, `config.<fact>`, `config.overwritten[i]` and `x.val is None` by
    constants.
    """

    _name = "activerules_rule_facts"

    def run_pass(self, state: Any) -> bool:
        """Return whether anything was replaced."""
        replaced = False
        for block in state.func_ir.blocks.values():
            for assign in block.find_insts(ir.Assign):
                fact = _fact(state, assign.value)
                if fact is None:
                    continue
                assign.value = ir.Const(fact, assign.loc)
                state.func_ir._definitions[assign.target.name] = [assign.value]
                replaced = True
        return replaced


class RuleFunctionCompiler(CompilerBase):
    """Numba's nopython pipeline with `RuleFacts`; as `pipeline_class` it compiles a rule."""

    def define_pipelines(self) -> list[Any]:
        """Return the one pipeline."""
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.add_pass_after(RuleFacts, InlineClosureLikes)
        pipeline.finalize()
        return [pipeline]


def _fact(state: Any, value: Any) -> bool | int | None:
    """Return the value of an expression that is known from the argument types, or None."""
    if not isinstance(value, ir.Expr):
        return None
    if value.op == "call" and len(value.args) == 1:
        if guard(find_outer_value, state.func_ir, value.func) is not active:
            return None
        argument = _argument_type(state, value.args[0])
        return argument.kind is not Const if isinstance(argument, AnnotationType) else None
    if value.op == "getattr":
        fact = _config_fact(state, value)
        return None if isinstance(fact, tuple) else fact
    if value.op in ("getitem", "static_getitem"):
        return _item_fact(state, value)
    if value.op == "binop" and value.fn in (operator.is_, operator.is_not):
        is_none = _none_fact(state, value)
        return None if is_none is None else is_none is (value.fn is operator.is_)
    return None


def _none_fact(state: Any, value: Any) -> bool | None:
    """Whether the value of an argument is None, if `value` is such a test and the type decides it.

    Numba knows that of arguments that are passed as they are, not in annotations.
    """
    read, constant = (guard(get_definition, state.func_ir, side) for side in (value.lhs, value.rhs))
    if not isinstance(read, ir.Expr) or read.op != "getattr" or read.attr != "val":
        return None
    if not isinstance(constant, ir.Const) or constant.value is not None:
        return None
    argument = _argument_type(state, read.value)
    if not isinstance(argument, AnnotationType) or isinstance(argument.val, types.Optional):
        return None
    return argument.val == types.none


def _item_fact(state: Any, value: Any) -> bool | None:
    facts = _config_fact(state, guard(get_definition, state.func_ir, value.value))
    if not isinstance(facts, tuple):
        return None
    index = value.index
    if isinstance(index, ir.Var):
        index = guard(find_const, state.func_ir, index)
    if not isinstance(index, int) or not -len(facts) <= index < len(facts):
        return None
    return facts[index]


def _config_fact(state: Any, value: Any) -> Any:
    """Return a field of the configuration if `value` reads one."""
    if not isinstance(value, ir.Expr) or value.op != "getattr":
        return None
    config = _argument_type(state, value.value)
    return getattr(config.value, value.attr, None) if isinstance(config, ConfigType) else None


def _argument_type(state: Any, variable: ir.Var) -> types.Type | None:
    """Return the type of a parameter of the rule that was not assigned to."""
    definition = guard(get_definition, state.func_ir, variable)
    return state.args[definition.index] if isinstance(definition, ir.Arg) else None
