"""A source goes to the workers in nearly every step of a job."""

import pickle

import numpy as np
import pandas as pd

from beamfeed.contract.config.job import Job
from beamfeed.transforms.sources import make_source
from tests.tables import Lake

WIDE = 400


def test_it_is_unpacked_once_however_many_steps_hold_it(tmp_path):
    lake = Lake(tmp_path)
    values = np.random.default_rng(0).normal(size=(50, WIDE))
    lake.write("a.parquet", pd.DataFrame(values, columns=[f"x{place}" for place in range(WIDE)]))
    lake.job = {
        **lake.job,
        "source": {"kind": "table", "files": str(lake.files)},
        "features": {f"x{place}": "numeric" for place in range(WIDE)},
        "label": [],
        "split": {"by": "row", "train": 1.0, "eval": 0.0, "test": 0.0},
    }
    job = Job.model_validate(lake.job)
    source, _ = make_source(job, job.source.list_files())
    judge, works = (pickle.loads(pickle.dumps(step)) for step in (source.judge, source.works))
    assert judge.__self__ is works.__self__ is not source
    assert judge.__self__.job == source.job
    assert {**vars(judge.__self__), "job": None} == {**vars(source), "job": None}
    assert len(pickle.dumps(source)) < len(pickle.dumps(vars(source))) / 5
