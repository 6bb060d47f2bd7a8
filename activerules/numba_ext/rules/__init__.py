"""Rules, typed and compiled to the engine's convention."""
