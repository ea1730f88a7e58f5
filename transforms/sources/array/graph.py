"""The tensorflow-transform graph of arrays: it scales those inputs that are to be scaled.

It takes `row`, int64 `[rows]`, which it gives back (an input that is not scaled needs no graph, and a graph needs an
input), and each scaled input as float32 `[rows, *shape]`. Workers scale by `write.scale_inputs`, to the same bits.
"""

import math

import tensorflow as tf

from beamfeed.contract.config.sources.array import ROW
from beamfeed.transforms.sources.array.schema import ArraySchema
from beamfeed.transforms.statistics import graph
from beamfeed.transforms.statistics.graph import Columns, Marks


def trace_arrays(schema: ArraySchema, folder: str) -> None:
    """Writes the graph with a mark for the rows of each scaled input, by its name."""
    inputs = {ROW: (tf.int64, ()), **{column.name: (tf.float32, column.array.shape) for column in schema.scaled}}

    def transform(columns: Columns, marks: Marks) -> Columns:
        outputs = {ROW: tf.identity(columns[ROW])}
        for column in schema.scaled:
            values = columns[column.name]
            rows = marks.numbers(column.name, [2, column.scales])
            offset, divisor = (rows[0], rows[1]) if column.scales > 1 else (rows[0, 0], rows[1, 0])
            finite = tf.where(tf.math.is_finite(values), values, math.nan)  # infinity counts as missing
            outputs[column.name] = (finite - offset) / divisor
        return outputs

    graph.trace(transform, inputs, folder)
