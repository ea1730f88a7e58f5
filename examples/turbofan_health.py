"""Reconstruction error over the life of each engine, from raw rows through the exported model.

    python examples/turbofan_health.py --engines data/turbofan --model out/turbofan_health/model --plot health.png

Prints how many engines have a higher error in their last 20 cycles than in their first 20. Needs TensorFlow, pyarrow
and matplotlib, and nothing of Beamfeed: the SavedModel scales and frames the rows by itself.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq


def read_engine(path: Path, names: list[str]) -> np.ndarray:
    """Raw values in order of time: float32 `[cycles, features]`."""
    table = pq.read_table(path).sort_by("cycle")
    return np.stack([table[name].to_numpy() for name in names], axis=1).astype(np.float32)


def score_engines(engines: Path, model: Path) -> dict[str, np.ndarray]:
    """For each engine the mean squared error of its windows, one from each cycle on: float32 `[windows]`."""
    import tensorflow as tf

    loaded = tf.saved_model.load(str(model / "saved_model"))  # kept: the signature holds no reference to it
    score = loaded.signatures["rows"]
    names = [name.decode() for name in loaded.signatures["features"]()["features"].numpy()]  # in the model's order
    return {
        path.stem: score(rows=tf.constant(read_engine(path, names)))["score"].numpy()
        for path in sorted(engines.glob("*.parquet"))
    }


def draw(scores: dict[str, np.ndarray], path: Path) -> None:
    """The error over the life of all engines, and the first 20 cycles against the last."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    FigureCanvasAgg(figure)
    life, ends = figure.subplots(1, 2)
    for errors in scores.values():
        life.plot(np.arange(len(errors)) - len(errors) + 1, errors, color="C0", alpha=0.15, linewidth=0.8)
    longest = max(len(errors) for errors in scores.values())
    padded = np.full((len(scores), longest), np.nan)
    for row, errors in zip(padded, scores.values(), strict=True):
        row[-len(errors) :] = errors
    shown = (~np.isnan(padded)).sum(axis=0) >= len(scores) // 4
    life.plot(
        (np.arange(longest) - longest + 1)[shown], np.nanmedian(padded[:, shown], axis=0), color="C3", label="median"
    )
    life.set(xlabel="cycles before failure", ylabel="mean squared error", yscale="log")
    life.legend()
    first, last = (np.array([errors[i] for errors in scores.values()]) for i in (0, -1))
    ends.scatter(first, last, s=12)
    edge = [min(first.min(), last.min()), max(first.max(), last.max())]
    ends.plot(edge, edge, color="grey", linewidth=0.8)
    ends.set(xlabel="error of the first 20 cycles", ylabel="error of the last 20 cycles", xscale="log", yscale="log")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", type=Path, required=True, help="folder of the engines' Parquet files")
    parser.add_argument("--model", type=Path, required=True, help="train.workdir of the job")
    parser.add_argument("--plot", type=Path, help="PNG file to write")
    args = parser.parse_args()
    scores = score_engines(args.engines, args.model)
    higher = sum(errors[-1] > errors[0] for errors in scores.values())
    print(f"{higher} of {len(scores)} engines: a higher error in the last 20 cycles than in the first 20")
    if args.plot:
        draw(scores, args.plot)


if __name__ == "__main__":
    main()
