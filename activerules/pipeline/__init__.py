"""From a function and what is asked of it to a compiled derivative: the stages, in order."""
