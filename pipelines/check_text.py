"""What `beamfeed check` prints: a text, or one JSON object."""

from collections.abc import Sequence
from typing import Any

from beamfeed.contract.config.split import SPLITS
from beamfeed.contract.cores import available_cores
from beamfeed.contract.dataset.batches import fit_batch, run_steps, train_steps
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.recent import training_manifest
from beamfeed.contract.errors import visible
from beamfeed.contract.text import counted, size_text, some_of, table
from beamfeed.pipelines.job_check import Checked
from beamfeed.pipelines.sample import RowEstimate
from beamfeed.transforms.sources.overview import Lacking

# Of docs/benchmarks.md, measured on two cores: start-up, and what rows and files cost after it.
START_SECONDS = 3.0
SECONDS_PER_GB = 7.2  # 0.23 s for a million rows of 8 float32
SECONDS_PER_FILE = 0.003
MEASURED_CORES = 2
MEMORY_BYTES = 1_000_000_000  # with the process that traces the graph
MOST_LINES = 10  # of rejects, names of columns and the like


def expected_cost(checked: Checked) -> tuple[float, int]:
    """Seconds and bytes of memory that preprocessing takes on this machine: rough. `checked` has a manifest."""
    assert checked.manifest is not None
    overview = checked.rehearsal.overview
    size = checked.manifest.counts.rows_read * (overview.row_bytes or 4 * len(overview.columns)) / 1e9
    work = size * SECONDS_PER_GB + len(checked.files) * SECONDS_PER_FILE
    return START_SECONDS + work * MEASURED_CORES / available_cores(), MEMORY_BYTES


def to_json(checked: Checked) -> dict[str, Any]:
    """The whole report, for programs."""
    overview, manifest, rows = checked.rehearsal.overview, checked.manifest, checked.rows
    report: dict[str, Any] = {
        "job": checked.job.name,
        "works": not checked.problems,
        "exact": checked.exact,
        "complete": checked.complete,
        "files": len(checked.files),
        "files_read": len(checked.look.files),
        "assets_are_least": checked.look.mixed,
        "bytes": sum(file.size for file in checked.files),
        "columns": list(overview.columns),
        "left_out": list(overview.left_out),
        "missing": {column.name: column.missing for column in overview.missing},
        "rows": {
            "all": rows.rows,
            "splits": dict(rows.splits),
            "set_aside": rows.set_aside,
            "left_out": rows.left_out,
        },
        "training_rows_read": overview.training_rows,
        "times": None if overview.times is None else vars(overview.times),
        "rejects": [
            {key: getattr(reject, key) for key in ("asset", "file", "place", "reason", "of_row")}
            for reject in checked.rehearsal.rejects
        ],
        "notes": list(checked.rehearsal.notes),
        "remarks": list(checked.remarks),
        "warnings": list(checked.warnings),
        "problems": list(checked.problems),
    }
    if manifest is not None:
        seconds, memory = expected_cost(checked)
        report |= {
            "counts": manifest.counts.model_dump(),
            "splits": {
                name: {
                    "assets": split.assets,
                    "windows": split.windows,
                    "records": split.records,
                    "shards": len(split.shards),
                    "about_bytes": split.bytes,
                    "targets": {key: target.model_dump() for key, target in split.targets.items()},
                }
                for name, split in manifest.splits.items()
            },
            "rough": {"preprocess_seconds": round(seconds, 1), "preprocess_memory_bytes": memory},
        }
    return report


def to_text(checked: Checked) -> str:
    """The report without the problems, for people."""
    lines = [_pair("job", checked.job.name), *_input(checked)]
    if checked.manifest is not None:
        lines += ["", *_splits(checked.manifest, checked), *_targets(checked.manifest), ""]
    lines += _rejects(checked)
    lines += [_pair("note", note) for note in checked.rehearsal.notes[:MOST_LINES]]
    lines += [_pair("warning", warning) for warning in checked.warnings]
    return "\n".join(map(visible, [*lines, *_cost(checked)]))


def _input(checked: Checked) -> list[str]:
    overview, manifest = checked.rehearsal.overview, checked.manifest
    size, count = sum(file.size for file in checked.files), len(checked.files)
    read = f"{checked.look.share:.2%} of their rows" if checked.look.share else f"{len(checked.look.files):,} of them"
    if any(asset.share < 1 for asset in checked.rehearsal.assets.values()):
        read = f"parts of {read}"
    read += " were read, so that figures with ~ are estimates; --full reads all"
    lines = [_pair("files", f"{count:,}, {size_text(size)}; {'all were read' if checked.exact else read}")]
    if manifest is not None:
        sign, counts = "" if checked.exact else "~", manifest.counts
        of_assets = _sign_of_assets(checked)
        rejected = f", {of_assets}{counts.rejected_assets:,} of them set aside" if counts.rejected_assets else ""
        lines += [
            _pair("assets", f"{of_assets}{counts.assets:,}{rejected}"),
            _pair("rows" if manifest.noun == "window" else f"{manifest.noun}s", _rows(checked.rows, sign)),
        ]
    if overview.columns:
        lines.append(_pair("columns", f"{len(overview.columns)}: {some_of(overview.columns, MOST_LINES)}"))
    if overview.left_out:
        lines.append(_pair("left out", some_of(overview.left_out, MOST_LINES)))
    if overview.missing and overview.training_rows:
        lines.append(_pair("missing", _missing(overview.missing, overview.training_rows)))
    if (times := overview.times) is not None:
        step = "" if times.step is None else f"; mostly {times.step} from row to row"
        lines.append(_pair("time", f"{times.first} to {times.last}{step}"))
        longest = f", the longest {times.longest}" if times.pauses else ""
        lines.append(_pair("gaps", f"{times.pauses:,} longer than {times.pause}{longest}"))
        repeats = f"{times.repeats:,} rows have the time of the row before"
        lines.append(_pair("order", f"{repeats}, {times.decreases:,} are earlier"))
    return [*lines, *(_pair("found", remark) for remark in checked.remarks)]


