"""Sphinx's configuration of the site; `docs.site.assemble` lays out what it reads.

Sphinx, its theme and MyST have an environment of their own (build/docs_env). Docstrings are read by
importing the package, so that what is installed for it (.venv) is looked at after that.
"""

import site
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
for folder in sorted((ROOT / ".venv" / "lib").glob("python*/site-packages")):
    site.addsitedir(str(folder))

project = "tvm_hetero"
html_title = "tvm_hetero"
extensions = [
    "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "docs.site.docstrings",
    "docs.site.formulas", "docs.site.finish",
]  # fmt: skip
root_doc = "index"
nitpicky = False

# Markdown as it is on GitHub: headings can be linked to, formulas.
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_space = False
myst_fence_as_directive = ["math"]
html_math_renderer = "mathml"
highlight_language = "bash"  # blocks that are indented are commands

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures have them already
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
default_role = "literal"  # single backticks of docstrings name things
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
templates_path = [str(Path(__file__).resolve().parent / "templates")]
html_static_path = [str(Path(__file__).resolve().parent / "static")]
html_css_files = ["site.css"]
html_js_files = ["sort_tables.js", "scroll_by_key.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_search_summary = False  # a page on a disk may not read another one
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#175cd3", "color-brand-content": "#175cd3"},
    "dark_css_variables": {"color-brand-primary": "#84b6ff", "color-brand-content": "#84b6ff"},
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
