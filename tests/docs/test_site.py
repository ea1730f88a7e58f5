"""The documentation site: it builds without a warning, has a page for every module, and needs no network."""

import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="the site's tools are not installed; make setup installs them")
pytest.importorskip("furo", reason="the site's theme is not installed; make setup installs it")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FETCHED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']([^\"']*)|<link\b[^>]*\bhref=[\"']([^\"']*)")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site: that of `make docs`, where nothing changed since."""
    built = ROOT / "out" / "docs"
    sources = [*(ROOT / "beamfeed").glob("*/**/*.py"), *(ROOT / "docs").glob("**/*.*"), *ROOT.glob("*.md")]
    written = [path.stat().st_mtime for path in sources if "reference" not in path.parts]
    if (built / "index.html").exists() and max(written) < (built / "index.html").stat().st_mtime:
        return built
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-n", "-W", "--keep-going", "-E", "-d", out / "tmp"]
    done = subprocess.run([*command, ROOT / "docs", out / "html"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out / "html"


def test_every_module_has_a_page(site):
    for folder in (ROOT / "beamfeed").iterdir():
        for file in folder.rglob("*.py") if folder.is_dir() else ():
            page = file.relative_to(ROOT / "beamfeed").with_suffix(".html")
            page = site / "reference" / page.with_name(page.name.replace("__init__", "index"))
            name = ".".join(part for part in file.relative_to(ROOT).with_suffix("").parts if part != "__init__")
            if "__pycache__" not in file.parts:
                assert f'id="module-{name}"' in page.read_text(), name


def test_nothing_comes_from_the_network(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 10
    for page in pages:
        for found in FETCHED.findall(page.read_text()):
            assert not re.match(r"(https?:)?//", "".join(found)), f"{page}: {found}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"@import|url\(\s*[\"']?(https?:)?//", sheet.read_text()), sheet


def test_the_job_file_page_has_the_keys(site):
    page = (site / "job_file.html").read_text()
    assert "launch.train.kubernetes.volumes" in page
    assert "Where the pods see it." in page


def test_a_docstring_gives_signature_arguments_and_errors(site):
    text = unescape(re.sub(r"<[^>]*>", "", (site / "reference/contract/config/load.html").read_text()))
    text = " ".join(text.split())
    assert "load_job(path: str, overrides: Sequence[str] = ()) → Job" in text
    assert re.search(r"Raises: ?UserError", text)
    assert "_parse_yaml" not in text
