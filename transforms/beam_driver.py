"""Runs the steps of preprocessing in Beam: the operations of a driver, and how descriptors are brought together."""

from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam

from beamfeed.transforms.driver import Driver
from beamfeed.transforms.packing import Packed, bucket_of


class OnBeam(Driver):
    """Collections are PCollections of a pipeline, and each operation is a step of it.

    Args:
      pipeline: to add steps to.
      scratch: a folder for files that the job needs until its end.
    """

    def __init__(self, pipeline: beam.Pipeline, scratch: str):
        self._pipeline, self._scratch = pipeline, scratch

    def once(self, label: str) -> beam.PCollection:
        return self._pipeline | label >> beam.Create([None])

    def map(self, label: str, items: beam.PCollection, step: Callable[..., Any], *arguments: Any) -> beam.PCollection:
        return items | label >> _untyped(beam.Map(step, *arguments), len(arguments))

    def flat_map(
        self, label: str, items: beam.PCollection, step: Callable[..., Iterable[Any]], *arguments: Any
    ) -> beam.PCollection:
        return items | label >> _untyped(beam.FlatMap(step, *arguments), len(arguments))

    def group(self, label: str, items: beam.PCollection, key: Callable[[Any], Any]) -> beam.PCollection:
        return items | label >> beam.GroupBy(key)

    def add_up(self, label: str, items: beam.PCollection, zero: Any) -> beam.PCollection:
        return items | label >> beam.CombineGlobally(AddUp(zero))

    def single(self, items: beam.PCollection) -> beam.pvalue.AsSingleton:
        return beam.pvalue.AsSingleton(items)

    def every(self, items: beam.PCollection) -> beam.pvalue.AsList:
        return beam.pvalue.AsList(items)

    def made(
        self, items: beam.PCollection, make: Callable[[beam.PCollection, str], beam.PCollection]
    ) -> beam.PCollection:
        return make(items, self._scratch)


def _untyped(step: beam.ParDo, arguments: int) -> beam.ParDo:
    """A step that takes and gives what it likes: steps before it say no more than that they give some Verdict."""
    return step.with_input_types(*[Any] * (1 + arguments)).with_output_types(Any)


class AddUp(beam.CombineFn):
    """Items -> their sum.

    Args:
      zero: what there is where nothing is added.
    """

    def __init__(self, zero: Any):
        self._zero = zero

    def create_accumulator(self) -> Any:
        return self._zero

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        return sum(accumulators, self._zero)

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


class Pack(beam.CombineFn):
    """Items -> Packed, in any order."""

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


class GatherByName(beam.PTransform):
    """PCollection of (name, item) -> PCollection of (bucket, Packed of its (name, item), in any order)."""

    def expand(self, items: beam.PCollection) -> beam.PCollection:
        return items | beam.Map(lambda named: (bucket_of(named[0]), named)) | beam.CombinePerKey(Pack())
