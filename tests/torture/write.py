"""Writes a fleet's files: Parquet by Arrow, text by a plain loop of our own."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .fleet import Clock, Fleet, Part

FIRST = ("t", "machine")


def write_fleet(fleet: Fleet, folder: Path) -> None:
    """Writes all files below `folder`."""
    for part in fleet.parts:
        if part.form.get("unwritten"):
            continue
        path = folder / part.path
        path.parent.mkdir(parents=True, exist_ok=True)
        data = part_bytes(fleet, part)
        for change in part.mend:
            data = change(data)
        path.write_bytes(data)


def part_bytes(fleet: Fleet, part: Part) -> bytes:
    """What a file holds, before its bytes are damaged."""
    columns = _columns(fleet, part)
    if part.form["format"] == "parquet":
        return _parquet(columns, part, fleet.clock)
    if part.form["format"] in ("json", "jsonl"):
        return _json(columns, part, fleet.clock)
    data = _text(columns, part, fleet.clock)
    return gzip.compress(data) if part.form["format"].endswith(".gz") else data


def _columns(fleet: Fleet, part: Part) -> dict[str, Any]:
    """Columns by name in the order in which they are written."""
    form = part.form
    columns: dict[str, Any] = {"t": part.time}
    if fleet.plan.naming == "column":
        columns["machine"] = part.asset
    columns |= {name: part.values[:, i] for i, name in enumerate(fleet.features)}
    columns |= part.extra
    for name in form.get("drop", ()):
        del columns[name]
    if "order" in form:
        columns = {name: columns[name] for name in sorted(columns, key=form["order"])}
    return columns


def _parquet(columns: dict[str, Any], part: Part, clock: Clock) -> bytes:
    arrays, names = [], []
    for name, column in columns.items():
        names.append(form_name(part, name))
        arrays.append(_array(name, column, part, clock))
    table = pa.Table.from_arrays(arrays, names)
    sink = io.BytesIO()
    options = {"row_group_size": part.form.get("row_group"), **part.form.get("parquet", {})}
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def form_name(part: Part, name: str) -> str:
    """What a column is called in the file."""
    return part.form.get("rename", {}).get(name, name)


TEXTS = frozenset({"phase", "state", "row"})  # also where a file has no rows


def _array(name: str, column: Any, part: Part, clock: Clock) -> Any:
    make = part.form.get("arrays", {}).get(name)
    if make is not None:
        return make(column)
    if name == "t":
        return time_array(column, clock, part.form.get("clock"))
    if isinstance(column, np.ndarray):
        missing = np.isnan(column)
        nulls = part.form.get("nulls", "null")
        return pa.array(column, mask=missing if nulls == "null" else None)
    if name not in TEXTS and all(value is None or isinstance(value, float) for value in column):
        return pa.array(np.array(column, np.float32))
    return pa.array(column, pa.string())


def time_array(ticks: np.ndarray, clock: Clock, arrow: str | None = None) -> pa.Array:
    """Ticks as the clock's column."""
    arrow = arrow or clock.arrow
    if arrow.startswith("float"):
        return pa.array(ticks // clock.tick + ticks % clock.tick / clock.tick)  # exact: not through 1e18 as a float
    if arrow.startswith("int"):
        return pa.array(ticks // clock.tick, arrow)
    if arrow.startswith("date"):
        return pa.array((ticks // clock.tick).astype(np.int32)).cast(pa.date32())
    unit = arrow[len("timestamp[") :].partition("]")[0].partition(",")[0]
    nanoseconds = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]  # of the file, which need not be the clock's
    return pa.array(ticks // nanoseconds).cast(pa.timestamp(unit))


def _text(columns: dict[str, Any], part: Part, clock: Clock) -> bytes:
    """The columns as CSV, by the part's dialect."""
    form = {**DIALECT, **part.form.get("csv", {})}
    texts = {}
    for name, column in columns.items():
        make = part.form.get("texts", {}).get(name)
        if make is not None:
            texts[name] = make(column)
        elif name == "t":
            texts[name] = [time_text(int(tick), clock) for tick in column]
        else:
            texts[name] = [cell_text(value, form) for value in column]
    delimiter, end = form["delimiter"], form["newline"]
    lines = list(form["before"])
    header = delimiter.join(quoted(form_name(part, name), form) for name in columns) + form["header_tail"]
    if form["header"]:
        lines.append(header)
    lines += form["units"]
    for i in range(len(part)):
        cells = [texts[name][i] for name in columns]
        spoil = part.spoilt[i].write if i in part.spoilt else None
        lines.append((delimiter.join(cells) if spoil is None else spoil(cells)) + form["row_tail"])
        lines += form["between"].get(i, ())
    lines += form["after"]
    text = end.join(lines) + (end if form["last_newline"] else "")
    return form["bom"] + text.encode(form["encoding"], "surrogateescape")


def _json(columns: dict[str, Any], part: Part, clock: Clock) -> bytes:
    """The rows as JSON objects, one a line, or in an array. What is missing has no key, or is null where all are."""
    name_of, words = part.form.get("json", ("", {}))  # values as JSON of their own
    empty = {name for name, column in columns.items() if not any(_is_there(value) for value in column)}
    texts = []
    for i in range(len(part)):
        row: dict[str, Any] = {}
        for name, column in columns.items():
            value = column[i].item() if isinstance(column, np.ndarray) else column[i]
            if name == "t":
                text = time_text(value, clock)
                value = json.loads(text) if clock.arrow.startswith(("int", "float")) else text
            if name in empty or _is_there(value):
                row[form_name(part, name)] = value if _is_there(value) else None
        text = json.dumps(row)
        if i in words:
            text = f'{text[:-1]}, "{name_of}": {words[i]}}}'
        spoil = part.spoilt[i].write if i in part.spoilt else None
        texts.append(text if spoil is None else spoil([text]))
    return (f"[{', '.join(texts)}]" if part.form["format"] == "json" else "\n".join(texts) + "\n").encode()


def _is_there(value: Any) -> bool:
    return isinstance(value, str) or (value is not None and bool(np.isfinite(value)))


DIALECT: dict[str, Any] = {
    "delimiter": ",",
    "newline": "\n",
    "decimal": ".",
    "thousands": "",
    "null": "",
    "quote_all": False,
    "header": True,
    "header_tail": "",
    "row_tail": "",
    "before": (),
    "units": (),
    "between": {},
    "after": (),
    "last_newline": True,
    "encoding": "utf-8",
    "bom": b"",
}


def cell_text(value: Any, form: dict[str, Any]) -> str:
    """One cell."""
    if value is None or (isinstance(value, (float, np.floating)) and np.isnan(value)):
        return form["null"]
    if isinstance(value, (float, np.floating)):
        text = f"{float(value):{',' if form['thousands'] else ''}.3f}"
        return quoted(text.translate({ord(","): form["thousands"], ord("."): form["decimal"]}), form)
    return quoted(str(value), form)


def quoted(text: str, form: dict[str, Any]) -> str:
    """A text in quotes where the dialect needs them."""
    needs = form["quote_all"] or any(c in text for c in (form["delimiter"], '"', "\n"))
    return '"' + text.replace('"', '""') + '"' if needs else text


def time_text(tick: int, clock: Clock) -> str:
    """One time as CSV files have it."""
    if clock.arrow.startswith("float"):
        return repr(tick / clock.tick)
    if clock.arrow.startswith("int"):
        return str(tick // clock.tick)
    moment = np.datetime64(tick, "ns")
    if clock.arrow.startswith("date"):
        return str(moment.astype("datetime64[D]"))
    unit = clock.arrow[len("timestamp[") :].rstrip("]")
    return str(moment.astype(f"datetime64[{unit}]")).replace("T", " ")
