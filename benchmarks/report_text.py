"""The text of the report, a pure function of the results.

Its claims follow from the figures, also where Beamfeed is not the best.
"""

from collections.abc import Callable, Iterator
from typing import Any

from alternatives import OURS

BOUND = "bound"
FIT = "keras.Model.fit"
MEMORY_AIM = 0.10  # growth of peak memory at ten times the data
Column = tuple[str, Callable[[dict], str]]  # its heading, and what it shows of an entry


def ran(results: dict) -> dict[str, dict]:
    """The entries that have figures."""
    return {name: entry for name, entry in results.items() if "failed" not in entry and "skipped" not in entry}


def left_out(results: dict) -> Iterator[str]:
    """Why the other entries have none."""
    reasons = {name: entry.get("failed") or entry.get("skipped") for name, entry in results.items()}
    if any(reasons.values()):
        yield from ["", "Not measured:", ""]
        yield from (f"- {name}: {' '.join(reason.split())}" for name, reason in reasons.items() if reason)


def number(value: float | None) -> str:
    """Three digits or so: 0.43, 5.1, 82, 12,345."""
    if value is None:
        return "-"
    return f"{value:,.2f}" if value < 1 else f"{value:,.1f}" if value < 10 else f"{value:,.0f}"


def times(value: float | None, base: float | None) -> str:
    return "-" if value is None or not base else f"{number(value / base)}x"


def figure(heading: str, key: str) -> Column:
    return heading, lambda entry: number(entry.get(key))


def ratio(heading: str, key: str, base: dict) -> Column:
    """How many times the baseline's figure an entry's is."""
    return heading, lambda entry: times(entry.get(key), base.get(key))


SECONDS = figure("seconds", "seconds")
MEMORY = figure("peak RSS, MB", "peak_rss_mb")
WINDOWS = figure("windows/s", "windows_per_second")


def table(entries: dict[str, dict], *columns: Column, first: str = "", ours: str = OURS) -> Iterator[str]:
    """A line for each entry that has figures; the names that begin as `ours` are bold."""
    yield f"| {' | '.join([first, *(heading for heading, _ in columns)])} |"
    yield f"| --- |{' ---: |' * len(columns)}"
    for name, entry in ran(entries).items():
        yield f"| {' | '.join([bold(name, ours), *(cell(entry) for _, cell in columns)])} |"


def bold(name: str, ours: str = OURS) -> str:
    """Ours: the name itself, or those that continue it where it ends with `*`."""
    return f"**{name}**" if name == ours or (ours.endswith("*") and name.startswith(ours[:-1])) else name


def span(points: list[dict], key: str, unit: str = "", joined: str = " to ") -> str:
    """From the first point's figure to the last one's: 3.8 to 8.5 s."""
    ends = (points[0][key], points[-1][key])
    texts = (f"{value:,}" if isinstance(value, int) else number(value) for value in ends)
    return joined.join(dict.fromkeys(texts)) + unit


def cost(points: list[dict]) -> str:
    """Seconds and memory of the first and the last point."""
    return f"{span(points, 'seconds', ' s')}, {span(points, 'peak_rss_mb', ' MB')}"


def title(case: dict) -> str:
    return f"{case['assets']:,} assets of {case['rows']:,} rows"


def net_seconds(name: str, entry: dict, start_up: dict) -> float | None:
    """Seconds beyond those that the same alternative takes on next to nothing; None if they drown in noise."""
    if "seconds" not in start_up.get(name, {}):
        return None
    net = entry["seconds"] - start_up[name]["seconds"]
    return net if net > 0.05 * entry["seconds"] else None


