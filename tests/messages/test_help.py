"""The help of every command and every program: each option is described, and the example is one that is taken."""

import importlib
import re
import shlex
import subprocess
import sys

import pytest

from beamfeed.contract.arguments import Parser
from beamfeed.launcher import cli

PROGRAMS = [
    "beamfeed.pipelines.adopt",
    "beamfeed.pipelines.check",
    "beamfeed.pipelines.compact",
    "beamfeed.pipelines.export_dataset",
    "beamfeed.pipelines.predict",
    "beamfeed.pipelines.report",
    "beamfeed.pipelines.score",
    "beamfeed.pipelines.compare",
    "beamfeed.pipelines.suggest_job",
    "beamfeed.pipelines.train_each",
    "beamfeed.trainer.main",
    "beamfeed.trainer.one_by_one",
    "beamfeed.trainer.tools.find_rate",
    "beamfeed.trainer.tools.inspect_dataset",
    "beamfeed.trainer.tools.list_checkpoints",
    "beamfeed.trainer.tools.profile_dataset",
]
OF_BEAM = ["beamfeed.pipelines.preprocess", "beamfeed.pipelines.dataflow_template"]
HIDDEN = ["--progress-dir", "--data"]  # the launcher's


def commands() -> dict[str, Parser]:
    """The parser of each command of `beamfeed`."""
    parser = cli.build_parser()
    (names,) = [action.choices for action in parser._actions if isinstance(action.choices, dict)]
    return dict(names)


def parser_of(module: str, monkeypatch) -> Parser:
    """The parser that the main function of a module makes."""
    found = []

    def note(self, *_, **__):
        found.append(self)
        raise SystemExit(0)

    with monkeypatch.context() as patch:
        patch.setattr(Parser, "parse_known_args", note)
        with pytest.raises(SystemExit):
            importlib.import_module(module).main([])
    return found[0]


def check(parser: Parser) -> None:
    """That the help says what each option is, and ends with an example."""
    text = " ".join(parser.format_help().split())
    for action in parser._actions:
        names = [name for name in action.option_strings if name not in HIDDEN] or [action.metavar or action.dest]
        if action.option_strings and set(action.option_strings) <= set(HIDDEN):
            continue
        assert action.help not in (None, "", "==SUPPRESS=="), names
        assert names[-1] in text
        assert " ".join((action.help % vars(action) if "%(" in action.help else action.help).split()) in text
    assert " example: " in text


@pytest.mark.parametrize("name", commands())
def test_a_command(name):
    parser = commands()[name]
    check(parser)
    example = shlex.split(parser.example.removeprefix('eval "$(').split(" > ")[0].removesuffix(')"'))
    assert example[:2] == ["beamfeed", name]
    assert cli.parse_args(example[1:]).command == name


def test_beamfeed_itself_lists_every_command():
    text = cli.build_parser().format_help()
    assert [name for name in commands() if not re.search(rf"(?m)^    {name}\b", text)] == []
    assert "example: beamfeed run " in text


@pytest.mark.parametrize("module", PROGRAMS)
def test_a_program(module, monkeypatch):
    parser = parser_of(module, monkeypatch)
    check(parser)
    assert parser.prog == f"python -m {module}"
    python, option, name, *example = shlex.split(parser.example)
    assert (python, option, name) == ("python", "-m", module)
    parser.parse_args(example)


@pytest.mark.parametrize("module", OF_BEAM)
def test_a_program_of_beam_shows_its_own_options_at_once(module):
    code = (
        f"import sys, {module} as module; code = module.main(['--help']); "
        "sys.exit(code or 3 * ('apache_beam' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    for told in ("--job JOB", "--set KEY=VALUE", "options of Beam", f"example: python -m {module} --job job.yaml --"):
        assert told in done.stdout


def test_there_are_no_more_programs(root):
    places = [
        path for folder in ("contract", "transforms", "pipelines", "trainer") for path in (root / folder).rglob("*.py")
    ]
    found = [path for path in places if 'if __name__ == "__main__"' in path.read_text()]
    assert {"beamfeed." + ".".join(path.relative_to(root).with_suffix("").parts) for path in found} == {
        *PROGRAMS,
        *OF_BEAM,
    }
