"""Fields that hold files which cannot be decoded."""

import pytest
import tensorflow as tf
from datasets import write_dataset
from stripes import FIELDS, png, stripes

from beamfeed.contract.config.inputs import ImageInput
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.errors import UserError
from beamfeed.trainer.decode.image import EncodedImages
from beamfeed.trainer.decode.preparation import Preparation
from beamfeed.trainer.feed.dataset import load_dataset
from beamfeed.trainer.feed.options import FeedOptions
from beamfeed.trainer.feed.read_errors import explained

JPEG = tf.io.encode_jpeg(stripes(0)).numpy()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (JPEG[:200], "Invalid JPEG data"),
        (b"\x89PNG\r\n\x1a\n" + b"x" * 60, "Invalid PNG"),
        (b"BM" + bytes(60), "Number of channels"),
        (b"RIFF\x10\0\0\0WEBPVP8 xxxxxxxxx", "Failed to decode WebP header"),
        (b"GIF89a\1\0\1\0", "Invalid GIF data"),
        (b"<html>", "Unknown image file format"),
    ],
)
def test_a_file_that_cannot_be_decoded_is_one_line(tmp_path, data, message):
    rows = [{"image": [one], "label": [0], "path": [b"a"]} for one in (png(stripes(1)), data)]
    manifest = write_dataset(str(tmp_path), FIELDS, {"train": [rows]}, Windows(length=1))
    decoder = EncodedImages(FIELDS[0], ImageInput(size=(8, 8)))
    preparation = Preparation({"image": decoder}, seed=1, batch_size=2)
    line = f"{tmp_path}: a record holds a file that cannot be decoded: {message}.*; rewrite the shards without it$"
    with pytest.raises(UserError, match=line) as caught, explained(manifest, str(tmp_path)):
        list(load_dataset(str(tmp_path), "train", batch_size=2, options=FeedOptions(preparation=preparation)))
    assert "\n" not in str(caught.value)
