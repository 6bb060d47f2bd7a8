"""The derivative of each instruction, and the interface of the engine to rules."""
