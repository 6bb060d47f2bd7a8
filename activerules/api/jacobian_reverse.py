"""`jacrev`: Jacobians by reverse mode.

The primal runs once, and then several reverse sweeps over one tape. Each sweep is for `WIDTH`
entries of the result, or for one if sweeps for several would share no code. As the tape does not
depend on the memory of the arguments, what the function wrote into them is undone before the
sweeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numba import types

from activerules.annotations.activity import Active, Annotation, BatchDuplicated, Const, Duplicated
from activerules.annotations.signature import SplitSpec
from activerules.api.derived import ArgNums, DerivedFunction, P
from activerules.api.has_aux import jacobian_function
from activerules.api.jacobian_blocks import (
    RUN_TIME,
    Block,
    arranged,
    carrying,
    is_complex,
    require_copyable,
    require_holomorphic,
    require_numbers,
    require_rows,
    rows_of,
)
from activerules.api.jacobian_forward import WIDTH, jacobian_forward
from activerules.api.list_arguments import by_arrays
from activerules.api.split import play, record
from activerules.api.vjp import spec_of, vjp_stub
from activerules.errors import ActivityError
from activerules.numba_ext.calls import call_arguments
from activerules.numba_ext.calls.emitter import DerivativeCall
from activerules.numba_ext.calls.factories import give_factory_form
from activerules.numba_ext.calls.intrinsics import compiled_only, dispatcher_of_type
from activerules.numba_ext.codegen.made_once import compiled_lines
from activerules.numba_ext.codegen.types import AnnotationType, refused_annotation, runtime_type
from activerules.numba_ext.codegen.unoptimised import compiles_for_derivative
from activerules.numba_ext.replaced.in_steps import Steps, passing, steps_form
from activerules.numba_ext.split.cotangents import copy_of_shadow
from activerules.numba_ext.split.forms import read_split
from activerules.numba_ext.split.pullback import read_plain
from activerules.rules.written import by_name, tuple_of
from activerules.values.kinds import is_number_array, shadow_type
from activerules.values.leaf_texts import LeafText, TupleTexts, leaves_at
from activerules.values.overwriting import overwrite


def jacrev(
    function: Callable[P, Any], argnums: ArgNums = 0, has_aux: bool = False, **options: Any
) -> DerivedFunction[P, Any]:
    """Return the Jacobian of a function, by reverse mode.

    Arguments
        function  an `@njit` function or a plain one that Numba can compile; it returns numbers,
                  arrays of numbers, or tuples of these.
        argnums   what to differentiate with respect to: an argument by number or name, or a tuple
                  of several. They are numbers, arrays of numbers, and tuples of these; a
                  `numba.typed.List` of numbers counts as an array. Arguments and result may not
                  both be complex.
        has_aux=True   the function returns `(value, aux)`, and the result is `(Jacobian, aux)`.
        holomorphic=True   f'(z), for complex arguments and result; it is not checked that the
                  function is holomorphic.
        options   cache, fastmath, nogil, error_model: as in `numba.njit`.

    Returns
        A function with the signature of `function`, callable from Python and inside `@njit`. Its
        result has the shape `out.shape + in.shape` and the dtype of `out` (it is a float if both
        are floats); with a tuple of `argnums` it is a tuple of these. If the function returns a
        tuple, each entry of the tuple is replaced by its Jacobian, and the Jacobian with respect to
        a tuple is a tuple of blocks: `jacrev(f, (0, 1))(x, y)[i][j]` is the derivative of
        `f(x, y)[i]` with respect to argument j. The block of an integer or the like is None.
        The derivative of a complex result is with respect to a real argument; that of a real result
        with respect to a complex argument x + iy is ∂/∂x + i ∂/∂y, as in a gradient. Arguments that
        the function writes into are unchanged afterwards.

    Raises
        ActivityError (at the call) if there is no number in the result or in an argument of
        `argnums`, or both are complex; ArityError if there is no such argument; and what `autodiff`
        raises.

    Cost      the primal once, and one reverse sweep per four entries of the result (per entry if
              a rule in the function allows no more, or a result or argument is a tuple), two per
              entry of a complex result.

    >>> jacrev(lambda x: x * x)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return jacobian_function(ReverseJacobian, function, argnums, has_aux, options)


# --- compiled forms ---


class ForwardIsShorter(Exception):
    """Raised by a stub that has reverse mode only, after the function has run and its arguments are
    as they were; no user sees it.
    """


@compiled_only
def jacobian_reverse(typing_context, spec, function, *args):
    """The Jacobian at plain arguments, by reverse mode."""
    request = spec.value
    if compiles_for_derivative():
        return jacobian_forward.__wrapped__(typing_context, spec, function, *args)
    if by_lists := by_arrays(typing_context, jacobian_reverse, spec, function, args):
        return by_lists
    argtypes = tuple(map(runtime_type, args))
    dispatcher = dispatcher_of_type(function)
    sweeps = sweeps_of(dispatcher, function, argtypes, request)
    steps = sweeps.steps([*sweeps.rows(), f"return {sweeps.result_text()}"])
    return steps_form(typing_context, steps, (spec, function), args)


