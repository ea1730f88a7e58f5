"""Spark and what reads and writes TFRecords for it, where Java, Maven and pyspark are there."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# The connector, and the file formats that it stands on, which can be had where it cannot.
ARTIFACTS = {
    "connector": "com.linkedin.sparktfrecord:spark-tfrecord_2.12:0.6.1",
    "hadoop": "org.tensorflow:tensorflow-hadoop:1.15.0",
}
MAVEN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


@pytest.fixture(scope="session", params=ARTIFACTS)
def spark(request, tmp_path_factory):
    """Runs job.py: what it writes to its argument OUT."""
    jar = find_jar(ARTIFACTS[request.param], tmp_path_factory.mktemp("jars"))

    def run(what: str, folder: str, *more: str) -> list[dict]:
        out = tmp_path_factory.mktemp("spark") / "rows.json"
        job = Path(__file__).with_name("job.py")
        env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        command = [sys.executable, str(job), request.param, what, jar, folder, str(out), *more]
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(out.read_text())

    return run


def find_jar(artifact: str, folder: Path) -> str:
    """A jar, by Maven."""
    for name in ("java", "mvn"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed (pip install 'pyspark>=3.5,<3.6')")
    command = ["mvn", "-q", "-B", f"{MAVEN}:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
    subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
    jars = list(folder.glob("*.jar"))
    if not jars:
        pytest.skip(f"Maven does not find {artifact}")
    return str(jars[0])
