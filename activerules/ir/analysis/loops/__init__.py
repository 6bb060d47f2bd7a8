"""Subscripts, trip counts, dependence."""
