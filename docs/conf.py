"""Settings of the documentation site. `make docs` builds it to out/docs and takes every warning for an error."""

import importlib
import os
import sys
from importlib.metadata import version as version_of
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent)]


def load_tensorflow() -> None:
    """TensorFlow, imported for the first time, writes to stderr what no log level keeps back."""
    stderr = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        importlib.import_module("tensorflow")
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


load_tensorflow()

project = "Beamfeed"
copyright = "the authors of Beamfeed. Apache License 2.0"
version = release = version_of("beamfeed")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "reference",
    "docstrings",
    "job_file",
    "outside",
]
exclude_patterns = ["_*"]

# Links to headings as a forge makes them: #the-first-build
myst_heading_anchors = 4

# The pages of docs/reference.
autodoc_default_options = {"members": True, "undoc-members": True, "ignore-module-all": True}
autodoc_mock_imports = ["torch"]  # an extra that the site is built without
autodoc_inherit_docstrings = False  # Beam's, of DoFn.process
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
napoleon_numpy_docstring = False
napoleon_use_param = False  # one entry may be of several arguments: "epoch, step: ..."
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]
default_role = "py:obj"  # as docs/_ext/docstrings.py has it
add_module_names = False
toc_object_entries_show_parents = "hide"
python_display_short_literal_types = True
python_maximum_signature_line_length = 120  # of names in full
python_use_unqualified_type_names = True

# With -n, names of Beamfeed must be found. Other projects' pages are not on this site, and private names on none.
nitpick_ignore_regex = [("py:.*", r"(?!beamfeed\.)(.|\n)*"), ("py:.*", r"(.*\.)?_\w+")]

highlight_language = "none"  # where a block does not say
smartquotes = False

html_theme = "furo"
html_title = f"Beamfeed {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
