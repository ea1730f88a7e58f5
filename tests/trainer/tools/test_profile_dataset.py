"""`beamfeed profile`: as a user runs it, and what it makes of its figures. No test looks at a time."""

import json
import re
import subprocess
import sys

import pytest
import yaml
from datasets import write_dataset
from records import FIELDS, make_records

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.options import PROFILE
from beamfeed.trainer.tools import measurements
from beamfeed.trainer.tools.measurements import (
    MOST_ROUNDS,
    OPTIONS,
    STAGES,
    Feeding,
    measure_options,
    measure_stages,
    until_steady,
)
from beamfeed.trainer.tools.profile_dataset import Countdown, main
from beamfeed.trainer.tools.profile_report import (
    Figure,
    OptionRate,
    Profile,
    StageRate,
    StepTimes,
    describe,
    draw,
    limit,
)


def profile(**changes) -> Profile:
    stages = [StageRate(name, 1e6, 500.0, 0.1) for name in STAGES]
    stages[STAGES.index("batch")] = StageRate("batch", 1e6, 500.0, 0.7)
    options = [OptionRate(name, 2e6, 1e6) for name in OPTIONS[:-1]]
    options.append(OptionRate(OPTIONS[-1], None, None, "not measured"))
    figures = {
        "dataset": "data",
        "batch_size": 100,
        "shuffle": 10,
        "bytes_per_window": 500.0,
        "first_read": 2e6,
        "stages": stages,
        "plain": 1e6,
        "options": options,
        "steps": None,
    }
    return Profile(**{**figures, **changes})


@pytest.fixture
def once(monkeypatch):
    """Each figure is measured once, steady or not."""
    for rounds in ("ROUNDS", "MOST_ROUNDS"):
        monkeypatch.setattr(measurements, rounds, 1)


