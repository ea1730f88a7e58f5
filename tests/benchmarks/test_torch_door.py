"""The reader of records that PyTorch's door is compared with reads the same windows."""

import importlib
import sys
from pathlib import Path

import numpy as np

from beamfeed.trainer.feed.batching import Batching
from beamfeed.trainer.numpy_feed.batches import BatchReader

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))  # the scripts import each other as siblings
feed_data = importlib.import_module("feed_data")
torch_door = importlib.import_module("torch_door")


def test_both_read_the_same_windows(tmp_path):
    sizes = feed_data.Sizes(assets=3, rows=300, shards=2)
    feed_data.write_segments(str(tmp_path / torch_door.SEGMENTS), sizes)
    manifest = feed_data.write_windows(str(tmp_path / torch_door.WINDOWS), sizes)
    one = [
        torch_door.parse(record).tobytes()
        for path in manifest.shard_paths(str(tmp_path / torch_door.WINDOWS), "train")
        for record in torch_door.read_records(path)
    ]
    reader = BatchReader(tmp_path / torch_door.SEGMENTS, "train", Batching(1, shuffle=50), ["values"])
    other = [np.asarray(batch.fields["values"]).tobytes() for batch in reader.read()]
    assert len(one) == sizes.windows
    assert sorted(one) == sorted(other)
