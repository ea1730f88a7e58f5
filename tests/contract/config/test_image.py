"""The section `source` of images: what goes together, and mistakes, a line each with the line and the key."""

import re

import pytest
from job_text import complaint

from beamfeed.contract.config.load import parse_job
from beamfeed.contract.config.sources.image import ImageSource

JOB = """\
name: photos
source:
  kind: image
  files: photos
  store: {format: raw, size: [8, 9]}
label: {column: folder, classes: auto}
output: {path: out/data}
"""


def test_what_is_not_said():
    job = parse_job(JOB)
    assert isinstance(job.source, ImageSource)
    assert (job.split.by, job.source.store.size, job.source.store.fit) == ("row", (8, 9), "crop")
    assert job.source.beside == {}
    job = parse_job(JOB, ["source.list={file: a.csv, path: b}"])
    assert job.source.beside == {"source.list.file": "a.csv"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("source.store.format=rwa", "source.store.format: 'rwa' is not allowed; did you mean 'raw'"),
        ("source.store={size: 8}", "source.store: size goes with format: jpeg, png or raw; original bytes stay"),
        ("source.store={quality: 8}", "source.store: quality goes with format: jpeg, png or raw"),
        ("source.store={format: raw}", r"source.store: format: raw needs 'size: \[height, width\]'"),
        ("source.store={format: raw, size: 8}", r"source.store: format: raw needs 'size: \[height, width\]'"),
        ("source.store={format: png, size: 8, fit: pad}", r"source.store: fit goes with 'size: \[height, width\]'"),
        (
            "source.store={format: png, quality: 8}",
            "source.store: quality goes with format: jpeg, not with format: png",
        ),
        ("source.store.size=[8]", r"source.store.size: \[8\] is not allowed"),
        ("source.store.size=0", "source.store.size: 0 is not allowed"),
        ("source.store.size=large", "source.store.size: 'large' is not allowed"),
        ("source.store.chanels=1", "source.store.chanels: unknown key; did you mean 'channels'"),
        ("source.store.channels=4", "source.store.channels: 4 is not allowed .*1.*3"),
        ("source.store=raw", r"source.store: needs a mapping, such as {format: jpeg, size: 256}, not 'raw'"),
        ("source.list=labels.csv", r"source.list: needs a mapping, such as {file: labels.csv, path: filename}"),
        ("source.list={file: a.csv}", "source.list.path: is missing"),
        ("source.pattern='('", r"source.pattern: '\(' is not a regular expression"),
        ("source.pattern='a'", "source.pattern: 'a' has no named group such as"),
        ("source.max_pixels=many", "source.max_pixels: 'many' is not allowed, it must be a whole number"),
        ("split.by=asset", r"split.by: asset does not go with source.kind: image \(allowed: row, key, column\)"),
        ("split.by=time", "split.by: time does not go with source.kind: image"),
        ("windows={length: 3}", "windows: does not go with source.kind: image"),
        ("output.partition_by=[a]", "output.partition_by: does not go with source.kind: image"),
    ],
)
def test_mistakes(change, message):
    (line,) = complaint(JOB, change).splitlines()
    assert re.search(message, line)


def test_a_mistake_in_the_file_is_told_with_its_line():
    assert complaint(JOB.replace("raw", "rwa")).startswith("job.yaml:5: source.store.format: 'rwa'")
