"""Completion as shells do it."""

import argparse
import shutil
import subprocess

import pytest

from beamfeed.launcher.parser import _FILES, SHELLS, build_parser, completion_script

COMMANDS = {
    "adopt", "init", "run", "preprocess", "train", "cancel", "inspect", "profile", "export", "schema", "completion"
}  # fmt: skip


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    for shell in SHELLS:
        (folder / shell).write_text(completion_script(shell))
    return folder


@pytest.fixture
def completed(scripts, tmp_path):
    """What bash offers for a line that ends at its cursor, in a folder with a job file and a dataset."""
    (tmp_path / "job.yaml").touch()
    (tmp_path / "out").mkdir()

    def call(*words):
        line = " ".join(f"'{word}'" for word in ("beamfeed", *words))
        code = (
            f'source {scripts}/bash; words=({line}); COMP_WORDS=("${{words[@]}}"); COMP_CWORD={len(words)}; '
            'COMP_LINE="${words[*]}"; COMP_POINT=${#COMP_LINE}; '
            'how=$(complete -p beamfeed); name=${how##*-F }; "${name%% *}" beamfeed "${words[-1]}" "${words[-2]}"; '
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=30)
        assert done.returncode == 0, done.stderr
        return set(done.stdout.split())

    return call


def test_bash_completes_commands_and_options(completed):
    assert completed("") >= COMMANDS
    assert completed("in") == {"init", "inspect"}
    assert completed("run", "--max") == {"--max-assets"}
    assert completed("train", "--f") == {"--from-step", "--find-lr"}
    assert completed("completion", "") >= set(SHELLS)


def test_bash_completes_paths(completed):
    assert "job.yaml" in completed("run", "j")
    assert completed("inspect", "") >= {"job.yaml", "out"}
    assert completed("profile", "--out", "") & {"job.yaml", "out"} == {"out"}
    assert "job.yaml" in completed("init", "--out", "j")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_one(scripts, shell):
    text = (scripts / shell).read_text()
    assert all(command in text for command in COMMANDS)
    assert "max-assets" in text
    if shutil.which(shell):
        subprocess.run([shell, "-n", str(scripts / shell)], check=True, timeout=30)
    elif shell == "zsh":
        assert text.startswith("#compdef beamfeed\n")
    else:
        assert "complete -c beamfeed" in text


def test_every_argument_that_is_a_path_is_completed_as_one(scripts):
    """A new placeholder for a path must be told to the shells, too."""
    others = {
        "A-B", "COLUMNS", "COMMAND", "DIR", "FORMAT", "HOW", "KEY=VALUE", "N", "NAME", "NAME=VALUE", "NAMES", "P", "S",
        "SHELL", "SPLIT", "WHAT", "X",
    }  # fmt: skip
    parser = build_parser()
    commands = next(one for one in parser._actions if isinstance(one, argparse._SubParsersAction)).choices
    found = {one.metavar for command in commands.values() for one in command._actions if one.metavar}
    assert found <= {*_FILES, *others}
