"""Write docs/numba_names.json: since which release of Numba the names of docs/numba_private.md are
there. Run by hand, where a name or a release is new:

    pip download --no-deps --dest wheels numba==0.62.1 ...
    python docs/look_up_numba_names.py wheels/*.whl
"""

import ast
import json
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from generate_numba_private import NAMES, attributes, names

_REDIRECTED = re.compile(r'_RedirectSubpackage\(locals\(\), "([\w.]+)"')


class Release:
    """The sources of Numba in a wheel, and its extension modules."""

    def __init__(self, wheel: Path) -> None:
        self.version = wheel.name.split("-")[1]
        with zipfile.ZipFile(wheel) as files:
            self._sources = {
                file: files.read(file).decode()
                for file in files.namelist()
                if file.startswith("numba/") and file.endswith(".py")
            }
            self._compiled = {
                file.partition(".")[0].replace("/", "."): files.read(file)
                for file in files.namelist()
                if file.startswith("numba/") and file.endswith(".so")
            }
        self._words = set(re.findall(r"\w+", "\n".join(self._sources.values())))
        self._defined: dict[str, set[str]] = {}

    def has_name(self, name: str) -> bool:
        """Whether a module defines or imports a name, itself or by a `*`, or is that name. A
        compiled module has the names of its functions as texts.
        """
        module, _, own = name.rpartition(".")
        if module in self._compiled:
            return own.encode() + b"\0" in self._compiled[module]
        return own in self._names_in(module) or bool(self._file(name))

    def has_word(self, attribute: str) -> bool:
        """Whether an attribute is anywhere in the sources."""
        return attribute in self._words

    def _file(self, module: str) -> str:
        path = module.replace(".", "/")
        return self._sources.get(f"{path}.py", "") or self._sources.get(f"{path}/__init__.py", "")

    def _names_in(self, module: str) -> set[str]:
        if module not in self._defined:
            source = self._file(module)
            redirected = _REDIRECTED.search(source)
            self._defined[module] = self._names_in(redirected[1]) if redirected else set()
            for name in defined(ast.parse(source)):
                imported = self._names_in(name.removesuffix(".*")) if ".*" in name else {name}
                self._defined[module] |= imported
        return self._defined[module]


def defined(tree: ast.Module) -> Iterator[str]:
    """The names that a module gives something to; `package.*` where it imports all of one."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=module, names=[ast.alias(name="*")]):
                yield f"{module}.*"
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name for alias in aliases)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case _:
                pass


def since(releases: list[Release], is_there: Callable[[Release], bool]) -> str | None:
    """The first release from which on something is there; None if it is not in the last."""
    first = None
    for release in reversed(releases):
        if not is_there(release):
            break
        first = release.version
    return first


def main(wheels: list[str]) -> None:
    """Look all names up, and write what was found."""
    releases = sorted(
        (Release(Path(wheel)) for wheel in wheels),
        key=lambda release: [int(part) for part in release.version.split(".")],
    )
    found = {
        "releases": [release.version for release in releases],
        "names": {n: since(releases, lambda r, n=n: r.has_name(n)) for n in names()},
        "attributes": {a: since(releases, lambda r, a=a: r.has_word(a)) for a in attributes()},
    }
    NAMES.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
