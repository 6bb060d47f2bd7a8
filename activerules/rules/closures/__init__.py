"""Conversion of rules with a closure, `f, *x -> y, pullback`, to explicit pairs; see `convert`."""
