"""What is learned of a table's training rows: scalings, edges of buckets, vocabularies, and their sizes."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from beamfeed.contract.config.features import DATE_PARTS, Bucket, Categorical, Cross, DateParts, Numeric, Text
from beamfeed.transforms.sources.table.schema import NamedFeature, TableSchema
from beamfeed.transforms.sources.table.statistics import (
    NO_TERM,
    TableStatistics,
    counted_features,
    numeric_features,
    sampled_features,
)
from beamfeed.transforms.statistics.marks import Learned
from beamfeed.transforms.statistics.scaling import QUANTILES, Scaling

NUMBERS = "numbers"
_MOST_BYTES = 245  # of a name in that of a file


@dataclass(frozen=True)
class LearnedTable:
    """What features need of the training rows.

    Attributes:
      numbers: by the name of their mark in the transform graph.
      vocabularies: by feature, the lines of its file: one of no term, as a file must have one, then the terms.
    """

    numbers: Mapping[str, np.ndarray]
    vocabularies: Mapping[str, list[str]]

    def of_graph(self) -> Learned:
        """The same as the transform graph has it."""
        files = {
            vocabulary_file(name): ["".join(line + "\n" for line in lines).encode()]
            for name, lines in self.vocabularies.items()
        }
        return {**self.numbers, **files}


def learned_of(schema: TableSchema, counted: TableStatistics) -> LearnedTable:
    """What the features of a job need."""
    numbers = {NUMBERS: number_rows(counted, schema)} if numeric_features(schema) else {}
    known = bucket_edges(counted, schema)
    for feature in schema.features:
        if isinstance(feature.section, Bucket) and feature.section.buckets:
            edges = np.full(edges_of(feature.section), np.inf, np.float32)
            edges[: len(known[feature.name])] = known[feature.name]
            numbers[edges_mark(feature)] = edges
    return LearnedTable(numbers, {name: [NO_TERM, *terms] for name, terms in vocabularies(counted, schema).items()})


def vocabulary_file(feature: str) -> str:
    """The name of the file with a feature's terms, in the transform graph.

    A survey's columns are called as its questions are; file systems take 255 bytes.
    """
    if len(feature.encode()) > _MOST_BYTES:
        feature = hashlib.blake2b(feature.encode(), digest_size=16).hexdigest()
    return f"{feature}_terms.txt"


def edges_mark(feature: NamedFeature) -> str:
    """The name of the mark for a bucket's edges."""
    return f"{feature.name} edges"


def edges_of(section: Bucket) -> int:
    """How many edges a bucket has in the graph, where quantiles give no more than so many; the others are infinite."""
    assert section.buckets is not None
    return max(2, section.buckets - 1)


def number_rows(counted: TableStatistics, schema: TableSchema) -> np.ndarray:
    """float32 [3, numeric features]: offset, divisor, and what stands for a missing value before it is scaled."""
    features = numeric_features(schema)
    places = {feature.name: place for place, feature in enumerate(sampled_features(schema))}
    quantiles = np.full((len(QUANTILES), len(features)), np.nan)
    if counted.sample is not None:
        sampled_values = counted.sample.quantiles(QUANTILES)
        for i, feature in enumerate(features):
            if feature.name in places:
                quantiles[:, i] = sampled_values[:, places[feature.name]]
    rows, mean = np.empty((3, len(features)), np.float32), counted.moments.mean()
    scaling = cache(lambda method: Scaling.of(counted.moments, method, quantiles).rows)  # of all features
    for i, feature in enumerate(features):
        section = feature.section
        assert isinstance(section, Numeric)
        rows[:2, i] = scaling("standard" if section.scale == "log" else section.scale)[:, i]
        if section.missing == "mean":
            rows[2, i] = mean[i]
        elif section.scale == "log":
            rows[2, i] = np.sign(section.missing) * np.log1p(abs(section.missing))
        else:
            rows[2, i] = section.missing
    return rows


def bucket_edges(counted: TableStatistics, schema: TableSchema) -> dict[str, np.ndarray]:
    """By bucket float32 [edges], rising: where one part of it ends and the next begins."""
    places = {feature.name: place for place, feature in enumerate(sampled_features(schema))}
    by_name: dict[str, np.ndarray] = {}
    for feature in schema.features:
        section = feature.section
        if isinstance(section, Bucket) and section.buckets:
            assert counted.sample is not None
            place, shares = places[feature.name], tuple(np.arange(1, section.buckets) / section.buckets)
            edges = counted.sample.quantiles(shares, slice(place, place + 1))[:, 0]
            edges = np.unique(edges[np.isfinite(edges)].astype(np.float32))
            by_name[feature.name] = edges if len(edges) else np.zeros(1, np.float32)
        elif isinstance(section, Bucket):
            by_name[feature.name] = np.array(section.edges, np.float32)
    return by_name


def vocabularies(counted: TableStatistics, schema: TableSchema) -> dict[str, list[str]]:
    """By feature the terms that have a number of their own, the most frequent first."""
    by_name = {}
    for counts, feature in zip(counted.counts, counted_features(schema), strict=True):
        section = feature.section
        assert isinstance(section, Categorical | Text)
        by_name[feature.name] = counts.frequent(section.min_count, section.max_size)
    return by_name


def category_sizes(
    counted: TableStatistics, terms: Mapping[str, Sequence[str]], schema: TableSchema
) -> list[tuple[str, int]]:
    """The names of the columns of `categories`, in order, and how many numbers each may have; `terms` by feature."""
    edges, sizes = bucket_edges(counted, schema), list[tuple[str, int]]()
    for feature in schema.features:
        match feature.section:
            case Categorical() as section if section.hash:
                sizes.append((feature.name, 1 + section.hash))
            case Categorical() as section:
                sizes.append((feature.name, 1 + section.unseen + len(terms[feature.name])))
            case Bucket():
                sizes.append((feature.name, 2 + len(edges[feature.name])))
            case DateParts() as section if not section.cyclic:
                sizes += [(f"{feature.name}_{part}", 1 + DATE_PARTS[part]) for part in section.parts]
            case Cross() as section:
                sizes.append((feature.name, section.hash))
    return sizes


def number_names(schema: TableSchema) -> list[str]:
    """The names of the columns of `numbers`, in order."""
    numeric = numeric_features(schema)
    names = [feature.name for feature in numeric]
    names += [f"{feature.name}_missing" for feature in numeric if feature.section.indicator]  # type: ignore[attr-defined]
    for feature in schema.features:
        if isinstance(feature.section, DateParts) and feature.section.cyclic:
            names += [f"{feature.name}_{part}_{axis}" for part in feature.section.parts for axis in ("sin", "cos")]
    return names
