"""The space of a sweep against the model of jobs, and its points against plain loops."""

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest

from beamfeed.contract.config.load import JobFile
from beamfeed.contract.errors import UserError
from beamfeed.launcher.job import job_model
from beamfeed.launcher.sweep.space import grid_point, grid_size, job_values, read_space

TEXT = """
name: tried
source: {kind: timeseries, files: in, time: {column: t}, features: [a]}
windows: {length: 8, stride: 2}
output: {path: out}
train: {model: {name: dense_autoencoder, units: [8], latent: 2}, workdir: w}
sweep:
  space:
"""


def read(*lines: str, overrides: Sequence[str] = ()) -> list:
    file = JobFile(TEXT + "".join(f"    {line}\n" for line in lines), "job.yaml", overrides)
    return read_space(file, file.job(job_model(sourced=False)).sweep)


def test_all_points_of_a_grid():
    dimensions = read(
        "train.optimizer.learning_rate: {low: 0.1, high: 0.4, step: 0.1}",
        "train.model: [{name: dense_autoencoder, units: [4], latent: 2}, {name: linear}]",
        "train.epochs: {low: 1, high: 6, step: 2}",
    )
    found = [job_values(dimensions, grid_point(dimensions, n)) for n in range(grid_size(dimensions))]
    expected = [
        {"train.optimizer.learning_rate": rate, "train.model": model, "train.epochs": epochs}
        for rate in (0.1, 0.2, 0.3, 0.4)
        for model in ({"name": "dense_autoencoder", "units": [4], "latent": 2}, {"name": "linear"})
        for epochs in (1, 3, 5)
    ]
    assert found == expected


def test_a_range_of_whole_numbers_is_one_where_the_key_takes_no_others():
    whole, real = read("train.model.latent: {low: 1, high: 4}", "train.optimizer.clip_norm: {low: 1, high: 4}")
    assert (whole.whole, real.whole) == (True, False)
    assert isinstance(real.range.low, float)


class Drawn:
    """Takes what a trial of Optuna would be asked."""

    def __init__(self):
        self.asked = {}

    def suggest_int(self, key, low, high, step, log):
        self.asked[key] = ("int", low, high, step, log)

    def suggest_float(self, key, low, high, step, log):
        self.asked[key] = ("float", low, high, step, log)

    def suggest_categorical(self, key, names):
        self.asked[key] = names


def test_what_is_asked_of_optuna():
    drawn = Drawn()
    for dimension in read(
        "train.model.latent: {low: 1, high: 8, log: true}",
        "train.optimizer.learning_rate: {low: 1e-4, high: 1e-2, log: true}",
        "train.model.units: [[4], [8, 4]]",
        "train.optimizer.clip_norm: [null, 1.5]",
    ):
        dimension.suggest(drawn)
    assert drawn.asked == {
        "train.model.latent": ("int", 1, 8, 1, True),
        "train.optimizer.learning_rate": ("float", 1e-4, 1e-2, None, True),
        "train.model.units": ["[4]", "[8, 4]"],
        "train.optimizer.clip_norm": [None, 1.5],
    }


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("train.optimiser.ema: [0.5, 0.9]", "train.optimiser: unknown key; did you mean 'optimizer'?"),
        ("train.optimizer.learning_rat: [0.5, 0.9]", "train.optimizer.learning_rat: unknown key; did you mean"),
        ("train.optimizer.name: [adam, adem]", "train.optimizer.name: 'adem' is not allowed; did you mean 'adam'?"),
        (
            "train.optimizer.learning_rate: {low: 0, high: 1}",
            "learning_rate: 0 is not allowed, it must be a number above",
        ),
        ("train.epochs: {low: 0.5, high: 4}", "train.epochs: 0.5 is not allowed, it must be a whole number above 0"),
        ("train.epochs: {low: 1, high: 4, step: 1.5}", "train.epochs: step is 1.5, it must be a whole number"),
        ("windows.length: [8, 16]", "windows.length: is no key of train; trials share one dataset"),
        ("train: [{}, 3]", "train: is no key of train"),
        ("train.workdir: [a, b]", "train.workdir: cannot be tried: each trial has a folder of its own"),
        ("train.watch.metric: [loss, x]", "train.watch.metric: cannot be tried: it says what is best"),
        ("train.seed.x: [1, 2]", "train.seed"),
    ],
)
def test_a_mistake_is_told_with_its_line(line, told):
    with pytest.raises(UserError) as caught:
        read("train.seed: [1, 2]", line)
    message = str(caught.value)
    assert message.startswith("job.yaml:10: sweep.space: ")
    assert told in message
    assert message.count("\n") == 0


