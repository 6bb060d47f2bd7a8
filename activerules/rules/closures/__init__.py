"""Rules written with a closure, `f, *x -> y, pullback`, as explicit pairs; see `convert`."""
