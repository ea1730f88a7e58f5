"""The transform graph of somebody else's dataset: one that only computes is loaded, another is not."""

import pytest
import tensorflow as tf

from beamfeed.contract.errors import UserError
from beamfeed.trainer.export.serving import load_transform

NUMBERS = [tf.TensorSpec([None], tf.float32)]


def double(numbers):
    return 2 * numbers


def write(numbers):
    tf.io.write_file("written-by-a-graph", tf.strings.as_string(tf.reduce_sum(numbers)))
    return numbers


def read(numbers):
    return tf.cast(tf.strings.length(tf.io.read_file("/etc/hostname")), tf.float32) + numbers


def print_to_file(numbers):
    tf.print("a line", output_stream="file:///tmp/beamfeed-never-written")
    return numbers


def save(function, folder):
    graph = tf.Module()
    graph.transform_fn = tf.function(function, input_signature=NUMBERS)
    tf.saved_model.save(graph, str(folder))


def test_a_graph_that_computes_is_loaded(tmp_path):
    save(double, tmp_path)
    assert load_transform(str(tmp_path)).transform_fn(tf.constant([2.0])).numpy() == [4.0]


@pytest.mark.parametrize(
    ("function", "operation"), [(write, "WriteFile"), (read, "ReadFile"), (print_to_file, "PrintV2")]
)
def test_a_graph_that_reaches_for_files_is_refused(tmp_path, function, operation):
    save(function, tmp_path)
    with pytest.raises(UserError, match=f"holds the operation {operation}, which reaches beyond"):
        load_transform(str(tmp_path))