def test_points_of_a_step_that_does_not_meet_the_end():
    (dimension,) = read("train.optimizer.learning_rate: {low: 0.1, high: 1, step: 0.25}")
    points = [dimension.point(number) for number in range(dimension.points)]
    assert points == pytest.approx(np.arange(0.1, 1.0001, 0.25))


def test_a_large_grid_is_not_built():
    keys = ("train.seed", "train.feed.seed", "train.feed.batch_size")
    dimensions = read(*(f"{key}: {{low: 1, high: 100, step: 1}}" for key in keys))
    tracemalloc.start()
    assert grid_size(dimensions) == 100**3
    assert grid_point(dimensions, 543_210) == dict(zip(keys, (55, 33, 11), strict=True))
    assert tracemalloc.get_traced_memory()[1] < 1e5
    tracemalloc.stop()


def test_a_key_and_one_below_it_do_not_go_together():
    model = "train.model: [{name: linear}, {name: dense_autoencoder, units: [4], latent: 2}]"
    for lines in ([model, "train.model.units: [[4], [8]]"], ["train.model.units: [[4], [8]]", model]):
        with pytest.raises(UserError, match=r"train\.model\.units: cannot be tried beside train\.model, whose values"):
            read(*lines)
    assert len(read("train.feed.seed: [1, 2]", "train.seed: [1, 2]")) == 2


PLAIN = "train.task={name: reconstruct}"
CLASSES = "train.task={name: classify, target: a}"
LABELS = "label=[{name: a, column: a, classes: auto}, {name: b, column: b}, {name: weight, column: c, role: weight}]"
SEVERAL = "train.task={outputs: {a: {name: classify, target: a}, b: {name: regress, target: b}}}"


@pytest.mark.parametrize(
    ("line", "overrides", "why"),
    [
        ("train.feed.where: [{country: DE}, {country: FR}]", [], "measured on the same data"),
        ("train.feed: [{batch_size: 8}, {where: {country: FR}}]", [], "measured on the same data"),
        ("train.task.loss: [mse, huber]", [PLAIN], "it changes what loss means"),
        ("train.task.class_weights: [null, balanced]", [LABELS, CLASSES], "it changes what loss means"),
        ("train.task.sample_weight: [null, weight]", [LABELS, CLASSES], "it changes what loss means"),
        ("train.task: [{name: reconstruct}, {name: reconstruct, loss: huber}]", [], "it changes what loss means"),
        ("train.task.outputs.b.weight: {low: 0.5, high: 2}", [LABELS, SEVERAL], "it changes what loss means"),
        (
            "train.task.outputs.b.loss: [mse, huber]",
            [LABELS, SEVERAL, "train.watch.metric=b_loss"],
            "what b_loss means",
        ),
    ],
)
def test_what_changes_the_meaning_of_the_metric_cannot_be_tried(line, overrides, why):
    with pytest.raises(UserError) as caught:
        read(line, overrides=overrides)
    assert f"{line.partition(':')[0]}: cannot be tried: " in str(caught.value)
    assert why in str(caught.value)


def test_a_loss_can_be_tried_where_another_metric_decides():
    (loss,) = read("train.task.loss: [mse, huber]", overrides=[PLAIN, "train.watch.metric=mean_absolute_error"])
    assert loss.choices == ("mse", "huber")
    assert read("train.task.threshold: [0.4, 0.5]", overrides=[LABELS, CLASSES])
