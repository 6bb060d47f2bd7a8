"""What is done to the text of LLVM IR before it is parsed, LLVM's own passes among it."""
