"""Tangents that are not numbers: two zeros, a one, and a derivative that is not implemented.

    ZeroTangent()   the additive identity: the derivative is zero.
    NoTangent()     there is no derivative: of an index, a size, a function without data.
    One()           the multiplicative identity.
    NotImplementedTangent(info)   the derivative exists, but the rule does not have it: computing
                    with it raises an error that says so.

They can be added to each other and to every primal, and scaled, at no cost. The sum of two
different ones is the more informative: NotImplementedTangent before NoTangent before ZeroTangent.
Arrays defer to them: `np.ones(3) + ZeroTangent()` is the array itself.

Source  the tangent types of ChainRulesCore.jl, formerly called Zero, DoesNotExist and One.
"""

from __future__ import annotations

from typing import Any, NoReturn

from activerules.errors import TangentNotImplemented

LINEAR = ("dot", "vdot", "outer", "sum")
"""Functions of NumPy that give zero for a zero among their arguments."""


class AbstractTangent:
    """Base class of all tangents that are not numbers, arrays or tuples of them."""

    # NumPy's operators defer to an operand with this set: `array + tangent` calls our `__radd__`.
    __array_ufunc__ = None
    __slots__ = ()

    def __sub__(self, other: Any) -> Any:
        """`a - b` is `a + (-b)`."""
        return self + (-other)

    def __rsub__(self, other: Any) -> Any:
        """`a - b` is `a + (-b)`, also where only `b` is a tangent of ours."""
        return other + (-self)

    def __pos__(self) -> Any:
        return self

    def __neg__(self) -> Any:
        """Scale by -1."""
        itself: Any = self
        return itself * -1.0


class _Identity(AbstractTangent):
    """A tangent without data: one object, equal to itself only."""

    __slots__ = ()
    _instance: Any = None

    def __new__(cls) -> Any:
        """Return the one object there is."""
        if cls.__dict__.get("_instance") is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __reduce__(self) -> Any:
        return type(self), ()

    def conjugate(self) -> Any:
        """Conjugation does not change it."""
        return self

    @property
    def real(self) -> Any:
        """The real part is the tangent itself."""
        return self


class _Zero(_Identity):
    """What the two zeros share: they vanish in sums, and stay in products."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return other

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        return self

    __rmul__ = __matmul__ = __rmatmul__ = __truediv__ = __mul__

    def __array_function__(self, function: Any, _: Any, args: Any, kwargs: Any) -> Any:
        """NumPy's linear functions map a zero to zero; others treat it as any object."""
        if function.__name__ in LINEAR:
            return self
        return function._implementation(*args, **kwargs)

    def __neg__(self) -> Any:
        return self

    def __getitem__(self, index: Any) -> Any:
        return self

    # A zero has as many entries as asked for: by `__getitem__` alone its iteration would not end.
    __iter__ = None

    def __bool__(self) -> bool:
        return False

    def __float__(self) -> float:
        return 0.0

    def __complex__(self) -> complex:
        return 0j

    @property
    def imag(self) -> Any:
        """The imaginary part of a zero is the same zero."""
        return self


class ZeroTangent(_Zero):
    """The zero of every tangent space."""

    __slots__ = ()


class NoTangent(_Zero):
    """The tangent of what cannot be varied: integers, strings, a function without data."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        # Of ZeroTangent and NoTangent, the latter is the more informative sum.
        return self if isinstance(other, ZeroTangent) else other

    __radd__ = __add__


class One(_Identity):
    """The multiplicative identity: `One() * x` is `x` itself."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        if isinstance(other, _Zero):
            return self
        return 2.0 if other is self else 1.0 + other

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        return other

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self if other is self else 1.0 / other

    def __rtruediv__(self, other: Any) -> Any:
        return other

    def __neg__(self) -> Any:
        return -1.0

    def __float__(self) -> float:
        return 1.0

    def __complex__(self) -> complex:
        return 1 + 0j

    @property
    def imag(self) -> Any:
        """The imaginary part of one is zero."""
        return ZeroTangent()


class NotImplementedTangent(AbstractTangent):
    """A derivative that the author of a rule left out; `info` says where it is discussed.

    The sum with a zero is the tangent itself. Any other computation with it raises
    `TangentNotImplemented`: the derivative asked for depends on it.
    """

    __slots__ = ("info",)

    def __init__(self, info: str = "") -> None:
        self.info = info

    def __repr__(self) -> str:
        return f"NotImplementedTangent({self.info!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NotImplementedTangent) and other.info == self.info

    def __hash__(self) -> int:
        return hash((NotImplementedTangent, self.info))

    def __add__(self, other: Any) -> Any:
        return self if isinstance(other, _Zero | NotImplementedTangent) else self.refuse()

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        # Zero times an unknown finite derivative is zero: an unused cotangent must not raise.
        return other if isinstance(other, _Zero) else self.refuse()

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self

    def __truediv__(self, other: Any) -> Any:
        return self.refuse()

    __rtruediv__ = __matmul__ = __rmatmul__ = __getitem__ = __truediv__

    def __float__(self) -> float:
        return self.refuse()

    def conjugate(self) -> Any:
        """The conjugate is not implemented either."""
        return self

    def refuse(self) -> NoReturn:
        """Raise `TangentNotImplemented`."""
        raise TangentNotImplemented(
            "the result depends on a derivative that its rule does not have",
            why=self.info,
            instead=["write that derivative in the rule", "make the argument Const"],
        )


def is_zero(tangent: Any) -> bool:
    """Return whether a tangent is symbolically zero: ZeroTangent, NoTangent or None."""
    return tangent is None or isinstance(tangent, _Zero)


def conjugate(tangent: Any) -> Any:
    """The complex conjugate of any tangent."""
    return tangent.conjugate() if hasattr(tangent, "conjugate") else tangent
