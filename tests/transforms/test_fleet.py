"""The fleet as a whole: what its lists of values may name."""

import pytest

from beamfeed.contract.config.split import Split
from beamfeed.contract.errors import UserError
from beamfeed.transforms.splits import check_values

SPLIT = Split(by="column", column="phase", train=["run"], eval=["warm"], test=["tset"])


def test_a_value_that_no_row_has_is_refused_with_what_there_is():
    with pytest.raises(UserError, match=r"split\.eval: 'warm' is not a value of phase \(it has: run, test\)"):
        check_values(["test", "run", "run"], SPLIT)
