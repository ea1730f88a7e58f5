"""How each feature is spread in train against eval and test, those that drift most first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.options import DRIFT
from beamfeed.transforms.reporting.figures import COLORS, above, draw, histograms, short
from beamfeed.transforms.reporting.page import Chapter, Picture, Pictures, Table, Words
from beamfeed.transforms.reporting.sample import Sample
from beamfeed.transforms.reporting.scales import Wording
from beamfeed.transforms.scoring.drift import Drift, compare
from beamfeed.transforms.scoring.sides import KeyNames, Places
from beamfeed.transforms.scoring.summary import Columns, Summary
from beamfeed.transforms.sources.record_block import Ragged, RecordBlock

DRAWN = 24  # features
PARTS = 16  # of a value without names that are features by themselves
BARS = 12  # values of a category
MOST_FEATURES = 500  # that are looked at


@dataclass(frozen=True)
class Feature:
    """A column of a dataset's inputs.

    Attributes:
      name: of the column.
      field: that it is of.
      at: its place there; None where it is the mean of all.
      is_category: whether its numbers stand for categories.
    """

    name: str
    field: Field
    at: int | None
    is_category: bool


def features_of(manifest: Manifest) -> list[Feature]:
    """The features of which numbers can be drawn; encoded images and strings have none."""
    features = []
    for field in manifest.fields:
        if field.role != "input" or field.stored == "steps" or field.dtype == "bytes":
            continue
        if field.is_ragged or (not field.columns and (field.sizes or field.width > PARTS)):
            of = "length" if field.sizes else "mean of each"  # numbers of words have no mean
            features.append(Feature(f"{field.name}, {of}", field, None, False))
        else:
            features += [Feature(name, field, at, bool(field.sizes)) for at, name in enumerate(field.names)]
    return features


def values_of(block: RecordBlock, feature: Feature) -> np.ndarray:
    """A feature of the rows of a block, float32 `[rows]`; of one per window or record, of these."""
    values = block.values[feature.field.name]
    if feature.field.sizes and feature.at is None:
        return (values.lengths if isinstance(values, Ragged) else np.count_nonzero(values, axis=-1)).astype(np.float32)
    if isinstance(values, Ragged):
        entries = np.asarray(values.values, np.float64).reshape(int(values.lengths.sum()), -1).mean(axis=1)
        edges = values.edges
        total = np.concatenate([[0.0], np.cumsum(entries)])
        return ((total[edges[1:]] - total[edges[:-1]]) / np.maximum(1, values.lengths)).astype(np.float32)
    numbers = np.abs(values) if np.iscomplexobj(values) else np.asarray(values)
    if feature.at is None:
        return numbers.reshape(len(numbers), -1).mean(axis=1, dtype=np.float64).astype(np.float32)
    if feature.field.columns and numbers.ndim > 2:  # the mean over its other axes
        return numbers.reshape(len(numbers), -1, len(feature.field.columns))[:, :, feature.at].mean(axis=1)
    return numbers.reshape(len(numbers), -1)[:, feature.at].astype(np.float32)


def summaries(
    sample: Sample, features: Sequence[Feature]
) -> tuple[dict[SplitName, Summary], dict[str, dict[str, Any]]]:
    """The summary of some rows of each split, from which drift is computed; and values, float32, by feature and split.

    Raises:
      UserError, JobFailed: if a shard is damaged.
    """
    manifest = sample.manifest
    per_row = [feature for feature in features if feature.field.per == "row"]
    numbers = [feature for feature in per_row if not feature.is_category]
    texts = [feature for feature in per_row if feature.is_category]
    keys = KeyNames.of(manifest)
    columns = Columns(
        tuple(feature.name for feature in numbers), tuple(feature.name for feature in texts), keys.asset is not None
    )
    by_split: dict[SplitName, Summary] = {}
    drawn: dict[str, dict[str, list[np.ndarray]]] = {feature.name: {} for feature in features}
    for split in [split for split, info in manifest.splits.items() if info.windows]:
        summary, places = Summary.zero(columns), Places("row", manifest.windows, keys, "")
        for block in sample.blocks(split):
            values = {feature.name: values_of(block, feature) for feature in features}
            for name, of_feature in values.items():
                drawn[name].setdefault(split, []).append(of_feature)
            if per_row:
                named, positions, once = places.of(block)
                empty = [np.empty((len(positions), 0), np.float32)]
                together = np.concatenate([*empty, *(values[feature.name][:, None] for feature in numbers)], axis=1)
                words = {name: pa.array(values[name].astype(np.int64)).cast(pa.string()) for name in columns.texts}
                summary = summary.extend(together, words, named, positions, once)
        by_split[split] = summary
    return by_split, {name: {split: np.concatenate(parts) for split, parts in of.items()} for name, of in drawn.items()}


def distributions(sample: Sample, words: Wording) -> Chapter | None:
    """The section; None where the dataset has no feature of numbers.

    Args:
      sample: of the dataset.
      words: what its numbers mean; those whose scale is not known are drawn as the model gets them.

    Raises:
      UserError, JobFailed: if a shard is damaged.
    """
    every = features_of(sample.manifest)
    features = every[:MOST_FEATURES]
    if not features:
        return None
    of_splits, values = summaries(sample, features)
    if not of_splits:
        return None
    splits = [split for split in of_splits if split != "train"]
    drifts: dict[str, dict[str, Drift]] = {}
    for split in splits if "train" in of_splits else ():
        for drift in compare(of_splits["train"], of_splits[split]):
            drifts.setdefault(drift.name, {})[split] = drift

    def far(name: str) -> float:
        return max((excess(drift) for drift in drifts.get(name, {}).values()), default=0.0)

    ordered = sorted(features, key=lambda feature: -far(feature.name))
    shown = ordered[:DRAWN]
    rows = ", ".join(f"{summary.rows:,} of {split}" for split, summary in of_splits.items())
    more = f" The {DRAWN} that differ most of {len(features):,} are drawn." if len(features) > DRAWN else ""
    more += f" {len(every) - len(features):,} more were not looked at." if len(every) > len(features) else ""
    numbers = [feature for feature in features if not feature.is_category and feature.at is not None]
    as_given = len([feature for feature in numbers if feature.name not in words.scales])
    of_all = "All" if as_given == len(numbers) else f"{as_given:,} of {len(numbers):,}"
    scaled = f" {of_all} numbers are drawn as the dataset holds them." if as_given else ""
    section = Chapter("Features in train, eval and test", [Words(f"Of a sample of rows: {rows}.{more}{scaled}")])
    alarms = [(name, split) for name, of in drifts.items() for split, drift in of.items() if drift.over(DRIFT)]
    if drifts:
        section.parts.append(
            Words(
                "PSI, the population stability index, over tenths of the training rows: under 0.1 a feature is stable, "
                f"over 0.25 it is another one. Beside it what chance gives, with as few assets. Over {DRIFT:g} and "
                f"over chance: {', '.join(f'{name} on {split}' for name, split in alarms[:12]) or 'none'}"
                + (f", and {len(alarms) - 12:,} more." if len(alarms) > 12 else ".")
            )
        )
    pictures = [_picture(feature, values[feature.name], drifts.get(feature.name, {}), words) for feature in shown]
    section.parts.append(Pictures(pictures))
    if drifts:
        numbers_of_drift = ("PSI", "chance", "KS", "mean moved by")
        head = ("feature", *(f"{number} {split}" for split in splits for number in numbers_of_drift))
        table = [
            (feature.name, *(cell for split in splits for cell in _cells(drifts[feature.name][split])))
            for feature in ordered
            if feature.name in drifts
        ]
        section.parts.append(Table(head, table, "Drift from train", folded=True))
    return section


def excess(drift: Drift) -> float:
    """By how much a drift is more than what chance gives; 0 where it is not compared."""
    return 0.0 if not np.isfinite(drift.psi) else max(0.0, drift.psi - drift.noise) + 1e-3 * drift.psi


def _cells(drift: Drift) -> tuple[object, ...]:
    moved = (drift.current.mean - drift.reference.mean) / drift.reference.std if drift.reference.std else float("nan")
    numbers = (drift.psi, drift.noise, drift.distance)
    return (*(float(number) if np.isfinite(number) else None for number in numbers),
            f"{moved:+.2f} deviations" if np.isfinite(moved) else "")  # fmt: skip


def _picture(
    feature: Feature, of_splits: Mapping[str, np.ndarray], drifts: Mapping[str, Drift], words: Wording
) -> Picture:
    psi_text = "; ".join(
        f"{split}: PSI {drift.psi:.2f}" + (f" (chance {drift.noise:.2f})" if drift.noise > 0.1 else "")
        for split, drift in drifts.items()
        if np.isfinite(drift.psi)
    )
    caption = f"{feature.name}\n{psi_text}" if psi_text else feature.name
    if feature.is_category:
        return draw(lambda axes: _bars(axes, of_splits, words.names.get(feature.name, ())), caption, height=2.0)
    offset, divisor = words.scales.get(feature.name, (0.0, 1.0))
    in_units = {split: values * divisor + offset for split, values in of_splits.items()}
    return draw(lambda axes: _lines(axes, in_units), caption, height=1.9)


def _lines(axes: Any, of_splits: Mapping[str, np.ndarray]) -> None:
    histograms(axes, of_splits)
    axes.locator_params(axis="x", nbins=6)
    axes.set_yticks([])


def _bars(axes: Any, of_splits: Mapping[str, np.ndarray], names: Sequence[str]) -> None:
    counts = {split: np.bincount(values.astype(np.int64).clip(0)) for split, values in of_splits.items()}
    size = max(map(len, counts.values()))
    parts = {split: np.pad(part, (0, size - len(part))) / max(1, part.sum()) for split, part in counts.items()}
    order = np.argsort(-sum(parts.values()), kind="stable")[:BARS]
    width = 0.8 / len(parts)
    for number, (split, part) in enumerate(parts.items()):
        axes.bar(np.arange(len(order)) + (number - (len(parts) - 1) / 2) * width, part[order], width,
                 color=COLORS[split], label=split)  # fmt: skip
    labels = [short(names[at] if at < len(names) else at, 12) for at in order]
    axes.set_xticks(range(len(order)), labels, rotation=45, ha="right")
    axes.grid(visible=False, axis="x")
    axes.set_yticks([])
    above(axes)
