"""The study of a sweep: what Optuna keeps of its trials, in a file that a killed process leaves whole.

Scores are turned so that lower ones are better, as the trainer has them: which values are good is known only to the
metric, which is made where TensorFlow is.
"""

import hashlib
import importlib.util
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from beamfeed.contract import storage
from beamfeed.contract.dataset.fingerprint import NO_MODEL, leaves, set_keys
from beamfeed.contract.errors import UserError
from beamfeed.launcher.sweep.space import Search, grid_point

if TYPE_CHECKING:
    import optuna

NAME = "sweep"
JOURNAL = "journal.log"
SAME = "same"  # the attribute that says what all trials share
AGAIN = "again"  # the attribute of a trial that says which failed one it tries again
STARTUP = 10  # trials that tpe draws at random


def require_optuna() -> None:
    """Raises UserError where Optuna is not installed."""
    if importlib.util.find_spec("optuna") is None:
        raise UserError("beamfeed sweep needs the package optuna: pip install 'beamfeed[sweep]'")


def open_study(search: Search) -> "optuna.Study":
    """The study in the folder of a sweep, which this process holds; a new one where there is none.

    Raises:
      UserError: if the folder holds the study of another sweep.
    """
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    path = storage.join(search.folder, JOURNAL)
    _mend(path)
    study = make_study(search, JournalStorage(JournalFileBackend(path, JournalFileOpenLock(path))))
    same = shared_keys(search)
    before = study.user_attrs.get(SAME)
    if before is None:
        study.set_user_attr(SAME, same)
    elif changes := describe_changes(before, same):
        raise UserError(
            f"{search.folder}: holds another sweep ({'; '.join(changes[:3])}); choose another --out, or start again "
            "with --restart"
        )
    return study


def make_study(search: Search, study_storage: Any = None) -> "optuna.Study":
    """The study in this storage of Optuna, or a new one; without a storage, nothing is kept of it."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    train = search.job.train
    evaluations = train.epochs if train is not None and train.evaluate_every is None else "auto"
    pruners: dict[str, optuna.pruners.BasePruner] = {
        "none": optuna.pruners.NopPruner(),
        "median": optuna.pruners.MedianPruner(),
        "hyperband": optuna.pruners.HyperbandPruner(max_resource=evaluations),
    }
    return optuna.create_study(
        study_name=NAME, storage=study_storage, pruner=pruners[search.sweep.pruner], load_if_exists=True
    )


def next_trial(study: "optuna.Study", search: Search) -> "optuna.Trial":
    """A new trial with its parameters. They depend on the seed, its number and what is known of the others by then."""
    import optuna

    number = len(current_trials(study))
    if search.sweep.sampler == "grid":
        waiting = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.WAITING])
        if not waiting:
            study.enqueue_trial(grid_point(search.dimensions, number))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        # Made anew each time: so the choices of a sweep that was stopped are those of one that was not.
        seed = int.from_bytes(hashlib.sha256(f"{search.sweep.seed}:{number}".encode()).digest()[:4], "big")
        study.sampler = (
            optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP)
            if search.sweep.sampler == "tpe"
            else optuna.samplers.RandomSampler(seed=seed)
        )
    trial = study.ask()
    for dimension in search.dimensions:
        dimension.suggest(trial)
    return trial


def current_trials(study: "optuna.Study") -> list["optuna.trial.FrozenTrial"]:
    """The trials, without failed ones that were tried again."""
    trials = study.get_trials(deepcopy=False)
    again = {trial.user_attrs.get(AGAIN) for trial in trials}
    return [trial for trial in trials if trial.number not in again]


def retry_failed(study: "optuna.Study") -> None:
    """Lets `next_trial` try the parameters of failed trials again, before others."""
    import optuna

    for trial in current_trials(study):
        if trial.state == optuna.trial.TrialState.FAIL:
            study.enqueue_trial(trial.params, user_attrs={AGAIN: trial.number})


def taken_up(study: "optuna.Study", search: Search) -> list["optuna.Trial"]:
    """The trials that were running when an earlier process ended, to go on with."""
    import optuna

    study.sampler = optuna.samplers.RandomSampler(seed=search.sweep.seed)  # for what a trial had not drawn yet
    running = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.RUNNING])
    trials = [optuna.Trial(study, frozen._trial_id) for frozen in running]
    for trial in trials:
        for dimension in search.dimensions:
            dimension.suggest(trial)
    return trials


def shared_keys(search: Search) -> dict[str, Any]:
    """What the trials of a sweep have in common, by key: trials of another could not be compared with them."""
    sweep, train = search.sweep, search.job.train
    assert train is not None
    tried = tuple(f"{key}." for key in sweep.space)
    settings = leaves({"train": set_keys(train, NO_MODEL)})
    return {
        "dataset": search.data[:16],
        **{key: value for key, value in settings if not f"{key}.".startswith(tried)},
        **{f"sweep.space.{key}": value for key, value in set_keys(sweep)["space"].items()},
        **{f"sweep.{key}": getattr(sweep, key) for key in ("sampler", "pruner", "seed")},
    }


def describe_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Each key in which two sweeps differ: `train.epochs: was 2, is now 3`."""
    return [
        f"{key}: was {before.get(key, 'not set')}, is now {after.get(key, 'not set')}"
        for key in dict.fromkeys([*after, *before])
        if before.get(key) != after.get(key)
    ]


def _mend(path: str) -> None:
    """Removes what a killed process left of the journal: its lock, and a line that it had not written whole.

    Optuna waits half a minute for such a lock, and cannot read a journal with such a line in it.
    """
    if os.path.exists(f"{path}.lock"):
        os.unlink(f"{path}.lock")
    if not os.path.exists(path):
        return
    with open(path, "r+b") as file:
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)
