"""What the report says of tables, arrays and images, and of feeding PyTorch."""

from collections.abc import Iterator

from alternatives import OURS
from report_cells import bold, left_out, number, ran, table, times


def tables_lines(found: dict) -> Iterator[str]:
    """What `tables.py` measured: preprocessing and feeding against the plain way, and memory as a table grows."""
    ours, plain, feed = found["ours"], found["plain"], found["feed"]
    yield from (
        "## Tables",
        "",
        f"{found['columns']} columns: numbers, categories of up to 50,000 values, a label. The plain way is Beam with "
        "tensorflow-transform on dicts, an Example a row and `WriteToTFRecord` (`benchmarks/table_beam.py`), and for "
        f"feeding tf.data with `parse_single_example`. It is given {found['plain_rows']:,} rows, Beamfeed "
        f"{found['rows']:,}; rows a second are without start-up.",
        "",
    )
    rows = [
        [name, number(entry["rows_per_second"]), number(entry["start_up"]), number(entry["peak_rss_mb"]),
         number(feed[key])]
        for name, key, entry in ((bold("beamfeed"), "ours", ours), ("the plain way", "plain", plain))
    ]  # fmt: skip
    rows.append(["ratio", f"{found['preprocess_ratio']:.1f}x", "", "", f"{found['feed_ratio']:.0f}x"])
    yield from table(["", "preprocessed rows/s", "start-up, s", "peak RSS, MB", "fed rows/s"], rows)
    yield ""
    growth = found["growth"]
    yield from table(
        ["rows", "seconds", "peak RSS, MB"],
        [[f"{one['rows']:,}", number(one["seconds"]), number(one["peak_rss_mb"])] for one in growth],
    )
    yield ""
    base = next(one for one in found["records"] if one["rows"] is None)
    yield from ("Rows of a record (`output.rows_per_record`), on the smallest of these tables:", "")
    yield from table(
        ["rows of a record", "seconds", "MB", "fed rows/s", "vs default"],
        [
            [f"{one['rows']:,}" if one["rows"] else "**default**, about 64 KB", number(one["seconds"]),
             number(one["bytes"] / 1e6), number(one["fed"]), times(one["fed"], base["fed"])]
            for one in found["records"]
        ],
    )  # fmt: skip
    yield ""


def arrays_lines(found: dict) -> Iterator[str]:
    """What `arrays.py` measured: bytes a second of several ways to feed one array, beside copying memory."""
    yield from (
        "## Arrays",
        "",
        f"{found['rows']:,} rows of {found['row_bytes']:,} bytes in the page cache, in shuffled batches of "
        f"{found['batch']}. `memcpy` is `np.copyto` of as many bytes, by one thread, in the same run. The ways of "
        "`beamfeed.load_arrays` are by how the array lies in its files; `records` is the same array preprocessed.",
        "",
    )
    yield from table(
        ["", "GB/s", "of memcpy"],
        [[name, f"{one['bytes_per_second'] / 1e9:.2f}", f"{one['of_memcpy']:.0%}"]
         for name, one in found["ways"].items()],
    )  # fmt: skip
    yield ""


def images_lines(found: dict) -> Iterator[str]:
    """What `images_prepare.py` and `images_feed.py` measured."""
    yield from ["## Images", ""]
    prepared, fed = found["prepared"], found["fed"]
    if "failed" in prepared:
        yield from [f"Preprocessing was not measured: {prepared['failed']}", ""]
    else:
        yield from (
            "Preprocessing JPEGs in ten folders. Plain Beam maps each file to an Example (`benchmarks/image_beam.py`) "
            "and decodes it to see whether it is whole; Beamfeed decodes those that may be broken in a way that their "
            "bytes do not tell ([Images](images.md#speed-and-memory)). All have the same tables of codes, as many "
            "cameras and programs write them; those with tables of their own take longer. Images a second are without "
            "start-up.",
            "",
        )
        yield from table(
            ["", "images", "beamfeed, images/s", "plain Beam, images/s", "ratio", "peak RSS, MB", "of 4x the images"],
            [[f"{name}, {one['side']} x {one['side']} pixels", f"{one['images']:,}",
              number(one["ours"]["images_per_second"]), number(one["plain"]["images_per_second"]),
              f"{one['ratio']:.1f}x", *[number(point["peak_rss_mb"]) for point in one["growth"]]]
             for name, one in prepared.items()],
        )  # fmt: skip
        yield ""
    if "failed" in fed:
        yield from [f"Feeding was not measured: {fed['failed']}", ""]
        return
    yield from (
        f"Feeding a training run: JPEGs of {fed['side']} x {fed['side']} pixels to batches of {fed['batch']}, float32 "
        f"of {fed['size']} x {fed['size']}; flipped, cropped and relit by chance. Grain and PyTorch decode with "
        "Pillow.",
        "",
    )
    yield from feed_table(fed["results"], "images/s")
    yield ""


def torch_lines(found: dict) -> Iterator[str]:
    """What `torch_door.py` measured."""
    yield from ["## Feeding PyTorch", ""]
    if "failed" in found:
        yield f"Not measured: {found['failed']}"
        return
    yield from (
        "`beamfeed.torch_dataset` beside a reader of TFRecords in Python, record by record: the same windows, "
        "shuffled, as batches of tensors. With loader workers, each of these is a process that sends batches on.",
        "",
    )
    entries = found["results"]
    yield from table(["", "windows/s", "vs record by record", "peak RSS, MB"], [
        [f"**{name}**" if "times_record_by_record" in one else name, number(one["windows_per_second"]),
         f"{number(one.get('times_record_by_record'))}{'x' * ('times_record_by_record' in one)}",
         number(one["peak_rss_mb"])]
        for name, one in entries.items()
    ])  # fmt: skip


def feed_baseline(entries: dict[str, dict]) -> str | None:
    """The entry that is ours: the first that bears the name."""
    return next((name for name in entries if name.startswith((OURS, "ours"))), None)


def feed_table(results: dict, unit: str = "windows/s") -> Iterator[str]:
    """Each reader beside ours, what is faster, and what is missing."""
    entries = ran(results)
    ours = feed_baseline(entries)
    base = entries[ours]["windows_per_second"] if ours else None
    yield from table(("", unit, "vs Beamfeed", "peak RSS, MB"), [
        (f"**{name}**" if name == ours else name, number(entry["windows_per_second"]),
         times(entry["windows_per_second"], base), number(entry["peak_rss_mb"]))
        for name, entry in entries.items()
    ])  # fmt: skip
    faster = [name for name, entry in entries.items() if base and entry["windows_per_second"] > base]
    if faster:
        yield from ["", f"Faster than Beamfeed: {', '.join(faster)}."]
    missing = list(left_out(results))
    if missing:
        yield from ["", "Not measured:", "", *missing]
