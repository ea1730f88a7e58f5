"""The section `source` of arrays, and its mistakes: one line with the place, the key and what is allowed."""

import pytest
from job_text import complaint

from beamfeed.contract.config.load import parse_job
from beamfeed.contract.config.sources.array import ArraySource
from beamfeed.contract.storage import FileStat

JOB = """\
name: digits
source:
  kind: array
  files: gs://lake/digits
  inputs:
    image: image-*.npy
    sums: {files: [/mnt/b.npy, a.npy], scale: standard}
  outputs: {digit: {files: digit.npy, classes: auto}, centre: digit.npy}
  weights: {trust: gs://other/trust.npy}
output: {path: out}
train:
  model: {name: multi_input}
  task: {outputs: {digit: {name: classify, target: digit}, centre: {name: regress, target: centre}}}
  workdir: work
"""


def test_the_current_folder_holds_the_files_of_an_array():
    source = ArraySource.model_validate({"kind": "array", "inputs": {"x": "."}})
    files = [FileStat(name, 1, 1) for name in ("x-0.npy", "deep/x-1.npy")]
    (wanted,) = source.array_specs(files)
    assert wanted.files == tuple(files)


def test_files_are_in_the_folder_but_for_those_that_say_their_own():
    job = parse_job(JOB)
    assert job.source.patterns == (
        "gs://lake/digits/image-*.npy", "/mnt/b.npy", "gs://lake/digits/a.npy", "gs://lake/digits/digit.npy",
        "gs://other/trust.npy",
    )  # fmt: skip
    assert job.source.key_of("gs://lake/digits/digit.npy") == "source.outputs.digit"
    assert job.split.by == "row"


def test_a_section_is_the_same_when_it_is_written_and_read_again():
    section = ArraySource.model_validate({"kind": "array", "inputs": {"x": "x.npy"}})
    assert ArraySource.model_validate(section.model_dump(mode="json")) == section


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("scale: standard", "scale: standart", "7: source.inputs.sums.scale: 'standart'"),
        ("scale: standard", "scal: standard", "7: source.inputs.sums.scal: unknown key; did you mean 'scale'?"),
        ("    image: image-*.npy\n", "    Image: image-*.npy\n", "Image"),
        ("    image: image-*.npy\n", "    row: image-*.npy\n", "'row' is the name of the rows' numbers"),
        ("    image: image-*.npy\n", "    digit: image-*.npy\n", "two arrays have the name 'digit'"),
        ("classes: auto", "classes: [1]", "[1] must name at least two classes"),
        ("classes: auto", "classes: [1, 2, 1]", "the class '1' is given twice"),
        ("files: gs://lake/digits", "files: ''", "'' is not allowed, it must be a folder"),
        ("target: digit}", "target: digt}", "there is no such label: 'digt'; did you mean 'digit'?"),
        ("name: regress, target: centre", "name: classify, target: centre", "classify needs classes"),
        ("name: classify, target: digit", "name: regress, target: digit", "regress needs numbers"),
        ("name: classify, target: digit", "name: classify, target: digit, sample_weight: centre", "role weight: trust"),
        ("output: {path: out}\n", "output: {path: out}\nlabel: {column: y}\n", "label: does not go with source.kind"),
        ("output: {path: out}\n", "output: {path: out}\nsplit: {by: asset}\n", "(allowed: row, rows, column)"),
        ("output: {path: out}\n", "output: {path: out, partition_by: [a]}\n", "output.partition_by: does not go with"),
        ("  task: {outputs: {digit: {name: classify, target: digit}, centre: {name: regress, target: centre}}}\n", "",
         "train.task: is missing: the job has outputs"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(old, new, message):
    assert old in JOB
    (line,) = complaint(JOB.replace(old, new, 1)).splitlines()
    assert message in line
    assert "job.yaml" in line
