"""Quotas of containers, as cgroups tell of them."""

import os

import pytest

from beamfeed.contract.cores import available_cores

V2, V1 = "0::/jobs/one\n", "12:memory:/x\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n0::/docker/abc\n"


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("", {}, 8),
        (V2, {}, 8),
        (V2, {"jobs/one/cpu.max": "max 100000"}, 8),
        (V2, {"jobs/one/cpu.max": "200000 100000"}, 2),
        (V2, {"jobs/one/cpu.max": "150000 100000"}, 2),
        (V2, {"jobs/one/cpu.max": "10000 100000"}, 1),
        (V2, {"jobs/one/cpu.max": "6400000 100000"}, 8),
        (V2, {"jobs/one/cpu.max": "max 100000", "jobs/cpu.max": "300000 100000"}, 3),  # of a group around it
        (V2, {"jobs/one/cpu.max": "400000 100000", "jobs/cpu.max": "300000 100000"}, 3),
        ("0::/\n", {"cpu.max": "250000 50000"}, 5),  # as a container sees itself
        ("0::/../other\n", {"cpu.max": "100000 100000"}, 1),
        (V2, {"jobs/one/cpu.max": "nonsense"}, 8),
        (V2, {"jobs/one/cpu.max": "100000 0"}, 8),
        (V2, {"unified/jobs/one/cpu.max": "200000 100000"}, 2),
        (V1, {"cpu/docker/abc/cpu.cfs_quota_us": "-1", "cpu/docker/abc/cpu.cfs_period_us": "100000"}, 8),
        (V1, {"cpu/docker/abc/cpu.cfs_quota_us": "250000", "cpu/docker/abc/cpu.cfs_period_us": "100000"}, 3),
        (V1, {"cpu,cpuacct/cpu.cfs_quota_us": "100000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 1),
        (V1, {"cpu/cpu.cfs_quota_us": "100000"}, 8),
    ],
)
def test_the_quota_limits_the_cores(tmp_path, groups, files, cores):
    for name, text in {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{k}": v for k, v in files.items()}}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert available_cores(str(tmp_path), allowed=8) == cores


def test_this_machine_has_some():
    assert 1 <= available_cores() <= len(os.sched_getaffinity(0))
    assert available_cores("/nowhere", allowed=3) == 3
