"""The steps of a comparison: parts of a side -> what is found in each -> in all -> a table."""

import json
from collections.abc import Iterator, Mapping, Sequence

import apache_beam as beam

from beamfeed.transforms.beam_driver import AddUp
from beamfeed.transforms.export.parquet import KEY, write_batches
from beamfeed.transforms.fleet import Fleet
from beamfeed.transforms.scoring.compared import compare_sides, raw_counts_of, table_of
from beamfeed.transforms.scoring.sides import Part, Side, SideSummary, nothing
from beamfeed.transforms.scoring.stored import RawCounts


class FindIn(beam.DoFn):
    """A part of a side -> SideSummary."""

    def __init__(self, side: Side):
        self._side = side
        self._parts = beam.metrics.Metrics.counter("beamfeed", "parts_compared")

    def process(self, part: Part) -> Iterator[SideSummary]:
        yield self._side.read(part)
        self._parts.inc()


class SummarizeShards(beam.PTransform):
    """PCollection of parts -> PCollection of one SideSummary.

    Args:
      side: that they are parts of.
    """

    def __init__(self, side: Side):
        super().__init__()
        self._side = side

    def expand(self, parts: beam.PCollection) -> beam.PCollection:
        found = parts | "FindIn" >> beam.ParDo(FindIn(self._side))
        return found | "AddUp" >> beam.CombineGlobally(AddUp(nothing(self._side)))


class SummarizeParts(beam.PTransform):
    """A pipeline -> PCollection of one SideSummary.

    Args:
      side: that is read.
      parts: all of it.
    """

    def __init__(self, side: Side, parts: Sequence[Part]):
        super().__init__()
        self._side, self._parts = side, parts

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        parts = pipeline | "Parts" >> beam.Create(self._parts) | "Spread" >> beam.Reshuffle()
        return parts | SummarizeShards(self._side)


def finish(
    _: None, reference: SideSummary, current: SideSummary, raw: Sequence[Mapping[str, RawCounts] | None],
    threshold: float, alone: Sequence[tuple[str, str]], out: str, fleet: Fleet | None = None,
) -> None:  # fmt: skip
    """Writes the table of the comparison.

    Args:
      reference: what was, and
      current: what is.
      raw: of both, see `compare_sides`; None where it is counted with them.
      threshold: from which on a column drifts.
      alone: columns that one side has alone, and which.
      out: the file, local or gs://.
      fleet: what was set aside of new files.
    """
    counted = [
        raw_counts_of(summary) if counts is None else counts
        for counts, summary in zip(raw, (reference, current), strict=True)
    ]
    table = table_of(compare_sides(reference, current, counted), threshold, alone)
    aside = {} if fleet is None else {"file": fleet.counts.rejected_files, "row": fleet.counts.rejected_rows}
    table = table.replace_schema_metadata({KEY: json.dumps(aside).encode()})
    write_batches(out, table.schema, table.to_batches())
