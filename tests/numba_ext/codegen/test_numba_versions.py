"""The tested releases, and each part of Numba's private API that is relied on.

If this file fails after an update of Numba, read the release's changes to what is named here before
anything else.
"""

import ctypes
import inspect

import llvmlite.binding as llvm
import pytest
from llvmlite import ir
from numba import _helperlib
from numba.core import (
    base,
    boxing,
    caching,
    callconv,
    cgutils,
    codegen,
    compiler,
    compiler_machinery,
    cpu,
    debuginfo,
    dispatcher,
    environment,
    externals,
    fastmathpass,
    generators,
    lowering,
    pythonapi,
    target_extension,
    targetconfig,
    typed_passes,
    types,
    untyped_passes,
)
from numba.core.datamodel import manager, models
from numba.core.datamodel.models import GeneratorModel
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python, nrt
from numba.core.runtime.context import NRTContext
from numba.core.runtime.nrt import rtsys
from numba.core.types.functions import BaseFunction
from numba.core.typing import templates
from numba.core.typing.context import BaseContext as TypingContext
from numba.cpython import listobj
from numba.np import arrayobj
from numba.np.ufunc import dufunc, gufunc, ufuncbuilder
from numba.stencils.stencil import StencilFunc
from numba.typed import dictobject

from activerules.errors import UnsupportedVersion
from activerules.numba_ext.codegen import numba_versions as versions

