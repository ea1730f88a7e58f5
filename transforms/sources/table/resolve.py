"""Finds out from a few files which columns a job reads, and what they hold."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pyarrow as pa

from beamfeed.contract.config.columns import match_features
from beamfeed.contract.config.features import Cross, Feature, Own, Pass
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.section import Section
from beamfeed.contract.config.sources.table import TableSource
from beamfeed.contract.dataset.fields import field_name
from beamfeed.contract.errors import UserError, near_miss
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.labels import resolve_labels
from beamfeed.transforms.sources.columns.numbers import is_number, is_text
from beamfeed.transforms.sources.columns.paths import key_columns
from beamfeed.transforms.sources.columns.sample import check_once, column_types, described, look_at_sample, most_common
from beamfeed.transforms.sources.columns.time_units import TimeUnits
from beamfeed.transforms.sources.readers import Look, TextOptions, peek
from beamfeed.transforms.sources.readers.time_text import are_aware, first_parts, guess_orders, vote
from beamfeed.transforms.sources.table.raw import raw_values_of
from beamfeed.transforms.sources.table.raw_rows import typical_file
from beamfeed.transforms.sources.table.schema import NamedFeature, TableSchema


def resolve_schema(job: Job, files: Sequence[FileStat]) -> TableSchema:
    """Resolves globs of features, and the types of columns, from a sample of the files.

    Raises:
      UserError: if a column is not there, or not of a type that fits, or no file can be read.
    """
    source, split = job.source, job.split
    assert isinstance(source, TableSource)
    of_path = key_columns(files[0].path)
    key = source.key if split.by == "key" else None
    time = source.time if split.by == "time" else None
    columns = _named(job)
    classes = [label.column for label in job.label if label.column and label.classes is not None]
    texts = [name for name in (source.key, split.column, *classes) if name]
    options = TextOptions(
        source.csv, tuple(columns), texts=tuple(texts), lenient=True, number_columns=_number_columns(job)
    )
    looks, text = look_at_sample(files, options)
    found_types = column_types([look.schema for look in looks.values()], set(columns).__contains__)
    in_files = frozenset(found_types)
    found_types |= {name: [pa.string()] for name in of_path if name not in found_types}
    types = {name: most_common(_known(column_types)) for name, column_types in found_types.items()}
    keys: list[tuple[str, str | None]] = [("output.partition_by", name) for name in job.output.partition_by]
    keys += [("source.key", source.key), ("source.time", source.time), ("split.column", split.column)]
    for key_, name in keys:
        if name is not None:
            require(name, types, key_)
    if split.by == "key" and source.key is None:
        raise UserError("split.by: key needs source.key, the column whose rows belong together")
    if split.by == "time" and source.time is None:
        raise UserError("split.by: time needs source.time, the column of times")
    labels = resolve_labels(job.label, found_types)
    never = [*(name for name in (source.key, source.time, split.column) if name), *(label.column for label in labels)]
    features = resolve_features(job.features, types, never)
    for feature in features:
        for label in labels:
            if label.column in feature.columns and not isinstance(feature.section, Pass):
                raise UserError(f"features: {feature.name!r} reads the label's column {label.column!r}")
    numbers, texts_read, dates = _by_reading(features)
    wrong = [name for name in numbers if not is_number(types[name]) and name not in of_path]
    if wrong:
        raise UserError(f"features: column {wrong[0]!r} is {types[wrong[0]]}, a number is needed")
    all_times = dict.fromkeys([*dates, *([time] if time else [])])
    times = {name: _time_units(name, types[name], looks, text, of_path.get(name)) for name in all_times}
    schema = TableSchema(
        features=tuple(features),
        numbers=numbers,
        texts=texts_read,
        times=times,
        labels=labels,
        key=key,
        split=split.column,
        time=time,
        partitions=tuple(job.output.partition_by),
        stratify=split.stratify,
        booleans=frozenset(
            name for name, column_types in found_types.items() if any(map(pa.types.is_boolean, column_types))
        ),
        of_path=frozenset(of_path) - in_files,
        text=text,
        remarks=tuple(f"source.csv: {line}" for line in described(looks)),
    )
    check_once(looks, schema.columns)
    raw = raw_values_of(schema, looks)
    path = typical_file(raw, looks)
    return replace(schema, raw=raw, typical=next((file for file in files if file.path == path), None))


def _known(types: Sequence[pa.DataType]) -> Sequence[pa.DataType]:
    """The types without those of files that hold nothing, if there are others."""
    return [type_ for type_ in types if not pa.types.is_null(type_)] or types


def _named(job: Job) -> list[str]:
    """The columns that the job names."""
    source = job.source
    assert isinstance(source, TableSource)
    names = [name for name in (source.key, source.time, job.split.column, *job.output.partition_by) if name]
    for name, section in job.features.items():
        _, columns = _listed(section)
        names += [column for column in columns or [name] if not any(c in column for c in "*?")]
    return list(dict.fromkeys([*names, *(label.column for label in job.label if label.column)]))


def _number_columns(job: Job) -> tuple[str, ...]:
    """The columns that the job names, and reads as numbers."""
    names = [label.column for label in job.label if label.column and label.classes is None]
    for name, section in job.features.items():
        _, columns = _listed(section)
        names += [column for column in columns or [name] if reading_of(section, column) == "number"]
    return tuple(dict.fromkeys(names))


def resolve_features(
    sections: Mapping[str, Section], types: Mapping[str, pa.DataType], never: Sequence[str]
) -> list[NamedFeature]:
    """The features of a job; of a glob, one for each column that no other key names.

    Args:
      sections: by name or glob.
      types: of the columns.
      never: columns that a glob does not take.

    Raises:
      UserError: if a column is not there, or two features have one name.
    """
    columns = list(types)
    named = [name for name in sections if name in types]
    features: list[NamedFeature] = []
    for name, section in sections.items():
        key, listed = _listed(section)
        if listed:
            for column in listed:
                require(column, types, f"features.{name}.{key}")
            features.append(NamedFeature(field_name(name), section, tuple(listed)))
            continue
        assert isinstance(section, Feature)
        matched = match_features([name], columns, [*never, *named])
        if name not in types and section.reads == "number":
            matched = [matching for matching in matched if is_number(types[matching])]
        if not matched:
            near = near_miss(name, columns)
            raise UserError(f"features: no column matches {name!r}{near} (the files have: {', '.join(columns)})")
        features += [NamedFeature(field_name(matching), section, (matching,)) for matching in matched]
    for name, count in Counter(feature.name for feature in features).items():
        if count > 1:
            same = [feature.columns[0] for feature in features if feature.name == name]
            raise UserError(f"features: {' and '.join(same)} would both be called {name!r}; give one its own name")
    return features


def _listed(section: Section) -> tuple[str, list[str]]:
    """The key of a feature that names its columns, and these; none where the feature is named by its columns."""
    if isinstance(section, Cross):
        return "of", section.of
    if isinstance(section, Own):
        return "columns", list(section.columns)
    column = getattr(section, "column", None)
    return "column", [] if column is None else [column]


def require(column: str, columns: Collection[str], key: str) -> None:
    """Raises UserError if a column that the job names under `key` is none of those there are."""
    if column not in columns:
        near = near_miss(column, list(columns))
        raise UserError(f"{key}: {column!r} is not a column{near} (the files have: {', '.join(columns)})")


def reading_of(section: Section, column: str) -> str:
    """What a column of a feature is read as."""
    if isinstance(section, Own):
        return section.columns[column]
    if isinstance(section, Pass):
        return section.as_
    return section.reads  # type: ignore[attr-defined]


def _by_reading(features: Sequence[NamedFeature]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The columns of numbers, of text and of times.

    Raises:
      UserError: if a column would have to be two of them.
    """
    read: dict[str, tuple[str, str]] = {}
    for feature in features:
        for column in feature.columns:
            reads = reading_of(feature.section, column)
            before, by = read.setdefault(column, (reads, feature.name))
            if before != reads:
                raise UserError(
                    f"features: column {column!r} is read as {before} by {by!r} and as {reads} by {feature.name!r}; "
                    "it can be one of them"
                )
    return tuple(
        tuple(column for column, (reading, _) in read.items() if reading == reads)
        for reads in ("number", "text", "time")
    )  # type: ignore[return-value]


