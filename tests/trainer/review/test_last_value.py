"""A forecast stands beside the last value of its column, against a plain loop over the files."""

import numpy as np
import pytest
from fleets import make_table

from beamfeed.contract.dataset.result import read_result
from beamfeed.contract.dataset.review import read_review
from beamfeed.trainer.main import main

LENGTH, STRIDE, AHEAD, CAP = 6, 3, 4, 25.0


@pytest.mark.slow
def test_a_forecast_is_compared_with_the_last_value_in_the_units_of_the_files(fleet):
    rng = np.random.default_rng(4)
    walks = [(20 + np.cumsum(rng.normal(size=200))).astype("f4") for _ in range(3)]
    for number, walk in enumerate(walks):
        table = make_table(200, seed=number)
        fleet.write(f"m{number}.parquet", table.set_column(table.schema.get_field_index("x1"), "x1", [walk]))
    fleet.job["windows"] = {"length": LENGTH, "stride": STRIDE}
    fleet.job["split"] = {"by": "rows", "train": 100, "eval": 50, "test": 50}
    fleet.job["label"] = {"name": "later", "column": "x1", "at": "horizon", "horizon": AHEAD, "cap": CAP}
    fleet.job["source"]["features"] = ["x0", "x1", "x2"]
    fleet.job["train"] = {
        "model": {"name": "recurrent", "cell": "gru", "units": [2]},
        "task": {"name": "regress", "target": "later", "metrics": ["mean_absolute_error"]},
        "feed": {"batch_size": 8},
        "max_steps": 1,
        "workdir": str(fleet.folder / "model"),
    }
    assert fleet.preprocess() == 0
    assert main(["--job", str(fleet.write_job())]) == 0
    review = read_review(str(fleet.folder / "model"), read_result(str(fleet.folder / "model")).fingerprint)
    for split, begin in (("eval", 100), ("test", 150)):
        errors = []
        for walk in walks:
            for start in range(-(-begin // STRIDE) * STRIDE, begin + 50 - LENGTH - AHEAD + 1, STRIDE):
                last = start + LENGTH - 1
                errors.append(min(walk[last + AHEAD], CAP) - min(walk[last], CAP))
        told = review.splits[split].guesses["the last value"]
        assert review.splits[split].windows == len(errors)
        assert told["mean_absolute_error"] == pytest.approx(np.mean(np.abs(errors)), rel=1e-4)
        assert told["loss"] == pytest.approx(np.mean(np.square(errors)), rel=1e-4)
