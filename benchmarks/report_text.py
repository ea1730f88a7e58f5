"""The text of the report, a pure function of the results.

Its claims follow from the figures, also where Beamfeed is not the best.
"""

from collections.abc import Iterator, Sequence

from alternatives import OURS
from report_cells import bold, left_out, number, ran, table, times
from report_kinds import arrays_lines, feed_table, images_lines, tables_lines, torch_lines

FLOOR = "floor"
FIT = "keras.Model.fit"
MEMORY_AIM = 0.10  # growth of peak memory at ten times the data


# Replaced by benchmarks/gpu.py.
GPUS = [
    "## On a GPU",
    "",
    "<!-- gpu: begin. Written by `make test-gpu`. -->",
    "`make test-gpu` was never run: no machine with a GPU was at hand. It compares what a GPU computes with the "
    "processor, and writes here how fast one is fed.",
    "<!-- gpu: end -->",
    "",
]


def net_seconds(name: str, entry: dict, start_up: dict) -> float | None:
    """Seconds beyond those that the same alternative takes on next to nothing; None if they drown in noise."""
    if "seconds" not in start_up.get(name, {}):
        return None
    net = entry["seconds"] - start_up[name]["seconds"]
    return net if net > 0.05 * entry["seconds"] else None


def title(case: dict) -> str:
    return f"{case['assets']:,} assets of {case['rows']:,} rows"


def case_lines(case: dict, start_up: dict) -> Iterator[str]:
    """Table and remarks of one fleet."""
    entries = ran(case["results"])
    base = entries.get(OURS, {})
    base_net = net_seconds(OURS, base, start_up) if base else None
    yield f"### {title(case)}"
    yield ""
    yield f"{case['windows']:,} windows, {number(case['raw_bytes'] / 2**20)} MB of raw float32."
    yield ""
    header = ("", "seconds", "vs Beamfeed", "without start-up", "vs Beamfeed", "CPU seconds", "peak RSS, MB",
              "windows/s", "disk vs raw", "files")  # fmt: skip
    rows = []
    for name, entry in entries.items():
        net = net_seconds(name, entry, start_up)
        rows.append((
            bold(name), number(entry["seconds"]), times(entry["seconds"], base.get("seconds")), number(net),
            times(net, base_net), number(entry["cpu_seconds"]), number(entry["peak_rss_mb"]),
            number(case["windows"] / entry["seconds"]), times(entry["bytes"], case["raw_bytes"]), str(entry["files"]),
        ))  # fmt: skip
    yield from table(header, rows)
    yield ""
    missing = list(left_out(case["results"]))
    if missing:
        yield from ["Not measured:", "", *missing, ""]
    remarks = list(shortfalls(entries, base_net, start_up))
    if remarks:
        yield from ["Where Beamfeed is not the best:", "", *remarks, ""]


def shortfalls(entries: dict[str, dict], base_net: float | None, start_up: dict) -> Iterator[str]:
    """What any other one does better."""
    base = entries.get(OURS)
    if base is None:
        return
    floor = entries.get(FLOOR)
    if floor is not None:
        net = net_seconds(FLOOR, floor, start_up)
        line = f"- It takes {times(base['seconds'], floor['seconds'])} the time of the floor"
        if base_net is not None and net is not None:
            line += f", {times(base_net, net)} without the start-up of both"
        yield f"{line}."
    for name, entry in entries.items():
        if name == FLOOR or name.startswith(OURS):
            continue
        worse = [
            f"{what} ({number(entry[key])} {unit} against {number(base[key])} {unit})"
            for key, what, unit in (("seconds", "is faster", "s"), ("peak_rss_mb", "uses less memory", "MB"),
                                    ("bytes", "uses less disk", "bytes"))
            if entry[key] < base[key]
        ]  # fmt: skip
        if worse:
            yield f"- {name} {' and '.join(worse)}."


def memory_lines(axis: str, points: Sequence[dict]) -> Iterator[str]:
    """How far peak memory moves, at the last point and at the highest."""
    done = [point for point in points if "peak_rss_mb" in point]
    if len(done) < 2:
        return
    grown = [(point["peak_rss_mb"] / done[0]["peak_rss_mb"] - 1, point["factor"]) for point in done]
    part, factor = grown[-1]
    highest, where = max(grown)
    verdict = "within" if part <= MEMORY_AIM else "**over**"
    yield (
        f"With {factor}x the {axis}, peak memory changes by {part:+.1%}, {verdict} the target of {MEMORY_AIM:.0%} "
        f"(highest: {highest:+.1%} at {where}x)."
    )