def _texts(path: str, name: str, text: TextOptions) -> list[str]:
    """Values of a column of a file, as they are written; none where it cannot be read, which is told later on."""
    nothing = ("", *text.null_words(path))
    try:
        return [value for value in peek(path, [name], text) if value.strip() not in nothing]
    except (BadInput, pa.ArrowException):
        return []


def _time_units(
    name: str, type_: pa.DataType, looks: Mapping[str, Look], text: TextOptions, of_path: str | None
) -> TimeUnits:
    """What the values of a column of times mean.

    Raises:
      UserError: if it holds none.
    """
    order = None
    if is_text(type_):
        paths = [path for path, look in looks.items() if look.schema.names.count(name) == 1]
        with ThreadPoolExecutor(8) as pool:
            texts = [[of_path]] if of_path is not None else list(pool.map(partial(_texts, name=name, text=text), paths))
        guesses = guess_orders(texts)
        orders = vote(guesses)  # a file with the other one is set aside when it is read
        if not orders:
            unsure = next((guess.unsure for guess in guesses if guess.unsure), None)
            example = unsure or next((value for values in texts for value in values if value), "")
            problem = f"which may begin with {first_parts(unsure)}" if unsure else "which is not a known format"
            raise UserError(
                f"features: column {name!r} holds text such as {example!r}, {problem}; write its dates as 2024-01-31"
            )
        order = orders.most_common(1)[0][0]
    units = TimeUnits.of(type_, None, text=order)
    if units is None or units.kind != "timestamp":
        raise UserError(f"features: column {name!r} is {type_}, times or dates are needed")
    return units if order is None else replace(units, aware=are_aware(texts, order))
