"""What is known of images: columns of paths and lists, splits, and the runs that they are put into."""

import collections
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from albums import Album

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.sources.image import listing
from beamfeed.transforms.sources.image.listing import UNLABELLED, UNLISTED, UNUSED, cut_runs, gather_images
from beamfeed.transforms.sources.image.run_file import read_facts, read_run
from beamfeed.transforms.sources.image.schema import resolve_images
from beamfeed.transforms.sources.image.source import Images


@pytest.fixture
def album(tmp_path):
    """Six empty files: what is known of images needs none of their bytes."""
    found = Album(tmp_path)
    for name in ("train/cats/c_1.jpg", "train/cats/c_2.jpg", "train/dogs/d_3.jpg", "train/dogs/d_4.jpg",
                 "test/cats/c_5.jpg", "test/dogs/d_6.jpg"):  # fmt: skip
        found.write(name, b"x")
    return found


def gather(album: Album, **source: object) -> pd.DataFrame:
    """What is known of each image, by its name below the folder; also `left_out` in the frame's `attrs`."""
    job, files = job_of(album, **source)
    found = gather_images(job, resolve_images(job, files), files, complete=True)
    frame = found.table.to_pandas().set_index("name")
    frame["split"] = [listing.SPLITS[place] if place >= 0 else None for place in found.place]
    frame.attrs["left_out"] = dict(found.left_out)
    return frame


def job_of(album: Album, **source: object) -> tuple[Job, list[FileStat]]:
    album.job["source"] |= source
    job = Job.model_validate(album.job)
    files, _ = storage.match_inputs(job.source.patterns, job.source.suffixes)
    return job, Images.first_files(job, files)


def write_list(album: Album, rows: dict[str, list], name: str = "labels.csv", **options: object) -> dict[str, str]:
    path = album.folder / name
    frame = pd.DataFrame(rows)
    frame.to_parquet(path) if name.endswith(".parquet") else frame.to_csv(path, index=False, **options)
    return {"file": str(path), "path": next(iter(rows))}


def test_folders_are_columns(album):
    assert gather(album)["label 0"].to_dict() == {
        "train/cats/c_1.jpg": "cats", "train/cats/c_2.jpg": "cats", "train/dogs/d_3.jpg": "dogs",
        "train/dogs/d_4.jpg": "dogs", "test/cats/c_5.jpg": "cats", "test/dogs/d_6.jpg": "dogs",
    }  # fmt: skip
    album.job["split"] = {"by": "column", "column": "top_folder", "train": ["train"], "test": ["test"]}
    assert collections.Counter(gather(album)["split"]) == {"train": 4, "test": 2}


def test_groups_of_a_pattern_are_columns_and_may_be_numbers(album):
    album.job["label"] = [{"name": "kind", "column": "kind", "classes": ["d", "c"]}, {"name": "n", "column": "n"}]
    found = gather(album, pattern=r"(?P<kind>[cd])_(?P<n>\d)")
    assert found["label 0"].tolist() == [path.split("/")[-1][0] for path in found.index]
    assert found["label 1"].tolist() == [float(path[-5]) for path in found.index]
    album.write("train/cats/other.jpg", b"x")
    assert gather(album).attrs["left_out"] == {UNLABELLED: 1}


def test_a_value_that_is_no_class_is_told(album):
    album.job["label"] = {"column": "folder", "classes": ["cats", "birds"]}
    wrong = gather(album)["wrong"].dropna().to_dict()
    assert set(wrong) == {"train/dogs/d_3.jpg", "train/dogs/d_4.jpg", "test/dogs/d_6.jpg"}
    assert wrong["test/dogs/d_6.jpg"] == "folder is 'dogs', which is not in label.classes (cats, birds)"


NAMES = ["train/cats/c_1.jpg", "train/cats/c_2.jpg", "train/dogs/d_3.jpg", "test/cats/c_5.jpg"]


@pytest.mark.parametrize(
    "write",
    [
        lambda name, album: f"{album.files}/{name}",
        lambda name, album: name,
        lambda name, album: f"./{name}",
        lambda name, album: name.replace("/", "\\"),
        lambda name, album: f"photos/{name}",  # below the folder of the list
        lambda name, album: name.split("/")[-1],
        lambda name, album: name.removesuffix(".jpg"),
        lambda name, album: name.split("/")[-1].removesuffix(".jpg"),
    ],
)
@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet", "labels.tsv"])
def test_paths_of_a_list_may_be_written_in_many_ways(album, write, name):
    rows = {"file": [write(one, album) for one in NAMES], "age": [1.5, 2, None, 4]}
    album.job["label"] = {"column": "age"}
    found = gather(album, list=write_list(album, rows, name, **({"sep": "\t"} if name == "labels.tsv" else {})))
    ages = found["label 0"].dropna().to_dict()
    assert ages == {"train/cats/c_1.jpg": 1.5, "train/cats/c_2.jpg": 2, "test/cats/c_5.jpg": 4}
    assert found.attrs["left_out"] == {UNLISTED: 2, UNLABELLED: 1}
    assert found["wrong"].isna().all()


