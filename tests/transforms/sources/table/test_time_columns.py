"""Which order of a date a column of a table has."""

import numpy as np
import pytest

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.table.resolve import resolve_schema


@pytest.mark.parametrize(
    ("format_", "order"), [("%d/%m/%y", "dmy"), ("%d-%m-%y", "dmy"), ("%y.%m.%d", None), ("%y-%m-%d", None)]
)
def test_files_of_a_day_each_are_read_as_all_of_them_tell(tmp_path, format_, order):
    for at, day in enumerate((np.datetime64("2024-01-20") + np.arange(24)).tolist()):
        (tmp_path / f"{at:02}.csv").write_text("when,x\n" + f"{day.strftime(format_)},1\n" * 9)
    files = sorted(storage.match(str(tmp_path / "*.csv"), ("",)), key=lambda file: file.path)
    job = Job.model_validate({
        "name": "t", "source": {"kind": "table", "files": str(tmp_path / "*.csv")}, "output": {"path": "out"},
        "features": {"when": "date", "x": "numeric"},
    })  # fmt: skip
    if order is not None:
        assert resolve_schema(job, files).times["when"].text == order
        return
    with pytest.raises(UserError, match=r"which may begin with the day or the year; write its dates as 2024-01-31$"):
        resolve_schema(job, files)
