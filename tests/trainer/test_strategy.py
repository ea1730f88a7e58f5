"""TF_CONFIG, right and wrong."""

import json

import pytest
import tensorflow as tf

from contract.errors import UserError
from trainer.strategy import Place, connect, read_place


def place(cluster, **task):
    return read_place({"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})})


def test_without_the_variable_a_process_is_alone():
    assert read_place({}) == read_place({"TF_CONFIG": ""}) == read_place({"TF_CONFIG": "{}"}) == Place(0, 1)
    assert Place().is_chief


def test_workers_and_a_chief_are_counted_together():
    assert place({"worker": ["a:1", "b:1"]}, type="worker", index=1) == Place(1, 2)
    assert place({"chief": ["a:1"], "worker": ["b:1", "c:1"]}, type="chief", index=0) == Place(0, 3)
    assert place({"chief": ["a:1"], "worker": ["b:1", "c:1"]}, type="worker", index="0") == Place(1, 3)
    assert not Place(1, 3).is_chief


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"cluster": ["a:1"], "task": {}}',
        '{"cluster": {"worker": "a:1"}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:1", "b:1"]}}',
        '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "evaluator", "index": 0}}',
        '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker"}}',
        '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 2}}',
    ],
)
def test_a_malformed_variable_is_told_in_one_line(text):
    with pytest.raises(UserError, match=r"^TF_CONFIG: ") as caught:
        read_place({"TF_CONFIG": text})
    assert "\n" not in str(caught.value)


def test_one_device_needs_no_strategy():
    cluster = connect(Place())
    assert cluster.strategy is tf.distribute.get_strategy()
    assert cluster.replicas == 1
    assert cluster.all_same(3)
