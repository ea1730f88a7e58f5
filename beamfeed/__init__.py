"""Beamfeed turns a bucket of raw asset files into a trained TensorFlow model.

This module is the public interface. `import beamfeed` is quick: TensorFlow and
Apache Beam are loaded when a name that needs them is used for the first time.

    job = beamfeed.load_job("job.yaml")
    result = beamfeed.run(job)                          # preprocess, then train
    windows = beamfeed.load_dataset(job.output.path, "train", batch_size=256, shuffle=10_000)

Whatever is not named here may change without notice.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beamfeed.contract.config.job import Job
    from beamfeed.contract.config.prepare import Missing, Windows
    from beamfeed.contract.dataset.manifest import Manifest, read_manifest
    from beamfeed.contract.dataset.result import TrainResult
    from beamfeed.contract.errors import JobFailed, UserError
    from beamfeed.launcher.api import RunResult, preprocess, run, train
    from beamfeed.launcher.job import load_job
    from beamfeed.trainer.arrays.load import load_arrays
    from beamfeed.trainer.feed.dataset import load_dataset
    from beamfeed.trainer.feed.options import FeedOptions, Tuning
    from beamfeed.trainer.feed.sharding import Distribution
    from beamfeed.trainer.numpy_feed.torch_dataset import torch_dataset
    from beamfeed.transforms.rejects import BadInput
    from beamfeed.transforms.steps import EncodeWindows, ReadTimeseries, SeriesBlock
    from beamfeed.transforms.streaming import PredictStream

    __version__: str

__all__ = [
    "BadInput",
    "Distribution",
    "EncodeWindows",
    "FeedOptions",
    "Job",
    "JobFailed",
    "Manifest",
    "Missing",
    "PredictStream",
    "ReadTimeseries",
    "RunResult",
    "SeriesBlock",
    "TrainResult",
    "Tuning",
    "UserError",
    "Windows",
    "__version__",
    "load_arrays",
    "load_dataset",
    "load_job",
    "preprocess",
    "read_manifest",
    "run",
    "torch_dataset",
    "train",
]

_HOMES = {
    "BadInput": "transforms.rejects",
    "Distribution": "trainer.feed.sharding",
    "EncodeWindows": "transforms.steps",
    "FeedOptions": "trainer.feed.options",
    "Job": "contract.config.job",
    "JobFailed": "contract.errors",
    "Manifest": "contract.dataset.manifest",
    "Missing": "contract.config.prepare",
    "PredictStream": "transforms.streaming",
    "ReadTimeseries": "transforms.steps",
    "RunResult": "launcher.api",
    "SeriesBlock": "transforms.steps",
    "TrainResult": "contract.dataset.result",
    "Tuning": "trainer.feed.options",
    "UserError": "contract.errors",
    "Windows": "contract.config.prepare",
    "load_arrays": "trainer.arrays.load",
    "load_dataset": "trainer.feed.dataset",
    "load_job": "launcher.job",
    "preprocess": "launcher.api",
    "read_manifest": "contract.dataset.manifest",
    "run": "launcher.api",
    "torch_dataset": "trainer.numpy_feed.torch_dataset",
    "train": "launcher.api",
}


def __getattr__(name: str) -> Any:
    """Loads a public name when it is asked for."""
    if name == "__version__":
        from importlib.metadata import version

        return version("beamfeed")
    if name not in _HOMES:
        raise AttributeError(f"module 'beamfeed' has no attribute {name!r}")
    try:
        public = getattr(import_module(f"beamfeed.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:  # an installation of some extras of setup.py
        from beamfeed.contract.errors import PARTS, not_installed

        if error.name in PARTS:
            raise not_installed(error.name) from None
        raise
    globals()[name] = public
    return public


def __dir__() -> list[str]:
    return sorted(__all__)
