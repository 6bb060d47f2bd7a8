"""Programs that are not yet supported: refused with an error that says where, never wrong."""

import ctypes
import ctypes.util

import numpy as np
import pytest
from numba import literally, njit, objmode, types
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox

import activerules as ar
from activerules.testing import check_gradient

_libm = ctypes.CDLL(ctypes.util.find_library("m"))
external_cos = _libm.cos
external_cos.argtypes = [ctypes.c_double]
external_cos.restype = ctypes.c_double


@njit
def keys_of_a_dictionary(x):
    d = {x: 1, x * x: 2}
    return d[x] * x


@njit
def sign_bit_flipped(x):
    a = np.empty(1)
    a[0] = x
    bits = a.view(np.int64)
    bits[0] = bits[0] ^ (-9223372036854775808)
    return a[0]


@njit
def bits_as_a_number(x):
    return float(x.view(np.int64)[0])


@njit
def bits_moved_as_integers(x):
    a, b = np.empty(x.size, np.int64), np.empty(x.size, np.int64)
    for i in range(x.size):
        a[i] = np.float64(x[i]).view(np.int64) + 1
    for i in range(x.size):
        b[i] = a[x.size - 1 - i]
    return np.int64(b[0] - 1).view(np.float64) * 2.0


@njit
def fill(a, i, k):
    if i < a.size:
        a[i] = k
        fill(a, i + 1, k)


@njit
def bits_left_by_a_callee(x):
    a, b = np.empty(x.size, np.int64), np.empty(x.size, np.int64)
    for i in range(x.size):
        a[i] = np.float64(x[i]).view(np.int64) + 1
    fill(b, 0, a[1])
    return np.int64(b[0] - 1).view(np.float64) * 2.0


@njit
def read_in_another_precision(x):
    return (x.view(np.float32) ** 2).sum()


@njit
def read_as_bytes_and_as_floats(x):
    return (x.view(np.uint8).view(np.float32) ** 2).sum()


@njit
def written_in_another_precision(x, y):
    x.view(np.float32)[:] = y


_table_first = np.dtype([("table", np.int64, (2,)), ("x", np.float64, (2,))])


@njit
def bits_in_a_view_of_records(x, k):
    cells = np.zeros(2, _table_first)
    cells[0]["x"][:] = x
    return cells[0]["x"][k] * cells.view(np.int64)[k + 2]


@njit
def scaled_by_bits(bits, numbers, scale):
    return (np.int64(bits).view(np.float64) + numbers.view(np.float64)[0]) * scale


@ar.augmented_primal(scaled_by_bits)
def _scaled_augmented(config, ret: ar.Active, bits: ar.Const, numbers: ar.Const, scale: ar.Active):
    r = scaled_by_bits(bits.val, numbers.val, scale.val)
    return ar.AugmentedReturn(r, None, r / scale.val)


@ar.reverse(scaled_by_bits)
def _scaled_reverse(
    config, dret: ar.Active, tape, bits: ar.Const, numbers: ar.Const, scale: ar.Active
):
    return None, None, dret.val * tape


@njit
def bits_passed_to_a_rule(x, scale):
    return scaled_by_bits(np.float64(x * x).view(np.int64), np.zeros(1, np.int64), scale)


@njit
def array_passed_to_a_rule_as_integers(x, scale):
    return scaled_by_bits(0, (x * np.ones(1)).view(np.int64), scale)


@njit
def external(x):
    return external_cos(x) * x


REFUSED = [
    (keys_of_a_dictionary, (1.3,), ar.UnknownCall),
    (sign_bit_flipped, (1.3,), ar.FloatBitsInInteger),
    (bits_as_a_number, (np.array([1.0, 2.0]),), ar.FloatBitsInInteger),
    (bits_moved_as_integers, (np.array([1.0, 2.0]),), ar.FloatBitsInInteger),
    (bits_left_by_a_callee, (np.array([1.0, 2.0]),), ar.FloatBitsInInteger),
    (read_in_another_precision, (np.array([1.0, 2.0]),), ar.FloatBitsInInteger),
    (read_as_bytes_and_as_floats, (np.array([1.0, 2.0]),), ar.FloatBitsInInteger),
    (written_in_another_precision, (np.array([1.0, 2.0]), 1.5), ar.FloatBitsInInteger),
    (bits_in_a_view_of_records, (np.array([1.0, 2.0]), 0), ar.FloatBitsInInteger),
    (bits_passed_to_a_rule, (1.3, 2.0), ar.FloatBitsInInteger),
    (array_passed_to_a_rule_as_integers, (1.3, 2.0), ar.UnsupportedIR),
    (external, (1.3,), ar.UnknownCall),
]


