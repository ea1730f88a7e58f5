"""Every key of a job file, and whether a dataset is another one when it changes: none is left out."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic_core import to_jsonable_python

from beamfeed.contract.config.load import parse_as
from beamfeed.contract.config.section import OneOf, Section
from beamfeed.contract.dataset import fingerprint
from beamfeed.contract.dataset.fingerprint import data_fingerprint
from beamfeed.contract.storage import FileStat
from beamfeed.launcher.job import job_model

FULL = """
name: full
source: {kind: timeseries, files: in, max_assets: 9, asset: {column: machine}, time: {column: t, unit: s}, features: [a]}
prepare:
  missing: {fill: forward, limit: 3, then: drop, value: 1.5}
  resample: {every: 2s, how: mean}
  max_gap: 9s
  scale: {how: standard, per: fleet}
windows: {length: 8, stride: 2}
label: [{name: label, column: y, at: horizon, horizon: 2, cap: 9}, {name: kind, column: c, classes: [on, off]}]
split: {by: asset, train: 0.8, eval: 0.1, test: 0.1, seed: 7}
output: {path: out, records: segments, compression: none, shards: 3}
limits: {max_rejected_fraction: 0.1, sort_memory_mb: 100}
train: {model: {name: recurrent_autoencoder}, task: {name: reconstruct}, workdir: w}
"""  # noqa: E501
TABLE = """
name: full
source: {kind: table, files: in, max_assets: 9, key: k, time: t}
features: {a: numeric, b: categorical, c: {type: bucket, buckets: 3}, d: text, e: date, f: {type: cross, of: [a, b], hash: 9}, g: pass}
label: {column: y, classes: [on, off]}
split: {by: time, train_from: 2024-01-01, eval_from: 2024-02-01, test_from: 2024-03-01, gap: 1d}
output: {path: out, rows_per_record: 8}
"""  # noqa: E501
ARRAYS = """
name: full
source:
  kind: array
  inputs: {x: {files: x.npz, array: a}}
  outputs: {y: y.npy}
  weights: {w: w.npz}
  keys: {k: k.npz}
