"""Derivatives inside code that is itself differentiated."""
