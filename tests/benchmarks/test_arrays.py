"""The benchmark of arrays runs, on next to nothing, and says of each way how much it moves."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long


def test_it_measures_every_way(root, tmp_path):
    path = tmp_path / "arrays.json"
    command = [sys.executable, str(root / "benchmarks" / "arrays.py"), "--size", "tiny", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(path.read_text())
    assert found["rows"] * found["row_bytes"] == 32 << 20
    assert found["ways"]["memcpy"]["of_memcpy"] == 1
    assert len(found["ways"]) == 6
    assert all(one["bytes_per_second"] > 0 for one in found["ways"].values())
