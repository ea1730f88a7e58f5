"""What several tests predict with."""

import pytest

from tests.fleets import Fleet
from tests.predicted import make_predicted_fleet, make_trained_lake
from tests.tables import Lake


@pytest.fixture(scope="session")
def predicted_fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return make_predicted_fleet(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="session")
def trained_lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return make_trained_lake(tmp_path_factory.mktemp("lake"))