def preprocess_lines(results: dict) -> Iterator[str]:
    """Ours and its alternatives: all figures of the first fleet, and the seconds of the others."""
    windows = results["windows"]
    yield from [
        "## Preprocessing",
        "",
        "Parquet with a timestamp and 8 float32 sensors becomes standardized windows of "
        f"{windows['length']} rows, one every {windows['stride']}. All write the same windows "
        "(`tests/benchmarks/test_preprocess.py`).",
        "",
        "![Seconds and peak memory of each](images/bench-preprocess.png)",
        "",
        *(f"- {bold(name)}: {description}" for name, description in results["alternatives"].items()),
        "",
    ]
    first, *others = results["preprocess"]
    entries = with_net(first, results["start_up"])
    base = entries.get(OURS, {})
    raw = first["raw_bytes"]
    yield from [f"{title(first)}: {first['windows']:,} windows, {number(raw / 2**20)} MB of raw float32.", ""]
    yield from table(
        entries, SECONDS, ratio("vs Beamfeed", "seconds", base), figure("without start-up", "net"), MEMORY,
        ratio("disk vs raw", "bytes", {"bytes": raw}), *map(seconds_of, others),
    )  # fmt: skip
    yield from ["", "*Without start-up* subtracts the seconds for one asset of 1,000 rows; `-`: under 5 % remains."]
    for case in results["preprocess"]:
        yield from left_out(case["results"])
    yield ""
    remarks = list(shortfalls(entries))
    for case in others:
        remarks += (f"{title(case)}: {remark}" for remark in shortfalls(with_net(case, results["start_up"])))
    if remarks:
        yield from ["Where Beamfeed is not the best:", "", *(f"- {remark}" for remark in remarks), ""]


def with_net(case: dict, start_up: dict) -> dict[str, dict]:
    """What ran, by name, with the seconds beyond start-up."""
    return {
        name: entry | {"name": name, "net": net_seconds(name, entry, start_up)}
        for name, entry in ran(case["results"]).items()
    }


def seconds_of(case: dict) -> Column:
    """The seconds on another fleet."""
    entries = ran(case["results"])
    return f"seconds for {title(case)}", lambda entry: number(entries.get(entry["name"], {}).get("seconds"))


def shortfalls(entries: dict[str, dict]) -> Iterator[str]:
    """What any other one does better."""
    base = entries.get(OURS)
    if base is None:
        return
    for name, entry in entries.items():
        if name == BOUND:
            line = f"Beamfeed takes {times(base['seconds'], entry['seconds'])} the time of the bound"
            if base["net"] is not None and entry["net"] is not None:
                line += f", {times(base['net'], entry['net'])} without the start-up of both"
            yield f"{line}."
        elif not name.startswith(OURS):
            better = [
                f"{verdict} ({number(entry[key])} {unit} against {number(base[key])} {unit})"
                for key, verdict, unit in (("seconds", "is faster", "s"), ("peak_rss_mb", "uses less memory", "MB"),
                                        ("bytes", "uses less disk", "bytes"))
                if entry[key] < base[key]
            ]  # fmt: skip
            if better:
                yield f"{name} {' and '.join(better)}."


def decode_lines(results: dict) -> Iterator[str]:
    """What `decode.py` measured."""
    shares = ", ".join(f"{name} {entry['share']:.0%}" for name, entry in ran(results).items())
    yield (
        "Rows in a second of processor time without start-up, as a share of what pyarrow decodes on one thread "
        f"(`python benchmarks/decode.py`): {shares}. Rows of Parquet are decoded twice, to check and to write them."
    )
    yield from left_out(results)


def growth_lines(results: dict) -> Iterator[str]:
    """A line for each axis with slope and memory, and one for fleets of small files."""
    yield from ["## Growth", "", "![Seconds and peak memory over rows](images/bench-growth.png)", ""]
    for axis, growth in results["growth"].items():
        points = {f"{point['factor']}x": point for point in growth["points"]}
        if measured := list(ran(points).values()):
            rows = growth["points"][0]["rows"]
            grown = "One asset of {} rows" if axis == "rows" else f"{{}} assets of {rows:,} rows"
            yield f"{grown.format(span(measured, axis))}: {cost(measured)}."
        if fitted := growth["fit"]:
            yield (
                f"Linear fit: {fitted['seconds_per_million_rows']:.3f} s per million rows, "
                f"{number(fitted['seconds_at_zero'])} s to start (R² {fitted['r2']:.3f})."
            )
        yield from memory_lines(axis, measured)
        yield from left_out(points)
        yield ""
    files = results.get("files") or {}
    if "failed" in files:
        yield from [f"Many small files were not measured: {files['failed']}", ""]
    elif files:
        points = files["points"]
        yield f"{span(points, 'files')} small files of {files['rows']} rows each: {cost(points)}."
        if files["seconds_per_thousand_files"]:
            yield f"Linear fit: {number(files['seconds_per_thousand_files'])} s per thousand files."
        yield ""


