"""Arguments whose arrays or lists a function replaces."""
