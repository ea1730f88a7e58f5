"""How the docstrings of the code become pages.

They are in Google's style, with three habits of Markdown: single backticks are code, a
block that is indented by four is code, and the fields of a pydantic model are described
in `Field`. This module teaches Sphinx all three, and links names that it knows.
"""

import ast
import builtins
import inspect
import pydoc
import re
from functools import cached_property
from textwrap import dedent, indent
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from docutils import nodes
from pydantic import BaseModel
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.python import PyXRefRole
from sphinx.util import rst
from sphinx.util.nodes import find_pending_xref_condition, make_refnode
from sphinx.util.typing import stringify_annotation

import beamfeed

COLON = "\x1f"  # for one that napoleon would take for the end of a type
DATASET = re.compile(r"tensorflow\.python\.[\w.]+\.DatasetV2\b")
HEADER = re.compile(r"\w[\w ]*:$")  # "Args:"


class NameRole(PyXRefRole):
    """`text` in backticks: code as it is written, and a link if it is the name of something on the site."""

    # The types of fields have a title and a target. In a docstring, "column: <name>" is code.
    explicit_title_re = re.compile(r"^(.+?)\s*<(beamfeed\.[\w.]+)>$")

    def process_link(self, env: Any, refnode: Any, explicit: bool, title: str, target: str) -> tuple[str, str]:
        refnode["py:module"] = env.ref_context.get("py:module")
        refnode["py:class"] = env.ref_context.get("py:class")
        return title, re.sub(r"\(.*\)$", "", target)


def code_blocks(lines: list[str]) -> list[str]:
    """Makes literal blocks of paragraphs that are indented by four, or in which lines are (a tree of files)."""
    out: list[str] = []
    above = ""  # the last line of the paragraph before
    for paragraph in "\n".join(lines).split("\n\n"):
        first, *others = paragraph.split("\n")
        text = re.match(r"[^\s*-]", first) and not any(map(HEADER.match, (first, *others)))
        if first.startswith("    ") and re.match(r"\S", above):
            out += [f".. code-block:: {language_of(paragraph)}", ""]
        elif text and any(line.startswith("    ") for line in others):
            out += ["::", ""]
            paragraph = indent(paragraph, "    ")
        out += [*paragraph.split("\n"), ""]
        above = next((line for line in reversed(others) if line), first) or above
    return out


def language_of(text: str) -> str:
    """What a block is coloured as: Python if it can be parsed as such."""
    try:
        ast.parse(dedent(text))
    except SyntaxError:
        return "none"
    return "python"


def bare(annotation: Any) -> Any:
    """The annotation without what pydantic's `Annotated` adds to it."""
    if get_origin(annotation) is Annotated:
        return bare(get_args(annotation)[0])
    origin, inner = get_origin(annotation), tuple(map(bare, get_args(annotation)))
    if origin in (Union, UnionType):
        return Union[inner]  # noqa: UP007, there are several
    return origin[inner] if origin in (list, dict, tuple) else annotation


def kind_of(annotation: Any) -> str:
    """The type as code, with a link where there is another model in it."""
    text = stringify_annotation(bare(annotation), "fully-qualified", short_literals=True)
    model = re.search(r"\bbeamfeed(\.\w+)+", text)
    short = re.sub(r"\b(\w+\.)+(?=\w)", "", text)
    return f"`{short} <{model[0]}>`" if model else f"`{short}`"


def fields(model: type[BaseModel]) -> list[str]:
    """The section `Attributes` of a pydantic model."""
    lines = ["", "Attributes:"]
    for name, field in model.model_fields.items():
        lines.append(f"  {field.alias or name} ({kind_of(field.annotation)}): {rst.escape(field.description or '')}")
    return lines if model.model_fields else []


def is_model(obj: Any) -> bool:
    """Whether this is a pydantic model."""
    return isinstance(obj, type) and issubclass(obj, BaseModel)


def on_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Prepares a docstring for napoleon."""
    lines[:] = code_blocks(lines)
    inside = what == "property"
    for i, line in enumerate(lines):
        if inside:
            lines[i] = line.replace(":", COLON)
        inside = what == "property" or line == "Returns:" or (inside and bool(line))
    if is_model(obj):
        lines += fields(obj)


def on_napoleon_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Puts back what was hidden from napoleon."""
    lines[:] = [line.replace(COLON, ":") for line in lines]


def on_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, arguments: str | None, result: str | None
) -> tuple[str | None, ...]:
    """Leaves out those of models, whose fields are listed, and of protocols; gives datasets their public name."""
    if is_model(obj) or getattr(obj, "_is_protocol", False):
        return "", ""
    return tuple(text and DATASET.sub("tensorflow.data.Dataset", text) for text in (arguments, result))


def on_skip(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leaves out constants and fields: of fields, the signature and the section Attributes tell."""
    shown = inspect.isroutine(obj) or inspect.isclass(obj) or isinstance(obj, property | cached_property)
    return None if shown or hasattr(obj, "__wrapped__") else True


def on_read(app: Sphinx, doctree: nodes.document) -> None:
    """Takes back the links of `bytes` and the like, which properties are called too; draws dashes."""
    for node in list(doctree.findall(addnodes.pending_xref)):
        target = node["reftarget"]
        if node.get("refdomain") != "py":
            continue
        if target in dir(builtins) or isinstance(pydoc.locate(target), TypeVar):
            shown = find_pending_xref_condition(node, "*")
            node.replace_self(node.children if shown is None else shown.children)
        elif node.get("refspecific") and target in beamfeed.__all__:  # such as an error's
            node["reftarget"] = f"beamfeed.{target}"
    for text in list(doctree.findall(nodes.Text)):
        if text.startswith((" -- ", ") -- ")):  # after an argument; "--set" stays
            text.parent.replace(text, nodes.Text(text.replace("--", "\N{EN DASH}", 1)))


def on_missing(app: Sphinx, env: Any, node: addnodes.pending_xref, content: nodes.TextElement) -> Any:
    """Finds a class by its bare name: the public one, or the only one that has it."""
    target = node["reftarget"]
    if node.get("refdomain") != "py" or "." in target or not target[:1].isupper():
        return None
    domain = env.domains.python_domain
    found = domain.find_obj(env, None, None, target, "class", 1)
    found = [pair for pair in found if pair[0] == f"beamfeed.{target}"] or found
    if len(found) != 1:
        return None
    name, entry = found[0]
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content, name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_role_to_domain("py", "obj", NameRole(), override=True)
    app.connect("autodoc-process-docstring", on_docstring, priority=400)
    app.connect("autodoc-process-docstring", on_napoleon_docstring, priority=600)  # napoleon's is 500
    app.connect("autodoc-process-signature", on_signature)
    app.connect("autodoc-skip-member", on_skip)
    app.connect("doctree-read", on_read)
    app.connect("missing-reference", on_missing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