def memory_lines(axis: str, points: list[dict]) -> Iterator[str]:
    """How far peak memory moves, at the last point and at the highest."""
    if len(points) < 2:
        return
    grown = [(point["peak_rss_mb"] / points[0]["peak_rss_mb"] - 1, point["factor"]) for point in points]
    (part, factor), (highest, highest_factor) = grown[-1], max(grown)
    verdict = "within" if part <= MEMORY_AIM else "**over**"
    yield (
        f"With {factor}x the {axis}, peak memory changes by {part:+.1%}, {verdict} the target of {MEMORY_AIM:.0%} "
        f"(highest: {highest:+.1%} at {highest_factor}x)."
    )


def days_lines(measured: dict[str, dict]) -> Iterator[str]:
    """What `growing.py` measured."""
    yield "A day added to a [dataset that grows](growing.md), and a job of that day alone; each is a process."
    yield from ["", "| days that are there | added | alone | ratio | peak RSS added | alone | manifest |"]
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for what, report in measured.items():
        for point in report.get("results", []):
            added, alone = point["added"], point["alone"]
            yield (
                f"| {point['days']} of {what}, {report['rows']:,} rows a day | {added['seconds']:.1f} s "
                f"| {alone['seconds']:.1f} s | {point['ratio']:.2f} | {added['peak_rss_mb']:,.0f} MB "
                f"| {alone['peak_rss_mb']:,.0f} MB | {point['bytes']['manifest']:,} bytes |"
            )
    yield from left_out(measured)


def shapes_lines(shapes: list[dict]) -> Iterator[str]:
    """What `shapes.py` measured: a line for each family, each shape against the first."""
    yield from [
        "The same number of values in other files; seconds and peak RSS as multiples of the first in the line.",
        "",
    ]
    failed = {f"{shape['family']}: {shape['shape']}": shape["failed"] for shape in shapes if "now" in shape["failed"]}
    for family in dict.fromkeys(shape["family"] for shape in shapes):
        first, *others = [shape for shape in shapes if shape["family"] == family]
        compared_shapes = [first["shape"]]
        for shape in others:
            if "now" not in shape["failed"]:
                ratios = (times(shape[key].get("now"), first[key].get("now")) for key in ("seconds", "peak_rss_mb"))
                compared_shapes.append(f"{shape['shape']}: {', '.join(ratios)}")
        yield f"- {family}: {'; '.join(compared_shapes)}"
    yield from left_out({name: {"failed": why["now"]} for name, why in failed.items()})


def tables_lines(measured: dict) -> Iterator[str]:
    """What `tables.py` measured: preprocessing and feeding against the plain way, and memory as a table grows."""
    feed = measured["feed"]
    yield from (
        f"{measured['columns']} columns: numbers, categories of up to 50,000 values, a label. The plain way is Beam "
        "with tensorflow-transform on dicts (`benchmarks/table_beam.py`), and tf.data with `parse_single_example`. It "
        f"gets {measured['plain_rows']:,} rows, Beamfeed {measured['rows']:,}. Rows per second are without start-up.",
        "",
    )
    entries = {
        OURS: measured["ours"] | {"fed": feed["ours"]},
        "the plain way": measured["plain"] | {"fed": feed["plain"]},
    }
    speed = figure("preprocessed rows/s", "rows_per_second")
    yield from table(entries, speed, figure("start-up, s", "start_up"), MEMORY, figure("fed rows/s", "fed"))
    yield f"| ratio | {measured['preprocess_ratio']:.1f}x |  |  | {measured['feed_ratio']:.0f}x |"
    grown = measured["growth"]
    yield from ["", f"{span(grown, 'rows', ' rows')}: {cost(grown)}.", ""]
    default = next(point for point in measured["records"] if point["rows"] is None)
    single = next(point for point in measured["records"] if point["rows"] == 1)
    yield (
        "On the smallest of these, the default, about 64 KB a record, takes "
        f"{number(default['seconds'])} s and {number(default['bytes'] / 1e6)} MB on disk; "
        f"`output.rows_per_record: 1` takes {number(single['seconds'])} s and {number(single['bytes'] / 1e6)} MB, and "
        f"feeds {times(single['fed'], default['fed'])} as fast."
    )


