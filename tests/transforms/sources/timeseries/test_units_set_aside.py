"""Units of which every row is set aside, wherever they lie: no window is lost, and none is written twice."""

from pathlib import Path

import numpy as np
import pytest

from beamfeed.contract.config.job import Job
from beamfeed.transforms.sources import make_source
from beamfeed.transforms.sources.readers import blocks
from beamfeed.transforms.sources.readers import expected as sizes
from beamfeed.transforms.sources.timeseries import plan

ROWS = 300
# Rows that hold no number; a unit has about 30 rows or more.
BAD = {
    "at the beginning": [(0, 100)],
    "in the middle": [(85, 215)],
    "at the end": [(200, ROWS)],
    "all over": [(0, 70), (100, 180), (230, ROWS)],
    "one at the end": [(230, ROWS)],
}
HORIZON = {"column": "y", "at": "horizon", "horizon": 7}


def job_of(folder: Path, **sections: object) -> Job:
    """A job on the files of a folder, an asset each, of which all or the earliest rows train."""
    return Job.model_validate(
        {
            "name": "aside",
            "source": {
                "kind": "timeseries", "files": str(folder / "*.csv"), "asset": {"from": "path"},
                "time": {"column": "t"}, "features": ["x"],
            },
            "windows": {"length": 3, "stride": 2},
            "split": {"by": "asset", "train": 1, "eval": 0, "test": 0},
            "limits": {"max_rejected_fraction": 1},
            "output": {"path": str(folder / "out"), "records": "windows"},
        }
        | sections
    )  # fmt: skip


def windows_of(job: Job, scratch: Path) -> tuple[int, dict]:
    """How many units there are with no row that is right, and the windows by split and place, with their label."""
    source, files = make_source(job, job.source.list_files())
    pieces = list(source.scan(files[0], str(scratch)))
    asset = source.plan(pieces[0].asset, pieces)
    reports = [source.validate(unit) for unit in source.units(asset)]
    verdict = source.judge(asset, reports)
    found = {}
    for work, _ in source.works(verdict):
        for block in source.read(work, None, verdict.statistics):
            values = block.values
            for i in range(len(block)):
                first, rows = int(block.first[i]), int(block.rows[i])
                place = work.split, int(values["start"][i])
                assert place not in found, "written twice"
                label = tuple(np.asarray(values[one.name])[i] for one in job.label)
                found[place] = values["values"][first : first + rows].tobytes(), label
    return sum(report.statistics.order.first is None for report in reports), found


# Each two of them meet.
CASES = [
    (where, ("asset", "time")[(one + other) % 2], every)
    for one, where in enumerate(BAD)
    for other, every in enumerate((None, 1, 2))
]


@pytest.mark.parametrize(("where", "split", "every"), CASES)
def test_no_window_hangs_on_how_the_asset_is_cut(tmp_path, monkeypatch, where, split, every):
    right = np.ones(ROWS, bool)
    for start, end in BAD[where]:
        right[start:end] = False
    rows = (f"{i},{i}.5,{i}" if fine else f"{i},oops,{i}" for i, fine in enumerate(right))
    (tmp_path / "a.csv").write_text("t,x,y\n" + "\n".join(rows) + "\n")
    for name in "bcd":  # so that the column holds numbers all the same
        (tmp_path / f"{name}.csv").write_text("t,x,y\n" + "\n".join(f"{i},{i}.5,{i}" for i in range(ROWS)) + "\n")
    sections = {} if split == "asset" else {"split": {"by": "time", "train": 0.6, "eval": 0.2, "test": 0.2}}
    if every is not None:
        sections["prepare"] = {"resample": {"every": every, "how": "mean"}}
    for label in ([], [HORIZON]):
        job = job_of(tmp_path, label=label, **sections)
        with monkeypatch.context() as small:
            lost, whole = windows_of(job, tmp_path)
            assert lost == 0
            small.setattr(blocks, "BLOCK_BYTES", 300)
            small.setattr(sizes, "BATCH_ROWS", 10)
            most = 0
            for size in (100, 200):
                small.setattr(plan, "UNIT_BYTES", size)
                lost, found = windows_of(job, tmp_path)
                assert found == whole
                most = max(most, lost)
            assert most >= 1 or every is None  # units are larger there
        assert len(whole) > 10
