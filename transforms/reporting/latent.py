"""What an encoder makes of windows, in two dimensions: coloured by asset, by time and by error."""

from typing import Any

import numpy as np
import pyarrow as pa

from beamfeed.transforms.reporting.answers import Answer
from beamfeed.transforms.reporting.figures import MANY, draw, short
from beamfeed.transforms.reporting.page import Chapter, Pictures, Words
from beamfeed.transforms.reporting.tables import Predictions, numbers_of

LATENT = "latent"
POINTS = 3000
ASSETS = len(MANY)


def in_two(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first two principal components of vectors `[n, d]`, `[n, 2]`, and the share of the variance of each.

    Of d = 1 the second one is 0. The sign is such that the largest loading is positive.
    """
    centred = vectors - vectors.mean(axis=0)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    axes, sizes = axes[:2], np.square(sizes)
    axes *= np.sign(np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1))
    points, explained = centred @ axes.T, sizes[:2] / max(sizes.sum(), 1e-30)
    lacking = 2 - points.shape[1]
    return np.pad(points, ((0, 0), (0, lacking))), np.pad(explained, (0, lacking))


def latent_space(predictions: Predictions, answer: Answer | None) -> Chapter | None:
    """The section; None where the model has no encoder.

    Args:
      predictions: of the model.
      answer: whose errors are shown; None where none are known.
    """
    schema = predictions.schema()
    if LATENT not in schema.names:
        return None
    keys = [name for name in ("asset", "time") if name in schema.names]
    columns = list(dict.fromkeys([LATENT, *keys, *(answer.needs if answer else ())]))
    total = sum(predictions.description["items"].values())
    tables = [
        predictions.some(split, columns, max(200, POINTS * predictions.description["items"][split] // total))
        for split in predictions.splits
    ]
    table = pa.concat_tables(tables)
    vectors = numbers_of(table, LATENT)
    whole = np.isfinite(vectors).all(axis=1)
    if whole.sum() < 3:
        return None
    points, explained = in_two(vectors[whole])
    words = (
        f"{len(points):,} of {total:,} windows by the first two principal components of the {vectors.shape[1]} numbers "
        f"that the encoder makes of each; they hold {explained[0]:.0%} and {explained[1]:.0%} of the variance."
    )
    split = np.repeat(np.arange(len(tables)), [len(table) for table in tables])[whole]
    pictures = []
    errors = None if answer is None else np.concatenate([answer.error(table) for table in tables])[whole]
    error_name = "" if answer is None else answer.error_name.partition(",")[0]
    if "asset" in keys:
        names = table["asset"].combine_chunks().dictionary_encode()
        of, count = np.asarray(names.indices)[whole], len(names.dictionary)
        windows = np.bincount(of, minlength=count)
        mean = windows if errors is None else np.bincount(of, np.nan_to_num(errors), count) / np.maximum(1, windows)
        order = np.argsort(-mean, kind="stable")
        rank = np.empty(count, int)
        rank[order] = np.arange(count)
        shown = [names.dictionary[int(at)].as_py() for at in order[:ASSETS]]
        most = f"with the largest {error_name} on average" if answer else "with the most windows"
        more = f"; the {ASSETS} of {count:,} {most}" if count > ASSETS else ""
        pictures.append(draw(lambda axes: _by_name(axes, points, rank[of], shown), f"by asset{more}", height=3.2))
    if "time" in keys:
        times = _times(table["time"], whole)
        pictures.append(draw(lambda axes: _by_value(axes, points, *times), "by time", height=3.2))
    if errors is not None:
        logs = np.log10(np.maximum(errors, 1e-12))
        caption = f"by {error_name}, to a logarithmic scale"
        pictures.append(draw(lambda axes: _by_value(axes, points, logs, None, "log10"), caption, height=3.2))
    if len(pictures) < 3:
        pictures.append(draw(lambda axes: _by_name(axes, points, split, predictions.splits), "by split", height=3.2))
    return Chapter("The latent space", [Words(words), Pictures(pictures)])


def _times(column: Any, whole: np.ndarray) -> tuple[np.ndarray, list[str] | None]:
    """Times as numbers, and words for the first and the last."""
    if pa.types.is_timestamp(column.type):
        ticks = column.cast(pa.int64()).to_numpy()[whole]
        words = [str(np.datetime64(int(tick), "us"))[:16].replace("T", " ") for tick in (ticks.min(), ticks.max())]
        if words[0][:10] != words[1][:10]:
            words = [word[:10] for word in words]
        return ticks.astype(float), words
    return np.asarray(column.to_numpy(), float)[whole], None


def _by_name(axes: Any, points: np.ndarray, of: np.ndarray, names: list[Any]) -> None:
    order = np.random.default_rng(0).permutation(len(points))
    order = order[np.argsort(of[order] < len(MANY), kind="stable")]  # grey ones below
    colors = np.array([*MANY, "#d8dce3"])[np.minimum(of, len(MANY))]
    axes.scatter(*points[order].T, c=colors[order], s=5, linewidths=0, alpha=0.7, rasterized=True)
    for at, name in enumerate(names):
        axes.scatter([], [], c=MANY[at], s=14, label=short(name))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2 if len(names) > 3 else 3)
    axes.set_aspect("auto")


def _by_value(axes: Any, points: np.ndarray, values: np.ndarray, words: list[str] | None, label: str = "") -> None:
    low, high = np.nanquantile(values, [0.01, 0.99])
    drawn = axes.scatter(*points.T, c=values, s=5, linewidths=0, alpha=0.8, cmap="viridis", rasterized=True,
                         vmin=low, vmax=high if high > low else low + 1)  # fmt: skip
    bar = axes.figure.colorbar(drawn, ax=axes, orientation="horizontal", shrink=0.8, aspect=30, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label(label)
    if words is not None:
        bar.set_ticks([low, high if high > low else low + 1], labels=words)