def arrays_lines(measured: dict) -> Iterator[str]:
    """What `arrays.py` measured: bytes a second of several ways to feed one array, beside copying memory."""
    ways = (
        f"{name} {entry['bytes_per_second'] / 1e9:.2f} ({entry['of_memcpy']:.0%})"
        for name, entry in ran(measured["ways"]).items()
    )
    yield from (
        f"`beamfeed.load_arrays` on {measured['rows']:,} rows of {measured['row_bytes']:,} bytes in the page cache, in "
        f"shuffled batches of {measured['batch']}. GB a second, and the share of `np.copyto` on one thread "
        f"(`records`: the same array preprocessed): {', '.join(ways)}.",
    )


def images_lines(measured: dict) -> Iterator[str]:
    """What `images_prepare.py` and `images_feed.py` measured."""
    prepared, fed = measured["prepared"], measured["fed"]
    if "failed" in prepared:
        yield f"Preprocessing was not measured: {prepared['failed']}"
    else:
        yield from (
            "Preprocessing JPEGs in ten folders, without start-up. Plain Beam decodes every file "
            "(`benchmarks/image_beam.py`), Beamfeed [those that may be broken](images.md#speed-and-memory). JPEGs with "
            "Huffman tables of their own take longer.",
            "",
        )
        yield from table(
            {f"{sort['images']:,} {name}, {sort['side']} x {sort['side']}": sort for name, sort in prepared.items()},
            ("beamfeed, images/s", lambda sort: number(sort["ours"]["images_per_second"])),
            ("plain Beam, images/s", lambda sort: number(sort["plain"]["images_per_second"])),
            ("ratio", lambda sort: f"{sort['ratio']:.1f}x"),
            ("peak RSS, MB; of 4x the images", lambda sort: span(sort["growth"], "peak_rss_mb", joined="; ")),
        )
    yield ""
    if "failed" in fed:
        yield f"Feeding was not measured: {fed['failed']}"
        return
    yield from (
        f"Feeding JPEGs of {fed['side']} x {fed['side']} pixels as batches of {fed['batch']}, float32 of "
        f"{fed['size']} x {fed['size']}, with random flip, crop and brightness. Grain and PyTorch decode with Pillow.",
        "",
    )
    yield from feed_table(fed["results"], "images/s")


def feed_lines(feed: dict) -> Iterator[str]:
    """What `feed.py` measured."""
    if ran(feed["results"]):
        yield from ["![Windows per second of each](images/bench-feed.png)", ""]
    yield from feed_table(feed["results"], "windows/s")


def feed_table(results: dict, unit: str) -> Iterator[str]:
    """Each reader beside ours, what is faster, and what is missing."""
    key = "windows_per_second"
    base = ran(results).get(OURS, {})
    yield from table(results, figure(unit, key), ratio("vs Beamfeed", key, base), MEMORY)
    faster = [name for name, entry in ran(results).items() if base and entry[key] > base[key]]
    if faster:
        yield from ["", f"Faster than Beamfeed: {', '.join(faster)}."]
    yield from left_out(results)


def torch_lines(measured: dict) -> Iterator[str]:
    """What `torch_door.py` measured."""
    yield from (
        "`beamfeed.torch_dataset` beside a reader of TFRecords in Python, record by record (and how many times as "
        "fast): the same windows, shuffled, as batches of tensors.",
        "",
    )
    results = ran(measured["results"])
    for name, entry in results.items():
        compared = f" ({times(entry['times_record_by_record'], 1)})" if "times_record_by_record" in entry else ""
        figures = f"{number(entry['windows_per_second'])} windows/s{compared}, {number(entry['peak_rss_mb'])} MB"
        yield f"- {bold(name, 'torch_dataset*')}: {figures}"