def beamfeed(*args):
    command = [sys.executable, "-m", "beamfeed.launcher.cli", "profile", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_it_measures_every_stage_every_option_and_the_steps_of_a_job(written, job, tmp_path):
    path, out = tmp_path / "job.yaml", tmp_path / "out"
    made = job()
    path.write_text(yaml.safe_dump(made.model_dump(mode="json", by_alias=True)))
    result = beamfeed(
        written.output, "--job", path, "--set", "output.path=elsewhere", "--seconds", "0.01", "--out", out
    )
    assert result.returncode == 0, result.stderr
    first_words = [line.split("  ")[0] for line in result.stdout.splitlines()]
    assert [word for word in first_words if word in STAGES or word in OPTIONS] == [*STAGES, *OPTIONS]
    assert "batches of 8, shuffle 32" in result.stdout  # the job's
    last = result.stdout.splitlines()[-1]
    assert last.endswith("% of a training step is spent waiting for input.") or last.startswith("No conclusion: ")
    assert [line for line in result.stderr.splitlines() if not line.startswith("profile: ")] == []
    found = json.loads((out / "profile.json").read_text())
    assert [stage["name"] for stage in found["stages"]] == list(STAGES)
    assert [option["name"] for option in found["options"]] == list(OPTIONS)
    assert 0 <= found["steps"]["share_waiting"] <= 1
    assert found["limit"] == result.stdout.splitlines()[-1]
    assert (out / "profile.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "run").exists()  # nothing of the training is kept


def test_what_it_tells_a_user(written, tmp_path, capsys):
    for arguments, told in [
        ([str(tmp_path)], "no dataset"),
        ([written.output], "holds 68 windows, fewer than one batch of 256"),
        ([written.output, "--set", "train.epochs=1"], "goes with --job"),
        ([written.output, "--job", f"{tmp_path}/none.yaml"], "no such job file"),
    ]:
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert told in error
        assert "Traceback" not in error
    for option, told in [("--seconds", "a number of seconds above 0"), ("--batch", "a whole number above 0")]:
        with pytest.raises(SystemExit, match="2"):
            PROFILE.parse([written.output, option, "0"])
        assert f"argument {option}: '0' is not {told}" in capsys.readouterr().err


def test_a_damaged_shard_is_named(written, capsys):
    path = written.shards()[0]
    with open(path, "r+b") as file:
        file.seek(20)
        file.write(b"\xff\xff")
    assert main([written.output, "--batch", "8", "--seconds", "0.01"]) == 2
    assert f"{path}: damaged" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(("compression", "records"), [("gzip", "segments"), ("none", "windows")])
def test_every_format_can_be_measured(helpers, tmp_path, once, compression, records):
    segments = {"train": helpers.segments_of([20, 33, 8], 2)}
    written = helpers.write_dataset(
        str(tmp_path), segments, length=8, stride=3, compression=compression, records=records
    )
    feeding = Feeding(written.manifest, written.output, batch_size=4, shuffle=8, seconds=0.01)
    said = []
    stages = measure_stages(feeding, said.append)
    plain, options = measure_options(feeding, 1e9, said.append)
    assert [stage.name for stage in stages] == list(STAGES)
    assert all(stage.windows_per_second > 0 for stage in stages)
    assert plain > 0
    assert all(option.alone and option.flipped for option in options)
    assert measurements.first_read(feeding) > 0


def test_what_a_cache_takes_is_known_before(helpers, tmp_path):
    segments = {"train": helpers.segments_of([20, 33, 8], 2)}
    for compression in ("none", "gzip"):
        written = helpers.write_dataset(str(tmp_path), segments, length=8, stride=3, compression=compression)
        feeding = Feeding(written.manifest, written.output, batch_size=4, shuffle=8, seconds=0.01)
        assert measurements.cached_bytes(feeding) == 4 * 2 * (20 + 33 + 8)


@pytest.mark.slow
def test_every_kind_of_field_can_be_measured(tmp_path, once):
    windows = Windows(length=4, stride=2)
    manifest = write_dataset(
        str(tmp_path), FIELDS, {"train": make_records(FIELDS, [[9, 5, 12], [30]], windows)}, windows
    )
    stages = measure_stages(Feeding(manifest, str(tmp_path), batch_size=4, shuffle=8, seconds=0.01), lambda _: None)
    assert all(stage.windows_per_second > 0 for stage in stages)


def test_a_cache_that_would_not_fit_or_take_too_long_is_left_out(written, monkeypatch):
    feeding = Feeding(written.manifest, written.output, batch_size=8, shuffle=8, seconds=0.01)
    monkeypatch.setattr(measurements, "cached_bytes", lambda feeding: 10**18)
    option = measurements._measure_cache(feeding, "cache memory", 1e6)
    assert option.alone is None
    assert "GB for it" in option.note
    assert "would take 68 s" in measurements._measure_cache(feeding, "cache file", 1.0).note


def test_extra_times_add_up_and_are_never_below_zero():
    found = measurements.extra_times([1e6, 5e5, 1e6, 2.5e5])
    assert found == pytest.approx([1, 0, 0, 3])


def test_the_last_line_says_what_limits():
    assert limit(profile()) == "The feed gives 1,000,000 windows/s; 0.70 of 1.00 us a window go to gathering batches."
    slow = limit(profile(first_read=1e5))
    assert slow.endswith("in the first epoch storage gives 50 MB/s, 10% of that.")
    model = limit(profile(steps=StepTimes(resident=0.05, fed=0.05, waiting=0.0002, asking=0.0001, devices=1)))
    assert model.startswith("The model limits: its step takes 50.0 ms, the feed could give 500 times")
    assert model.endswith("0.40% of a training step is spent waiting for input.")
    feed = limit(profile(steps=StepTimes(resident=0.001, fed=0.004, waiting=0.003, asking=0.0001, devices=1)))
    assert feed.startswith("The input limits: 0.70 of 1.00 us")
    assert feed.endswith("75.00% of a training step is spent waiting for input.")


def test_nothing_is_concluded_from_noise():
    times = {"resident": 0.01912, "fed": 0.01402, "waiting": 0.003, "asking": 0.0001, "devices": 1}
    told = limit(profile(steps=StepTimes(**times)))
    assert told.startswith("No conclusion: a step that waits for its batch took 14.02 ms, less than the model alone")
    assert limit(profile(steps=StepTimes(**{**times, "fed": 0.022}))).startswith("The input limits: ")
    unsteady = limit(profile(steps=StepTimes(**{**times, "fed": 0.022}, spread=0.3)))
    assert unsteady.startswith("No conclusion: the figures did not get steady, the same one differs by 30%")
    stages = [StageRate(name, 1e6, 500.0, 0.1, spread=0.25 * (name == "parse")) for name in STAGES]
    assert limit(profile(stages=stages)).startswith("No conclusion: ")
    fed = limit(profile(stages=stages, steps=StepTimes(**{**times, "fed": 0.022})))
    assert fed.startswith("The input limits: which stage costs most is not known")
    assert any(line.endswith("not steady: 25% apart") for line in describe(profile(stages=stages)))


def test_figures_are_measured_until_they_agree():
    rounds = iter([[1.0, 10.0], [2.0, 10.0], [2.0, 10.5], [2.1, 10.2], [9.0, 9.0]])
    found = until_steady(lambda: next(rounds))
    assert found == [Figure(2.0, pytest.approx(0.05)), Figure(10.2, pytest.approx(0.5 / 10.2))]
    assert next(rounds) == [9.0, 9.0]  # no more than is needed


def test_figures_that_never_agree_are_told_as_they_are():
    rounds = iter([[1.0], [2.0]] * 10)
    (found,) = until_steady(lambda: next(rounds))
    assert not found.is_steady
    assert len(list(rounds)) == 20 - MOST_ROUNDS


def test_it_says_how_long_it_takes(capsys):
    say = Countdown(22, 2.0)
    say("first read")
    say("stage read")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "profile: 22 measurements: about 77 s, up to 165 s where figures are not steady"
    assert lines[1] == "profile: first read"
    assert re.fullmatch(r"profile: stage read, about \d+ s left", lines[2])


def test_the_table_and_the_figure_show_what_was_measured():
    steps = StepTimes(resident=0.05, fed=0.05, waiting=0.0002, asking=0.0001, devices=1)
    lines = describe(profile(steps=steps))
    assert any(line.split() == ["interleave", "2.00x", "1.00x", "off"] for line in lines)
    assert any(line.split() == ["cache", "file", "-", "-", "on", "not", "measured"] for line in lines)
    assert any(line.split() == ["model", "alone", "50.00", "2,000"] for line in lines)
    assert draw(profile(steps=steps)).startswith(b"\x89PNG")
    assert json.dumps(profile(steps=steps).to_json())
