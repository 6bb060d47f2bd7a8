"""Rewrites that need an analysis; `prepare` runs them, and nothing changes a function later."""
