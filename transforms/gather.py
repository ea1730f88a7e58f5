"""Brings descriptors together, packed, as a step of Beam."""

from collections.abc import Iterable
from typing import Any

import apache_beam as beam

from beamfeed.transforms.packing import Packed, bucket_of


class _Pack(beam.CombineFn):
    def create_accumulator(self) -> Packed:
        return Packed()

    def add_input(self, accumulator: Packed, element: Any) -> Packed:
        accumulator.append(element)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Packed]) -> Packed:
        merged = Packed()
        for accumulator in accumulators:
            merged.extend(accumulator)
        return merged

    def extract_output(self, accumulator: Packed) -> Packed:
        return accumulator


class Gather(beam.PTransform):
    """PCollection of (bucket, item) -> PCollection of (bucket, Packed of its items, in any order)."""

    def expand(self, items: beam.PCollection) -> beam.PCollection:
        return items | beam.CombinePerKey(_Pack())


class GatherByName(beam.PTransform):
    """PCollection of (name, item) -> PCollection of (bucket, Packed of its (name, item), in any order)."""

    def expand(self, items: beam.PCollection) -> beam.PCollection:
        return items | beam.Map(lambda named: (bucket_of(named[0]), named)) | Gather()
