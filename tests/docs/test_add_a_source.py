"""docs/add_a_source.md builds a kind of source from nothing. Its code is put into a copy of the project, and run."""

import json
import os
import re
import shutil
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "add_a_source.md").read_text()
FOLDERS = ("beamfeed", "contract", "launcher", "pipelines", "trainer", "transforms")
CODE = dict(re.findall(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
LOOK_UP = "contract/config/sources/__init__.py"
RATE = 8000

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project with the new kind."""
    root = tmp_path_factory.mktemp("project")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, root / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in CODE.items():
        if name == LOOK_UP:
            *imports, _, line = text.strip().splitlines()
            found = (root / name).read_text()
            old = re.search(r"^SOURCES: .*$", found, re.MULTILINE)[0]
            last = re.findall(r"^from .*$", found, re.MULTILINE)[-1]
            (root / name).write_text(found.replace(old, line).replace(last, "\n".join([last, *imports])))
        else:
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text)
    return root


def write_sound(path, hertz, seconds, seed, rate=RATE):
    rng = np.random.default_rng(seed)
    time = np.arange(int(seconds * rate)) / rate
    signal = 0.3 * np.sin(2 * np.pi * (hertz * time + rng.random())) + 0.1 * rng.standard_normal(len(time))
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes((signal.clip(-1, 1) * 32767).astype("<i2").tobytes())


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    """Forty sounds of two classes, and four files that cannot be used."""
    folder = tmp_path_factory.mktemp("work") / "sounds"
    for number in range(20):
        write_sound(folder / "low" / f"{number:02d}.wav", 150 + 5 * number, 0.4, number)
        write_sound(folder / "high" / f"{number:02d}.wav", 600 + 10 * number, 0.4, 100 + number)
    write_sound(folder / "low" / "other-rate.wav", 150, 0.4, 1, rate=16000)
    write_sound(folder / "low" / "short.wav", 150, 0.01, 1)
    (folder / "high" / "text.wav").write_text("this is no sound")
    whole = (folder / "high" / "00.wav").read_bytes()
    (folder / "high" / "cut.wav").write_bytes(whole[:3000])
    return folder


def beamfeed(project, sounds, *arguments, code=0):
    job = sounds.parent / "sounds.yaml"
    job.write_text(CODE["sounds.yaml"])
    command = [sys.executable, "-m", "beamfeed.launcher.cli", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(project)}
    done = subprocess.run(command, cwd=sounds.parent, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_the_page_keeps_what_it_promises():
    assert sum(len(text.splitlines()) for name, text in CODE.items() if name.endswith(".py")) < 150
    assert all(len(line) <= 120 for text in CODE.values() for line in text.splitlines())


def test_a_kind_is_a_folder_a_class_and_its_place_in_the_look_up(project):
    touched = {name for name in CODE if name.endswith(".py")}
    folder = {f"transforms/sources/wav/{name}.py" for name in ("__init__", "source")}
    assert touched == {"contract/config/sources/wav.py", LOOK_UP, *folder}
    shutil.copy(ROOT / "pyproject.toml", project)
    tools = Path(sys.executable).parent
    for command in (
        ["lint-imports", "--no-logo"],
        ["ruff", "check", *touched],
        ["ruff", "format", "--check", *touched],
    ):
        done = subprocess.run([tools / command[0], *command[1:]], cwd=project, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_new_kind_becomes_a_trained_model(project, sounds):
    beamfeed(
        project,
        sounds,
        "run",
        "sounds.yaml",
        "--set",
        "limits.max_rejected_fraction=0.2",
        "--set",
        "train.review.baselines=none",
    )
    out = sounds.parent / "out" / "sounds"
    manifest = json.loads((out / "data" / "manifest.json").read_text())
    assert manifest["kind"] == "wav"
    assert [field["name"] for field in manifest["fields"]] == ["asset", "values", "label"]
    assert manifest["counts"]["assets"] == 44
    rejects = [json.loads(line) for line in next(out.glob("data/data-*/rejects/*")).read_text().splitlines()]
    assert {reject["asset"]: reject["reason"].split(";")[0] for reject in rejects} == {
        "high/cut": "is cut off after 1478 of 3200 samples",
        "high/text": "is not a WAV file: file does not start with RIFF id",
        "low/other-rate": "is not a sound of one channel, 16 bits and 8000 samples a second",
        "low/short": "has 80 samples, a window needs 200",
    }
    for info in manifest["splits"].values():
        assert sum(info["targets"]["label"]["counts"]) == info["windows"] > 0
    last = json.loads((out / "model" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["eval_accuracy"] > 0.95
    told = beamfeed(project, sounds, "inspect", "out/sounds/data", "--verify").stdout
    assert "OK: " in told


def test_the_same_bytes_by_one_worker(project, sounds):
    beamfeed(
        project, sounds, "preprocess", "sounds.yaml", "--set", "limits.max_rejected_fraction=0.2",
        "--set", "output.path=out/other", "--set", "launch.preprocess.workers=1",
    )  # fmt: skip
    first, second = (
        {
            path.name + path.parent.name: path.read_bytes()
            for path in sorted((sounds.parent / folder).rglob("*.tfrecord"))
        }
        for folder in ("out/sounds/data", "out/other")
    )
    assert first
    assert first == second


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("source.rat=1", "source.rat: unknown key; did you mean 'rate'?"),
        ("prepare.max_gap=1", "prepare: does not go with source.kind: wav"),
        ("source.files=sounds/low/*.wav", "all lie in the folder 'low'"),
        ("source.kind=wave", "kind 'wave' is not allowed; did you mean 'wav'?"),
        ("split={by: time}", "split.by: time does not go with source.kind: wav (allowed: asset)"),
    ],
)
def test_mistakes_are_told_in_one_line(project, sounds, change, line):
    more = ["--set", change, "--set", "output.path=out/mistakes/data"]
    told = beamfeed(project, sounds, "preprocess", "sounds.yaml", *more, code=2).stderr.strip().splitlines()
    assert line in told[-1]
    assert not [line for line in told[:-1] if not re.match(r"\d\d:\d\d:\d\d preprocess: ", line)]  # why the stage runs