def _rows(rows: RowEstimate, sign: str) -> str:
    """How many there are, and what becomes of them."""
    parts = [f"{sign}{count:,} {name}" for name, count in rows.splits.items() if count]
    parts += [f"{sign}{rows.set_aside:,} set aside"] if rows.set_aside else []
    parts += [f"{sign}{rows.left_out:,} left out"] if rows.splits and rows.left_out else []
    return f"{sign}{rows.rows:,}" + (f": {', '.join(parts)}" if parts else "")


def _missing(columns: Sequence[Lacking], rows: int) -> str:
    missing = sum(column.missing for column in columns)
    if not missing:
        return f"no value of {rows:,} training rows"
    most = max(columns, key=lambda column: column.missing / max(1, column.values))
    part = f"{missing / sum(column.values for column in columns):.2%} of the values of training rows"
    return f"{part}; most in {most.name}, {most.missing / most.values:.2%}"


def _sign_of_assets(checked: Checked) -> str:
    if checked.look.mixed:
        return "at least "
    return "" if checked.exact else "~"


def _splits(manifest: Manifest, checked: Checked) -> list[str]:
    sign = "" if checked.exact else "~"
    rows = [("split", "assets", f"{manifest.noun}s", "records", "shards", "size")]
    for name in SPLITS:
        split = manifest.splits[name]
        assets = f"{_sign_of_assets(checked)}{split.assets:,}"
        numbers = [f"{sign}{number:,}" for number in (split.windows, split.records)]
        shards = f"{len(split.shards):,}" if checked.exact else "-"
        rows.append((name, assets, *numbers, shards, f"~{size_text(split.bytes)}"))  # type: ignore[arg-type]
    return table(rows)


def _targets(manifest: Manifest) -> list[str]:
    """Of each target its classes, or its range, by split."""
    lines = []
    for field in manifest.fields:
        parts = []
        for name in SPLITS:
            target = manifest.splits[name].targets.get(field.name)
            if target is None:
                continue
            if field.classes and any(target.counts):
                counts = [f"{name_} {count:,}" for name_, count in zip(field.classes, target.counts, strict=True)]
                parts.append(f"{name}: {some_of(counts, MOST_LINES)}")
            elif target.mean is not None:
                parts.append(f"{name}: {target.min:g} to {target.max:g}, mean {target.mean:g}")
        lines += [_pair(field.role, f"{field.name}: {'; '.join(parts)}")] if parts else []
    return lines


def _rejects(checked: Checked) -> list[str]:
    rejects = checked.rehearsal.rejects
    units = [reject for reject in rejects if not reject.of_row]
    lines = []
    for title, group in (("set aside", units), ("row set aside", [reject for reject in rejects if reject.of_row])):
        lines += [_pair(title, f"{reject.file}: {reject.place}: {reject.reason}") for reject in group[:MOST_LINES]]
        if len(group) > MOST_LINES:
            lines.append(_pair("", f"and {len(group) - MOST_LINES:,} more; --json lists them"))
    return lines


def _cost(checked: Checked) -> list[str]:
    if checked.manifest is None:
        return []
    seconds, memory = expected_cost(checked)
    text = f"about {seconds:.0f} s and {size_text(memory)} of memory on this machine (rough)"
    lines = [_pair("preprocess", "nothing to do, the dataset is complete" if checked.complete else text)]
    if checked.job.train is None or checked.problems:
        return lines
    manifest = training_manifest(checked.job.train, checked.manifest)
    fitted = fit_batch(checked.job, manifest).train
    assert fitted is not None
    windows = manifest.splits["train"].windows
    about = "" if checked.exact else "~"
    count = f"{about}{counted(train_steps(windows, fitted.feed.batch_size), 'step')}"
    text = f"{fitted.epochs:,} epochs of {count}, {fitted.feed.batch_size:,} {checked.manifest.noun}s each"
    if fitted.max_steps is not None and run_steps(fitted, windows) == fitted.max_steps:
        text += f", to step {fitted.max_steps:,}"
    return [*lines, _pair("train", f"{text}; how long a step takes, 'beamfeed profile' measures")]


def _pair(name: str, value: str) -> str:
    return f"{name:<13} {value}"
