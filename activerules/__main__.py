"""`python -m activerules`: see `activerules.command.main`."""

import sys

from activerules.command.main import main

sys.exit(main())
