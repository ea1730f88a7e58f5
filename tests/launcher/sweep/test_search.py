"""How trials are chosen, followed, ended and gone on with; Optuna is real, trainers are not."""

import os
import statistics
from dataclasses import replace

import pytest

from beamfeed.contract.config.train import Train
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.launcher.backends.local import backend as local_backend
from beamfeed.launcher.sweep import trials as trials_module
from beamfeed.launcher.sweep.results import read_leaderboard, write_results
from beamfeed.launcher.sweep.search import run_trials
from beamfeed.launcher.sweep.study import next_trial, open_study, retry_failed, taken_up
from beamfeed.launcher.sweep.trials import is_over, start_trial

optuna = pytest.importorskip("optuna", reason="Optuna is not installed (pip install 'beamfeed[sweep]')")


def run(search, study, after=None):
    """Runs a sweep; returns its events. `after` is called when a trial has ended."""
    events = []
    run_trials(search, study, lambda what, number, more: events.append((what, number, more)), after or (lambda: None))
    return events


def params(study):
    return [trial.params for trial in study.get_trials(deepcopy=False)]


def test_the_choices_follow_from_the_seed_also_of_a_sweep_that_was_stopped(make, trainers, tmp_path):
    trainers(0)
    search = make("sweep.trials=12", "sweep.space={train.seed: {low: 100, high: 1000}}")
    study = open_study(search)
    run(search, study)
    whole = params(study)
    assert len({one["train.seed"] for one in whole}) > 6
    for name in os.listdir(search.folder):
        os.rename(f"{search.folder}/{name}", tmp_path / f"whole-{name}")

    for trials in (5, 11, 12):
        part = make(f"sweep.trials={trials}", "sweep.space={train.seed: {low: 100, high: 1000}}")
        study = open_study(part)
        run(part, study)
    assert params(study) == whole
    other = make("sweep.trials=12", "sweep.seed=8")
    assert params(study)[0] != next_trial(optuna.create_study(), other).params


def test_what_was_running_is_gone_on_with(make, trainers):
    trainers(0)
    search = make("sweep.trials=3")
    study = open_study(search)
    killed = next_trial(study, search)  # and nobody tells of it any more
    del study
    with open(f"{search.folder}/journal.log", "a") as journal:
        journal.write('{"op_code": 4, "wor')  # a line that was being written
    open(f"{search.folder}/journal.log.lock", "w").close()

    study = open_study(search)
    (trial,) = taken_up(study, search)
    assert (trial.number, trial.params) == (0, killed.params)
    events = run(search, study)
    assert [number for what, number, _ in events if what == "begins"] == [0, 1, 2]
    assert {trial.state.name for trial in study.get_trials()} <= {"COMPLETE", "FAIL"}
    assert run(search, study) == []
    assert run(make("sweep.trials=4"), study)[0][1] == 3


def test_a_trial_of_which_only_a_part_was_drawn_is_drawn_to_its_end(make):
    search = make()
    study = open_study(search)
    study.ask().suggest_int("train.seed", 1, 1000)
    (trial,) = taken_up(open_study(search), search)
    assert set(trial.params) == {"train.seed", "train.optimizer.clip_norm"}


def test_a_failed_trial_is_kept_with_its_reason_and_the_others_go_on(make, trainers):
    trainers(0)
    search = make("sweep.sampler=grid", "sweep.space={train.seed: [500, 50, 300]}")
    study = open_study(search)
    events = run(search, study, lambda: write_results(search, read_leaderboard(search, study)))
    assert [(what, number) for what, number, _ in events if what not in ("begins", "evaluation")] == [
        ("done", 0), ("failed", 1), ("done", 2),
    ]  # fmt: skip
    assert [more["value"] for what, number, more in events if what == "evaluation" and number == 2] == [300, 150, 100]
    board = read_leaderboard(search, study)
    assert [(one.number, one.state, one.value, one.reason) for one in board.places] == [
        (2, "done", 100, ""), (0, "done", pytest.approx(500 / 3), ""), (1, "failed", None, "the seed is bad"),
    ]  # fmt: skip


def test_values_that_do_not_go_together_are_a_failed_trial(make, trainers):
    trainers(0)
    schedule = "train.optimizer.schedule"
    space = f"{{{schedule}.name: [constant, linear], {schedule}.decay_steps: [null, 5, 6]}}"
    with pytest.raises(UserError, match=r"sweep\.space: train\.optimizer\.schedule"):
        make("sweep.sampler=grid", f"sweep.space={space}")
    search = make("sweep.sampler=grid", f"{schedule}={{name: linear}}", f"sweep.space={space}", "train.seed=200")
    study = open_study(search)
    events = run(search, study)
    failed = [more["reason"] for what, _, more in events if what == "failed"]
    assert len(failed) == 2
    assert all("decay_steps" in reason for reason in failed)
    assert [trial.state.name for trial in study.get_trials()] == [
        "COMPLETE", "FAIL", "FAIL", "COMPLETE", "COMPLETE", "COMPLETE",
    ]  # fmt: skip


