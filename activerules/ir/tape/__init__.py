"""The run time of generated code: the tape, as LLVM IR."""
