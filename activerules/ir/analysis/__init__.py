"""Analyses: each takes a function in normal form and returns frozen facts about it."""
