"""Derivatives asked for by code that is itself differentiated."""
