"""`python -m activerules`: see `activerules.explain.command`."""

import sys

from activerules.explain.command import main

sys.exit(main())