PRIVATE = [
    # what links code from disk must know of it
    (codegen.Codegen, "unserialize_library"),
    # what a pullback can hold in Python
    (pythonapi, "_boxers"),
    (boxing, "box_unsupported"),
    (pythonapi._boxers, "lookup"),
    # typed dictionaries
    (base, "_wrap_impl"),
    (dictobject, "_dict_new_sized"),
    (dictobject, "_dict_lookup"),
    (dictobject, "_dict_insert"),
    (dictobject, "_dict_delitem"),
    (dictobject, "_dict_popitem"),
    # rules on disk
    (caching, "NullCache"),
    (caching.CodeLibraryCacheImpl, "get_filename_base"),
    (caching.CodeLibraryCacheImpl, "locator"),
    # target: code libraries
    (codegen.JITCodeLibrary, "_optimize_functions"),
    (codegen.JITCodeLibrary, "_optimize_final_module"),
    (codegen.JITCodeLibrary, "_finalize_final_module"),
    (codegen.JITCodeLibrary, "_finalize_dynamic_globals"),
    (codegen.JITCodeLibrary, "_ensure_finalized"),
    (codegen.JITCodeLibrary, "get_pointer_to_function"),
    (codegen.JITCodeLibrary, "enable_object_caching"),
    (codegen.JITCodeLibrary, "get_defined_functions"),
    (codegen.JITCodeLibrary, "add_llvm_module"),
    (codegen.JITCPUCodegen, "_library_class"),
    (codegen.JITCPUCodegen, "set_env"),
    (codegen.JITCPUCodegen, "_check_llvm_bugs"),
    # target: the exception of slices that do not fit
    (arrayobj, "raise_with_shape_context"),
    # target: methods
    (models, "handle_bound_function"),
    # target: contexts
    (TypingContext, "resolve_value_type"),
    (TypingContext, "resolve_function_type"),
    (TypingContext, "resolve_getattr"),
    (TypingContext, "_get_global_type"),
    (TypingContext, "_lookup_global"),
    (TypingContext, "refresh"),
    (cpu.CPUContext, "init"),
    (cpu.CPUContext, "_compile_subroutine_no_cache"),
    (cpu.CPUContext, "post_lowering"),
    (cpu.CPUContext, "create_cpython_wrapper"),
    (cpu.CPUContext, "create_cfunc_wrapper"),
    (cpu.CPUContext, "get_executable"),
    (cpu.CPUContext, "get_function"),
    (cpu.CPUContext, "get_getattr"),
    (cpu.CPUContext, "get_setattr"),
    (cpu.CPUContext, "make_tuple"),
    (cpu.CPUContext, "get_ufunc_info"),
    (cpu.CPUContext, "insert_func_defn"),
    (cpu.CPUContext, "subtarget"),
    (cpu.CPUContext, "enable_debuginfo"),
    (cpu.CPUContext, "DIBuilder"),
    (externals.c_math_functions, "install"),
    (fastmathpass, "rewrite_module"),
    (debuginfo.DIBuilder, "mark_variable"),
    (debuginfo.DIBuilder, "_di_subroutine_type"),
    (lowering.BaseLower, "_compute_def_location"),
    (compiler.Compiler, "compile_extra"),
    (compiler.Compiler, "define_pipelines"),
    (lowering.Lower, "lower_dynamic_raise"),
    # target: generators
    (GeneratorModel, "from_data"),
    (GeneratorModel, "as_data"),
    (generators.GeneratorDescriptor, "from_generator_fndesc"),
    (generators.GeneratorLower, "box_generator_struct"),
    (generators.GeneratorLower, "lower_finalize_func"),
    (generators.GeneratorLower, "lower_finalize_func_body"),
    (generators.LowerYield, "lower_yield_suspend"),
    (generators.LowerYield, "lower_yield_resume"),
    (lowering.Lower, "lower_assign"),
    (lowering.Lower, "lower_yield"),
    (lowering.Lower, "decref"),
    (lowering.BaseLower, "setup_function"),
    (lowering.BaseLower, "post_lower"),
    (NRTContext, "incref"),
    (NRTContext, "decref"),
    (base.BaseContext, "nrt"),
    (base.BaseContext, "get_generator_desc"),
    (base.BaseContext, "get_generator_impl"),
    (manager.DataModelManager, "chain"),
    # target: dispatchers
    (dispatcher.Dispatcher, "add_overload"),
    (dispatcher.Dispatcher, "fold_argument_types"),
    (dispatcher.Dispatcher, "get_call_template"),
    (dispatcher.Dispatcher, "nopython_signatures"),
    (dispatcher.Dispatcher, "_can_compile"),
    (TypingContext, "resolve_overload"),
    (types.WrapperAddressProtocol, "__wrapper_address__"),
    (templates, "make_concrete_template"),
    (compiler.CompilerBase, "define_pipelines"),
    (compiler_machinery.PassManager, "finalize"),
    (untyped_passes, "InlineInlinables"),
    (typed_passes, "AnnotateTypes"),
    (typed_passes.NativeLowering, "lowering_class"),
    (target_extension, "JitDecorator"),
    (target_extension, "target_registry"),
    (target_extension, "dispatcher_registry"),
    (target_extension, "jit_registry"),
    (targetconfig.ConfigStack, "top_or_none"),
    (targetconfig.ConfigStack, "enter"),
    (compiler.Flags, "nrt"),
    (compiler.Flags, "error_model"),
    (compiler.Flags, "fastmath"),
    (dufunc.DUFunc, "_initialize"),
    (gufunc.GUFunc, "_install_type"),
    (gufunc.GUFunc, "_install_cg"),
    (gufunc.GUFunc, "_compile_for_argtys"),
    (gufunc.GUFunc, "find_ewise_function"),
    (gufunc, "GUFuncLowerer"),
    (dufunc.DUFunc, "_compile_for_argtys"),
    (dufunc.DUFunc, "find_ewise_function"),
    (ufuncbuilder.UFuncDispatcher, "compile"),
    (StencilFunc, "_install_type"),
    # capture, link, rules
    (environment, "lookup_environment"),
    (rtsys, "library"),
    (base.BaseContext, "get_arg_packer"),
    (base.BaseContext, "get_return_type"),
    (base.BaseContext, "get_returned_value"),
    (base.BaseContext, "get_return_value"),
    (base.BaseContext, "add_linking_libs"),
    (cgutils._StructProxy, "_get_ptr_by_index"),
    (codegen.CPUCodeLibrary, "_get_module_for_linking"),
    # what derivatives are called by
    (base.BaseContext, "add_dynamic_addr"),
    (base.BaseContext, "call_internal_no_propagate"),
    (base.BaseContext, "compile_subroutine"),
    (cpu.CPUContext, "get_env_name"),
    (callconv, "ALLOC_FLAG_IDX"),
    (callconv, "HASH_BUF_IDX"),
    (callconv, "RETCODE_NONE"),
    (callconv, "RETCODE_OK"),
    (callconv, "RETCODE_STOPIT"),
    (callconv, "RETCODE_USEREXC"),
    (callconv, "UNWRAP_FUNC_IDX"),
    (callconv.CPUCallConv, "_get_arg_packer"),
    (callconv.CPUCallConv, "call_function"),
    (callconv.CPUCallConv, "decode_arguments"),
    (callconv.CPUCallConv, "decorate_function"),
    (callconv.CPUCallConv, "emit_unwrap_dynamic_exception_fn"),
    (callconv.CPUCallConv, "get_function_type"),
    (callconv.CPUCallConv, "return_dynamic_user_exc"),
    (callconv.CPUCallConv, "unset_try_status"),
    (compiler.Flags, "no_compile"),
    (dispatcher._FunctionCompiler, "_customize_flags"),
    (dispatcher._FunctionCompiler, "compile"),
    (NRTContext, "get_meminfos"),
    (NRTContext, "meminfo_alloc_dtor_unchecked"),
    (listobj.ListInstance, "move"),
]