def test_failed_trials_are_tried_again_when_asked_for(make, trainers):
    """A grid whose trials fail below a seed of 100, until the trainer is mended."""
    trainers(0)
    seeds = [500, 50, 60, 300]
    search = make("sweep.sampler=grid", f"sweep.space={{train.seed: {seeds}}}", "sweep.trials=3")
    study = open_study(search)
    run(search, study)
    search = make("sweep.sampler=grid", f"sweep.space={{train.seed: {seeds}}}")
    trainers(0, least=0)
    retry_failed(study)
    retry_failed(study)  # as after a kill: each is enqueued once
    events = run(search, study, lambda: write_results(search, read_leaderboard(search, study)))
    assert [(number, more["params"]["train.seed"]) for what, number, more in events if what == "begins"] == [
        (3, 50), (4, 60), (5, 300),
    ]  # fmt: skip
    board = read_leaderboard(search, study)
    assert [(one.number, one.state) for one in board.places] == [(3, "done"), (4, "done"), (5, "done"), (0, "done")]
    retry_failed(study)
    assert run(search, study) == []


def test_a_sweep_ends_when_trials_in_a_row_fail_at_once(make, trainers):
    trainers(0)
    seeds = [50, 500, 60, 70, 80, 90, 300]
    search = make("sweep.sampler=grid", f"sweep.space={{train.seed: {seeds}}}")
    study = open_study(search)
    line = "3 trials in a row failed at once: the seed is bad; mend it and run again with --retry-failed"
    with pytest.raises(JobFailed, match=line):
        run(search, study)
    assert [trial.state.name for trial in study.get_trials()] == ["FAIL", "COMPLETE", "FAIL", "FAIL", "FAIL"]
    trainers(0, least=0)
    retry_failed(study)
    run(search, study)
    assert sorted(one.params["train.seed"] for one in read_leaderboard(search, study).places) == sorted(seeds)
    assert {one.state for one in read_leaderboard(search, study).places} == {"done"}


def test_the_cores_of_a_machine_are_shared_by_all_workers_of_all_trials(make, monkeypatch):
    started = []
    monkeypatch.setattr(trials_module, "start_process", lambda title, process: started.append(process))
    monkeypatch.setattr(local_backend, "available_cores", lambda: 12)
    for name in local_backend.THREADS:
        monkeypatch.delenv(name, raising=False)
    search = make("launch.train.workers=3", parallel=2)
    trial = next_trial(open_study(search), search)
    start_trial(trial, search.trial_job(0, {}), search, 1)
    assert started[0].env == {**dict.fromkeys(local_backend.THREADS, "2"), "BEAMFEED_SHARE": "1/2"}
    assert started[0].command[-2:] == ("--data", "data")


def test_a_bad_trial_is_ended_as_soon_as_it_is_worse_than_half_of_the_others(make, trainers):
    seeds = [200, 210, 220, 230, 240, 1000, 100]
    space = f"sweep.space={{train.seed: {seeds}}}"
    trainers(0)
    search = make("sweep.sampler=grid", "sweep.pruner=median", "train.epochs=40", space, "sweep.trials=5")
    study = open_study(search)
    run(search, study)
    trainers(0.2)  # as long as it takes to see that it is bad, and eight seconds to its end
    search = make("sweep.sampler=grid", "sweep.pruner=median", "train.epochs=40", space, "sweep.trials=6")
    events = run(search, study)
    assert events[-1][:2] == ("pruned", 5)
    assert events[-1][2]["evaluations"] == 1
    assert events[-1][2]["seconds"] < 6
    assert not os.path.exists(f"{search.trial_folder(5)}/complete.json")
    assert study.trials[5].intermediate_values == {1: 1000}
    assert statistics.median(seeds[:5]) < 1000
    trainers(0)
    events = run(make("sweep.sampler=grid", "sweep.pruner=median", "train.epochs=40", space), study)
    assert events[-1][0] == "done"
    assert read_leaderboard(search, study).best.number == 6


def test_what_a_busy_machine_sees_late_does_not_count(make, trainers):
    """A trial that has come to its end before anybody looked is judged as one that was seen at once."""
    trainers(0)
    search = make(
        "sweep.sampler=grid", "sweep.pruner=median", "train.epochs=4",
        "sweep.space={train.seed: [200, 210, 220, 230, 240, 1000]}",
    )  # fmt: skip
    study = open_study(search)
    events = run(search, study)
    assert events[-1][:2] == ("pruned", 5)
    assert study.trials[5].intermediate_values == {1: 1000}


