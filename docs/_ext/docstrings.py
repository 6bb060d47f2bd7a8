"""Docstrings of activerules as reStructuredText.

A docstring is plain text for `help()`: names in backticks, and sections that are a word (Arguments,
Returns, Raises, Cost, Source) and an indented block, with entries in columns:

    Arguments
        function  an `@njit` function or a plain one; a second line
                  stands under the first.
"""

import re
import textwrap

import activerules as ar

ERRORS = [name for name in dir(ar) if isinstance(getattr(ar.errors, name, None), type)]
ERROR = re.compile(rf"\b({'|'.join(ERRORS)})\b")
SECTION = re.compile(r"^(Arguments|Returns|Raises|Cost|Source|Fields)\b(?:  +(.*))?\.?$")
ENTRY = re.compile(r"^(\S(?:[^ ]| (?! ))*?)  +(\S.*)$")


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def process(app, what, name, obj, options, lines):
    """Rewrite the lines of a docstring in place, before Sphinx reads them."""
    lines[:] = rewritten(lines)


def rewritten(lines):
    """The lines in reStructuredText, section by section and paragraph by paragraph."""
    out, k = [], 0
    lines = _whole_names(lines)
    while k < len(lines):
        section = SECTION.match(lines[k])
        if section:
            block, k = _indented(lines, k + 1)
            title, rest = section.groups()
            if rest:
                block = [rest, *block]
            out += ["", f".. rubric:: {title}", "", *_block(block), ""]
        elif lines[k].startswith("    ") and not _in_doctest(out):
            block, k = _indented(lines, k)
            out += ["", *_block(block), ""]
        else:
            out.append(lines[k] if lines[k].startswith(">>>") else _inline(lines[k]))
            k += 1
    return out


def _whole_names(lines):
    """The lines, with one that ends inside of backticks joined to the next."""
    out = []
    for line in lines:
        if out and out[-1].count("`") % 2:
            out[-1] += " " + line.strip()
        else:
            out.append(line)
    return out


def _in_doctest(out):
    """Whether the last paragraph is an example, whose output may be indented."""
    for line in reversed(out):
        if not line.strip():
            return False
        if line.startswith(">>>"):
            return True
    return False


def _indented(lines, k):
    """The indented lines from k on, without their indent, and where they end."""
    start = k
    while k < len(lines) and (not lines[k].strip() or lines[k].startswith("    ")):
        k += 1
    block = textwrap.dedent("\n".join(lines[start:k])).strip("\n").splitlines()
    return block, k


def _block(block):
    """Entries in columns become a definition list; anything else is paragraphs."""
    out, column = [], None
    for line in block:
        entry = ENTRY.match(line)
        if entry and (column is None or line[column - 1] == " " or " " not in entry[1]):
            column = column or entry.start(2)
            out += ["", _term(entry[1]), "   " + _inline(entry[2])]
        elif column and re.match(rf"\S{{{column - 1}}} \S", line):  # a name as long as the column
            out += ["", _term(line[: column - 1]), "   " + _inline(line[column:])]
        elif column is not None and line.startswith(" ") and line.strip():
            out.append("   " + _inline(line.strip()))
        else:
            out += [""] if column is not None else []
            column = None
            out.append(_inline(line.strip()))
    return out


def _term(text):
    """The name of an entry, as code."""
    return f"``{text.strip('`')}``"


def _inline(line):
    """Code in single backticks is code; signs that mean something to Sphinx mean themselves; errors
    are links to their pages.
    """
    parts = re.split(r"(``[^`]+``|`[^`]+`|(?<!\w)\*[a-z][a-z ]*\*)", line)
    for k, part in enumerate(parts):
        if part.startswith("`"):
            parts[k] = f"``{part.strip('`')}``" + "\\ " * parts[k + 1][:1].isalpha()
        elif k % 2 == 0:
            part = re.sub(r"[*|\\](?=\S)|_\b", _escaped, part)
            parts[k] = ERROR.sub(r":exc:`~activerules.\1`", part)
    return "".join(parts)


def _escaped(match):
    return "\\" + match[0]
