"""The wire format, beside protobuf's own encoder and decoder."""

import random

import pytest
import tensorflow as tf
from google.protobuf.internal.decoder import _DecodeVarint
from google.protobuf.internal.encoder import _VarintBytes

from beamfeed.contract.records.wire import LISTS, NoMessage, decode_varint, encode_varint, fields_of, list_tag


def test_numbers_are_as_protobuf_writes_them():
    chance = random.Random(1)
    for number in [0, 1, 127, 128, 16_383, 16_384, 2**63, 2**64 - 1, *(chance.getrandbits(64) for _ in range(500))]:
        encoded = encode_varint(number)
        assert encoded == _VarintBytes(number)
        assert (
            decode_varint(b"xy" + encoded + b"z", 2) == (number, 2 + len(encoded)) == _DecodeVarint(b"xy" + encoded, 2)
        )


def test_lists_have_the_fields_of_a_feature():
    fields = tf.train.Feature.DESCRIPTOR.fields_by_name
    names = {"bytes": "bytes_list", "float32": "float_list", "int64": "int64_list"}
    assert {listed: fields[name].number for listed, name in names.items()} == LISTS
    for listed, feature in {
        "bytes": tf.train.Feature(bytes_list={"value": [b"a"]}),
        "float32": tf.train.Feature(float_list={"value": [1.5]}),
        "int64": tf.train.Feature(int64_list={"value": [3]}),
    }.items():
        assert feature.SerializeToString().startswith(list_tag(listed))


def test_the_fields_of_a_message_are_those_that_protobuf_put_there():
    feature = tf.train.Feature(bytes_list={"value": [b"a", b"", b"c" * 300]})
    [(number, wire, body)] = fields_of(feature.SerializeToString())
    assert (number, wire) == (LISTS["bytes"], 2)
    assert [value for _, _, value in fields_of(body)] == [b"a", b"", b"c" * 300]
    assert list(fields_of(b"\x08\x96\x01\x11" + bytes(8) + b"\x1d" + bytes(4))) == [
        (1, 0, b"\x96\x01"), (2, 1, bytes(8)), (3, 5, bytes(4)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "message",
    [b"\x80", b"\x0a", b"\x0a\x05abc", b"\x0d\x00", b"\x0b", b"\x0a\xff", b"\x08" + b"\x80" * 10 + b"\x01"],
    ids=bytes.hex,
)
def test_what_is_no_message_is_refused(message):
    with pytest.raises(NoMessage):
        list(fields_of(message))
