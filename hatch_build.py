"""The description on PyPI: the README without its links to files of the source.

From there they would lead nowhere, as the source has no public address yet. Once it has one, they
become links to it, and `pyproject.toml` gets `[project.urls]`.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

FILE_LINK = re.compile(r"\[([^]]+)\]\((?!https?:)[^)]+\)")


class Description(MetadataHookInterface):
    """Sets the field `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Hatchling calls this for wheels, source distributions and editable installs."""
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = FILE_LINK.sub(r"\1", readme)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
