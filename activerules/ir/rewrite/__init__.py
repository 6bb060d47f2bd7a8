"""Rewrites that need an analysis: `prepare` runs them; behind it a function stays as it is."""
