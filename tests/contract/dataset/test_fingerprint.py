"""What changes the identity of a dataset, and of a training run."""

import pytest
from pydantic import create_model

from beamfeed.contract import storage
from beamfeed.contract.config.load import parse_job
from beamfeed.contract.config.prepare import Scale
from beamfeed.contract.config.section import Section
from beamfeed.contract.dataset import fingerprint
from beamfeed.contract.dataset.fingerprint import data_fingerprint, run_fingerprint

JOB = """
name: x
source: {kind: timeseries, files: f, time: {column: t}, features: [a]}
windows: {length: 3}
output: {path: o}
train: {model: {name: recurrent_autoencoder}, workdir: w}
"""
LABELS = "label=[{column: y}, {name: other, column: z}, {name: c, column: c, classes: auto}]"


def test_fingerprints_change_with_the_files_and_the_data(monkeypatch):
    files = [storage.FileStat("a", 1, 2)]
    base = data_fingerprint(parse_job(JOB), files)
    for changed in (("b", 1, 2), ("a", 2, 2), ("a", 1, 3)):
        assert data_fingerprint(parse_job(JOB), [storage.FileStat(*changed)]) != base
    assert data_fingerprint(parse_job(JOB), files) == base  # of each key, see test_fingerprint_keys.py

    run = run_fingerprint(parse_job(JOB).train, base)
    assert run_fingerprint(parse_job(JOB, ["train.epochs=99", "train.workdir=v"]).train, base) == run
    assert run_fingerprint(parse_job(JOB, ["train.model.latent=3"]).train, base) != run
    assert run_fingerprint(parse_job(JOB).train, "other data") != run
    monkeypatch.setattr(fingerprint, "ORDER", fingerprint.ORDER + 1)
    assert run_fingerprint(parse_job(JOB).train, base) != run


def test_a_label_is_part_of_the_dataset_and_the_task_is_not():
    def data(*overrides: str) -> str:
        return data_fingerprint(parse_job(JOB, ["train.task={name: reconstruct}", *overrides]), [])

    assert data() == data_fingerprint(parse_job(JOB), [])
    labels = [data("label={column: y}"), data("label={column: y, cap: 3}"), data("label={column: y, at: any}"), data()]
    assert len(set(labels)) == 4
    assert data("label={column: y}") == data("label=[{column: y}]")


@pytest.mark.parametrize(
    ("override", "free"),
    [
        ("train.epochs=99", True),
        ("train.max_steps=99", True),
        ("train.writers=[csv]", True),
        ("train.callbacks=['a:b']", True),
        ("train.evaluate_every=9", True),
        ("train.early_stopping={patience: 4}", True),
        ("train.workdir=v", True),
        ("train.checkpoint={every: 1m, keep: 9}", True),
        ("train.worker_timeout=9m", True),
        ("train.join_timeout=9m", True),
        ("train.devices.xla=true", True),
        ("train.devices.accumulate=4", True),
        ("train.optimizer.ema=0.9", False),
        ("train.init={from: base}", False),
        ("train.devices.collectives=ring", True),
        ("train.devices.deterministic=true", True),
        ("train.devices.precision=mixed_bfloat16", False),
        ("train.feed.cache=memory", True),
        ("train.feed.skip_corrupt=true", True),
        ("train.feed.batch_size=3", False),
        ("train.feed.shuffle=3", False),
        ("train.feed.seed=3", False),
        ("train.feed.lanes=8", True),  # refused by the checkpoint, which holds how many there are
        ("train.optimizer.learning_rate=0.5", True),
        ("train.optimizer.schedule={name: cosine, decay_steps: 9}", True),
        ("train.optimizer.weight_decay=0.1", True),
        ("train.optimizer.clip_norm=1", True),
        ("train.optimizer.name=sgd", False),
        ("train.seed=8", False),
        ("train.watch.metric=accuracy", False),
        ("train.task={name: regress, metrics: [mae]}", True),
        ("train.task={name: regress, loss: huber}", False),
        ("train.task={name: regress, target: other}", False),
        ("train.task={name: classify, target: c}", False),
        ("train.task={outputs: {regress: {name: regress}}}", False),
    ],
)
def test_which_keys_a_training_run_may_change(override, free):
    base = run_fingerprint(parse_job(JOB, [LABELS, "train.task={name: regress}"]).train, "data")
    changed = run_fingerprint(parse_job(JOB, [LABELS, "train.task={name: regress}", override]).train, "data")
    assert (changed == base) is free


def test_metrics_of_several_outputs_are_free_too():
    task = "train.task={outputs: {a: {name: regress%s}, b: {name: classify, target: c}}}"
    runs = [
        run_fingerprint(parse_job(JOB, [LABELS, task % more]).train, "d")
        for more in ("", ", metrics: [mae]", ", loss: mae")
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.parametrize(
    ("watched", "changed", "same"),
    [
        ("error", "[other:Error, mae]", False),  # decides which weights are the best
        ("error", "[own:Error]", True),
        ("error", "[mae, own:Error, auc]", True),
        ("mae", "[other:Error, mae]", True),
    ],
)
def test_the_watched_metric_is_part_of_a_training_run(watched, changed, same):
    def run(metrics):
        task = f"train.task={{name: regress, metrics: {metrics}}}"
        return run_fingerprint(parse_job(JOB, [LABELS, task, f"train.watch.metric={watched}"]).train, "d")

    assert (run("[own:Error, mae]") == run(changed)) is same


def test_the_watched_metric_of_one_of_several_outputs_is_too():
    task = (
        "train.task={outputs: {a: {name: regress, metrics: ['%s:Error']}, b: {name: regress, metrics: ['%s:Error']}}}"
    )
    runs = [
        run_fingerprint(parse_job(JOB, [LABELS, task % modules, "train.watch.metric=b_error"]).train, "d")
        for modules in (("own", "own"), ("other", "own"), ("own", "other"))
    ]
    assert runs[0] == runs[1] != runs[2]


def with_later_keys(section):
    """The section as a later version has it, and each section in it: a new key, and a new section, with defaults."""
    values = {name: getattr(section, name) for name in type(section).model_fields}
    values = {name: with_later_keys(value) if isinstance(value, Section) else value for name, value in values.items()}
    later = create_model("Later", __base__=type(section), later=(int, 3), newer=(Scale, Scale()))
    return later.model_construct(**values)


def test_a_new_key_with_a_default_changes_no_dataset_and_no_training_run():
    job = parse_job(JOB, [LABELS, "train.task={name: regress}", "train.optimizer={name: adam, ema: 0.9}"])
    later = with_later_keys(job)
    assert later.prepare.scale.later == later.train.optimizer.later == 3
    assert data_fingerprint(later, []) == data_fingerprint(job, [])
    assert run_fingerprint(later.train, "d") == run_fingerprint(job.train, "d")
    other = later.model_copy(update={"prepare": later.prepare.model_copy(update={"later": 4})})
    assert data_fingerprint(other, []) != data_fingerprint(job, [])
    newer = later.train.model_copy(update={"newer": Scale(how="robust")})
    assert run_fingerprint(newer, "d") != run_fingerprint(job.train, "d")
