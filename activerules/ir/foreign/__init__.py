"""What only LLVM IR of other compilers needs, and the engine's entry for it, `differentiate`.

`activerules.ir` is public for IR of any front end: clang passes structs by value, returns complex
numbers from its run time, and vectorises with masks; C++ and Rust call through tables, have
allocators of their own, and abort in functions that never return; Swift's names have escapes.
Nothing of it is imported when Numba functions are differentiated, and the engine knows none of it:
each module here turns the text of such a module into what the engine reads anyway, or refuses it
where LLVM would end the process (`scalable`).
"""
