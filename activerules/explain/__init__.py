"""Reports on derivatives: `explain` shows how one is computed, `tape_bytes` the size of its tape.

`arguments` reads the question; `collect` assigns every fact of the plan to its line of source;
`report` is the result as plain data, which `sections`, `text` and `html` print; `tape` counts the
bytes of the tape in a run.
"""
