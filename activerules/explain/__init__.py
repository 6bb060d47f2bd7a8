"""Seeing what happened: `explain` reports how a derivative comes about, `tape_bytes` what it keeps.

`arguments` reads what is asked; `collect` puts every fact of the plan to its line of source;
`report` is the result as plain data, which `sections`, `text` and `html` print; `tape` counts the
bytes of the tape in a run; `command` is the command line.
"""
