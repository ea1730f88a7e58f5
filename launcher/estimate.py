"""What a job will take, before it runs: files, bytes, worker hours, and money where somebody said what an hour costs.

Pure functions; the prices are read from a file.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from beamfeed.contract import storage
from beamfeed.contract.config.sources.array import ArraySource
from beamfeed.contract.config.sources.formats import FORMATS
from beamfeed.contract.config.sources.image import ImageSource
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat
from beamfeed.contract.text import counted
from beamfeed.launcher.backends import backends
from beamfeed.launcher.stage import Stage

# Bytes of files that one core preprocesses in a second; `python benchmarks/rates.py` measures them.
RATES = {"parquet": 64e6, "csv": 32e6, "json": 16e6, "image": 79e6}
SUFFIXES = {
    "parquet": (*FORMATS["parquet"].suffixes, *FORMATS["arrow"].suffixes, *ArraySource.suffixes),
    "json": (*FORMATS["json"].suffixes, *FORMATS["json"].named),
    "image": ImageSource.suffixes,
}
CARE = 2.0  # machines of a cloud, and data of all kinds, are slower than what was measured
VARIABLE = "BEAMFEED_PRICES"
EXAMPLE = "vertex: {g2-standard-8: 1.15}"
# Dollars. Of a Dataflow batch job in us-central1; what others charge differs too much from user to user.
PRICES: dict[str, Any] = {"date": "2025-06", "dataflow": {"core": 0.056, "gb": 0.003557}}


@dataclass(frozen=True)
class Estimate:
    """What a stage will take.

    Attributes:
      files: that it reads; 0 where they are a dataset's.
      bytes: of them.
      hours: of cores, for preprocessing; of workers, for training; None where nothing is known yet.
      unit: core or worker.
      dollars: None where no price is known.
      date: of the prices.
      steps: that are to be trained; 0 where that is not known.
    """

    files: int = 0
    bytes: int = 0
    hours: float | None = None
    unit: str = "core"
    dollars: float | None = None
    date: str = ""
    steps: int = 0

    def words(self) -> str:
        """In a line; empty where nothing is known."""
        parts = [f"{counted(self.files, 'file')}, {self.bytes / 1e6:,.1f} MB"] if self.files else []
        parts += [f"{self.steps:,} steps"] if self.steps else []
        if self.hours is not None:
            about = "less than 0.1" if self.hours < 0.1 else f"about {self.hours:,.1f}"
            parts.append(f"{about} {self.unit} hours")
        if self.dollars is not None:
            about = "less than $0.01" if self.dollars < 0.01 else f"about ${self.dollars:,.2f}"
            parts.append(f"{about} (prices of {self.date})")
        return ", ".join(parts)


def estimate_preprocess(stage: Stage, files: Sequence[FileStat], prices: Mapping[str, Any]) -> Estimate:
    """What preprocessing these files will take."""
    seconds = CARE * sum(stat.size / RATES[kind_of(stat.path)] for stat in files)
    hours = seconds / 3600
    dollars = _dollars(stage, hours, prices)
    total = sum(stat.size for stat in files)
    return Estimate(len(files), total, hours, "core", dollars, str(prices.get("date", "")))


def estimate_train(stage: Stage, steps: int, step_seconds: float | None, prices: Mapping[str, Any]) -> Estimate:
    """What training so many steps will take.

    Args:
      stage: that trains.
      steps: that are left; 0 where that is not known.
      step_seconds: of one, as an earlier run of this working folder had them; None without one.
      prices: of an hour.
    """
    hours = steps * step_seconds * stage.workers / 3600 if steps and step_seconds else None
    dollars = None if hours is None else _dollars(stage, hours, prices)
    return Estimate(hours=hours, unit="worker", dollars=dollars, date=str(prices.get("date", "")), steps=steps)


def kind_of(path: str) -> str:
    """Of which kind a file is, as rates differ; a text unless its suffix says otherwise."""
    lower = path.lower()
    return next((kind for kind, suffixes in SUFFIXES.items() if lower.endswith(suffixes)), "csv")


def _dollars(stage: Stage, hours: float, prices: Mapping[str, Any]) -> float | None:
    """The price of so many hours of what the stage counts; None where a part of it has none."""
    used, known = backends()[stage.backend].resources(stage), prices.get(stage.backend, {})
    if not used or not used.keys() <= known.keys():
        return None
    return hours * sum(count * float(known[name]) for name, count in used.items())


def read_prices(path: str | None = None) -> Mapping[str, Any]:
    """The prices of a file, that of BEAMFEED_PRICES if none is given, or those above.

    Raises:
      UserError: if it holds something else.
    """
    path = path or os.environ.get(VARIABLE)
    if not path:
        return PRICES
    try:
        prices = yaml.safe_load(storage.read_text(path))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as prices: {getattr(error, 'strerror', None) or 'not YAML'}") from None
    if not isinstance(prices, dict) or "date" not in prices:
        raise UserError(
            f"{path}: must be a mapping with date, and prices of an hour, as in {{date: 2026-01, {EXAMPLE}}}"
        )
    for backend, table in prices.items():
        if backend == "date":
            continue
        if backend not in backends():
            raise UserError(f"{path}: {backend}: is no backend; there are {', '.join(backends())}")
        if not isinstance(table, dict) or not all(_is_price(value) for value in table.values()):
            raise UserError(f"{path}: {backend}: must be a mapping to dollars an hour, such as {EXAMPLE}")
    return prices


def _is_price(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