@pytest.mark.parametrize("inside", ["", "./"])
def test_a_relative_folder_and_whole_paths(album, monkeypatch, inside):
    monkeypatch.chdir(album.folder)
    album.job["label"] = {"column": "kind", "classes": "auto"}
    rows = {"file": [f"{album.files}/{name}" for name in NAMES], "kind": list("abab")}
    for names in (rows["file"], NAMES, [f"photos/{name}" for name in NAMES]):
        write_list(album, rows | {"file": names}, "photos/labels.csv")
        where = {"file": f"{inside}photos/labels.csv", "path": "file"}
        found = gather(album, files=f"{inside}photos/**", list=where)
        assert len(found) == 6  # without the list
        assert found["label 0"].count() == 4


@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet"])
def test_classes_of_a_list_are_words_or_numbers(album, name):
    album.job["label"] = [
        {"name": "kind", "column": "kind", "classes": "auto"},
        {"name": "grade", "column": "grade", "classes": [0, 1]},
    ]
    rows = {"file": NAMES, "kind": ["a", "none", "-", "a"], "grade": [0, 1, 1, 2]}
    found = gather(album, list=write_list(album, rows, name)).loc[NAMES]
    assert found["label 0"].tolist() == ["a", "none", "-", "a"]
    assert found["label 1"].tolist() == ["0", "1", "1", "2"]
    assert found["wrong"].dropna().tolist() == ["grade is '2', which is not in label.classes (0, 1)"]


def test_a_word_for_nothing_is_no_class(album):
    album.job["label"] = {"column": "kind", "classes": "auto"}
    (album.folder / "labels.csv").write_text("".join(f"{one},{two}\n" for one, two in zip(
        ["file", *NAMES], ["kind", "a", "NA", "", "b"], strict=True)))  # fmt: skip
    found = gather(album, list={"file": str(album.folder / "labels.csv"), "path": "file"})
    assert found["label 0"].dropna().to_dict() == {NAMES[0]: "a", NAMES[3]: "b"}
    assert found.attrs["left_out"] == {UNLISTED: 2, UNLABELLED: 2}


def test_a_name_that_is_no_text_is_told(album):
    with open(os.fsencode(album.files) + b"/train/cats/caf\xe9.jpg", "wb") as file:
        file.write(b"x")
    found = gather(album)
    assert found["wrong"].dropna().to_dict() == {"train/cats/caf\\udce9.jpg": "its name is not UTF-8"}


def test_a_path_without_a_file_is_told_with_its_row(album):
    album.job["label"] = {"column": "kind", "classes": "auto"}
    where = write_list(album, {"file": [*NAMES, "train/birds/b.jpg"], "kind": ["a", "b", "a", "b", "a"]})
    found = gather(album, list=where)
    assert found["wrong"].dropna().to_dict() == {
        "train/birds/b.jpg": f"is named by row 4 of {where['file']}, and is not among the files"
    }
    assert found["split"]["train/birds/b.jpg"]  # it comes to a run, which tells it
    job, files = job_of(album)
    partly = gather_images(job, resolve_images(job, files), files, complete=False)
    assert len(partly.table) == 6


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"file": [*NAMES, NAMES[1]], "y": list("abaab")}, "line 3 and line 6 both name train/cats/c_2.jpg"),
        ({"file": ["a.png", "b.png"], "y": list("ab")}, "none of its 2 paths names a file of source.files, such as"),
        ({"file": [None, None], "y": list("ab")}, "names no path"),
        ({"file": [], "y": []}, "holds no rows"),
        ({"file": NAMES, "why": list("abab")}, "label.column: 'y' is not a column"),
    ],
)
def test_mistakes_of_a_list(album, rows, message):
    album.job["label"] = {"column": "y", "classes": "auto"}
    with pytest.raises(UserError, match=message):
        gather(album, list=write_list(album, rows))


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"label": {"column": "fodler", "classes": "auto"}}, "'fodler' is not a column .*did you mean 'folder'"),
        ({"label": {"column": "folder"}}, "'folder' is string; numbers are needed, or classes: auto"),
        ({"label": {"derive": "remaining_life"}}, "label: derive: remaining_life is for series"),
        ({"label": {"name": "path", "column": "folder", "classes": "auto"}}, "label.name: 'path' is another field"),
        ({"split": {"by": "key"}}, "split.by: key needs source.key"),
        ({"split": {"by": "column", "column": "topfolder", "train": ["a"]}}, "split.column: 'topfolder' .*top_folder"),
        ({"source": {"key": "patient"}}, "source.key: 'patient' is not a column"),
        ({"source": {"pattern": "(?P<x>zzz)"}}, "source.pattern: '.*' is found in no path, such as"),
        ({"source": {"list": {"file": "/none.csv", "path": "a"}}}, "source.list.file: /none.csv: there is no such"),
    ],
)
def test_mistakes_of_a_job(album, job, message):
    for key, value in job.items():
        album.job[key] = album.job["source"] | value if key == "source" else value
    with pytest.raises(UserError, match=message):
        gather(album)


