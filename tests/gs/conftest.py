"""A bucket for every test under this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cloud.standin import Cloud, start_cloud


@pytest.fixture(scope="session")
def cloud(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with start_cloud(tmp_path_factory.mktemp("cloud"), root) as started:
        yield started


@pytest.fixture
def gs(cloud: Cloud) -> Iterator[Cloud]:
    """An empty bucket, counts at zero; fails the test that reached for any other host."""
    cloud.reset()
    yield cloud
    assert not cloud.proxy.refused, f"tried to reach {set(cloud.proxy.refused)}"
