"""Turns results.json into benchmarks.md and its plots.

python benchmarks/report.py --results out/bench/results.json --out docs
"""

import argparse
import json
from pathlib import Path

from alternatives import OURS
from marks import section, with_section
from matplotlib.figure import Figure
from report_text import BOUND, number, ran, render, title

COLOURS = {OURS: "#1f6fb4", BOUND: "#999999"}
OTHER = "#d9a441"


def colour(name: str) -> str:
    return COLOURS.get(name, COLOURS[OURS] if name.startswith(OURS) else OTHER)


def bars(axes, entries: dict[str, float], label: str) -> None:
    names = list(entries)[::-1]
    drawn = axes.barh(names, [entries[name] for name in names], color=[colour(name) for name in names])
    axes.bar_label(drawn, [number(entries[name]) for name in names], padding=3, fontsize=8)
    axes.set_xlabel(label)
    axes.margins(x=0.18)
    axes.spines[["top", "right"]].set_visible(False)


def draw_preprocess(results: dict) -> Figure:
    cases = results["preprocess"]
    figure = Figure(figsize=(10, 3.2 * len(cases)), layout="constrained")
    grid = figure.subplots(len(cases), 2, squeeze=False)
    for (left, right), case in zip(grid, cases, strict=True):
        entries = ran(case["results"])
        bars(left, {name: entry["seconds"] for name, entry in entries.items()}, "seconds")
        bars(right, {name: entry["peak_rss_mb"] for name, entry in entries.items()}, "peak RSS, MB")
        right.set_yticklabels([])
        left.set_title(title(case), loc="left", fontsize=10)
    return figure


def draw_growth(results: dict) -> Figure:
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (axis, growth), style in zip(results["growth"].items(), ("o", "s"), strict=True):
        points = [point for point in growth["points"] if "seconds" in point]
        millions = [point["assets"] * point["rows"] / 1e6 for point in points]
        fitted = growth["fit"]
        (drawn,) = left.plot(millions, [point["seconds"] for point in points], style, label=f"more {axis}")
        if fitted:
            line = [fitted["seconds_at_zero"] + fitted["seconds_per_million_rows"] * x for x in millions]
            left.plot(millions, line, "--", color=drawn.get_color(), linewidth=1)
        right.plot([point["factor"] for point in points], [point["peak_rss_mb"] for point in points], f"{style}-",
                   label=f"more {axis}")  # fmt: skip
    left.set(xlabel="million rows", ylabel="seconds")
    right.set(xlabel="times the data", ylabel="peak RSS, MB")
    for axes in (left, right):
        axes.set_ylim(0, axes.get_ylim()[1] * 1.1)
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_rates(parts: dict[str, dict]) -> Figure:
    """Windows per second of each entry, of feeding or of training, below the title of its part."""
    rows = sum(len(ran(entries)) for entries in parts.values())
    figure = Figure(figsize=(10, 0.6 * len(parts) + 0.45 * rows), layout="constrained")
    for axes, (heading, entries) in zip(
        figure.subplots(len(parts), 1, squeeze=False)[:, 0], parts.items(), strict=True
    ):
        bars(axes, {name: entry["windows_per_second"] for name, entry in ran(entries).items()}, "windows/s")
        axes.set_title(heading, loc="left", fontsize=10)
    return figure


def write(results: dict, out: Path) -> None:
    """Writes benchmarks.md and images/bench-*.png into a folder."""
    images = out / "images"
    images.mkdir(parents=True, exist_ok=True)
    figures = {"preprocess": draw_preprocess(results), "growth": draw_growth(results)}
    if ran(entries := (results.get("feed") or {}).get("results", {})):
        figures["feed"] = draw_rates({"": entries})
    if models := (results.get("train") or {}).get("models"):
        figures["train"] = draw_rates({entry["model"]: entry["results"] for entry in models})
    for name, figure in figures.items():
        figure.savefig(images / f"bench-{name}.png", dpi=110)
    page = out / "benchmarks.md"
    text = render(results)
    if page.exists() and (gpu_section := section(page.read_text(encoding="utf-8"), "gpu")):
        text = with_section(text, "gpu", gpu_section)  # of another machine
    page.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="the folder of benchmarks.md, such as docs")
    args = parser.parse_args()
    write(json.loads(args.results.read_text()), args.out)


if __name__ == "__main__":
    main()
