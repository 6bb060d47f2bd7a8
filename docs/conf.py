"""Sphinx: pages in Markdown, every warning an error (see `make docs`)."""

project = "activerules"
author = "The activerules authors"
extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["build"]
html_theme = "alabaster"
html_theme_options = {"page_width": "1060px", "sidebar_width": "240px"}
# Listings hold IR and shell sessions; a lexer that cannot read one is no error of the page.
suppress_warnings = ["misc.highlighting_failure"]
