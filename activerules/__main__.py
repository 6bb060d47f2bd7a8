"""`python -m activerules`: see `activerules.explain.command`; `help` works without Numba, too."""

import sys

from activerules.help import main

if sys.argv[1:2] != ["help"]:
    from activerules.explain.command import main

sys.exit(main())