@pytest.mark.parametrize(("program", "args", "error"), REFUSED)
def test_refused_with_the_line(program, args, error):
    """The error names this file; support for a program moves it to its family."""
    with pytest.raises(error, match=r"test_refused\.py:\d+"):
        check_gradient(program, args)


@njit
def returned_in_another_precision(x):
    return (x * 2.0).view(np.float32)


@njit
def read_from_its_buffer(x):
    return np.frombuffer(x, dtype=np.float32)


_pairs = np.dtype([("low", np.float32), ("high", np.float32)])


@njit
def returned_as_records(x):
    return x.view(_pairs)["high"]


@pytest.mark.parametrize(
    "program", [returned_in_another_precision, read_from_its_buffer, returned_as_records]
)
def test_inactive_values_v3_views_as_results(program):
    x = np.array([1.0, 2.0])
    for derive in (lambda f: ar.vjp(f, x), lambda f: ar.jvp(f, (x,), (x,))):
        with pytest.raises(ar.FloatBitsInInteger, match="another precision"):
            derive(program)
    same = ar.vjp(njit(lambda x: x.view(np.complex128)), x)
    np.testing.assert_array_equal(same[1](np.array([3.0 + 4.0j]))[0], [3.0, 4.0])


@njit
def with_constants_in_another_precision(x, packed):
    scratch = np.zeros(2)
    scratch.view(np.float32)[1] = 1.0
    return (packed.view(np.float32) * x).sum() + x[0] * scratch[0]


def test_inactive_values_v3_views_of_constants():
    x, packed = np.array([1.0, 2.0]), np.array([3.0, 4.0], np.float32).view(np.float64)
    scratch = np.array([0.0, 1.0], np.float32).view(np.float64)[0]
    for gradient in (
        ar.grad(with_constants_in_another_precision)(x, packed),
        ar.jacfwd(with_constants_in_another_precision)(x, packed),
    ):
        np.testing.assert_allclose(gradient, [3.0 + scratch, 4.0], rtol=1e-12)


@njit
def interpreted(x):
    with objmode(y="float64"):
        y = float(np.cos(x))
    return y * x


@ar.inactive
@njit
def printed(n):
    with objmode():
        print(n)


@njit
def printing(x):
    printed(x.size)
    return (x * x).sum()


class Names(tuple):
    """A value whose Numba type is a literal that is the type of its own value, as packages have."""


class NamesType(types.Literal, types.Dummy):
    pass


register_model(NamesType)(models.OpaqueModel)


@typeof_impl.register(Names)
def typeof_names(value, _context):
    return NamesType(value)


@unbox(NamesType)
def unbox_names(_ty, _value, c):
    return NativeValue(c.context.get_dummy_value())


@njit
def scaled_by_one_of(x, n, names):
    return x * literally(n)


@njit
def scaled(x, n):
    return x * literally(n)


def test_refused_before_the_engine():
    with pytest.raises(ar.NotYetSupported, match=r"objmode(.|\n)*interpreted(.|\n)*ar\.inactive"):
        ar.grad(interpreted)(1.5)
    with pytest.raises(ar.NotCompilable, match="no numbers of type float16"):
        ar.grad(lambda x: x * x)(np.float16(1.5))
    with pytest.raises(ar.NotCompilable, match=r"literally\(n\)(.|\n)*lambda x: scaled\(x, 3\)"):
        ar.grad(scaled)(1.5, 3)
    assert ar.grad(lambda x: scaled(x, 3))(1.5) == 3.0
    with pytest.raises(ar.NotCompilable, match=r"literally\(n\)"):
        ar.grad(scaled_by_one_of)(1.5, 3, Names(["a"]))
    np.testing.assert_array_equal(ar.grad(printing)(np.array([1.0, 3.0])), [2.0, 6.0])
