import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from fleets import make_table


@pytest.mark.slow
def test_the_example_writes_the_windows_of_a_plain_loop(fleet, root):
    tables = {f"m{i}": make_table(3000 + i, seed=i) for i in range(3)}
    for name, table in tables.items():
        fleet.write(f"{name}.parquet", table)
    prefix = fleet.folder / "own" / "part"
    command = [sys.executable, "examples/own_pipeline.py", "--files", f"{fleet.files}/*.parquet", "--time", "t"]
    subprocess.run([*command, "--feature", "x1", "--out", str(prefix)], check=True, cwd=root, timeout=120)

    found = {}
    for path in prefix.parent.glob("part-*.tfrecord"):
        for raw in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            feature = tf.train.Example.FromString(raw).features.feature
            values = np.array(feature["values"].float_list.value, "f4").reshape(-1, 2)
            start = feature["start"].int64_list.value[0]
            for at in range(0, len(values) - 63, 16):
                found[feature["asset"].bytes_list.value[0].decode(), start + at] = values[at : at + 64]
    assert len(found) == sum((table.num_rows - 64) // 16 + 1 for table in tables.values())
    for (asset, start), window in found.items():
        x = tables[asset]["x1"].to_numpy()
        expected = np.stack([x, np.diff(x, prepend=x[:1])], 1)[start : start + 64]
        np.testing.assert_array_equal(window, expected)