def growth_lines(axis: str, growth: dict) -> Iterator[str]:
    """Table, slope and memory of one axis."""
    points = growth["points"]
    yield f"### {'One asset, more rows' if axis == 'rows' else 'More assets'}"
    yield ""
    header = ("", "assets", "rows of each", "seconds", "CPU seconds", "peak RSS, MB")
    yield from table(header, [
        (f"{p['factor']}x", f"{p['assets']:,}", f"{p['rows']:,}", number(p["seconds"]), number(p["cpu_seconds"]),
         number(p["peak_rss_mb"]))
        for p in points if "seconds" in p
    ])  # fmt: skip
    yield ""
    missing = list(left_out({f"{point['factor']}x": point for point in points}))
    if missing:
        yield from ["Not measured:", "", *missing, ""]
    fitted = growth["fit"]
    if fitted:
        yield (
            f"A straight line through 1x to 8x: {fitted['seconds_per_million_rows']:.3f} s per million rows and "
            f"{number(fitted['seconds_at_zero'])} s to start (R² {fitted['r2']:.3f})."
        )
    yield from memory_lines(axis, points)
    yield ""


def feed_lines(feed: dict) -> Iterator[str]:
    """What `feed.py` measured."""
    if "failed" in feed:
        yield f"Not measured: {feed['failed']}"
        return
    if "command" in feed:  # measured by itself
        yield from [f"    {feed['command']}", ""]
    yield from feed_table(feed["results"])


def files_lines(files: dict) -> Iterator[str]:
    """Table of the fleets of small files."""
    yield from [f"### Many small files of {files['rows']} rows each", ""]
    points = [point for point in files["points"] if "seconds" in point]
    rows = [
        (f"{p['files']:,}", number(p["seconds"]), number(p["peak_rss_mb"]), str(p["files_written"])) for p in points
    ]
    yield from table(("files", "seconds", "peak RSS, MB", "shards"), rows)
    yield ""
    if files["seconds_per_thousand_files"]:
        yield f"A straight line through them: {number(files['seconds_per_thousand_files'])} s per thousand files."
        yield ""


def shapes_lines(shapes: Sequence[dict]) -> Iterator[str]:
    """What `shapes.py` measured: each shape against the first of its family, and against the tree before."""
    yield from [
        "## The shape of the files",
        "",
        "The same number of values in other files; *first* is the ratio to the first line of a block. *before* is the "
        "code before preprocessing was rebuilt for such files (`benchmarks/shapes.py`), on the same files in the same "
        "run.",
        "",
    ]
    header = (
        "",
        "seconds",
        "vs first",
        "peak RSS, MB",
        "vs first",
        "before: seconds",
        "vs now",
        "MB",
        "vs now",
    )
    rows = []
    for entry in shapes:
        first = next(one for one in shapes if one["family"] == entry["family"])
        cells = [f"{entry['family']}: {entry['shape']}"]
        for key in ("seconds", "peak_rss_mb"):
            now = entry[key].get("now")
            cells += [number(now), times(now, first[key].get("now"))]
        for key in ("seconds", "peak_rss_mb"):
            before = entry[key].get("before")
            cells += [number(before), times(before, entry[key].get("now"))]
        rows.append(cells)
    yield from table(header, rows)
    failed = {
        f"{one['family']}: {one['shape']}, {tree}": {"failed": why}
        for one in shapes
        for tree, why in one["failed"].items()
    }
    if failed:
        yield from ["", "Not measured:", "", *left_out(failed)]


def train_lines(train: dict) -> Iterator[str]:
    """What `train.py` measured."""
    yield from ["## Training", ""]
    if "failed" in train:
        yield f"Not measured: {train['failed']}"
        return
    yield from [
        "![Windows per second of each](images/bench-train.png)",
        "",
        f"Global batches of {train['batch']}. All read the same dataset with the same feed. The two workers are two "
        "processes that share the cores of this machine and exchange gradients after every step. So they show what "
        "sharing and the exchange gain or cost, not the gain from a second machine.",
    ]
    for found in train["models"]:
        entries = found["results"]
        base = entries[FIT]["windows_per_second"]
        yield from ["", f"{found['model']}:", ""]
        yield from table(("", "windows/s", "steps/s", "vs fit"), [
            (f"**{name}**" if name.startswith(OURS) else name, number(entry["windows_per_second"]),
             number(entry["steps_per_second"]), f"{entry['windows_per_second'] / base:.2f}x")
            for name, entry in entries.items()
        ])  # fmt: skip


