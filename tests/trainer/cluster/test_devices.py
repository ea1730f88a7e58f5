"""The devices of processes that train on one machine."""

import pytest

from beamfeed.contract.errors import UserError
from beamfeed.trainer.cluster.devices import share_of


@pytest.mark.parametrize(("devices", "count"), [(1, 1), (4, 2), (8, 8), (7, 3)])
def test_each_has_as_many_and_none_has_anothers(devices, count):
    shares = [share_of(range(devices), index, count) for index in range(count)]
    assert {len(share) for share in shares} == {devices // count}
    assert len({device for share in shares for device in share}) == devices // count * count


def test_fewer_than_processes_is_one_line():
    with pytest.raises(UserError, match=r"launch.train.workers: is 3, but this machine has 2 GPUs; one worker uses"):
        share_of(range(2), 0, 3)
    with pytest.raises(UserError, match=r"is 2, but this machine has 1 GPU; one"):
        share_of(range(1), 1, 2)
