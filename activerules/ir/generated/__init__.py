"""Rewrites of generated code, before it is printed."""
