"""Pipelines of a few rows run in this process: a third of their time would go into signatures of methods."""

import pytest
from torture.fast import keep_signatures

from tests.fleets import Fleet
from tests.predicted import make_predicted_fleet, make_trained_lake
from tests.tables import Lake

keep_signatures()


@pytest.fixture(scope="session")
def predicted_fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return make_predicted_fleet(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="session")
def trained_lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return make_trained_lake(tmp_path_factory.mktemp("lake"))