def size_of(leaves: Sequence[LeafText]) -> str:
    """The expression for how many numbers some leaves contain."""
    return f"({' + '.join(f'{x.text}.size' if x.is_array else '1' for x in leaves)})"


def sweeps_of(dispatcher: Any, function: Any, argtypes: Sequence[Any], request: Any) -> Sweeps:
    """The code of the Jacobian; `ActivityError` if the function has none."""
    names = call_arguments.parameter_names(dispatcher, len(argtypes))
    for name, ty in zip(names, argtypes, strict=True):
        if isinstance(ty, AnnotationType):
            raise refused_annotation(name, ty)
    for k in request.argnums:
        require_numbers(names[k], argtypes[k], complex_too=True)
    plain = spec_of(dispatcher, argtypes, request.argnums)
    lanes = _lanes(plain, function, argtypes)
    _, call = lanes[1:] if lanes else read_plain(plain, function, argtypes)
    result = rows_of(call.gradient.result_type)
    require_rows(dispatcher, result)
    if request.holomorphic:
        require_holomorphic(dispatcher, names, argtypes, request.argnums, result)
    elif is_complex(result):
        _require_real(names, argtypes, request.argnums)
    for name, ty, is_written in zip(names, argtypes, call.gradient.written, strict=True):
        if is_written:
            require_copyable(name, ty)
    return Sweeps(
        dispatcher,
        tuple(argtypes),
        request,
        result,
        tuple(call.gradient.written),
        lanes[0] if lanes else None,
    )


def _lanes(
    plain: SplitSpec, function: Any, argtypes: Sequence[Any]
) -> tuple[SplitSpec, SplitSpec, DerivativeCall] | None:
    """Sweeps for `WIDTH` cotangents at once, if possible and worthwhile: the specification, the
    same with the activity of the result filled in, and the call.
    """
    carried = [k for k, kind in enumerate(plain.arguments) if kind is not Const]
    if Duplicated not in plain.arguments or any(
        isinstance(argtypes[k], types.BaseTuple) for k in carried
    ):
        return None
    kinds: dict[type[Annotation], type[Annotation]] = {Duplicated: BatchDuplicated}
    spec = replace(plain, arguments=tuple(kinds.get(kind, kind) for kind in plain.arguments))
    split_spec, call = read_split(
        spec,
        function,
        [
            AnnotationType(kind, ty, types.UniTuple(shadow_type(ty), WIDTH))
            if kind is BatchDuplicated
            else (ty if kind is Const else AnnotationType(kind, ty))
            for kind, ty in zip(spec.arguments, argtypes, strict=True)
        ],
    )
    together = call.gradient.width == WIDTH and is_number_array(call.gradient.result_type)
    return (spec, split_spec, call) if together else None


def _require_real(names: Sequence[str], argtypes: Sequence[Any], argnums: Sequence[int]) -> None:
    """Raise `ActivityError` for a complex argument of a function with a complex result."""
    for k in argnums:
        if is_complex(argtypes[k]):
            raise ActivityError(
                f"`{names[k]}` and the result are complex: the Jacobian has four real parts",
                why="a complex number holds two of them, which is all there is if the function is "
                "holomorphic",
                instead=[
                    "holomorphic=True, if it is",
                    "the real Jacobian: jacobian(g)(z.view(np.float64)), with "
                    "g = njit(lambda x: f(x.view(np.complex128)).view(np.float64))",
                ],
            )