MADE_BY_CONSTRUCTORS = [
    (codegen.CPUCodeLibrary, "_final_module"),
    (codegen.CPUCodegen, "_data_layout"),
    (cpu.CPUContext, "_internal_codegen"),
    (base.BaseContext, "_defns"),
    (BaseFunction, "_impl_keys"),
    (dispatcher.Dispatcher, "_compiler"),
    (dispatcher.Dispatcher, "_cache"),
    (dispatcher._FunctionCompiler, "pipeline_class"),
    (compiler_machinery.PassManager, "passes"),
    (codegen.RuntimeLinker, ".numba.unresolved$"),
    (debuginfo.DIBuilder, "subprograms"),
    (templates._OverloadMethodTemplate, "_overload_func"),
]


@pytest.mark.parametrize(("owner", "name"), PRIVATE)
def test_private_api_of_numba_exists(owner, name):
    cpu_target.target_context.refresh()
    assert hasattr(owner, name)


@pytest.mark.parametrize(("owner", "name"), MADE_BY_CONSTRUCTORS)
def test_private_attributes_of_instances(owner, name):
    assert name in inspect.getsource(owner)


def test_functions_that_are_known_by_name():
    """What typed lists, BLAS, reshapes and errors of shapes call (numba_ext/target/effects.py)."""
    read = "size_address", "length", "allocated", "base_ptr", "is_mutable"
    for name in (*read, "setitem", "append", "delete_slice"):
        assert f"list_{name}" in _helperlib.c_helpers
    assert {"xxdot", "xxgemv", "xxgemm", "attempt_nocopy_reshape"} <= set(_helperlib.c_helpers)
    assert hasattr(arrayobj, "ol_raise_with_shape_context_cpu")


def test_installed_releases_are_tested():
    assert versions.untested(versions.installed()) == []


def test_later_releases_are_untested():
    found = {"python": "3.16.0", "numba": "0.69.0rc1", "llvmlite": "0.50.0"}
    with pytest.raises(UnsupportedVersion, match=r"python 3\.16\.0.*numba 0\.69\.0rc1") as caught:
        versions.check(found)
    assert "llvmlite" not in caught.value.what
    assert versions.ALLOW_UNTESTED in str(caught.value)


def test_earlier_releases_are_untested():
    assert versions.untested({"python": "3.11.2", "numba": "0.61.2", "llvmlite": "0.45.1"}) != []


def test_the_environment_turns_the_refusal_into_a_warning(monkeypatch):
    monkeypatch.setenv(versions.ALLOW_UNTESTED, "1")
    with pytest.warns(UserWarning, match=r"numba 0\.69"):
        versions.check({"python": "3.11.4", "numba": "0.69", "llvmlite": "0.50.0"})


@pytest.mark.parametrize("of", [ir.DoubleType(), ir.LiteralStructType([ir.IntType(8)] * 2)])
@pytest.mark.parametrize("with_lines", [False, True])
def test_addresses_of_earlier_releases_are_computed_from_pointers(monkeypatch, of, with_lines):
    """What `pointer_add` of those releases builds."""
    pointer = of.as_pointer()
    monkeypatch.setattr(versions, "_NUMBA", (0, 66))
    function = ir.Function(ir.Module(), ir.FunctionType(pointer, (pointer, cgutils.intp_t)), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    if with_lines:
        builder.debug_metadata = builder.module.add_metadata([])
    start, offset = function.args
    address = builder.add(builder.ptrtoint(start, cgutils.intp_t), offset)
    builder.ret(builder.inttoptr(address, pointer))
    text = versions.with_pointers(str(builder.module))
    assert "inttoptr" not in text
    assert llvm.parse_assembly(text).get_function("f")


def test_the_header_of_counted_memory():
    """The engine writes one for an array in a row of the tape (ir/plan/tape_arrays.py)."""
    pointer = _nrt_python.meminfo_alloc(64)
    memory = nrt.MemInfo(pointer)
    count, destructor, argument, data, size, allocator = (ctypes.c_int64 * 6).from_address(pointer)
    assert (count, data, size) == (memory.refcount, memory.data, 64)
    assert (destructor, argument, allocator) == (0, 0, 0)
    assert data - pointer >= 48, "what follows the six words is data"
