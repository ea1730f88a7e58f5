"""Links from a page to what stands in the repository outside of docs.

They are written as a forge needs them, `../examples/fleet.yaml`. Here a file becomes a
download (MyST sees to it), a Markdown file that has a page of its own a link to that
page, and anything else that is there, such as a folder, plain text.
"""

from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

PAGES = {"README.md": "index", "CHANGELOG.md": "changes", "CONTRIBUTING.md": "contributing"}


def on_read(app: Sphinx, doctree: nodes.document) -> None:
    """Turns the links of a page that lead out of docs."""
    root, folder = Path(app.srcdir).parent, Path(app.env.doc2path(app.env.docname)).parent
    for node in list(doctree.findall(addnodes.pending_xref)):
        target = node["reftarget"]
        if node.get("reftype") != "myst" or target in app.env.found_docs:
            continue
        # MyST gives the path of a Markdown file as that of a page: without the suffix.
        path = Path(folder, target.partition("#")[0] + (".md" if node["refdomain"] == "doc" else "")).resolve()
        if not path.is_relative_to(root):
            continue
        if page := PAGES.get(str(path.relative_to(root))):
            node["refdomain"], node["reftarget"] = "doc", page
            if page == "index":  # says less than the README, and under no headings
                node["reftargetid"] = None
        elif path.exists():
            node.replace_self(node.children)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("doctree-read", on_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
