"""Sets assets aside that have classes which are in no training row, as a step of Beam."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import apache_beam as beam

from beamfeed.transforms.sources.columns.labels import LabelColumn
from beamfeed.transforms.sources.timeseries.classes import SeenClasses
from beamfeed.transforms.sources.timeseries.verdict import find_unseen, set_aside


class RejectUnseen(beam.PTransform):
    """PCollection of SeriesVerdict -> the same; assets with classes that are in no training row are set aside."""

    def __init__(self, labels: Sequence[LabelColumn], zero: Any):
        super().__init__()
        self._labels, self._zero = tuple(labels), zero

    def expand(self, verdicts: beam.PCollection) -> beam.PCollection:
        seen = verdicts | "DropMoments" >> beam.Map(lambda verdict: replace(verdict, statistics=None))
        unseen = (
            verdicts.pipeline
            | "UnseenOnce" >> beam.Create([None])
            | "FindUnseen" >> beam.Map(lambda _, all_, labels: find_unseen(all_, labels), beam.pvalue.AsList(seen),
                                       self._labels)
        )  # fmt: skip
        zero, nothing = self._zero, SeenClasses.zero(self._labels)
        return verdicts | "SetAside" >> beam.Map(
            lambda verdict, rejects: set_aside(verdict, rejects, zero, nothing), beam.pvalue.AsSingleton(unseen)
        )
