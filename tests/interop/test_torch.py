"""Functions as tensors see them: PyTorch's own checks of first and second derivatives."""

import tracemalloc

import numpy as np
import pytest
from numba import njit

import activerules as ar
from tests.interop.programs import energy, filtered

torch = pytest.importorskip("torch")

from activerules.interop import torch as bridge  # noqa: E402 (after the check that it is there)

# PyTorch's own, where it loads its rules for forward mode
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")


wrapped, tuple_of_three = bridge.wrap(energy), bridge.wrap(filtered)


def tensor(*shape, seed=0, dtype=torch.float64):
    return torch.randn(
        shape, dtype=dtype, generator=torch.Generator().manual_seed(seed), requires_grad=True
    )


X, A = tensor(4), tensor(seed=1)


def test_first_derivatives_of_a_number():
    assert wrapped.__name__ == "energy"
    assert torch.autograd.gradcheck(lambda x, a: wrapped(x, a, 2), (X, A), check_forward_ad=True)


def test_second_derivatives_of_a_number():
    assert torch.autograd.gradgradcheck(
        lambda x, a: wrapped(x, a, 2), (X, A), check_fwd_over_rev=True
    )


def test_derivatives_of_several_results():
    def floats(x, a):
        return tuple_of_three(x, a)[:2]

    assert torch.autograd.gradcheck(floats, (X, A), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(floats, (X, A))
    count = tuple_of_three(X, A)[2]
    assert (count.dtype, count.requires_grad) == (torch.int64, False)


def test_a_literal_integer_beside_other_results():
    @njit
    def doubled(x):
        return 2.0 * x, 3, True

    y, *constant = bridge.wrap(doubled)(X)
    assert [(x.item(), x.dtype) for x in constant] == [(3, torch.int64), (True, torch.bool)]
    assert torch.autograd.grad(y.sum(), X)[0].tolist() == [2.0] * 4


def test_complex_numbers():
    @njit
    def overlap(z, r):
        return (z * np.conj(z) * r).sum() * z[0]

    z = tensor(3, dtype=torch.complex128)
    assert torch.autograd.gradcheck(bridge.wrap(overlap), (z, tensor(3)), check_forward_ad=True)
    conjugated = z.detach().conj()  # lazy: its memory holds z
    found = bridge.wrap(overlap)(conjugated, X[:3].detach())
    expected = overlap(np.conj(z.detach().numpy()), X[:3].detach().numpy())
    assert found.item() == pytest.approx(expected)


def test_transformations_of_torch_func():
    x, rows = X.detach(), torch.stack([X.detach(), 2.0 * X.detach()])
    exact = torch.from_numpy(ar.hessian(energy)(x.numpy(), 1.3, 2))
    transform = torch.func

    def of_x(x):
        return wrapped(x, 1.3, 2)

    torch.testing.assert_close(transform.hessian(of_x)(x), exact)
    torch.testing.assert_close(transform.jacrev(transform.jacrev(of_x))(x), exact)
    slopes = torch.stack([torch.from_numpy(ar.grad(energy)(r.numpy(), 1.3, 2)) for r in rows])
    torch.testing.assert_close(transform.vmap(transform.grad(of_x))(rows), slopes)
    torch.testing.assert_close(transform.vmap(of_x, 1)(rows.T)[1], of_x(rows[1]))


def test_contiguous_memory_is_not_copied():
    """Copies are made by NumPy, and gradients by Numba: `tracemalloc` sees both."""

    @njit
    def squares(x):
        s = 0.0
        for row in range(x.shape[0]):
            s += x[row, 0] * x[row, 1]
        return s

    wrapped, size = bridge.wrap(squares), 1_600_000

    def peak(x, action):
        action(x)
        x.grad = None
        tracemalloc.start()
        action(x)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    x = torch.ones(100_000, 2, dtype=torch.float64)
    across = torch.ones(2, 100_000, dtype=torch.float64).T
    assert peak(x, wrapped) < 0.1 * size < size < peak(across, wrapped)
    # the gradient, and what the pullback keeps of `x` for its reverse sweep
    assert peak(x.requires_grad_(), lambda x: wrapped(x).backward()) < 2.1 * size


def test_no_tensor_is_changed_or_shared():
    @njit
    def spoils(x):
        x *= 2.0
        return x

    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    out = bridge.wrap(spoils)(x)
    out.sum().backward()
    assert x.tolist() == [1.0] * 3
    assert x.grad.tolist() == out.tolist() == [2.0] * 3
    same = bridge.wrap(lambda x: x)(x.detach())
    same += 1.0
    assert x.tolist() == [1.0] * 3


def test_strided_expanded_and_read_only_memory():
    base = tensor(8)
    found = torch.autograd.grad(wrapped(base[::2], A, 2), base)[0]
    direct = torch.autograd.grad(wrapped(base[::2].clone(), A, 2), base)[0]
    torch.testing.assert_close(found, direct)
    one = tensor(1)
    assert torch.autograd.gradcheck(lambda x: wrapped(x.expand(3), 0.5, 3), (one,))
    constant = np.linspace(0.1, 1.0, 4)
    constant.setflags(write=False)
    assert wrapped(constant, 0.5, 2).item() == energy(constant, 0.5, 2)


def test_a_function_with_declared_signatures():
    @njit("float64(float64[:], float64)")
    def declared(x, a):
        return a * (x * x).sum()

    assert torch.autograd.gradcheck(bridge.wrap(declared), (X, A))


def test_only_what_requires_a_gradient_is_differentiated():
    data = torch.linspace(0.0, 1.0, 4, dtype=torch.float64)
    wrapped(data, A, 2).backward()
    assert data.grad is None
    assert not wrapped(data, 1.0, 2).requires_grad
    with torch.no_grad():
        assert not wrapped(X, A, 2).requires_grad
    A.grad = None


def test_a_graph_is_used_up_and_changes_are_seen():
    out = wrapped(X * 1.0, 1.0, 2)
    out.backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()
    X.grad = None
    twice = wrapped(X, 1.0, 2)
    twice.backward(retain_graph=True)
    twice.backward()
    torch.testing.assert_close(X.grad, 2.0 * torch.autograd.grad(wrapped(X, 1.0, 2), X)[0])
    X.grad = None
    moved = X * 1.0
    out = wrapped(moved, 1.0, 2)
    with torch.no_grad():
        moved += 1.0
    with pytest.raises(RuntimeError, match="inplace"):
        out.backward()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(3), "`x` is an array of float32"),
        (torch.ones(3, dtype=torch.bfloat16), "`x` is an array of bfloat16"),
        (torch.ones(3, dtype=torch.float64, device="meta"), "strided on meta"),
        (torch.eye(3, dtype=torch.float64).to_sparse(), "sparse"),
        ("abc", "`x` is an object of type str"),
    ],
)
def test_a_tensor_that_compiled_code_cannot_take(x, message):
    with pytest.raises(ar.ForeignArrayError, match=message):
        wrapped(x, 1.0, 2)


def test_integers_are_constant():
    whole = torch.arange(4)
    assert not wrapped(whole, 1.0, 2).requires_grad
    out = wrapped(whole, A, 2)
    assert torch.autograd.grad(out, A)[0].item() == ar.grad(energy, 1)(np.arange(4), A.item(), 2)


def test_other_bad_input():
    with pytest.raises(ar.ArityError):
        wrapped(X)
    with pytest.raises(ar.NotCompilable):
        bridge.wrap(torch.sin)
    with pytest.raises(ar.NotAFloatReturn, match="returns str"):
        bridge.wrap(lambda x: "abc")(X)
    assert wrapped(X, n=2, a=1.0).item() == energy(X.detach().numpy(), 1.0, 2)


def test_a_function_that_numba_refuses():
    def opened(x):
        return open(x)

    with pytest.raises(ar.NotCompilable, match=r"Numba cannot compile opened\(array"):
        bridge.wrap(opened)(X)
