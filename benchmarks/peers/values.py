"""Write what JAX computes for each program at a small size, which the tests compare with ours.

python -m benchmarks.peers.values
"""

import json
from pathlib import Path

VALUES = Path(__file__).with_name("values.json")
SIZES = {
    "lse": (3,),
    "gmm": (2, 3, 4),
    "ba": (2, 3, 4),
    "kmeans": (2, 2, 7),
    "llsq": (3, 5),
    "ode": (3, 2),
    "lstm": (2, 2, 4),
    "det": (3,),
    "ht": (2,),
    "saddle": (),
    "particle": (),
}


def main() -> None:
    """Run all programs, one line each."""
    import jax
    import numpy as np

    from benchmarks.peers import in_jax, programs

    lines = []
    for name, size in SIZES.items():
        found = jax.tree.leaves(getattr(in_jax, name)(*programs.arguments(name, size)))
        lines.append(f"{json.dumps(name)}: {json.dumps([np.asarray(x).tolist() for x in found])}")
    VALUES.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
