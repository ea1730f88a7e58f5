"""Whether all workers have the same training run before them: compared before the first step, key by key."""

import hashlib
import json
import time
from collections.abc import Mapping
from importlib.metadata import version

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.model import CustomModel
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.errors import UserError
from beamfeed.contract.own_code import find_module
from beamfeed.trainer.cluster.strategy import Cluster
from beamfeed.trainer.cluster.watchdog import LINGER_SECONDS

PACKAGES = ("beamfeed", "tensorflow", "keras")  # they decide what is computed
SHOWN = 1000  # characters of a value


def identity(job: TrainingJob, manifest: Manifest) -> dict[str, str]:
    """What must be the same on all workers, as texts by the keys of the job; where they keep it may differ."""
    train = job.train.model_dump(mode="json", exclude={"workdir"})
    texts = {"output.path (the dataset)": manifest.fingerprint}
    texts |= {f"train.{name}": json.dumps(value, sort_keys=True) for name, value in train.items()}
    model = job.train.model
    return {**texts, "train.model.class (its module)": _code_of(model.class_) if isinstance(model, CustomModel) else ""}


def _code_of(path: str) -> str:
    """What stands for the source of `module:Class`."""
    spec = find_module(path.partition(":")[0])
    if spec is None or not spec.origin:
        return ""
    with open(spec.origin, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def check_same(cluster: Cluster, texts: Mapping[str, str]) -> None:
    """Raises UserError, on every worker, with the keys whose values differ; all workers have the same keys."""
    names = list(texts)
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in texts.values()]
    different = cluster.differing([int(digest[:6], 16) for digest in digests])
    if different:
        values = "; ".join(f"{names[i]}: here {texts[names[i]][:SHOWN]}" for i in different)
        time.sleep(LINGER_SECONDS)
        raise UserError(f"the workers have different training runs before them ({values}); give all of them one job")


def check_run(cluster: Cluster, job: TrainingJob, manifest: Manifest, profile: tuple[int, int] | None) -> None:
    """As `check_same`, of the versions first: others may know other keys."""
    check_same(cluster, {f"version of {name}": version(name) for name in PACKAGES})
    # Of steps that are recorded, too: calls end there on all workers.
    check_same(cluster, {**identity(job, manifest), "--profile-steps": str(profile)})
