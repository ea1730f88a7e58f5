"""On a machine with GPUs, `make test-gpu`: what they compute, against the processor of the same machine."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import yaml
from labelled import labelled_job, write_labelled

from beamfeed.contract.dataset.layout import RunLayout
from tests.tables import Lake, make_table


def gpus() -> int:
    """How many the driver finds; no TensorFlow is loaded for it."""
    if shutil.which("nvidia-smi") is None:
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60)
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())


GPUS = gpus()
pytestmark = pytest.mark.skipif(not GPUS, reason="no GPU: nvidia-smi finds none")
NONE, ONE, ALL = "-1", "0", ",".join(map(str, range(GPUS)))


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Preprocessed tables with a label, by what they hold beside it: the jobs that made them."""
    features = {
        "columns": {"amount": {"type": "numeric", "scale": "log"}, "kind": {"type": "categorical"}},
        "texts": {"note": {"type": "text", "length": 8}},
    }
    jobs = {}
    for name, some in features.items():
        lake = Lake(tmp_path_factory.mktemp(name))
        rows = make_table(600)
        rows["big"] = (rows["amount"].fillna(1) > 25).astype(int)
        lake.write("a.parquet", rows)
        lake.job |= {"features": some, "label": {"column": "big", "name": "big", "classes": [0, 1]}}
        assert lake.preprocess() == 0
        jobs[name] = lake.job
    return jobs


@pytest.fixture
def train(tmp_path):
    """Trains a job on some devices, named as CUDA does, and returns the lines of metrics.jsonl."""

    def run(job, visible, name, **section):
        made = {**job, "train": {**job["train"], **section, "workdir": str(tmp_path / name)}}
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(made))
        # Products of matrices in TF32 would differ in the third digit.
        environ = {**os.environ, "CUDA_VISIBLE_DEVICES": visible, "NVIDIA_TF32_OVERRIDE": "0"}
        command = [sys.executable, "-m", "beamfeed.trainer.main", "--job", str(path)]
        result = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600)
        assert result.returncode == 0, result.stderr[-3000:]
        used = 0 if visible == NONE else visible.count(",") + 1
        told = {0: "on the CPU", 1: "on the GPU"}.get(used, f"on {used} GPUs")  # what TensorFlow found
        assert f"train: {told}\n" in result.stderr
        with open(RunLayout(str(tmp_path / name)).metrics) as file:
            return [json.loads(line) for line in file]

    return run


def plain(job):
    return job.model_dump(mode="json", by_alias=True)


def losses(lines):
    return [line[key] for line in lines for key in ("loss", "eval_loss")]


CELL = {"name": "recurrent_autoencoder", "units": [8], "latent": 2}
SERIES = {"lstm": {**CELL, "cell": "lstm"}, "gru": {**CELL, "cell": "gru"}}
TABLES = {"tabular": {"name": "tabular"}, "linear": {"name": "linear"}, "text": {"name": "text"}}


@pytest.fixture
def jobs(job, tables, tmp_path):
    """A job for each built-in model."""

    def make(model):
        if model in SERIES:
            return plain(job(model=SERIES[model], epochs=3))
        if model == "recurrent":
            data = write_labelled(str(tmp_path / "labelled"))
            return plain(labelled_job(data.output, epochs=3, workdir="none"))
        section = {"model": TABLES[model], "task": {"name": "classify", "target": "big"}, "epochs": 3}
        data = tables["texts" if model == "text" else "columns"]
        return {**data, "train": {**section, "feed": {"batch_size": 32}}}

    return make


MODELS = [*SERIES, "recurrent", *TABLES]


@pytest.mark.parametrize("model", MODELS)
def test_it_computes_what_the_processor_computes(jobs, train, model):
    made = jobs(model)
    assert losses(train(made, ONE, "gpu")) == pytest.approx(losses(train(made, NONE, "cpu")), rel=1e-3)


@pytest.mark.parametrize("model", MODELS)
def test_compiled_by_xla_it_computes_the_same(jobs, train, model):
    made = jobs(model)
    compiled = train(made, ONE, "xla", devices={"xla": True})
    assert losses(compiled) == pytest.approx(losses(train(made, NONE, "cpu")), rel=1e-3)


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("model", MODELS)
def test_mixed_precision_learns_nearly_the_same(jobs, train, model, precision):
    made = jobs(model)
    found = train(made, ONE, "mixed", devices={"precision": precision})
    expected = train(made, NONE, "cpu")
    assert found[-1]["loss"] < found[0]["loss"]
    assert losses(found)[2:] == pytest.approx(losses(expected)[2:], rel=0.1)
    assert ("skipped_steps" in found[0]) == (precision == "mixed_float16")


def test_deterministic_operations_give_the_same_bits_each_time(jobs, train):
    found = [train(jobs("lstm"), ONE, name, devices={"deterministic": True}) for name in ("one", "other")]
    assert losses(found[0]) == losses(found[1])


@pytest.mark.skipif(GPUS < 2, reason=f"one host with several GPUs: there are {GPUS}")
@pytest.mark.parametrize("collectives", ["auto", "nccl"])
def test_all_devices_together_learn_what_one_does(jobs, train, collectives):
    made = jobs("lstm")
    together = train(made, ALL, "all", devices={"collectives": collectives})
    assert losses(together) == pytest.approx(losses(train(made, ONE, "one")), rel=1e-4)


@pytest.mark.skipif(GPUS < 2, reason=f"a GPU for each worker: there are {GPUS}")
def test_workers_of_one_machine_share_the_devices_out(jobs, train, tmp_path):
    made = jobs("lstm")
    made["train"]["workdir"], made["train"]["devices"] = str(tmp_path / "shared"), {"collectives": "nccl"}
    made["launch"] = {"train": {"workers": 2}}
    path = tmp_path / "shared.yaml"
    path.write_text(yaml.safe_dump(made))
    command = [sys.executable, "-m", "beamfeed.launcher.cli", "train", str(path)]
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "0,1", "NVIDIA_TF32_OVERRIDE": "0"}
    result = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-3000:]
    with open(RunLayout(made["train"]["workdir"]).metrics) as file:
        found = [json.loads(line) for line in file]
    assert losses(found) == pytest.approx(losses(train(made, ONE, "one")), rel=1e-4)
