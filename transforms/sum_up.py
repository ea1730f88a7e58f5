"""Notes of many assets, a line for those that say the same."""

import apache_beam as beam

from beamfeed.transforms.notes import to_line


class SumUp(beam.PTransform):
    """PCollection of Note -> PCollection of lines."""

    def expand(self, notes: beam.PCollection) -> beam.PCollection:
        return (
            notes
            | "ByWords" >> beam.Map(lambda note: (note.what, note))
            | "SameWords" >> beam.GroupByKey()
            | "ToLine" >> beam.MapTuple(to_line)
        )
