"""The section `sweep` of a job file, and what is told of its mistakes."""

import pytest
from job_text import complaint

from beamfeed.contract.config.load import parse_as
from beamfeed.contract.config.sweep import Range
from beamfeed.launcher.job import job_model

TEXT = """
name: tried
source: {kind: timeseries, files: in, time: {column: t}, features: [a]}
windows: {length: 8, stride: 2}
output: {path: out}
train: {model: {name: dense_autoencoder, units: [8], latent: 2}, workdir: w}
sweep:
  space:
    train.optimizer.learning_rate: {low: 1e-4, high: 0.1, log: true}
    train.model.units: [[4], [8, 4]]
"""


def space(text: str) -> dict:
    return parse_as(job_model(), TEXT, [f"sweep={{space: {{{text}}}}}"]).sweep.space


def test_numbers_without_a_point_are_numbers():
    section = parse_as(job_model(), TEXT).sweep
    assert section.space["train.optimizer.learning_rate"] == Range(low=0.0001, high=0.1, log=True)
    assert section.space["train.model.units"] == [[4], [8, 4]]
    assert space("train.optimizer.clip_norm: [1e-1, 5]") == {"train.optimizer.clip_norm": [0.1, 5]}
    assert (section.trials, section.sampler, section.pruner) == (None, "tpe", "median")


@pytest.mark.parametrize(
    ("override", "line"),
    [
        (
            "sweep.sampler=grit",
            "sweep.sampler: 'grit' is not allowed; did you mean 'grid'? (allowed: tpe, random, grid)",
        ),
        ("sweep.trial=3", "sweep.trial: unknown key; did you mean 'trials'?"),
        ("sweep.space={}", "sweep.space: needs a mapping"),
        ("sweep.space={train.epochs: 3}", "sweep.space.train.epochs: must be a list of values, such as [32, 64], or"),
        ("sweep.space={train.epochs: [3]}", "sweep.space.train.epochs: needs at least two values"),
        ("sweep.space={train.epochs: [3, 4, 3]}", "sweep.space.train.epochs: holds 3 twice"),
        ("sweep.space={train: {epochs: [3, 4]}}", "keys are written with dots, train.optimizer.learning_rate"),
        ("sweep.space={train.epochs: {low: 3}}", "sweep.space.train.epochs.high: is missing, it must be a number"),
        ("sweep.space={train.epochs: {low: 3, high: 2}}", "low is 3, it must be below high, which is 2"),
        ("sweep.space={train.epochs: {low: 0, high: 2, log: true}}", "low is 0, with log it must be above 0"),
        ("sweep.space={train.epochs: {low: 1, high: 2, step: 0}}", "step is 0, it must be above 0, up to high - low"),
        ("sweep.space={train.epochs: {low: 1, high: 2, steps: 1}}", "steps: unknown key; did you mean 'step'?"),
        ("sweep.sampler=grid", "sampler: grid needs a list of values, or a step, for train.optimizer.learning_rate"),
    ],
)
def test_mistakes(override, line):
    (told,) = complaint(TEXT, override).splitlines()
    assert line in told
