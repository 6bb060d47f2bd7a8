"""The derivative of each instruction, and what a rule is to the engine."""
