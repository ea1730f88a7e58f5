"""Runs the trials of a sweep, some at a time, each to its end or until it looks bad."""

import math
import time
from collections.abc import Callable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

from beamfeed.contract.dataset.manifest import find_fingerprint
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.launcher.plan import SAVE_SECONDS
from beamfeed.launcher.processes import end_all
from beamfeed.launcher.sweep.space import Search, job_values
from beamfeed.launcher.sweep.study import current_trials, next_trial, taken_up
from beamfeed.launcher.sweep.trials import Going, is_over, start_trial

if TYPE_CHECKING:
    import optuna

POLL_SECONDS = 0.1
AT_ONCE = 3  # trials in a row that fail before they have evaluated anything: it is not for their values
GRACE_SECONDS = SAVE_SECONDS + 10  # the launcher of a trial gives its trainer that long to save

Tell = Callable[[str, int, Mapping[str, Any]], None]  # begins, evaluation, done, pruned or failed; of a trial; more
ALONE = {"after": [], "train.floor": False, "launch.train.restarts": 0}  # a trial is only trained, and once


def run_trials(search: Search, study: "optuna.Study", tell: Tell, ended: Callable[[], None]) -> None:
    """Runs trials until there are as many as asked for.

    Those that were running when an earlier process ended are gone on with first. However this ends, no process is
    left; trials that had not ended are saved by their trainers, and are taken up by the next start.

    Args:
      search: what is to do.
      study: of Optuna, which learns of all that happens.
      tell: what happens.
      ended: is called when a trial has ended.

    Raises:
      JobFailed: if the dataset has changed, or some trials in a row have failed before they evaluated anything.
    """
    waiting = taken_up(study, search)
    slots: dict[int, Going] = {}
    reasons: list[str] = []  # of the last trials, as far as they failed at once

    def is_room() -> bool:
        done = sum(trial.state.is_finished() for trial in current_trials(study))
        return len(slots) < search.parallel and (bool(waiting) or done + len(slots) < search.trials)

    try:
        while slots or is_room():
            while is_room():
                if len(reasons) >= AT_ONCE:
                    raise JobFailed(
                        f"{len(reasons)} trials in a row failed at once: {reasons[-1]}; mend it and run again with "
                        "--retry-failed"
                    )
                trial = waiting.pop(0) if waiting else next_trial(study, search)
                slot = min(set(range(search.parallel)) - slots.keys())
                going = _start(search, study, trial, slot, tell)
                if going is None:
                    ended()
                else:
                    slots[slot] = going
            for slot, going in list(slots.items()):
                over = going.running.ended()  # asked before the metrics are read: then nothing of them is missed
                _look(study, going, tell)
                if over:
                    _check_data(search)  # what it has come to counts only then; till then it is one to go on with
                    reasons = [*reasons, going.why_failed()] if going.failed_at_once() else []
                    _end(study, going, tell)
                    del slots[slot]
                    ended()
            time.sleep(POLL_SECONDS)
    finally:
        try:
            end_all([going.running for going in slots.values()], GRACE_SECONDS)
        finally:
            for going in slots.values():
                going.trial.set_user_attr("seconds", going.seconds())
                going.close()


def _check_data(search: Search) -> None:
    """Raises JobFailed where the dataset is not that of the sweep any more."""
    output = search.job.output.path
    if find_fingerprint(output) != search.data:
        raise JobFailed(
            f"{output}: changed while the sweep went on, and trials on other data cannot be compared; start again "
            "with --restart, or with another --out"
        )


def _start(search: Search, study: "optuna.Study", trial: "optuna.Trial", slot: int, tell: Tell) -> Going | None:
    """Starts a trial; None where its values do not make a job."""
    _check_data(search)
    values = job_values(search.dimensions, trial.params)
    tell("begins", trial.number, {"params": values, "folder": search.trial_folder(trial.number)})
    try:
        job = search.trial_job(trial.number, values, **ALONE)
    except UserError as error:
        _fail(study, trial, str(error).splitlines()[0], tell)
        return None
    return start_trial(trial, job, search, slot)


def _look(study: "optuna.Study", going: Going, tell: Tell) -> None:
    """Takes in what was measured since the last look, and ends a trial that looks bad."""
    watched = going.watched()
    if watched is None:
        return
    for line in going.new_lines():
        value = watched.value(line)
        going.lines.append(line)
        going.scores.append(math.nan if value is None else watched.turned(value))
        if going.pruned_at:  # what it does until it has ended does not count: that depends on how busy the machine is
            continue
        step = len(going.lines)
        if step not in study.get_trials(deepcopy=False)[going.number].intermediate_values:  # one taken up has some
            going.trial.report(going.scores[-1], step)
            tell("evaluation", going.number, {"value": value, "values": line})
        if not is_over(going.lines, going.scores, going.train) and _looks_bad(study, going.number, step):
            going.pruned_at = step
            going.running.terminate()


def _looks_bad(study: "optuna.Study", number: int, step: int) -> bool:
    """Whether the pruner would end a trial after so many evaluations."""
    trial = copy(study.get_trials(deepcopy=False)[number])
    trial.intermediate_values = {at: value for at, value in trial.intermediate_values.items() if at <= step}
    return bool(study.pruner.prune(study, trial))


def _end(study: "optuna.Study", going: Going, tell: Tell) -> None:
    """Tells how a trial has ended."""
    import optuna

    state = optuna.trial.TrialState
    seconds = going.seconds()
    result, watched = going.result(), going.watched()
    going.trial.set_user_attr("seconds", seconds)
    if watched is not None and going.lines:
        going.trial.set_user_attr("metric", watched.name(going.lines[0]))
        going.trial.set_user_attr("mode", watched.mode)
    if going.pruned_at:
        study.tell(going.trial, state=state.PRUNED)
        tell("pruned", going.number, {"evaluations": going.pruned_at, "seconds": seconds})
    elif result is None or result.best is None or watched is None:
        _fail(study, going.trial, going.why_failed() if result is None else "no evaluation gave a number", tell)
    else:
        going.trial.set_user_attr("epochs", result.epochs)
        going.trial.set_user_attr("best_epoch", result.best_epoch)
        study.tell(going.trial, watched.turned(result.best))
        outcome = {"value": result.best, "epochs": result.epochs, "seconds": seconds}
        tell("done", going.number, outcome)
    going.close()


def _fail(study: "optuna.Study", trial: "optuna.Trial", reason: str, tell: Tell) -> None:
    import optuna

    trial.set_user_attr("reason", reason)
    study.tell(trial, state=optuna.trial.TrialState.FAIL)
    tell("failed", trial.number, {"reason": reason})
