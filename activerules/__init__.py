"""Gradients of Numba functions at LLVM level, with hand-written rules chosen by activity.

    import activerules as ar

    ar.grad(f)(x)                                        the gradient of a function of one float
    ar.autodiff(ar.Reverse, f, ar.Duplicated(x, dx))     adds ∂f/∂x to `dx`
    @ar.augmented_primal(f), @ar.reverse(f)              a rule for `f`

The documentation is in docs/, the design in docs/design.md. Without Numba only `activerules.ir`,
derivatives of LLVM IR, can be used.

The first use of a public name loads all of them: a package that only defines rules imports
`activerules.annotations` and `activerules.rules` alone, which is cheaper.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from activerules.process_memory import few_collections

if TYPE_CHECKING:
    from activerules import annotations, chainrules, errors, ir, rules, testing  # noqa: F401
    from activerules.interface import *  # noqa: F403

__version__ = "0.2.0"


class _Package(ModuleType):
    """The package as a module whose public names are those of `activerules.interface`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name not in _CALLABLE_MODULES and find_spec(f"{self.__name__}.{name}") is not None:
            return import_module(f"{self.__name__}.{name}")
        with few_collections():  # a third of the time
            interface = import_module("activerules.interface")
        if "__all__" not in vars(self):
            vars(self).update({k: v for k, v in vars(interface).items() if k in interface.__all__})
            self.__all__ = interface.__all__
            import_module("activerules.rules.plugins").load_once()
        if name not in vars(self) and name in interface.__all__:
            setattr(self, name, getattr(interface, name))
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, unless it is a submodule that would hide a function of its name."""
        if isinstance(value, ModuleType) and name in _CALLABLE_MODULES:
            return
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by name, as cloudpickle does with modules that are no more than that."""
        return import_module, (self.__name__,)

    def __dir__(self) -> list[str]:
        """The public names only; others are for the package itself."""
        special = (name for name in vars(self) if name.startswith("__"))
        return sorted({*special, *self.__all__, *_PUBLIC_MODULES})


_PUBLIC_MODULES = ("annotations", "chainrules", "errors", "interop", "ir", "rules", "testing")

# Packages that have the same name as a public function.
_CALLABLE_MODULES = frozenset({"explain"})

sys.modules[__name__].__class__ = _Package
