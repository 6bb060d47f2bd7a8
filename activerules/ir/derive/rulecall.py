"""Moved to `activerules.ir.rulecall`; re-exported until every importer has followed."""

from activerules.ir.rulecall import *  # noqa: F403