@dataclass(frozen=True)
class Sweeps:
    """The code of a Jacobian by several sweeps over one tape.

    argtypes the types of the arguments
    result   the type of the function's result
    written  which arguments the function writes into
    lanes    how one sweep takes several cotangents, if it does
    """

    dispatcher: Any
    argtypes: tuple[Any, ...]
    request: Any
    result: Any
    written: tuple[bool, ...]
    lanes: SplitSpec | None
    texts: TupleTexts = field(default_factory=TupleTexts)

    @property
    def outputs(self) -> list[LeafText]:
        """The leaves of the result that have rows in the Jacobian."""
        return carrying("out", self.result)

    @property
    def inputs(self) -> list[tuple[int, LeafText]]:
        """The leaves to differentiate with respect to, each with the position of its argument."""
        argnums = self.request.argnums
        return [(k, x) for k in argnums for x in carrying(f"x{k}", self.argtypes[k])]

    def count(self) -> str:
        """The expression for the number of reverse sweeps."""
        size = size_of(self.outputs)
        return f"({size} + {WIDTH - 1}) // {WIDTH}" if self.lanes else size

    @property
    def _kept(self) -> list[LeafText]:
        """The arrays that the function writes into, which are restored after the primal."""
        return [
            leaf
            for k, (is_written, ty) in enumerate(zip(self.written, self.argtypes, strict=True))
            for leaf in leaves_at(f"x{k}", ty)
            if is_written and isinstance(leaf.numba_type, types.Array)
        ]

    def _allocations(self) -> dict[str, str]:
        """Names and expressions of what is allocated before the function runs: copies of the arrays
        it writes into, and all shadows.
        """
        allocations = {f"before_{leaf.name}": f"copy_of_shadow({leaf.text})" for leaf in self._kept}
        for k, kind in enumerate(self.lanes.arguments if self.lanes else ()):
            if kind is BatchDuplicated:
                allocations.update({f"d{k}_{c}": f"make_zero(x{k})" for c in range(WIDTH)})
        return allocations

    def steps(self, lines: Sequence[str]) -> Steps:
        """The steps of a Jacobian; `lines` follow the primal, with `out`, the `pullback` (or the
        `tape` of several lanes), and the arguments restored.
        """
        names, allocations = [f"x{k}" for k, _ in enumerate(self.argtypes)], self._allocations()
        allocated = [f"{', '.join(allocations)}, = allocated"] if allocations else []
        run, unpacking = f"passing(record, {', '.join(names)})", "out, pullback = first"
        if self.lanes:
            run = f"record_lanes(lanes, target, {_annotated(self.lanes)})"
            unpacking = "tape, out, bars = first"
        make = [f"{name} = {text}" for name, text in allocations.items()]
        back = [f"overwrite({leaf.text}, before_{leaf.name})" for leaf in self._kept]
        return Steps(
            self.compiled("make", names, [*make, f"return {tuple_of(allocations)}"]),
            self.compiled(
                "run", ["allocated", *names], [*allocated * bool(self.lanes), f"return {run}"]
            ),
            self.compiled(
                "finish", ["allocated", "first", *names], [*allocated, unpacking, *back, *lines]
            ),
        )

    def rows(self) -> list[str]:
        """Lines that allocate the blocks and fill them, one reverse sweep after the other."""
        lines = []
        for row in self.outputs:
            rows = f"{row.text}.size" if row.is_array else "1"
            for _, x in self.inputs:
                columns = f"{x.text}.size" if x.is_array else "1"
                block = f"np.empty(({rows}, {columns}), {_dtype_name(row, x)})"
                lines.append(f"{_matrix(row, x)} = {block}")
        if self.lanes:
            return [*lines, *self._lanes_of(self.outputs[0])]
        for row in self.outputs:
            if row.is_array:
                size = f"{row.text}.size, dtype_{row.name}"
                lines.append(f"entries_{row.name} = np.zeros({size})")
                lines.append(f"e_{row.name} = entries_{row.name}.reshape({row.text}.shape)")
        for row in self.outputs:
            lines += self._sweep_rows(row)
        return lines

    def _needs_second_sweep(self, row: LeafText) -> bool:
        """Whether a second sweep is needed: with respect to a real number x, the cotangents 1 and i
        of a complex result u + iv give u_x and v_x.
        """
        return isinstance(row.number, types.Complex) and not self.request.holomorphic

    def _bar(self, row: LeafText, k: int, x: LeafText) -> str:
        bar = f"bars[{k}]{x.path}"
        if self.request.holomorphic:  # a cotangent is the conjugate of f'(z) times the result's
            return f"np.conj({bar})"
        return bar + (f" + 1j * turned[{k}]{x.path}" if self._needs_second_sweep(row) else "")

    def _sweep_rows(self, row: LeafText) -> list[str]:
        """Lines that fill the blocks of a leaf of the result, one row per sweep."""
        put = [
            f"  put_row({_matrix(row, x)}, {self._bar(row, k, x)}, row)"
            if x.is_array
            else f"  {_matrix(row, x)}[row, 0] = {self._bar(row, k, x)}"
            for k, x in self.inputs
        ]
        turned = self._needs_second_sweep(row)
        if not row.is_array:
            second = [f"  turned = pullback({self._cotangent(row, '1j')})"] * turned
            first = f"  bars = pullback({self._cotangent(row, '1.0')})"
            return ["for row in range(1):", first, *second, *put]
        entry, cotangent = f"entries_{row.name}[row]", self._cotangent(row, "")
        return [
            f"for row in range({row.text}.size):",
            f"  {entry} = 1.0",
            f"  bars = pullback({cotangent})",
            *[f"  {entry} = 1j", f"  turned = pullback({cotangent})"] * turned,
            f"  {entry} = 0.0",
            *put,
        ]

    def _cotangent(self, row: LeafText, unit: str) -> str:
        """A cotangent of the result; `unit` is that of the leaf `row`, if it is a number."""

        def entry(leaf: LeafText) -> str:
            if leaf.is_array:
                return f"e_{leaf.name}"
            return (unit if leaf == row else "0.0") if leaf.carries else "None"

        return self.texts.rebuilt(self.result, entry, "out")

    def _lanes_of(self, row: LeafText) -> list[str]:
        """Lines that fill the blocks, `WIDTH` rows per sweep; unused lanes stay zero."""
        loop = f"for row in range(0, {row.text}.size, {WIDTH}):"
        second = self._lane_sweep(row, "1j", "1j") if self._needs_second_sweep(row) else []
        return [loop, *self._lane_sweep(row, "1.0", ""), *second]

    def _lane_sweep(self, row: LeafText, unit: str, start: str) -> list[str]:
        """Lines of one sweep, whose derivatives are written into the rows, or added to them."""
        assert self.lanes is not None
        clear = [f"  d{k}_{c}[...] = 0" for k, x in self.inputs if x.is_array for c in range(WIDTH)]
        seed = [f"  set_unit(bars[{c}], row + {c}, {unit})" for c in range(WIDTH)]
        play = f"  found = play_lanes(lanes, target, {_annotated(self.lanes)}, None, tape)"
        put = []
        for c in range(WIDTH):
            put.append(f"  if row + {c} < {row.text}.size:")
            for k, x in self.inputs:
                matrix = _matrix(row, x)
                bar = f"d{k}_{c}" if x.is_array else f"found[{k}][{c}]"
                bar = f"np.conj({bar})" if self.request.holomorphic else bar
                if x.is_array:
                    change = f"add_row({matrix}, {start}, " if start else f"put_row({matrix}, "
                    put.append(f"   {change}{bar}, row + {c})")
                else:
                    change = f"+= {start} *" if start else "="
                    put.append(f"   {matrix}[row + {c}, 0] {change} {bar}")
        return [*clear, *seed, play, *put]

    def arranged(self, block: Block) -> str:
        """The text of the Jacobian, given that of its blocks."""
        return arranged(self.texts, self.result, self.argtypes, self.request, block)

    def result_of(self, row: LeafText, x: LeafText) -> str:
        """The text of a block with the shape `out.shape + x.shape`."""
        return f"shaped({_matrix(row, x)}, {row.text}, {x.text})"

    def result_text(self) -> str:
        """The text of the Jacobian."""
        return self.arranged(self.result_of)

    def compiled(self, name: str, parameters: Sequence[str], lines: Sequence[str]) -> Any:
        """A compiled function whose body is these lines."""
        key = self.argtypes, self.lanes, self.request
        return compiled_lines(self.dispatcher, name, parameters, lines, self._scope, *key)

    @property
    def _scope(self) -> dict[str, Any]:
        """The globals of these functions."""
        scope: dict[str, Any] = {
            **RUN_TIME,
            **self.texts.classes,
            **by_name(Active, BatchDuplicated, ForwardIsShorter, copy_of_shadow),
            **by_name(jacobian_forward, overwrite, passing),
            "np": np,
            "lanes": self.lanes,
            "play_lanes": play,
            "record_lanes": record,
            "spec": self.request,
            "function": self.dispatcher,
            "target": self.dispatcher,
        }
        if self.lanes is None:
            scope["record"] = vjp_stub(self.dispatcher, self.argtypes, self.request.argnums)
        for row in self.outputs:
            own = np.dtype(str(row.number))
            scope[f"dtype_{row.name}"] = own
            for _, x in self.inputs:
                least = np.dtype("c8") if isinstance(x.number, types.Complex) else np.dtype("f4")
                scope[_dtype_name(row, x)] = np.result_type(own, least)
        return scope


def _matrix(row: LeafText, x: LeafText) -> str:
    return f"j_{row.name}_{x.name}"


def _dtype_name(row: LeafText, x: LeafText) -> str:
    return f"dtype_{row.name}_{x.name}"


def _annotated(spec: SplitSpec) -> str:
    """The text of the arguments of both halves, with the shadows of all lanes."""
    items = []
    for k, kind in enumerate(spec.arguments):
        shadows = "".join(f"d{k}_{c}, " for c in range(WIDTH))
        text = {
            "BatchDuplicated": f"BatchDuplicated(x{k}, ({shadows}))",
            "Active": f"Active(x{k})",
        }
        items.append(text.get(kind.__name__, f"x{k}"))
    return ", ".join(items)


class ReverseJacobian(DerivedFunction[..., Any]):
    """What `jacrev` returns."""

    form = staticmethod(jacobian_reverse)
    kind = "jacrev"
    own_options = ("holomorphic",)


give_factory_form(jacrev)
