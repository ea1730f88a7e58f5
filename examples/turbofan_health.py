"""How early and how surely `beamfeed score` tells of the end of an engine's life.

    beamfeed run examples/turbofan_health.yaml --set source.files='<folder>/*.parquet'
    python examples/turbofan_health.py out/turbofan_health/model/scores --plot health.png

Needs pandas' reader of Parquet (pyarrow) and matplotlib, and nothing of Beamfeed: scores are Parquet files.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds

CYCLES = 20


def read_scores(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By engine, the score of each cycle, and whether it is in a flagged interval."""
    table = ds.dataset(folder / "rows").to_table(columns=["asset", "row", "score", "flagged"])
    rows = table.sort_by([("asset", "ascending"), ("row", "ascending")])
    names, scores, flagged = (rows[name].to_numpy() for name in ("asset", "score", "flagged"))
    return {name: (scores[names == name], flagged[names == name]) for name in np.unique(names)}


def describe(engines: dict[str, tuple[np.ndarray, np.ndarray]]) -> str:
    """What the scores tell of the engines' lives."""
    higher = sum(scores[-CYCLES:].mean() > scores[:CYCLES].mean() for scores, _ in engines.values())
    ahead = [len(flags) - int(flags.argmax()) if flags.any() else 0 for _, flags in engines.values()]
    early = np.mean([flags[: len(flags) // 2].mean() for _, flags in engines.values()])
    return (
        f"{higher} of {len(engines)} engines: a higher score in the last {CYCLES} cycles than in the first {CYCLES}\n"
        f"flagged from {np.median(ahead):.0f} cycles before the end on (median); {ahead.count(0)} never\n"
        f"{early:.2%} of the first halves of lives are flagged"
    )


def draw(engines: dict[str, tuple[np.ndarray, np.ndarray]], path: Path) -> None:
    """The scores over the life of all engines."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    longest = max(len(scores) for scores, _ in engines.values())
    padded = np.full((len(engines), longest), np.nan)
    for row, (scores, _) in zip(padded, engines.values(), strict=True):
        axes.plot(np.arange(len(scores)) - len(scores) + 1, scores, color="C0", alpha=0.15, linewidth=0.8)
        row[-len(scores) :] = scores
    shown = (~np.isnan(padded)).sum(axis=0) >= len(engines) // 4
    axes.plot(
        (np.arange(longest) - longest + 1)[shown], np.nanmedian(padded[:, shown], axis=0), color="C3", label="median"
    )
    axes.set(xlabel="cycles before failure", ylabel="score", yscale="log")
    axes.legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scores", type=Path, help="the folder that beamfeed score wrote")
    parser.add_argument("--plot", type=Path, help="PNG file to write")
    args = parser.parse_args()
    engines = read_scores(args.scores)
    print(describe(engines))
    if args.plot:
        draw(engines, args.plot)


if __name__ == "__main__":
    main()