def profile_lines(profile: dict) -> Iterator[str]:
    """What `beamfeed profile` said."""
    yield from ["## Profile of the demo", ""]
    if "failed" in profile:
        yield f"Not measured: {' '.join(profile['failed'].split())}"
        return
    yield from [f"    {profile['command']}", "", "![Rates of the stages and options](images/bench-profile.png)", ""]
    yield from ["```text", *profile["text"].splitlines(), "```"]


def render(results: dict) -> str:
    """The whole report as Markdown."""
    return "\n".join(_lines(results)).rstrip("\n") + "\n"


def _lines(results: dict) -> Iterator[str]:
    machine, windows = results["machine"], results["windows"]
    versions = ", ".join(f"{name} {found}" for name, found in machine["versions"].items() if found)
    yield from [
        "# Benchmarks",
        "",
        "<!-- Written by benchmarks/report.py. Run the command below instead of editing. -->",
        "",
        f"    {results['command']}",
        "",
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB memory, {machine['system']}; "
        f"Python {machine['python']}, {versions}. Load average before the start: {machine['load_before']}.",
        "",
        "## Preprocessing",
        "",
        "The input is Parquet with a timestamp and 8 float32 sensors per row. It is standardized and cut into windows "
        f"of {windows['length']} rows, one every {windows['stride']}. All alternatives write the same windows; a test "
        "(`tests/benchmarks/test_preprocess.py`) compares them one by one.",
        "",
        "![Seconds and peak memory of each](images/bench-preprocess.png)",
        "",
    ]
    yield from (f"- {bold(name)}: {what}" for name, what in results["alternatives"].items())
    yield ""
    for case in results["preprocess"]:
        yield from case_lines(case, results["start_up"])
    yield from [
        "### Start-up",
        "",
        "One asset of 1,000 rows: the time to import, to start workers and to end. The column *without start-up* above "
        "subtracts these seconds; it shows `-` where what remains is within 5 % of the whole.",
        "",
    ]
    yield from table(("", "seconds", "peak RSS, MB"), [
        (bold(name), number(entry["seconds"]), number(entry["peak_rss_mb"]))
        for name, entry in ran(results["start_up"]).items()
    ])  # fmt: skip
    yield from [
        "",
        "## Growth",
        "",
        "Peak memory depends on the unit of work and the number of workers. So the smallest fleet here already keeps "
        f"all {results['workers']} workers busy.",
        "",
        "![Seconds and peak memory over rows](images/bench-growth.png)",
        "",
    ]
    for axis, growth in results["growth"].items():
        yield from growth_lines(axis, growth)
    if results.get("files"):
        yield from files_lines(results["files"])
    if results.get("shapes"):
        yield from shapes_lines(results["shapes"])
        yield ""
    if results.get("tables"):
        yield from tables_lines(results["tables"])
    if results.get("arrays"):
        yield from arrays_lines(results["arrays"])
    if results.get("images"):
        yield from images_lines(results["images"])
    if results.get("feed"):
        yield from ["## Feeding", ""]
        if ran(results["feed"].get("results", {})):
            yield from ["![Windows per second of each](images/bench-feed.png)", ""]
        yield from feed_lines(results["feed"])
        yield ""
    if results.get("torch"):
        yield from torch_lines(results["torch"])
        yield ""
    if results.get("train"):
        yield from train_lines(results["train"])
        yield ""
    if results.get("profile"):
        yield from profile_lines(results["profile"])
        yield ""
    yield from GPUS
    yield from [
        "## How it is measured",
        "",
        "Each run is a separate process, one after the other. The load average above shows whether the machine was "
        "busy. The input is in the page cache for all of them, and pages that an earlier run wrote are flushed first. "
        "Seconds are wall time from start to exit, imports included. Of several runs (the floor and Beamfeed run three "
        "times) the median is shown. Peak RSS is the highest sum over the process tree, sampled every 50 ms; pages "
        "that two processes share count twice. Bytes on disk are everything that was written, including what describes "
        "the records.",
    ]
