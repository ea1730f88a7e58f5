"""Code of the user's own: what stands for its source, and that nothing of it runs meanwhile."""

import os
import sys
import zipfile

import pytest

from beamfeed.contract import own_code
from beamfeed.contract.errors import UserError
from beamfeed.contract.own_code import code_digest, import_own, one_line


@pytest.fixture
def code(tmp_path, monkeypatch):
    """Writes modules into the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(**modules: str) -> None:
        for name, text in modules.items():
            path = tmp_path / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


def digest(path: str = "own_kit.steps:add", folders: tuple[str, ...] = ()) -> str:
    return code_digest([path], "prepare.steps", folders)


STEPS = """
import os, numpy
from . import shapes
from .units import FACTOR
def add(table):
    from own_kit.late import x
    import beside
"""


def in_package(**modules: str) -> dict[str, str]:
    whole = {"init": "", "steps": STEPS, "shapes": "", "units": "FACTOR = 1", "late": "x = 1", "other": "", **modules}
    found = {f"own_kit__{name}": text for name, text in whole.items() if name not in ("init", "beside")}
    return {**found, "beside": whole.get("beside", "")}


@pytest.mark.parametrize(
    ("changed", "counts"),
    [
        ({"steps": STEPS + "#"}, True),
        ({"units": "FACTOR = 2"}, True),
        ({"shapes": "import own_kit.units"}, True),
        ({"late": "x = 2"}, True),  # imported in a function
        ({"beside": "y = 1"}, True),  # another module of the same folder
        ({"other": "y = 1"}, False),  # that none of them imports
    ],
)
def test_what_a_step_imports_of_the_users_own_counts_and_nothing_else(code, tmp_path, changed, counts):
    code(**in_package())
    (tmp_path / "own_kit" / "__init__.py").write_text("")
    before = digest()
    code(**in_package(**changed))
    assert (digest() != before) == counts


def test_the_package_itself_counts(code, tmp_path):
    code(**in_package())
    (tmp_path / "own_kit" / "__init__.py").write_text("")
    before = digest()
    (tmp_path / "own_kit" / "__init__.py").write_text("x = 1")
    assert digest() != before


def test_nothing_is_run(code, tmp_path):
    code(own_kit__steps="open('ran', 'w')", own_kit____init__="open('ran', 'w')")
    (tmp_path / "own_kit" / "__init__.py").write_text("open('ran', 'w')")
    digest()
    assert not (tmp_path / "ran").exists()
    assert not any(name.startswith("own_kit") for name in sys.modules)


def test_the_same_code_is_the_same_wherever_it_is(code, tmp_path):
    code(**in_package())
    (tmp_path / "own_kit" / "__init__.py").write_text("")
    before = digest()
    with zipfile.ZipFile(tmp_path / "own.zip", "w") as archive:
        for path in [*sorted((tmp_path / "own_kit").glob("*.py")), tmp_path / "beside.py"]:
            archive.write(path, os.path.relpath(path, tmp_path))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.chdir(elsewhere)
    assert digest(folders=(str(tmp_path / "own.zip"),)) == before
    assert digest(folders=(str(tmp_path),)) == before


def test_of_an_installed_package_its_own_modules_count(code, tmp_path, monkeypatch):
    """And not those of the packages that it imports: they are other versions on other machines."""
    code(**in_package())
    monkeypatch.setattr(own_code, "INSTALLED", {str(tmp_path)})
    before = digest()
    code(**in_package(beside="y = 1"))
    assert digest() == before
    code(**in_package(units="FACTOR = 2"))
    assert digest() != before


@pytest.mark.parametrize("path", ["own_none:add", "yaml.none:add", "json.decoder.deeper:add"])
def test_a_module_that_is_not_there(path):
    with pytest.raises(UserError, match=f"prepare.steps: there is no module '{path.partition(':')[0]}'; start in"):
        digest(path)


def test_code_that_cannot_be_parsed_is_told_where_it_is_imported(code, monkeypatch, tmp_path):
    code(own_wrong="def f(:\n  pass\n")
    digest("own_wrong:f")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"importing own_wrong failed: SyntaxError: .* \(.*own_wrong.py:1\)"):
        import_own("own_wrong:f", "prepare.steps")


def test_an_error_without_words_is_its_name():
    with pytest.raises(AssertionError) as error:
        raise AssertionError
    assert one_line(error.value).startswith("AssertionError (/")


def test_what_keras_says_of_a_layer_that_fails_is_not_all_that_is_told():
    error = ValueError(
        "Exception encountered when calling Mine.call().\n\n\x1b[1mthe sum is odd\x1b[0m\n\nArguments: x"
    )
    assert one_line(error) == "ValueError: the sum is odd"
