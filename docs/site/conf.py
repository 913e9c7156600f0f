"""Settings of Sphinx for the site, whose source folder is the root of the project: ``make docs``."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT), str(Path(__file__).parent)]

project = "mtpp"
author = "the mtpp authors"
version = release = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["version"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "mathml",
    "pictures",
    "public_names",
    "verbs",
    "verdicts",
    "speed",
]
root_doc = "docs/site/contents"
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md", "notebooks/*.ipynb"]
exclude_patterns = [".*", "build", "dist", "results", "**/.ipynb_checkpoints"]

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 4
smartquotes_action = "qe"  # dashes of options stay
nb_execution_mode = "off"  # notebooks are committed as executed
verdicts_file = "experiments/studies/papers/evidence/quick/verdicts.json"  # seen from the root of the project

default_role = "code"
add_module_names = False
autodoc_typehints = "none"  # the docstrings say types, with shapes and units
autodoc_member_order = "groupwise"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_preprocess_types = True
napoleon_type_aliases = {letter: f"*{letter}*" for letter in "knm"}  # of shapes; also attributes of several types

html_theme = "furo"
pygments_dark_style = "monokai"
html_title = f"mtpp {release}"
html_static_path = ["theme.css", "copy.js"]
html_css_files = ["theme.css"]
html_js_files = ["copy.js"]
html_theme_options = {
    "light_css_variables": {"verdict-holds": "#0a6b2d", "verdict-fails": "#b3261e"},
    "dark_css_variables": {"verdict-holds": "#6fd08c", "verdict-fails": "#ff8a80"},
}
html_math_renderer = "mathml"
html_additional_pages = {"index": "index.html"}
html_copy_source = False
html_domain_indices = False
html_show_copyright = False
html_show_sphinx = False
templates_path = ["templates"]