def train_lines(train: dict) -> Iterator[str]:
    """What `train.py` measured."""
    yield from [
        "![Windows per second of each](images/bench-train.png)",
        "",
        f"Global batches of {train['batch']}. The two workers share the cores of one machine: the gain from a second "
        "machine is not shown.",
    ]
    yield from ["", *table(*trained(train["models"]), first="windows/s", ours=f"{OURS}*")]


def trained(models: list[dict]) -> tuple[dict[str, dict], *tuple[Column, ...]]:
    """Each way to train, and two columns for each model: windows a second, and how many times Keras's."""
    ways = {name: {"way": name} for model in models for name in ran(model["results"])}
    columns: list[Column] = []
    for model in models:
        rates = {name: entry["windows_per_second"] for name, entry in ran(model["results"]).items()}

        def rate(entry: dict, rates=rates) -> str:
            return number(rates.get(entry["way"]))

        def beside_fit(entry: dict, rates=rates) -> str:
            return f"{rates[entry['way']] / rates[FIT]:.2f}x" if entry["way"] in rates else "-"

        columns += [(model["model"], rate), ("vs fit", beside_fit)]
    return ways, *columns


def predict_lines(measured: dict) -> Iterator[str]:
    """What `predict.py` measured."""
    key = "windows_per_second"
    yield from (
        "`beamfeed predict` of a dataset, to Parquet, once TensorFlow is loaded; Keras's `predict` of one array in "
        "memory; and a DoFn that calls it for each window.",
        "",
    )
    compared = ratio("vs Beamfeed", key, measured["results"][OURS])
    yield from table(measured["results"], figure("windows/s", key), compared)
    if measured["growth"]:
        yield from ["", "As processes, start-up included:", "", "| windows | predict | peak RSS | score | peak RSS |"]
        yield "| ---: | ---: | ---: | ---: | ---: |"
    for point in measured["growth"]:
        took = (
            f"{point[name]['seconds']:.1f} s | {point[name]['peak_rss_mb']:,.0f} MB" for name in ("predict", "score")
        )
        yield f"| {point['windows']:,} | {' | '.join(took)} |"


PARTS: dict[str, tuple[str, Callable[..., Iterator[str]]]] = {
    "days": ("## A day more", days_lines),
    "shapes": ("## The shape of the files", shapes_lines),
    "tables": ("## Tables", tables_lines),
    "arrays": ("## Arrays", arrays_lines),
    "images": ("## Images", images_lines),
    "feed": ("## Feeding", feed_lines),
    "torch": ("## Feeding PyTorch", torch_lines),
    "train": ("## Training", train_lines),
    "predict": ("## Predicting", predict_lines),
}


def part(heading: str, measured: Any, lines: Callable[..., Iterator[str]]) -> Iterator[str]:
    """What was measured under its heading, or why it was not."""
    yield from [heading, ""]
    yield from [f"Not measured: {measured['failed']}"] if "failed" in measured else lines(measured)
    yield ""


def render(results: dict) -> str:
    """The whole report as Markdown."""
    return "\n".join(_lines(results)).rstrip("\n") + "\n"


def _lines(results: dict) -> Iterator[str]:
    machine = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
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
        *preprocess_lines(results),
    ]
    if results.get("decode"):
        yield from ["", *part("### Beside decoding alone", results["decode"], decode_lines)]
    yield from growth_lines(results)
    for name, (heading, lines) in PARTS.items():
        if results.get(name):
            yield from part(heading, results[name], lines)
    yield from [
        "## On a GPU",
        "",
        "<!-- gpu: begin. Written by `make test-gpu`. -->",
        "`make test-gpu`, which compares a GPU's results with the CPU's and measures how fast it is fed, has not been "
        "run yet.",
        "<!-- gpu: end -->",
        "",
        "## How it is measured",
        "",
        "Each run is a process of its own, with the input in the page cache. Seconds are wall time, imports included: "
        "the median of three runs for the bound and Beamfeed, one run for the others. Peak RSS is the highest sum over "
        "the process tree, sampled every 50 ms; shared pages count twice.",
    ]
