"""What job files of all kinds have: where things go, how texts are written, which columns are left out."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beamfeed.contract import storage
from beamfeed.contract.config.split import SPLIT_WORDS, SPLITS
from beamfeed.contract.text import counted, some_of
from beamfeed.transforms.sources.columns.sample import described
from beamfeed.transforms.suggest.draft import Key, Part, Remark
from beamfeed.transforms.suggest.sample import Sample
from beamfeed.transforms.suggest.windowing import ALL_TRAIN, HELD_BACK, Schedule

_NAMED = 12  # columns in a comment
_PLAIN = frozenset((  # names of folders and files that many have: those above them tell more
    "train", "training", "test", "testing", "val", "valid", "validation", "eval", "dev", "data", "dataset", "datasets",
    "raw", "csv", "csvs", "tsv", "txt", "json", "jsonl", "parquet", "arrow", "files", "input", "inputs", "all", "full",
    "sample", "samples", "processed", "clean", "cleaned", "latest", "export", "table", "tables", "images", "main",
))  # fmt: skip
FEWEST_EPOCHS, MOST_EPOCHS = 6, 100
ROWS_TRAINED = 3_000_000  # in all epochs together, some minutes: small tables are trained to the end
_ABOVE = 2  # folders that a name takes along, at most


@dataclass(frozen=True)
class Places:
    """Where a job writes.

    Attributes:
      name: of the job.
      data: the dataset.
      model: the training run.
    """

    name: str
    data: str
    model: str


def choose_places(folder: str) -> Places:
    """A name for the job of a folder, and folders that are not among its files."""
    plain = folder if storage.is_remote(folder) or os.path.exists(folder) else re.sub(r"/?[^/]*[*?\[].*$", "", folder)
    named = folder.rstrip("/") if storage.is_remote(folder) else os.path.abspath(plain)
    name = _job_name(named)
    roots = [f"out/{name}", f"out/{name}-job", f"_out/{name}"]  # what begins with _ is no input
    root = next((root for root in roots if not f"{os.path.abspath(root)}/".startswith(f"{named}/")), roots[-1])
    return Places(name, f"{root}/data", f"{root}/model")


def _job_name(path: str) -> str:
    """The name of a folder or a file; of one such as `train` with that above it: `smap/train` is `smap_train`."""
    *folders, last = path.partition("://")[2 * ("://" in path)].split("/")
    parts = [re.sub(r"(\.[A-Za-z]\w*)+$", "", last)]
    while len(parts) <= _ABOVE and folders and folders[-1] and (parts[0].lower() in _PLAIN or parts[0].isdigit()):
        parts.insert(0, folders.pop())
    return re.sub(r"[^a-zA-Z0-9_.-]+", "-", "_".join(parts)).strip("-_.") or "job"


def file_keys(sample: Sample, kind: str, rows: str) -> list[Part]:
    """The first keys of `source`.

    Args:
      sample: of the files.
      kind: of the source.
      rows: what its rows are, in words.
    """
    files, about = counted(len(sample.files), "file"), "" if sample.exact else "about "
    return [
        Key("kind", kind, tail=f"{rows}; beamfeed schema lists the kinds"),
        Key("files", single(sample.patterns), tail=f"{files}, {about}{sample.rows:,} rows"),
    ]


def single(values: Sequence[str]) -> str | list[str]:
    """One value by itself, several as a list."""
    return values[0] if len(values) == 1 else list(values)


def csv_keys(sample: Sample) -> list[Part]:
    """The section `source.csv`, and what is found out of the files without one."""
    parts: list[Part] = []
    if ways := described(sample.looks):
        parts.append(Remark(f"Detected from the files, so it need not be given: {'; '.join(ways)}."))
    if any("\x7f" <= c < "\xa0" for name in sample.types for c in name):
        text = "CHECK THIS: names hold control characters, so the files probably have another encoding:"
        parts.append(Remark(text, ("csv: {encoding: shift_jis}",)))
    if any(look.dialect is not None and look.dialect.header_line is None for look in sample.looks.values()):
        parts.append(Remark("No line names the columns, so they are f0, f1, ...; the key names of csv names them."))
    if sample.csv:
        parts.append(Key("csv", dict(sample.csv), sample.remarks))
    else:
        parts += map(Remark, sample.remarks)
    return parts


def left_out(unused: Mapping[str, str]) -> tuple[str, ...]:
    """What is said of columns that are no features; by reasons."""
    if not unused:
        return ()
    reasons: dict[str, list[str]] = {}
    for name, why in unused.items():
        reasons.setdefault(why, []).append(name)
    texts = [f"{some_of(names, _NAMED)} ({why})" for why, names in reasons.items()]
    return (f"Left out: {'; '.join(texts)}.",)


def output_key(places: Places) -> Key:
    """The section `output`."""
    return Key("output", {"path": places.data}, tail="the folder of the dataset, local or gs://")


def schedule_of(rows: float, *, held_back: bool, trained: int = ROWS_TRAINED, epochs: int | None = None) -> Schedule:
    """How long a model of rows trains.

    Args:
      rows: that train.
      held_back: whether others choose the best weights.
      trained: rows in all epochs together.
      epochs: how many; None: as `trained` says.
    """
    often = epochs is None and rows * MOST_EPOCHS <= trained
    epochs = epochs or max(FEWEST_EPOCHS, min(MOST_EPOCHS, round(trained / max(1.0, rows))))
    why = ["at most"] * held_back + ["few rows are read often"] * often
    return Schedule(epochs, ": ".join(why), patience=max(3, epochs // 6) if held_back else None)


def train_key(
    model: Key,
    learns: Sequence[Part],
    batch_size: int,
    workdir: str,
    schedule: Schedule,
    *,
    trains: str,
    above: tuple[str, ...] = (),
) -> Key:
    """The section `train`.

    Args:
      model: its key.
      learns: the keys of what is learned from what.
      batch_size: of the feed.
      workdir: of the training run.
      schedule: how long it trains.
      trains: how much trains, in words.
      above: what is said of the section.
    """
    every, most, patience = schedule.evaluate_every, schedule.max_steps, schedule.patience
    return Key("train", (
        model,
        *learns,
        Key("feed", {"batch_size": batch_size}, tail=trains),
        Key("epochs", schedule.epochs, tail=schedule.why),
        *([Key("evaluate_every", every, tail="steps")] if every is not None else []),
        *([Key("max_steps", most, tail="what is left of an epoch would take longer")] if most is not None else []),
        *([Key("early_stopping", {"patience": patience})] if patience is not None else []),
        Key("workdir", workdir, tail="checkpoints, logs, report.png and the exported model"),
    ), above)  # fmt: skip


def split_by_hash(rows: int, least: int, noun: str, what: str) -> tuple[dict[str, Any], str, float]:
    """The section `split` of rows that stand for themselves, what is said of it, and the share that trains.

    Args:
      rows: in all.
      least: from which on some are held back.
      noun: what a row is called.
      what: is hashed.
    """
    if rows < least:
        return {"by": "row", **ALL_TRAIN}, f"too few {noun}s to hold some out: {rows}", 1.0
    return {"by": "row", **HELD_BACK}, f"each {noun} by a hash of {what}", HELD_BACK["train"]


def named_splits(names: Collection[str]) -> dict[str, list[str]]:
    """The names by the split that each is a word for; none where one is no such word, or where they do not divide."""
    splits: dict[str, list[str]] = {
        split: sorted(name for name in names if SPLIT_WORDS.get(name.strip().lower()) == split) for split in SPLITS
    }
    divides = sum(map(len, splits.values())) == len(names) and 0 < len(splits["train"]) < len(names)
    return {split: chosen for split, chosen in splits.items() if chosen} if divides else {}
