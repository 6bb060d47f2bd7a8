"""Sphinx: pages in Markdown, every warning an error (see `make docs`).

Set ACTIVERULES_DOCS_ONLINE=1 to link the types of Numba, NumPy and SciPy to their documentation.
Without it the build needs no network.
"""

import os
import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

project = "activerules"
author = "The activerules authors"
version = release = version_of("activerules")
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "docstrings",
]
exclude_patterns = ["build", "_ext"]
# Listings hold IR and shell sessions; a lexer that cannot read one is no error of the page.
# Cached pages of a gallery with functions in its settings cannot be compared: no error either.
suppress_warnings = ["misc.highlighting_failure", "config.cache"]

# Annotations link to the types of other projects where these can be looked up.
if os.environ.get("ACTIVERULES_DOCS_ONLINE"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "numba": ("https://numba.readthedocs.io/en/stable", None),
    }

# Annotations name what is documented elsewhere, or is no part of the interface.
nitpick_ignore_regex = [
    ("py:class", r"(collections|numpy|numba|typing|types)\..*"),
    ("py:class", r"[A-Z]|activerules\.\w+\..*"),
]

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

autosummary_generate = True
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "gallery_order.InOrder",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "capture_repr": (),
    "thumbnail_size": (480, 320),
    "write_computation_times": False,
}

templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_title = "activerules"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {"start": [], "limits": [], "performance": [], "gallery/index": []}
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