output: {path: out}
"""
IMAGES = """
name: full
source: {kind: image, files: in, key: folder, store: {format: jpeg, size: [8, 8]}}
label: {column: folder, classes: [on, off]}
split: {by: row, train: 0.8, eval: 0.1, test: 0.1}
output: {path: out}
"""
A_LIST, OTHER_LIST = str(Path(__file__)), str(Path(__file__).parent / "test_fingerprint.py")  # any files
PATH = "source.asset={from: path, pattern: '(?P<asset>x)(?P<site>y)'}"
BY_COLUMN = "split={by: column, column: site, train: [a], eval: [b], test: [c]}"

# What changes the shards: the key, the change, and where it needs one, what the job is before it.
DATA: list[tuple[str, str, str | None]] = [
    ("source.max_assets", "source.max_assets=8", None),
    ("source.asset.from", PATH, None),
    ("source.asset.pattern", "source.asset={from: path, pattern: '(?P<asset>z)(?P<site>y)'}", PATH),
    ("source.asset.column", "source.asset.column=other", None),
    ("source.time.column", "source.time.column=other", None),
    ("source.time.from", "source.time={from: row}", None),
    ("source.time.unit", "source.time.unit=ms", None),
    ("source.time.format", "source.time={column: t, format: '%Y'}", "source.time={column: t}"),
    ("source.time.zone", "source.time={column: t, zone: UTC}", "source.time={column: t}"),
    ("source.features", "source.features=[a, b]", None),
    ("source.missing_columns", "source.missing_columns=missing", None),
    ("source.reshape.wide", "source.reshape={wide: b*}", None),
    ("source.csv.delimiter", "source.csv.delimiter=;", None),
    ("source.csv.quote", "source.csv.quote=null", None),
    ("source.csv.escape", "source.csv.escape='!'", None),
    ("source.csv.decimal", "source.csv.decimal=','", None),
    ("source.csv.thousands", "source.csv.thousands=null", None),
    ("source.csv.encoding", "source.csv.encoding=latin-1", None),
    ("source.csv.skip_lines", "source.csv.skip_lines=1", None),
    ("source.csv.header", "source.csv.header=false", None),
    ("source.csv.names", "source.csv.names=[t, a]", None),
    ("source.csv.skip_after_header", "source.csv.skip_after_header=1", None),
    ("source.csv.skip_last", "source.csv.skip_last=1", None),
    ("source.csv.comment", "source.csv.comment=null", None),
    ("source.csv.null_words", "source.csv.null_words=[none]", None),
    ("prepare.steps", "prepare.steps=['json:dumps', 'json:loads']", "prepare.steps=['json:loads']"),
    (
        "prepare.step_columns",
        "prepare={steps: ['json:loads'], step_columns: [b]}",
        "prepare={steps: ['json:loads'], step_columns: [a]}",
    ),
    ("prepare.range", "prepare.range={a: [0, 2]}", "prepare.range={a: [0, 1]}"),
    ("prepare.duplicates", "prepare.duplicates=last", None),
    ("prepare.missing.fill", "prepare.missing.fill=linear", None),
    ("prepare.missing.limit", "prepare.missing.limit=4", None),
    ("prepare.missing.then", "prepare.missing.then=constant", None),
    ("prepare.missing.value", "prepare.missing.value=2", None),
    ("prepare.resample.every", "prepare.resample.every=3s", None),
    ("prepare.resample.how", "prepare.resample.how=max", None),
    ("prepare.max_gap", "prepare.max_gap=10s", None),
    ("prepare.scale.how", "prepare.scale.how=minmax", None),
    ("prepare.scale.per", "prepare.scale.per=asset", None),
    ("prepare.scale.flags", "prepare.scale.flags=range", None),
    ("prepare.scale.clip", "prepare.scale.clip=9", None),
    ("prepare.scale.min_divisor", "prepare.scale.min_divisor=0.1", None),
    ("windows.length", "windows.length=9", None),
    ("windows.stride", "windows.stride=3", None),
    ("label.name", "label={column: y, name: b}", "label={column: y, name: a}"),
    ("label.column", "label={column: z}", "label={column: y}"),
    ("label.derive", "label={derive: remaining_life}", "label={column: y}"),
    ("label.ahead.rows", "label={ahead: {rows: 3}}", "label={ahead: {rows: 2}}"),
    ("label.ahead.columns", "label={ahead: {rows: 2, columns: [a]}}", "label={ahead: {rows: 2}}"),
    ("label.at", "label={column: y, at: any}", "label={column: y}"),
    ("label.horizon", "label={column: y, at: horizon, horizon: 3}", "label={column: y, at: horizon, horizon: 2}"),
    ("label.classes", "label={column: y, classes: [b, a]}", "label={column: y, classes: [a, b]}"),
    ("label.cap", "label={column: y, cap: 8}", "label={column: y, cap: 9}"),
    ("label.role", "label={column: y, role: weight}", "label={column: y}"),
    ("split.by", "split.by=time", None),
    ("split.column", BY_COLUMN.replace("site", "place"), BY_COLUMN),
    ("split.train", "split={train: 0.7, eval: 0.2, test: 0.1}", None),
    ("split.eval", BY_COLUMN.replace("[b]", "[d]"), BY_COLUMN),
    ("split.test", BY_COLUMN.replace("[c]", "[d]"), BY_COLUMN),
    ("split.eval_from", "split={by: time, eval_from: 2024-01-02}", "split={by: time, eval_from: 2024-01-01}"),
    ("split.test_from", "split={by: time, test_from: 2024-01-02}", "split={by: time, test_from: 2024-01-01}"),
    ("split.seed", "split.seed=8", None),
    ("output.records", "output.records=windows", None),
    ("output.compression", "output.compression=gzip", None),
    ("output.shards", "output.shards=auto", None),
    ("limits.sort_memory_mb", "limits.sort_memory_mb=200", None),  # what is larger is rejected
]
# Likewise, of the job TABLE.
OF_TABLES: list[tuple[str, str, str | None]] = [
    ("source.key", "source.key=l", None),
    ("source.time", "source.time=u", None),
    *((f"features.{key}", f"features.{place}.{key}={value}", before) for key, place, value, before in [
        ("column", "a", "z", "features.a={type: numeric}"),
        ("required", "a", "true", "features.a={type: numeric}"),
        ("scale", "a", "log", "features.a={type: numeric}"),
        ("missing", "a", "0", "features.a={type: numeric}"),
        ("indicator", "a", "true", "features.a={type: numeric}"),
        ("clip", "a", "3", "features.a={type: numeric}"),
        ("min_count", "b", "3", "features.b={type: categorical}"),
        ("max_size", "b", "3", "features.b={type: categorical}"),
        ("unseen", "b", "3", "features.b={type: categorical}"),
        ("hash", "b", "3", "features.b={type: categorical}"),
        ("buckets", "c", "4", None),
        ("split", "d", "spaces", "features.d={type: text}"),
        ("lower", "d", "false", "features.d={type: text}"),
        ("length", "d", "9", "features.d={type: text}"),
        ("parts", "e", "[hour]", "features.e={type: date}"),
        ("cyclic", "e", "true", "features.e={type: date}"),
        ("of", "f", "[a, c]", None),
        ("as", "g", "number", "features.g={type: pass}"),
        ("role", "g", "input", "features.g={type: pass}"),
    ]),
    ("features.type", "features.g=text", None),
    ("features.function", "features.o={type: own, function: 'json:dumps', columns: {z: text}}",
     "features.o={type: own, function: 'json:loads', columns: {z: text}}"),
    ("features.columns", "features.o={type: own, function: 'json:loads', columns: {z: number}}",
     "features.o={type: own, function: 'json:loads', columns: {z: text}}"),
    ("features.edges", "features.c={type: bucket, edges: [2]}", "features.c={type: bucket, edges: [1]}"),
    ("split.train_from", "split.train_from=2024-01-02", None),
    ("split.gap", "split.gap=2d", None),
    ("split.stratify", "split={by: row, stratify: true}", "split={by: row}"),
    ("output.rows_per_record", "output.rows_per_record=1", None),
    ("output.partition_by", "output.partition_by=[k]", None),
]  # fmt: skip
OF_ARRAYS: list[tuple[str, str, str | None]] = [
    ("source.inputs.files", "source.inputs.x={files: z.npz, array: a}", None),
    ("source.inputs.array", "source.inputs.x={files: x.npz, array: b}", None),
    ("source.inputs.scale", "source.inputs.x={files: x.npz, array: a, scale: minmax}", None),
    ("source.inputs.missing", "source.inputs.x={files: x.npz, array: a, missing: keep}", None),
    ("source.outputs.files", "source.outputs.y=z.npy", None),
    ("source.outputs.array", "source.outputs.y={files: y.npy, array: b}", None),
    ("source.outputs.classes", "source.outputs.y={files: y.npy, classes: auto}", None),
    ("source.weights.files", "source.weights.w=z.npz", None),
    ("source.weights.array", "source.weights.w={files: w.npz, array: b}", None),
    ("source.keys.files", "source.keys.k=z.npz", None),
    ("source.keys.array", "source.keys.k={files: k.npz, array: b}", None),
]
# Likewise, of the job IMAGES.
OF_IMAGES: list[tuple[str, str, str | None]] = [
    ("source.pattern", "source.pattern='(?P<a>x)'", "source.pattern='(?P<b>x)'"),
    ("source.list.file", f"source.list={{file: {OTHER_LIST}, path: a}}", f"source.list={{file: {A_LIST}, path: a}}"),
    ("source.list.path", f"source.list={{file: {A_LIST}, path: b}}", f"source.list={{file: {A_LIST}, path: a}}"),
    *((f"source.list.csv.{key}", f"source.list={{file: {A_LIST}, path: a, csv: {{{key}: {value}}}}}",
       f"source.list={{file: {A_LIST}, path: a}}") for key, value in [
        ("delimiter", "';'"), ("quote", "null"), ("escape", "'!'"), ("decimal", "','"), ("thousands", "null"),
        ("encoding", "latin-1"), ("skip_lines", "1"), ("header", "false"), ("names", "[t, a]"),
        ("skip_after_header", "1"), ("skip_last", "1"), ("comment", "null"), ("null_words", "[none]"),
    ]),
    ("source.store.format", "source.store.format=png", None),
    ("source.store.size", "source.store.size=[8, 9]", None),
    ("source.store.fit", "source.store.fit=pad", None),
    ("source.store.quality", "source.store.quality=80", None),
    ("source.store.channels", "source.store.channels=1", None),
    ("source.max_pixels", "source.max_pixels=1000", None),
]  # fmt: skip
OF_JOBS = {FULL: DATA, TABLE: OF_TABLES, ARRAYS: OF_ARRAYS, IMAGES: OF_IMAGES}
CHANGES = [(text, *row) for text, rows in OF_JOBS.items() for row in rows]
# What changes no byte of them. A section stands for all of its keys.
OTHER: list[tuple[str, str, str | None]] = [
    ("name", "name=other", None),
    ("source.kind", "source.kind=timeseries", None),  # another one has other keys
    ("source.files", "source.files=in/*", None),  # the files themselves count
    ("output.path", "output.path=other", None),
    ("output.grow", "output.grow=true", "source.max_assets=null"),
    ("output.keep", "output={path: out, shards: 3, grow: true, keep: 9}", "source.max_assets=null"),
    ("limits.max_rejected_fraction", "limits.max_rejected_fraction=0.5", None),
    ("limits.max_rejected_assets", "limits.max_rejected_assets=5", None),
    ("limits.max_drift", "limits.max_drift=2", None),
    ("train", "train={model: {name: recurrent_autoencoder, latent: 3}, task: {name: reconstruct}, workdir: v}", None),
    ("sweep", "sweep={space: {train.epochs: [1, 2]}}", None),
    ("launch", "launch={train: {workers: 64}, preprocess: {workers: 3}}", None),
    ("after", "after=[predict, score, report]", None),
]


def identity(*overrides: str | None, text: str = FULL) -> str:
    job = parse_as(job_model(), text, [override for override in overrides if override is not None])
    return data_fingerprint(job, [FileStat("a", 1, 2)])


@pytest.mark.parametrize(("text", "key", "change", "before"), CHANGES, ids=[row[1] for row in CHANGES])
def test_what_changes_the_data_changes_the_fingerprint(text, key, change, before):
    assert identity(before, change, text=text) != identity(before, text=text)


def test_where_the_folder_of_the_arrays_is_does_not():
    assert identity("source.files=elsewhere", text=ARRAYS) == identity(text=ARRAYS)


@pytest.mark.parametrize(("key", "change", "before"), OTHER, ids=[row[0] for row in OTHER])
def test_what_changes_no_byte_does_not(key, change, before):
    assert identity(before, change) == identity(before)


def test_every_key_is_classified_and_once():
    classified = [*(key for _, key, _, _ in CHANGES), *(key for key, _, _ in OTHER)]
    assert len(set(classified)) == len(classified)
    keys = set(keys_of(job_model()))
    unknown = sorted(key for key in keys if not any(key == one or key.startswith(f"{one}.") for one in classified))
    assert unknown == [], "say in DATA or OTHER whether these change the data"
    assert all(any(key == one or key.startswith(f"{one}.") for key in keys) for one in classified), "a key is no more"


def keys_of(model: type[Section], prefix: str = "") -> Iterator[str]:
    """Every key of a section that holds no section, with dots."""
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        inner = list(sections_in([field.annotation, *field.metadata]))
        for section in inner:
            yield from keys_of(section, f"{key}.")
        if not inner:
            yield key


def sections_in(annotations: list[Any]) -> Iterator[type[Section]]:
    for one in annotations:
        if isinstance(one, OneOf):
            yield from one.members
        elif isinstance(one, type) and issubclass(one, Section):
            if one.model_fields:
                yield one
        else:
            yield from sections_in(list(get_args(one)))


def test_the_walk_finds_keys_of_every_kind():
    """That of sections in lists, of one of several, and of a backend's."""
    found = set(keys_of(job_model()))
    one_of_several, in_a_mapping, of_a_backend = "train.model.latent", "train.task.outputs.target", "launch.preprocess"
    assert {"name", "source.asset.from", "label.horizon", "prepare.resample.how", one_of_several, in_a_mapping} <= found
    assert f"{of_a_backend}.dataflow.region" in found


