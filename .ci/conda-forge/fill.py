"""Print the recipe for the feedstock, with the sha256 of a source distribution:

    python -m build --sdist
    python .ci/conda-forge/fill.py dist/activerules-0.2.0.tar.gz > recipe.yaml

The file beside this one is part of that distribution, so the sum cannot stand in it.
"""

import hashlib
import re
import sys
import tarfile
from pathlib import Path

RECIPE = Path(__file__).with_name("recipe.yaml")
PLACEHOLDER = "0" * 64


def filled(archive: Path) -> str:
    """The text of the recipe; `SystemExit` for a file that is not the source of its version."""
    recipe = RECIPE.read_text()
    [version] = re.findall(r'^  version: "(.*)"$', recipe, re.MULTILINE)
    name = f"activerules-{version}"
    if archive.name != f"{name}.tar.gz":
        raise SystemExit(f"the recipe is for {name}.tar.gz, and this is {archive.name}")
    with tarfile.open(archive) as files:
        metadata = files.extractfile(f"{name}/PKG-INFO").read().decode()
    if f"\nVersion: {version}\n" not in metadata:
        raise SystemExit(f"{archive} is not of version {version}")
    assert recipe.count(PLACEHOLDER) == 1
    return recipe.replace(PLACEHOLDER, hashlib.sha256(archive.read_bytes()).hexdigest())


if __name__ == "__main__":
    print(filled(Path(sys.argv[1])), end="")
