"""The section `train.inputs`: what it takes, and what is wrong with it in one line."""

import pytest
from job_text import TEXT, complaint

from beamfeed.contract.config.load import parse_job
from beamfeed.contract.dataset.fingerprint import run_fingerprint

JOB = TEXT + "  inputs: {image: {size: [64, 48], augment: {flip: horizontal}}}\n"


def test_a_section_of_a_field():
    job = parse_job(JOB)
    section = job.train.inputs["image"]
    assert section.size == (64, 48)
    assert section.augment.flip == "horizontal"
    assert section.augment.mixup is None
    assert parse_job(TEXT).train.inputs == {}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.inputs.image.size=64",
         "size: 64 is not allowed, it must be a list of 2 values, each a whole number from 1 to 8,192"),
        ("train.inputs.image.size=[64]", "[64] is not allowed, it must be a list of 2 values"),
        ("train.inputs.image.size=[0, 3]", "0 is not allowed, it must be a whole number from 1 to 8,192"),
        ("train.inputs.image.chanels=1", "train.inputs.image.chanels: unknown key; did you mean 'channels'?"),
        ("train.inputs.image.channels=2", "2 is not allowed (allowed: 1, 3)"),
        ("train.inputs.image.fit=crops", "'crops' is not allowed; did you mean 'crop'? (allowed: crop, stretch, pad)"),
        ("train.inputs.image.cache=decode", "'decode' is not allowed; did you mean 'decoded'?"),
        ("train.inputs.image.augment.flip=left", "'left' is not allowed (allowed: horizontal, vertical, both)"),
        ("train.inputs.image.augment.crop=1.2", "1.2 is not allowed, it must be a number above 0, up to 1"),
        ("train.inputs.image.augment.rotate=200", "200 is not allowed, it must be a number above 0, up to 180"),
        ("train.inputs.image.augment.cutout=1", "1 is not allowed, it must be a number between 0 and 1"),
        ("train.inputs.image.augment.flips=both", "augment.flips: unknown key; did you mean 'flip'?"),
        ("train.inputs.image.augment=yes", "needs a mapping, such as {flip: horizontal, crop: 0.9}, not true"),
        ("train.inputs.image=3", "needs a mapping, such as {size: [64, 64], channels: 1}, not 3"),
        ("train.inputs={Image: {}}", "'Image' is not allowed as a name, it must be small letters"),
    ],
)  # fmt: skip
def test_mistakes(override, message):
    (line,) = complaint(JOB, override).splitlines()
    assert message in line
    assert f"--set {override}" in line


def test_a_mistake_in_the_file_is_told_with_its_line():
    message = complaint(JOB.replace("size:", "siz:"))
    assert message.startswith("job.yaml:14: train.inputs.image.siz: unknown key; did you mean 'size'")


@pytest.mark.parametrize(
    ("override", "free"),
    [
        ("train.inputs.image.cache=decoded", False),
        ("train.inputs.image.size=[64, 64]", False),
        ("train.inputs.image.fit=pad", False),
        ("train.inputs.image.channels=1", False),
        ("train.inputs.image.augment={flip: both}", False),
        ("train.inputs.image.augment.mixup=0.2", False),
        ("train.inputs={}", False),
    ],
)
def test_which_keys_a_training_run_may_change(override, free):
    base = run_fingerprint(parse_job(JOB).train, "data")
    assert (run_fingerprint(parse_job(JOB, [override]).train, "data") == base) is free


def test_models_of_images_and_their_mistakes():
    for model, told in [
        ("{name: application}", "train.model.network: is missing, it must be text"),
        ("{name: application, network: VGG16, frozen: true}", "frozen: goes with weights"),
        ("{name: residual, stem: 3}", "3 is not allowed (allowed: 1, 2, 4)"),
        ("{name: residual, filters: []}", "[] is not allowed, it must be a list, such as [64, 32] with at least one"),
    ]:
        (line,) = complaint(TEXT, f"train.model={model}").splitlines()
        assert told in line