def test_a_column_of_the_list_that_paths_are_not_in(album):
    where = write_list(album, {"file": NAMES}) | {"path": "flie"}
    with pytest.raises(UserError, match=r"source.list.path: 'flie' is not a column; did you mean 'file'\?"):
        gather(album, list=where)


def test_the_list_is_no_image(album):
    where = write_list(album, {"file": NAMES, "y": list("abab")}, "photos/labels.csv")
    album.job["label"] = {"column": "y", "classes": "auto"}
    found = gather(album, list=where, files=f"{album.files}/**")
    assert len(found) == 6


def many(count: int) -> tuple[list[str], pa.Array]:
    names = [f"{place % 7}/p{place % 50}_{place}.jpg" for place in range(count)]
    return names, pa.array(names)


@pytest.fixture
def crowd(tmp_path):
    """A job, and four thousand files that are listed and not there."""
    found = Album(tmp_path)
    found.job["source"]["pattern"] = r"p(?P<patient>\d+)_"
    found.files = [
        FileStat(f"{tmp_path}/photos/{name}", 100 + place % 9, 7) for place, name in enumerate(many(4000)[0])
    ]
    return found


def splits_of(album: Album) -> dict[str, str]:
    job = Job.model_validate(album.job)
    found = gather_images(job, resolve_images(job, album.files), album.files, complete=True)
    names = found.table["name"].to_pylist()
    return {name: listing.SPLITS[place] for name, place in zip(names, found.place, strict=True)}


def test_an_image_is_split_by_its_name_alone(crowd):
    found = splits_of(crowd)
    shares = {name: count / 4000 for name, count in collections.Counter(found.values()).items()}
    assert shares == pytest.approx({"train": 0.6, "eval": 0.2, "test": 0.2}, abs=0.03)
    crowd.files = crowd.files[::3]
    assert splits_of(crowd) == {name: found[name] for name in many(4000)[0][::3]}


def test_a_key_keeps_images_together(crowd):
    crowd.job["source"]["key"], crowd.job["split"]["by"] = "patient", "key"
    by_patient = collections.defaultdict(set)
    for name, split in splits_of(crowd).items():
        by_patient[name.split("p")[1].split("_")[0]].add(split)
    assert all(len(splits) == 1 for splits in by_patient.values())
    assert {one for splits in by_patient.values() for one in splits} == {"train", "eval", "test"}


def test_stratified_splits_have_each_class_s_share(crowd):
    crowd.job["split"]["stratify"] = True
    counts = collections.Counter((name[0], split) for name, split in splits_of(crowd).items())
    for label in "0123456":
        total = sum(counts[label, split] for split in ("train", "eval", "test"))
        for split, share in (("train", 0.6), ("eval", 0.2), ("test", 0.2)):
            assert abs(counts[label, split] - share * total) <= 1


def test_what_is_in_no_split_is_counted(crowd):
    crowd.job["split"] = {"by": "column", "column": "folder", "train": ["0", "1"], "eval": ["2"]}
    job = Job.model_validate(crowd.job)
    found = gather_images(job, resolve_images(job, crowd.files), crowd.files, complete=True)
    assert found.left_out[UNUSED] == sum(int(name[0]) > 2 for name in many(4000)[0])


def test_runs_hold_each_image_once_in_an_order_of_chance(crowd, tmp_path, monkeypatch):
    monkeypatch.setattr(listing, "MOST_IMAGES", 256)
    job = Job.model_validate(crowd.job)
    source = Images.of(job, crowd.files)
    runs = source.listed(crowd.files, str(tmp_path / "scratch"))
    expected, seen = splits_of(crowd), []
    for run in runs:
        facts, table = read_facts(run.path), read_run(run.path)
        names = table["name"].to_pylist()
        assert {expected[name] for name in names} == {facts.split}
        assert (facts.images, facts.size) == (len(names), sum(table["size"].to_pylist()))
        assert len(names) <= 257
        if len(names) > 200:
            assert len({name[0] for name in names}) == 7  # of all folders
        seen += names
    assert sorted(seen) == sorted(expected)
    again = source.listed(crowd.files, str(tmp_path / "again"))
    assert [storage.read_bytes(run.path) for run in runs] == [storage.read_bytes(run.path) for run in again]


def test_runs_are_cut_by_bytes(crowd, monkeypatch):
    monkeypatch.setattr(listing, "RUN_BYTES", 20_000)
    job = Job.model_validate(crowd.job)
    images = gather_images(job, resolve_images(job, crowd.files), crowd.files, complete=True)
    runs = list(cut_runs(images, 7))
    assert sum(len(rows) for _, rows in runs) == 4000
    assert max(facts.size for facts, _ in runs) < 20_200
    assert np.median([facts.size for facts, _ in runs]) > 19_000


def test_a_smoke_test_takes_images_of_every_folder(crowd):
    crowd.job["source"]["max_assets"] = 14
    found = Images.first_files(Job.model_validate(crowd.job), crowd.files)
    assert collections.Counter(file.path.split("/")[-2] for file in found) == dict.fromkeys("0123456", 2)
