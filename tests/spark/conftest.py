"""Spark and its connector for TFRecords, where Java, Maven and pyspark are there."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONNECTOR = "com.linkedin.sparktfrecord:spark-tfrecord_2.12:0.6.1"
MAVEN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


@pytest.fixture(scope="session")
def connector(tmp_path_factory) -> str:
    """The jar of the connector, by Maven."""
    for name in ("java", "mvn"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed (pip install 'pyspark>=3.5,<3.6')")
    folder = tmp_path_factory.mktemp("jars")
    command = ["mvn", "-q", "-B", f"{MAVEN}:copy", f"-Dartifact={CONNECTOR}", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
    jars = list(folder.glob("*.jar"))
    if done.returncode or not jars:
        pytest.skip(f"Maven does not get {CONNECTOR}: {(done.stdout + done.stderr).strip()[-200:]}")
    return str(jars[0])


@pytest.fixture(scope="session")
def spark(connector, tmp_path_factory):
    """Runs job.py: what it writes to its argument OUT."""

    def run(what: str, folder: str, *more: str) -> list[dict]:
        out = tmp_path_factory.mktemp("spark") / "rows.json"
        job = Path(__file__).with_name("job.py")
        env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        command = [sys.executable, str(job), what, connector, folder, str(out), *more]
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(out.read_text())

    return run
