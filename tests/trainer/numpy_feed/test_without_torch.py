"""What is told where PyTorch is not installed; and mistakes that are told before it is asked for."""

import sys

import pytest
from datasets import write_dataset
from records import FIELDS, make_records

import beamfeed
from beamfeed.contract.config.prepare import Windows

SINGLE = Windows(length=1)


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_dataset(str(folder), FIELDS, {"train": make_records(FIELDS, [[5, 6]], SINGLE)}, SINGLE)
    return str(folder)


def test_what_to_install_is_told(output, monkeypatch):
    monkeypatch.delitem(sys.modules, "beamfeed.trainer.numpy_feed.torch_batches", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(beamfeed.UserError, match=r"PyTorch is not installed; pip install 'beamfeed\[torch\]'"):
        beamfeed.torch_dataset(output, "train", batch_size=2)


def test_mistakes_are_told_first(output):
    with pytest.raises(beamfeed.UserError, match="there is no dataset"):
        beamfeed.torch_dataset("nowhere", "train", batch_size=2)
    with pytest.raises(beamfeed.UserError, match=r"has no field 'lable'; did you mean 'label'\?"):
        beamfeed.torch_dataset(output, "train", batch_size=2, fields=["lable"])
    with pytest.raises(beamfeed.UserError, match="fewer than one batch of 99"):
        beamfeed.torch_dataset(output, "train", batch_size=99)
    with pytest.raises(ValueError, match="split is 'trian'"):
        beamfeed.torch_dataset(output, "trian", batch_size=2)
