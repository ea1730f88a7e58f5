"""Which files a pattern names, where names hold the characters of globs and others that mean something elsewhere."""

import warnings

import pytest

from beamfeed.contract import storage
from beamfeed.contract.storage.patterns import is_hidden

ODD = ("in[1]", "in*x", "in?y", "in\\z", "in sp", "in#h", "in%d", "ünï 温", "in\nnl", "in{1}", "in,co", "a[!b]", "x[[y")
FILES = ("a[0].csv", "b*.csv", "c?.csv", "d\\e.csv", "f g.csv", "h#i.csv", "温度é.csv", "l\nm.csv")


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    top = tmp_path_factory.mktemp("odd")
    for folder in (*ODD, "in1", "inax", "ab"):
        (top / folder).mkdir()
        for name in FILES:
            (top / folder / name).write_text(folder)
    (top / "[1]").mkdir()
    (top / "[1]" / "a.csv").write_text("1")
    return top


def names(patterns, top):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        files, empty = storage.match_inputs([f"{top}/{one}" for one in patterns], (".csv",))
    assert empty == []
    return [file.path.removeprefix(f"{top}/") for file in files]


@pytest.mark.parametrize("folder", ODD)
def test_a_path_that_is_there_is_taken_as_it_is_written(odd, folder, monkeypatch):
    whole = sorted(f"{folder}/{name}" for name in FILES)
    assert names([folder], odd) == names([f"{folder}/"], odd) == names([f"{folder}/*.csv"], odd) == whole
    assert names([f"{folder}/**/*.csv"], odd) == whole
    assert names([f"{folder}/a[0].csv", f"{folder}/c?.csv"], odd) == [f"{folder}/a[0].csv", f"{folder}/c?.csv"]
    monkeypatch.chdir(odd)
    assert [file.path for file in storage.match(f"{folder}/*.csv", (".csv",))] == whole
    for path in whole:
        for pattern in (folder, f"{folder}/", f"{folder}/*.csv", f"{folder}/**/*.csv", path):
            assert storage.fits(path, pattern)
            assert storage.below(path, [pattern]) == path.rpartition("/")[2]


@pytest.mark.parametrize("folder", ODD)
def test_an_escaped_glob_names_a_path_and_no_other(odd, folder):
    assert names([f"{storage.escaped_glob(folder)}/*"], odd) == sorted(f"{folder}/{name}" for name in FILES)


def test_what_is_not_there_as_it_is_written_is_a_glob(odd):
    assert names(["in[12]/b*.csv"], odd) == ["in1/b*.csv"]
    assert names(["in[[]1]/f*"], odd) == ["in[1]/f g.csv"]
    assert names(["in[!0-9]x/f*"], odd) == ["in*x/f g.csv", "inax/f g.csv"]
    assert names(["[[]1]/[!b].csv"], odd) == ["[1]/a.csv"]
    assert storage.match(f"{odd}/in[z-a]/*.csv", (".csv",)) == []
    assert not storage.fits("fleet/1/a.csv", "fleet[!x]1/a.csv")


def test_names_of_objects_may_hold_two_slashes():
    assert not is_hidden("gs://bucket/lake/x//a.csv", "gs://bucket/lake")
    assert is_hidden("gs://bucket/lake/x//_a.csv", "gs://bucket/lake")
