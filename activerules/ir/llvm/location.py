"""Where in the user's source an instruction came from, read from its `!dbg` metadata.

An inlined instruction has a chain of positions. The innermost one outside hidden directories is
reported: users recognise lines of their own code, not of Numba's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from activerules.ir.llvm.model import Instruction, Module

_DEFINITION = re.compile(r"(!\d+) = (?:distinct )?!(DI\w+)\((.*)\)\s*$")
_FIELD = re.compile(r'(\w+): ("[^"]*"|[^,"]+)')
_ATTACHED = re.compile(r"!dbg (!\d+)")

Node = dict[str, str]


class Locator:
    """Finds positions for the instructions of one module.

    `hidden` are directories of files that are not the user's; by default those of Numba and of
    activerules, which replaces some of Numba's functions.
    """

    def __init__(self, module: Module, hidden: Sequence[str] | None = None) -> None:
        self._hidden = tuple(_directories() if hidden is None else hidden)
        self._nodes: dict[str, Node] = {}
        for line in module.trailer:
            if match := _DEFINITION.match(line):
                fields = {k: v.strip().strip('"') for k, v in _FIELD.findall(match[3])}
                self._nodes[match[1]] = {"kind": match[2], **fields}

    def of(self, instruction: Instruction) -> str:
        """`file.py:12`, or `""` if the module does not say; the file as `readable_path` has it."""
        position = self.position(instruction)
        return f"{readable_path(position[0])}:{position[1]}" if position is not None else ""

    def position(self, instruction: Instruction) -> tuple[str, str] | None:
        """The file and the line; None if the module does not say.

        Without a position of its own an instruction has that of its function.
        """
        block = instruction.parent
        function = block.parent if block is not None else None
        suffix = function.suffix if function is not None else ""
        for text in (instruction.attributes.get("metadata", ""), suffix):
            attached = _ATTACHED.search(text)
            if attached and (positions := self._positions(attached[1])):
                return next((p for p in positions if not self.is_hidden(p[0])), positions[-1])
        return None

    def _positions(self, name: str) -> list[tuple[str, str]]:
        """(file, line) of the node, innermost first."""
        positions: list[tuple[str, str]] = []
        node = self._nodes.get(name)
        while node is not None:
            file = self._file(node)
            if file:
                positions.append((file, node.get("line", "0")))
            node = self._nodes.get(node.get("inlinedAt", ""))
        return positions

    def _file(self, node: Node) -> str:
        scope: Node | None = node
        while scope is not None and "file" not in scope:
            scope = self._nodes.get(scope.get("scope", ""))
        file = self._nodes.get(scope["file"]) if scope is not None else None
        return str(Path(file.get("directory", ""), file["filename"])) if file is not None else ""

    def is_hidden(self, file: str) -> bool:
        """Whether a file is not the user's."""
        return file.startswith(self._hidden)


def _directories() -> list[str]:
    specs = filter(None, map(find_spec, ("numba", "activerules")))
    return [f"{path}/" for spec in specs for path in spec.submodule_search_locations or ()]


def readable_path(file: str) -> str:
    """A file relative to the working directory if it lies in it, else as it is."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
