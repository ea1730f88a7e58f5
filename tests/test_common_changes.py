"""The changes that docs/architecture.md lists are made in a copy of the source, in the places that it names alone."""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGES = ("beamfeed", "contract", "launcher", "pipelines", "trainer", "transforms")
PRINT_FINGERPRINTS = """
from beamfeed.contract.config.load import parse_as
from beamfeed.contract.dataset.fingerprint import data_fingerprint, run_fingerprint
from beamfeed.launcher.job import job_model

JOB = '''
name: x
source: {kind: timeseries, files: "*.csv", time: {column: t}, features: [a]}
label: [{column: y}]
windows: {length: 3}
output: {path: o}
train: {model: {name: recurrent, units: [4]}, task: {name: regress}, workdir: w}
'''
job = parse_as(job_model(), JOB)
print(data_fingerprint(job, []), run_fingerprint(job.train, "d"))
"""


@dataclass(frozen=True)
class Change:
    """What somebody adds.

    Attributes:
      row: how its row of the table begins.
      edits: by file, pairs of a text that is there and what stands in its place; "" is a file that is not there.
      proof: a program that fails without the change.
    """

    row: str
    edits: dict[str, list[tuple[str, str]]]
    proof: str


CHANGES = [
    Change(
        "an activation",
        {
            "contract/config/model.py": [
                (
                    '    name: Literal["recurrent"] = Field(description="Says that it is this model.")\n',
                    '    name: Literal["recurrent"] = Field(description="Says that it is this model.")\n'
                    '    activation: Literal["tanh", "relu"] = Field(default="tanh", description="Of its layers.")\n',
                )
            ],
            "trainer/models/recurrent.py": [
                (
                    "    layer = CELLS[section.cell]\n",
                    "    import functools\n"
                    "    layer = functools.partial(CELLS[section.cell], activation=section.activation)\n",
                )
            ],
        },
        """
import keras
from beamfeed.contract.config.model import Recurrent
from beamfeed.trainer import models
from beamfeed.trainer.models.signature import Input, Output, Signature

signature = Signature({"values": Input((3, 2), "float32", in_rows=True)}, {"y": Output(((),), "a number", 1)})
for key, expected in (({}, keras.activations.tanh), ({"activation": "relu"}, keras.activations.relu)):
    model = models.build(Recurrent(name="recurrent", units=[4], **key), signature, 0)
    assert model.layers[1].activation is expected, model.layers[1]
""",
    ),
    Change(
        "a metric",
        {
            "trainer/tasks/ranking.py": [
                (
                    "RANKING: dict[str, type[ScoreCounts]] = {\n",
                    "class ShareOfYes(ScoreCounts):\n"
                    "    def score(self, no, yes):\n"
                    "        return float(yes.sum() / (yes.sum() + no.sum()))\n\n\n"
                    'RANKING: dict[str, type[ScoreCounts]] = {\n    "share_of_yes": ShareOfYes,\n',
                )
            ]
        },
        """
import numpy as np
from beamfeed.contract.config.task import Classify
from beamfeed.trainer.tasks.named import metric_of

metric = find_ranking("share_of_yes")
metric.update_state(np.array([[1.0], [0.0], [0.0], [0.0]]), np.array([[2.0], [1.0], [-1.0], [-2.0]]))
assert abs(float(metric.result()) - 0.25) < 1e-6
""".replace("metric_of", "find_ranking"),
    ),
    Change(
        "a key of `limits`",
        {
            "contract/config/output.py": [
                (
                    "    sort_memory_mb: ",
                    "    max_rejected_rows: Annotated[int, Field(ge=0)] | None = Field(\n"
                    '        default=None, description="The number of rows that may be set aside."\n'
                    "    )\n"
                    "    sort_memory_mb: ",
                )
            ],
            "contract/dataset/limits.py": [
                (
                    "    rejected, (fraction, noun) = counts.rejected_assets",
                    "    if limits.max_rejected_rows is not None and counts.rejected_rows > limits.max_rejected_rows:\n"
                    '        return f"{counts.rejected_rows} rows were rejected, limits.max_rejected_rows is "\n'
                    "    rejected, (fraction, noun) = counts.rejected_assets",
                )
            ],
            "contract/dataset/fingerprint.py": [
                (
                    '    "limits": {"max_rejected_fraction"',
                    '    "limits": {"max_rejected_rows": True, "max_rejected_fraction"',
                )
            ],
        },
        """
from beamfeed.contract.config.output import Limits
from beamfeed.contract.dataset.manifest import Counts
from beamfeed.transforms.fleet import Fleet

counts = Counts(files=9, assets=9, rejected_assets=0, rejected_files=0, rows_read=9000, rejected_rows=3)
fleet = Fleet(counts, nameless_files=0)
assert fleet.over(Limits(max_rejected_rows=3)) is None
assert "3 rows were rejected" in fleet.over(Limits(max_rejected_rows=2))
""",
    ),
    Change(
        "a backend",
        {
            "launcher/backends/__init__.py": [
                ('"local": LocalBackend()', '"ssh": SshBackend(), "local": LocalBackend()'),
                (
                    "    from beamfeed.launcher.backends.local",
                    "    from beamfeed.launcher.backends.ssh.backend import SshBackend\n"
                    "    from beamfeed.launcher.backends.local",
                ),
            ],
            "launcher/backends/ssh/__init__.py": [("", "")],
            "launcher/backends/ssh/backend.py": [
                (
                    "",
                    "from beamfeed.contract.config.section import Section\n"
                    "from beamfeed.launcher.backends.local.backend import LocalBackend\n\n\n"
                    "class SshSection(Section):\n    host: str\n\n\n"
                    "class SshBackend(LocalBackend):\n"
                    '    stages = ("preprocess",)\n'
                    "    section = SshSection\n\n"
                    "    def command(self, name, job, arguments):\n"
                    '        return ("ssh", job.launch.preprocess.section("ssh").host, *arguments)\n',
                )
            ],
        },
        """
import pathlib, tempfile
from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends import backends
from beamfeed.launcher.job import load_job

folder = pathlib.Path(tempfile.mkdtemp())
text = '''
name: x
source: {kind: timeseries, files: "*.csv", time: {column: t}, features: [a]}
windows: {length: 3}
output: {path: o}
launch: {preprocess: {backend: ssh, ssh: {host: far}}}
'''
(folder / "job.yaml").write_text(text)
job = load_job(str(folder / "job.yaml"), [])
assert backends()[job.launch.preprocess.backend].command("preprocess", job, ("--job",)) == ("ssh", "far", "--job")
(folder / "job.yaml").write_text(text.replace("ssh: {host: far}", "ssh: {}"))
try:
    load_job(str(folder / "job.yaml"), [])
except UserError as error:
    assert "host" in str(error), error
else:
    raise AssertionError("a key that the backend needs was not asked for")
""",
    ),
]


def copy_source(root: Path, folder: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(root / package, folder / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))


def run(folder: Path, program: str) -> str:
    lean = "from beamfeed.contract.imports import lean_imports\nlean = lean_imports()\nlean.__enter__()\n"
    done = subprocess.run([sys.executable, "-B", "-c", lean + program], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def before(root) -> str:
    """The fingerprints without any change."""
    return run(root, PRINT_FINGERPRINTS)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.row)
def test_a_common_change_is_made_in_the_places_that_are_named(root, tmp_path, change, before):
    copy_source(root, tmp_path)
    for name, edits in change.edits.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        for old, new in edits:
            text = path.read_text() if path.exists() else ""
            assert text.count(old) == 1, f"{name}: {old!r}"
            path.write_text(text.replace(old, new))
    # The proof prints nothing; no dataset and no training run is another one.
    assert run(tmp_path, change.proof + PRINT_FINGERPRINTS) == before

    (row,) = re.findall(
        rf"^\| {re.escape(change.row)}.*$", (root / "docs" / "architecture.md").read_text(), re.MULTILINE
    )
    places = re.findall(r"`([\w./]+)`", row)
    for name in change.edits:
        assert any(name == place or (place.endswith("/") and name.startswith(place)) for place in places), name
