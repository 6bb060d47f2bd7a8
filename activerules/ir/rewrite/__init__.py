"""Rewrites that need an analysis: `plan.prepare` runs them; behind it a function stays as it is."""
