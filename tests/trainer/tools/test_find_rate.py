"""`beamfeed train --find-lr`."""

import json
import os

import numpy as np
import pytest
import yaml

from beamfeed.trainer.tools.find_rate import is_too_high, main, rates_of, smooth, steepest


def test_rates_grow_by_a_factor():
    rates = rates_of(5, 1e-3, 10.0)
    np.testing.assert_allclose(rates, [1e-3, 1e-2, 1e-1, 1, 10])


def test_the_average_is_that_of_all_shares():
    losses = np.random.default_rng(0).normal(size=20)
    shares = 0.1 * 0.9 ** np.arange(20)
    for number in range(1, 21):
        expected = np.sum(shares[:number] * losses[:number][::-1]) / np.sum(shares[:number])
        assert smooth(losses[:number])[-1] == pytest.approx(expected)


def test_the_steepest_place_of_a_slope():
    rates = rates_of(101, 1e-5, 1.0)
    losses = [1 / (1 + np.exp(2 * (np.log10(rate) + 3))) for rate in rates]  # steepest at 1e-3
    assert steepest(rates, losses) == pytest.approx(1e-3)
    rising = [*losses, *np.linspace(losses[-1], 40, 50)]
    assert steepest(rates_of(151), rising) == steepest(rates_of(151), [*losses, *([losses[-1]] * 50)])


@pytest.mark.parametrize("losses", [[1.0] * 9, list(range(9))])
def test_what_never_falls_has_none(losses):
    assert steepest(rates_of(9), losses) is None


@pytest.mark.parametrize(
    ("losses", "high"),
    [
        ([1.0, 0.5, 0.2, 0.9], False),
        ([1.0, 0.5, 0.2, 3.5], True),
        ([1.0, 1.1, 1.2], False),
        ([1.0, 1.1, 2.1], True),
        ([-1.0, -3.0, -2.0], False),
        ([-1.0, -3.0, 5.5], True),
    ],
)
def test_a_loss_that_is_too_high(losses, high):
    assert is_too_high(losses) is high


@pytest.fixture
def run(job, tmp_path, capsys):
    """Runs the tool on the job with some overrides; what it returns, prints and complains of."""

    def call(*overrides):
        path = tmp_path / "job.yaml"
        path.write_text(yaml.safe_dump(job().model_dump(mode="json", by_alias=True)))
        code = main(["--job", str(path), *(part for one in overrides for part in ("--set", one))])
        return code, *capsys.readouterr()

    return call


def test_it_prints_a_rate_and_draws_and_keeps_nothing(run, tmp_path):
    workdir = tmp_path / "tried"
    schedule = "train.optimizer.schedule={name: cosine, decay_steps: 9}"
    code, out, _ = run(f"train.workdir={workdir}", "train.model.linear=false", schedule)
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.startswith("the loss falls fastest at ")]
    rate = float(line.split()[5].rstrip(":"))
    assert 1e-6 < rate < 10
    assert f"train.optimizer.learning_rate={json.loads(f'{rate:.0e}'):.0e}" in line
    assert os.listdir(workdir) == ["learning_rate.png"]
    assert (workdir / "learning_rate.png").read_bytes().startswith(b"\x89PNG")


def test_a_mistake_is_one_line(run):
    code, out, error = run("train.task={name: classify, target: kind}")
    assert (code, out) == (2, "")
    assert error.count("\n") == 1
    assert "kind" in error
