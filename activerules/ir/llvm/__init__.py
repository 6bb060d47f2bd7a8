"""LLVM's text and the engine's own classes for what is in it."""
