"""What the programs load with their frameworks."""

import gc
import subprocess
import sys

import pytest

from beamfeed.contract.imports import heavy_imports

LEAN = """
import sys
from beamfeed.contract.imports import LATE, UNUSED, heavy_imports

with heavy_imports():
    import {framework}
print(*sorted(UNUSED & set(sys.modules)))
print(*(name for name in LATE if hasattr(sys.modules[name], "__file__")))
import bson.json_util, googleapiclient.discovery, matplotlib.pyplot, pandas, pymongo, scipy.stats, sklearn.base
"""
LATE = """
import importlib.util, inspect, pickle, sys
from concurrent.futures import ThreadPoolExecutor
from unittest import mock
from beamfeed.contract.imports import LATE, heavy_imports

def loaded():
    return [name for name in LATE if hasattr(sys.modules[name], "__file__")]

with heavy_imports():
    import tensorflow as tf, google.cloud.bigquery_storage_v1 as storage
    from google.cloud import bigquery, dataflow
import google.cloud.pubsub, cloudpickle
inspect.getmodule(compile("", "a file of nobody's", "exec"))
assert pickle.loads(cloudpickle.dumps(lambda: bigquery))() is bigquery
assert importlib.util.find_spec("google.cloud.bigquery").origin and loaded() == []
from google.cloud.bigquery.table import Table
assert Table is bigquery.Table and sys.modules["google.cloud.bigquery.table"].__spec__.origin
with ThreadPoolExecutor(8) as threads:
    assert len({*threads.map(lambda _: dataflow.JobsV1Beta3Client, range(64))}) == 1
with mock.patch("google.cloud.pubsub.PublisherClient", 7):
    from google.cloud.pubsub import PublisherClient
    assert PublisherClient == 7 and "PublisherClient" in dir(google.cloud.pubsub)
print(bigquery.Table, dataflow.JobsV1Beta3Client, google.cloud.pubsub.PublisherClient, storage.BigQueryReadClient)
print(tf.lite.TFLiteConverter, tf.compat.v1.lite.Interpreter)
assert loaded()[:4] == [*LATE[:4]]
"""
INSIDE = """
from beamfeed.contract.imports import heavy_imports

with heavy_imports():
    import pandas, apache_beam, tensorflow
    import sklearn.linear_model
print(apache_beam.io.ReadFromCsv, sklearn.linear_model.Ridge)
"""


OF_SKLEARN = """
import sys
from beamfeed.contract.imports import sklearn_imports

with sklearn_imports():
    from sklearn.ensemble import HistGradientBoostingClassifier
assert "pandas" not in sys.modules
import pandas
rows = pandas.DataFrame({"a": [0.0, 1.0] * 40})
print(HistGradientBoostingClassifier().fit(rows, rows["a"] > 0).score(rows, rows["a"] > 0))
"""

OF_ARROW = """
import sys
from beamfeed.contract.imports import spare_pandas
from beamfeed.contract.own_code import import_own
spare_pandas()
import pyarrow as pa
assert pa.array([1, None]).null_count == 1 and "pandas" not in sys.modules
make = import_own("pandas:Series", "kind")
print(pa.array(make([1.0, float("nan")])).null_count, pa.table({"a": [1]}).to_pandas().shape)
"""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_a_framework_loads_nothing_that_is_not_used():
    assert run(LEAN.format(framework="tensorflow, apache_beam")) == "\n\n"


def test_what_is_loaded_late_works():
    assert run(LATE).count("class") == 6


def test_sklearn_loads_no_pandas_and_works_with_it():
    assert run(OF_SKLEARN) == "1.0\n"


def test_arrow_loads_no_pandas_and_knows_it_where_code_of_the_users_own_may_use_it():
    assert run(OF_ARROW) == "1 (1, 1)\n"


def test_what_is_imported_beside_a_framework_is_there():
    assert "Ridge" in run(INSIDE)


def test_what_is_not_installed_is_not_loaded_late():
    code = """
import sys
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *place: None if name.endswith((".bigquery", ".dataflow")) else find(name, *place)
from beamfeed.contract.imports import lean_imports
with lean_imports():
    pass
print(*(name for name in sys.modules if name.startswith("google.cloud.")))
try:
    from google.cloud import bigquery
except ImportError:
    print("none")
"""
    assert run(code) == "google.cloud.bigquery_storage_v1 google.cloud.pubsub\nnone\n"


@pytest.mark.parametrize("collects", [True, False])
def test_where_nothing_is_loaded_garbage_stays_garbage_and_the_collector_as_it_was(collects):
    (gc.enable if collects else gc.disable)()
    try:
        frozen = gc.get_freeze_count()
        with heavy_imports():  # of what is there, as at the second call in a notebook
            pass
        assert gc.get_freeze_count() <= frozen
        assert gc.isenabled() == collects
    finally:
        gc.enable()
