"""What the processes of a stage tell of it, as the launcher reads it."""

import os

from beamfeed.contract.progress import Progress
from beamfeed.launcher.progress import ProgressReader, StageProgress


def test_what_is_written_is_read(tmp_path):
    progress = Progress(str(tmp_path))
    progress.total("write", 2, 40)
    progress.add("write", 1, 20)
    progress.reached("train", 40, 400, "steps", "epoch 1/8")
    stage = StageProgress("any", 0.0)
    for event in ProgressReader(str(tmp_path)).read():
        stage.add(event, 1.0)
    assert [step.measure() for step in stage.steps.values()] == [(20, 40, "rows"), (40, 400, "steps")]
    assert (stage.step().name, stage.step().note, stage.phase) == ("train", "epoch 1/8", "")
    progress.phase("exporting")
    (event,) = ProgressReader(str(tmp_path)).read()[3:]
    stage.add(event, 2.0)
    assert stage.phase == "exporting"


def test_nobody_asked_and_a_folder_that_has_gone(tmp_path):
    Progress().phase("exporting")
    Progress(str(tmp_path / "gone")).add("write", 1)
    assert os.listdir(tmp_path) == []
