"""What a checkpoint keeps comes back as it was."""

import json
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from beamfeed.contract.dataset.checkpoints import find_checkpoints
from beamfeed.contract.errors import UserError
from beamfeed.trainer.loop.checkpoint import (
    Checkpoints,
    Damaged,
    remove_unfinished,
    restore,
    restore_newest,
    set_aside,
)
from beamfeed.trainer.loop.state import TrainingState


def test_state_and_variables_come_back_and_the_file_is_json(tmp_path):
    sums = {"loss": 0.1, "auc/0": [1.0, float("nan"), 3.0], "worst/0": float("inf")}
    state = TrainingState(epoch=1, step=12, done=4, sums=sums, best=-0.5, best_step=8, measured={"auc": 0.5})
    variable = keras.Variable(np.arange(3, dtype="f4"))
    checkpoints = Checkpoints(str(tmp_path), keep=1)
    checkpoints.save(state, {"model/0000": variable})
    checkpoints.wait()
    checkpoints.close()
    variable.assign(np.zeros(3, "f4"))
    found = restore(str(tmp_path), 12, {"model/0000": variable})
    np.testing.assert_array_equal(variable.numpy(), [0, 1, 2])
    assert found == state._replace(sums={"loss": 0.1, "auc/0": [1.0, None, 3.0], "worst/0": None})
    (prefix,) = find_checkpoints(str(tmp_path)).values()
    with open(f"{prefix}.json") as file:
        json.load(file, parse_constant=lambda word: 1 / 0)  # NaN and Infinity are no JSON


DAMAGES = {
    "flipped": lambda data, json_: flip(data, len(data.read_bytes()) // 2),
    "cut off": lambda data, json_: data.write_bytes(data.read_bytes()[:-100]),
    "empty": lambda data, json_: data.write_bytes(b""),
    "gone": lambda data, json_: data.unlink(),
    "no index": lambda data, json_: data.parent.joinpath("step-000000020.index").unlink(),
    "flipped index": lambda data, json_: flip(data.parent / "step-000000020.index", 30),
    "half an index": lambda data, json_: cut(data.parent / "step-000000020.index"),
    "half a state": lambda data, json_: cut(json_),
    "another state": lambda data, json_: json_.write_text('{"epok": 3}'),
    "no state": lambda data, json_: json_.write_text("[]"),
}


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.fixture
def three(tmp_path):
    """Checkpoints of steps 10 and 20, and the variables that they are of."""
    variables = {"model/0000": keras.Variable(np.zeros(1000, "f4")), "model/0001": keras.Variable(np.zeros(5, "f4"))}
    checkpoints = Checkpoints(str(tmp_path), keep=3)
    for step in (10, 20):
        for variable in variables.values():
            variable.assign(np.full(variable.shape, step, "f4"))
        checkpoints.save(TrainingState(step=step, sums={"loss": 0.5}), variables)
        checkpoints.wait()
    checkpoints.close()
    for variable in variables.values():
        variable.assign(np.full(variable.shape, 99, "f4"))
    return tmp_path, variables


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_passed_over(three, damage):
    folder, variables = three
    DAMAGES[damage](folder / "step-000000020.data-00000-of-00001", folder / "step-000000020.json")
    with pytest.raises(Damaged):
        restore(str(folder), 20, variables)
    assert all((variable.numpy() == 99).all() for variable in variables.values()), "half restored"
    state, (told,) = restore_newest(str(folder), variables)
    assert state.step == 10
    assert "step-000000020: is damaged" in str(told)
    assert "\n" not in str(told)
    assert all((variable.numpy() == 10).all() for variable in variables.values())

    # What comes next is not taken for older than what is damaged.
    set_aside(str(folder), 10)
    checkpoints = Checkpoints(str(folder), keep=1)
    checkpoints.save(TrainingState(step=15), variables)
    checkpoints.wait()
    checkpoints.close()
    assert list(find_checkpoints(str(folder))) == [15]


def test_where_all_are_damaged_nothing_begins_anew_in_silence(three):
    folder, variables = three
    for path in folder.glob("*.data-*"):
        path.write_bytes(b"")
    with pytest.raises(UserError, match=r"is damaged .* and there is none before it; start again with --restart"):
        restore_newest(str(folder), variables)


def test_what_a_killed_process_did_not_finish_goes_and_no_more(three):
    folder, _ = three
    set_aside(str(folder), 10)
    stays = sorted(os.listdir(folder))
    assert [name for name in stays if ".json" in name] == ["step-000000010.json", "step-000000020.json.aside"]
    stays += ["notes.json", "step-30.index", "step-000000030.txt"]
    ends = ["data-00000-of-00001", "index", "data-00000-of-00001.tempstate17", "json.tmp-0f"]
    for name in [*stays[-3:], *(f"step-000000030.{end}" for end in ends), "step-000000010.index.tempstate4"]:
        (folder / name).touch()
    remove_unfinished(str(folder))
    assert sorted(os.listdir(folder)) == sorted(stays)
    remove_unfinished(str(folder / "nothing"))


def test_a_step_can_be_asked_for(three):
    folder, variables = three
    assert restore_newest(str(folder), variables, 10)[0].step == 10
    with pytest.raises(UserError, match=r"holds no checkpoint of step 15 \(there: 10, 20\)"):
        restore_newest(str(folder), variables, 15)
    assert restore_newest(str(folder / "nothing"), variables) == (None, [])


def test_trouble_of_the_machine_is_no_damage(three, monkeypatch):
    folder, variables = three

    def fails(*_):
        raise tf.errors.UnavailableError(None, None, "the disk does not answer")

    monkeypatch.setattr(tf.train, "load_checkpoint", fails)
    with pytest.raises(tf.errors.UnavailableError):
        restore_newest(str(folder), variables)
