"""The command line: the commands of `beamfeed` and their options. Loads nothing that takes time."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from beamfeed.contract import options
from beamfeed.contract.arguments import Options, Parser, add_options, flag, option, positive
from beamfeed.contract.options import BEFORE, DATASET_OR_JOB, JOB, JSON, MAX_ASSETS, REFIT, REPLACE, RUN, SET
from beamfeed.contract.program import Program
from beamfeed.contract.text import sentence
from beamfeed.launcher.stage import PREPROCESS, TRAIN

SHELLS = ("bash", "zsh", "fish")
# Placeholders of arguments that are paths of files, which shells complete as such.
_FILES = "JOB", "FOLDER", "DATASET|JOB", "DATASET|JOB|DIR", "CURRENT", "FILE.png", "RUN", "WHERE", "FILE", "PATTERN"


@dataclass(frozen=True)
class Command:
    """A command of `beamfeed`.

    Attributes:
      about: what it does, in a sentence without a capital letter and full stop.
      example: a command line; empty where it is as that of the program.
      options: its own, beside those that every command has.
      program: that it starts, whose options it has, too.
      stages: of a job, that it runs.
    """

    about: str
    example: str
    options: Options = ()
    program: Program | None = None
    stages: tuple[str, ...] = ()

    @property
    def takes_beam(self) -> bool:
        """Whether options for Beam may follow --."""
        return self.program.beam != "nowhere" if self.program else PREPROCESS in self.stages


def _starting(program: Program, subject: Options = (), example: str = "") -> Command:
    """The command that starts a program, and names what that works on in its own way; by default, with its example."""
    follow = "; options for Beam follow --" if program.beam != "nowhere" else ""
    return Command(program.about + follow, example, subject, program)


_PRICES = option("--prices", metavar="FILE", help="dollars an hour, for --dry-run and the question before a cloud job")
_YES = flag("--yes", "start jobs that are billed without a question", short="-y")
_OF_JOB = (flag("--dry-run", "print what would run and what it takes, and run nothing"), _PRICES, _YES, MAX_ASSETS)
_REFERENCE = option(
    "reference", metavar="DATASET|JOB|DIR", help="what was: a dataset, its job file, or a folder of predictions"
)
COMMANDS = {
    "init": _starting(options.INIT),
    "adopt": _starting(options.ADOPT),
    "run": Command(
        "preprocess the data, then train; what is complete is skipped",
        "beamfeed run job.yaml --set train.epochs=3 --max-assets 5",
        (JOB, SET, REPLACE, REFIT, *_OF_JOB, *options.TRAIN.options),
        stages=(PREPROCESS, TRAIN),
    ),
    "preprocess": Command(
        "write the dataset of a job; options for Beam follow --",
        "beamfeed preprocess job.yaml -- --runner=DirectRunner",
        (JOB, SET, REPLACE, REFIT, *_OF_JOB),
        stages=(PREPROCESS,),
    ),
    "train": Command(
        "train on the dataset of a job",
        "beamfeed train job.yaml --set launch.train.workers=4",
        (
            *(JOB, SET, *_OF_JOB, *options.TRAIN.options),
            flag("--find-lr", "try learning rates and print the one to set; trains nothing"),
            flag("--list-checkpoints", "print the steps that --from-step accepts; trains nothing"),
            options.OF_DATASET,
        ),
        stages=(TRAIN,),
    ),
    "check": _starting(options.CHECK, (JOB, SET, MAX_ASSETS), "beamfeed check job.yaml --set windows.length=64"),
    "sweep": Command(
        "try other values of keys of train, which the section sweep of a job names, and tell the best",
        "beamfeed sweep job.yaml --set sweep.trials=30 --parallel 2",
        (
            *(JOB, SET, MAX_ASSETS),
            option("--parallel", type=positive, default=1, metavar="N", help="trials that go on at once (1)"),
            option(
                "--out", metavar="DIR", help="the folder of the sweep; left out, train.workdir with -sweep behind it"
            ),
            flag("--restart", "remove what an earlier sweep left in that folder, and start again"),
            flag("--retry-failed", "try trials again that failed"),
            flag("--dry-run", "print what would be tried, and try nothing"),
            *(_PRICES, _YES),
        ),
    ),
    "runs": Command(
        "list the runs of a job file or a folder, or those that were started on this machine",
        "beamfeed runs job.yaml",
        (
            option("where", nargs="?", metavar="WHERE", help="a job file, or the folder that runs write to"),
            flag("--all", "list all, not the newest 20"),
        ),
    ),
    "status": Command("tell how a run is, wherever it runs", "beamfeed status job.yaml", (RUN,)),
    "logs": Command(
        "print what a run printed, also when it has ended",
        "beamfeed logs job.yaml --follow",
        (RUN, flag("--follow", "go on until the run ends", short="-f")),
    ),
    "attach": Command(
        "follow a run that goes on, from another terminal or machine", "beamfeed attach job.yaml", (RUN,)
    ),
    "resume": Command(
        "go on with a run that has stopped",
        "beamfeed resume job.yaml --set launch.train.backend=local",
        (RUN, SET, _PRICES, _YES),
    ),
    "cancel": Command("stop a run, wherever it runs", "beamfeed cancel job.yaml", (RUN, SET, MAX_ASSETS)),
    "inspect": _starting(options.INSPECT, (DATASET_OR_JOB, SET)),
    "profile": _starting(options.PROFILE, (DATASET_OR_JOB,)),
    "compact": _starting(options.COMPACT, (JOB, SET), "beamfeed compact job.yaml --set output.keep=90d"),
    "export": _starting(options.EXPORT, (DATASET_OR_JOB, SET)),
    "predict": _starting(options.PREDICT, (JOB, SET)),
    "train-each": _starting(
        options.TRAIN_EACH, (JOB, SET), "beamfeed train-each job.yaml --by region -- --direct_num_workers=4"
    ),
    "score": _starting(options.SCORE, (JOB, SET)),
    "report": _starting(options.REPORT, (DATASET_OR_JOB,), "beamfeed report job.yaml"),
    "compare": _starting(
        options.COMPARE, (_REFERENCE, options.CURRENT), "beamfeed compare job.yaml --files 'new/*.parquet'"
    ),
    "schema": Command("print the JSON Schema of the job file, for editors", "beamfeed schema > job.schema.json"),
    "completion": Command(
        "print a shell's completion script for commands and options",
        'eval "$(beamfeed completion bash)"',
        (option("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS)),),
    ),
}


def build_parser() -> Parser:
    """The parser of the whole command line."""
    parser = Parser(
        prog="beamfeed",
        description="From a bucket of raw asset files to a trained TensorFlow model.",
        example="beamfeed run examples/fleet.yaml",
        before=BEFORE,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        of_program = command.program.example.removeprefix("--job ") if command.program else ""
        example = command.example or f"beamfeed {name} {of_program}"
        about, description = command.about, sentence(command.about)
        own = commands.add_parser(name, help=about, description=description, example=example, before=BEFORE)
        own.set_defaults(parser=own)
        output = own.add_argument_group("output")
        loudness = output.add_mutually_exclusive_group()
        loudness.add_argument("-q", "--quiet", action="store_true", help="print only errors")
        loudness.add_argument("-v", "--verbose", action="store_true", help="also print INFO log messages")
        add_options(output, (JSON,))
        add_options(own, (*command.options, *(command.program.options if command.program else ())))
    return parser


def completion_script(shell: str) -> str:
    """The script by which one of SHELLS completes commands, options and paths."""
    import shtab

    parser = build_parser()
    for action in _actions(parser):
        name = action.metavar or action.dest.upper()
        if name in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif name == "DIR":
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell=shell))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments and options of a parser and of its commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
        yield action


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"beamfeed {version('beamfeed')}")
        parser.exit()
