"""Writes docs/reference: a page of the public names, and one for every module, in folders as the code has them.

The modules are found as files, not by importing the package: a function may have the
name of the module that it comes from.
"""

import ast
import shutil
from pathlib import Path

from sphinx.application import Sphinx

PACKAGE = "beamfeed"
PUBLIC = f"""
The public interface
====================

.. automodule:: {PACKAGE}
   :no-ignore-module-all:
   :member-order: alphabetical
"""


def summary(file: Path) -> str:
    """The first paragraph of a module's docstring."""
    text = ast.get_docstring(ast.parse(file.read_text())) or ""
    return " ".join(text.partition("\n\n")[0].split())


def inner(folder: Path) -> list[Path]:
    """The files of the modules in a folder; a package stands for its modules."""
    packages = [path / "__init__.py" for path in folder.iterdir() if (path / "__init__.py").is_file()]
    files = [path for path in folder.glob("*.py") if not path.name.startswith("_")]
    return sorted([*packages, *files], key=name_of)


def name_of(file: Path) -> str:
    """The last part of the module's name."""
    return file.parent.name if file.name == "__init__.py" else file.stem


def page_of(file: Path) -> str:
    """The page, as a page of the folder's package names it."""
    return f"{name_of(file)}/index" if file.name == "__init__.py" else name_of(file)


def table(files: list[Path], folder: str = "") -> list[str]:
    """A line for each module: its name, which is a link, and what it is."""
    lines = [".. list-table::", "   :widths: auto", ""]
    for file in files:
        lines += [f"   * - :doc:`{name_of(file)} <{folder}{page_of(file)}>`", f"     - {summary(file)}"]
    return [*lines, ""]


def write(file: Path, parents: str, out: Path) -> None:
    """Writes the page of a module, and those of the modules in it."""
    name = f"{parents}.{name_of(file)}"
    # A page in a table of contents is in the sidebar of every page: with hundreds of modules that is most of the site.
    lines = [":orphan:", "", name_of(file), "=" * len(name), "", f"``{name}``", "", f".. automodule:: {name}", ""]
    page = out / f"{page_of(file)}.rst"
    page.parent.mkdir(parents=True, exist_ok=True)
    if file.name == "__init__.py":
        files = inner(file.parent)
        lines += table(files)
        for inside in files:
            write(inside, name, page.parent)
    page.write_text("\n".join(lines) + "\n")


def on_start(app: Sphinx) -> None:
    """Writes all pages anew, so that none stays of a module that has gone."""
    out = Path(app.srcdir, "reference")
    shutil.rmtree(out, ignore_errors=True)
    folders = inner(Path(app.srcdir).parent / PACKAGE)
    for file in folders:
        write(file, PACKAGE, out)
    (out / "public.rst").write_text(PUBLIC)
    (out / "folders.txt").write_text("\n".join(table(folders, "/reference/")))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", on_start)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