def test_several_at_once(make, trainers):
    trainers(0.3)
    search = make("sweep.trials=4", "sweep.space={train.seed: {low: 100, high: 1000}}", parallel=3)
    events = run(search, open_study(search))
    assert [what for what, _, _ in events if what != "evaluation"][:3] == ["begins"] * 3
    going = most = 0
    for what, _, _ in events:
        going += {"begins": 1, "done": -1}.get(what, 0)
        most = max(most, going)
    assert (going, most) == (0, 3)


def test_an_interrupted_sweep_leaves_no_process_and_goes_on(make, trainers):
    trainers(30)
    search = make("sweep.trials=2", "sweep.space={train.seed: [300, 400]}", "sweep.sampler=grid", parallel=2)
    study = open_study(search)

    def interrupt(what, number, more):
        if (what, number) == ("evaluation", 1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_trials(search, study, interrupt, lambda: None)
    lines = os.popen(f"ps -eo args | grep {search.folder} | grep -v grep").read()
    assert lines == ""
    assert {trial.state.name for trial in study.get_trials()} == {"RUNNING"}
    trainers(0)
    events = run(search, open_study(search))
    assert sorted(number for what, number, _ in events if what == "done") == [0, 1]


def test_other_data_end_a_sweep_and_nothing_is_lost(make, trainers, publish, tmp_path):
    trainers(0)
    search = make("sweep.trials=3", "sweep.space={train.seed: [300, 400, 500]}", "sweep.sampler=grid")
    study = open_study(search)
    with pytest.raises(JobFailed, match=rf"{tmp_path}/data: changed while the sweep went on"):
        run(search, study, lambda: publish("other"))  # between two trials
    assert [trial.state.name for trial in study.get_trials()] == ["COMPLETE", "RUNNING"]

    def change(what, number, more):
        if what == "evaluation":
            publish("other")

    publish("data")
    with pytest.raises(JobFailed, match="start again with --restart, or with another --out"):
        run_trials(search, study, change, lambda: None)  # while one is running
    assert [trial.state.name for trial in study.get_trials()] == ["COMPLETE", "RUNNING"]
    publish("data")
    assert [number for what, number, _ in run(search, study) if what == "done"] == [1, 2]


def test_another_sweep_in_the_folder_is_refused(make):
    search = make()
    open_study(search)
    open_study(make("sweep.trials=99", "train.seed=5", "train.checkpoint.keep=1", "train.workdir=elsewhere"))
    for change, events in (
        ("train.epochs=4", "train.epochs: was 3, is now 4"),
        ("sweep.seed=8", "sweep.seed: was 7, is now 8"),
        ("sweep.space={train.seed: [1, 2]}", "sweep.space.train.seed: was {'low': 1"),
    ):
        other = make(change)
        with pytest.raises(UserError) as caught:
            open_study(other)
        assert f"{search.folder}: holds another sweep ({events}" in str(caught.value)
    with pytest.raises(UserError, match="dataset: was data, is now other"):
        open_study(replace(search, data="other"))


def test_how_many_trials_there_are(make):
    assert make().trials == 20
    grid = "sweep.space={train.seed: [1, 2, 3], train.optimizer.clip_norm: {low: 0.5, high: 2, step: 0.5}}"
    assert make("sweep.sampler=grid", grid).trials == 12
    assert make("sweep.sampler=grid", grid, "sweep.trials=5").trials == 5
    assert make("sweep.sampler=grid", grid, "sweep.trials=50").trials == 12


@pytest.mark.parametrize(
    ("section", "scores", "over"),
    [
        ({"epochs": 3}, [5, 4], False),
        ({"epochs": 3}, [5, 4, 3], True),
        ({"epochs": 9, "max_steps": 20}, [5, 4], True),
        ({"epochs": 9, "early_stopping": {"patience": 2}}, [5, 6, 5], True),
        ({"epochs": 9, "early_stopping": {"patience": 2}}, [5, 6, 4.9], False),
        ({"epochs": 9, "early_stopping": {"patience": 2, "min_delta": 0.5}}, [5, 4.8, 4.6], True),
        ({"epochs": 9, "early_stopping": {"patience": 2}}, [float("nan"), 5, 6], False),
    ],
)
def test_when_a_run_ends_by_itself(section, scores, over):
    train = Train.model_validate({"model": {"name": "linear"}, "workdir": "w", **section})
    lines = [{"epoch": at, "step": 10 * at} for at in range(1, len(scores) + 1)]
    assert is_over(lines, scores, train) is over