def test_a_new_revision_of_preprocessing_is_other_data(monkeypatch):
    before = identity()
    monkeypatch.setattr(fingerprint, "REVISION", fingerprint.REVISION + 1)
    assert identity() != before


def test_workers_of_a_training_run_are_none_of_its_business():
    shards = "output.shards=auto"
    assert identity(shards, "launch.train.workers=16") == identity(shards, "launch.train.workers=17")


def defaults_of(model: type[Section], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of a section that has a default, with dots, and the default as JSON has it.

    A job without `split.by` is split as its kind of source says first.
    """
    if "split_by" in vars(model):
        yield f"{prefix}split_by", model.split_by[0]
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        for section in sections_in([field.annotation, *field.metadata]):
            yield from defaults_of(section, f"{key}.{section.__name__}.")
        if not field.is_required():
            default = to_jsonable_python(field.get_default(call_default_factory=True))
            if not isinstance(default, dict) or not default:  # that of a section follows from its keys'
                yield key, default


def test_whoever_changes_a_default_raises_the_revision():
    """A key at its default is not part of a fingerprint, so what it stands for must not change unseen."""
    path = Path(__file__).parent / "defaults.json"
    kept = json.loads(path.read_text())
    now = dict(defaults_of(job_model()))
    changed = {key: now[key] for key in kept["defaults"].keys() & now.keys() if kept["defaults"][key] != now[key]}
    assert (changed, kept["revision"]) == ({}, fingerprint.REVISION), f"raise REVISION; write the defaults to {path}"
    assert len(kept["defaults"].keys() & now.keys()) > 150


def test_a_job_changes_none_that_is_read_before_or_after_it():
    def read(text):
        return parse_as(job_model(), text)

    series = read("\n".join(line for line in FULL.splitlines() if not line.startswith("split")))
    by_row = fingerprint.job_fingerprint(read(ARRAYS + "split: {by: row}\n"))
    read(ARRAYS)  # leaves out how it is split, which is by row
    assert series.split.by == "asset"
    assert fingerprint.job_fingerprint(read(ARRAYS + "split: {by: row}\n")) == by_row
