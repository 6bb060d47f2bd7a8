"""From LLVM's text to the normal form: the rewrites that need no analysis."""
