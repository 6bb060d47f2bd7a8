"""Rewrites that need an analysis; they end before planning begins."""
