"""Benchmarks: ratios measured in one run, never absolute times that a test could fail on."""
