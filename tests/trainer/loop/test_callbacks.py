"""The user's own code that is told of a training run."""

import json
import os

import pytest
import yaml

from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.errors import UserError
from beamfeed.trainer.loop.callbacks import Callbacks
from beamfeed.trainer.main import main

OWN = """
import json
import os

class Watch:
    def __init__(self):
        self.told = []

    def on_steps(self, step, values):
        self.told.append(["steps", step, sorted(values)])

    def on_evaluation(self, line, model):
        self.told.append(["evaluation", line["step"], line["eval_loss"], len(model.trainable_variables)])

    def on_end(self, result):
        self.told.append(["end", result["epochs"]])
        with open({path!r}, "w") as file:
            json.dump(self.told, file)


class Nothing:
    pass


class Wants:
    def __init__(self, more):
        pass


def fails(line, model):
    return line["aucc"]
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of a name that no other test has; the file that Watch writes."""
    name = f"own_{tmp_path.name}".replace("-", "_")
    path = tmp_path / "told.json"
    (tmp_path / f"{name}.py").write_text(OWN.replace("{path!r}", repr(str(path))))
    monkeypatch.syspath_prepend(tmp_path)
    return name, path


@pytest.fixture
def run(job, tmp_path, capsys):
    """Trains two epochs with a callback; the exit code, and what was complained of."""

    def train(path):
        made = job(epochs=2, callbacks=[path], writers=["csv"])
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(made.model_dump(mode="json", by_alias=True)))
        code = main(["--job", str(tmp_path / "job.yaml")])
        return code, capsys.readouterr().err, made.train.workdir

    return train


@pytest.mark.slow
def test_it_is_told_of_steps_evaluations_and_the_end(module, run, without_export):
    name, path = module
    code, _, workdir = run(f"{name}:Watch")
    assert code == 0
    told = json.loads(path.read_text())
    with open(RunLayout(workdir).metrics) as file:
        lines = [json.loads(line) for line in file]
    assert [one[1:3] for one in told if one[0] == "evaluation"] == [[one["step"], one["eval_loss"]] for one in lines]
    assert [one[1] for one in told if one[0] == "steps"][-1] == lines[-1]["step"]
    assert told[-1] == ["end", 2]
    assert not os.path.exists(RunLayout(workdir).tensorboard)
    with open(RunLayout(workdir).metrics_csv) as file:
        assert len(file.readlines()) == 3


def test_what_it_raises_is_one_line_with_its_place(module, run):
    name, _ = module
    code, error, _ = run(f"{name}:fails")
    assert code == 2
    assert error.splitlines()[-1].startswith(f"train.callbacks: {name}:fails failed: KeyError: aucc (")
    place = OWN.splitlines().index('    return line["aucc"]') + 1
    assert f"{name}.py:{place})" in error.splitlines()[-1]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("Watsh", "has no 'Watsh'; did you mean 'Watch'"),
        ("Nothing", "has none of the methods on_steps, on_evaluation, on_end"),
        ("Wants", "failed: TypeError: "),
    ],
)
def test_mistakes_are_told_when_it_is_made(module, path, message):
    with pytest.raises(UserError, match=r"train\.callbacks: ") as caught:
        Callbacks([f"{module[0]}:{path}"])
    assert message in str(caught.value)
