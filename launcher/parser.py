"""The command line: the commands of `beamfeed` and their options. Loads nothing that takes time."""

import argparse
from dataclasses import dataclass
from typing import Any

from beamfeed.contract import options
from beamfeed.contract.arguments import Options, Parser, add_options, flag, option, positive
from beamfeed.contract.options import BEFORE, DATASET_OR_JOB, JOB, JSON, MAX_ASSETS, REFIT, REPLACE, RUN, SET
from beamfeed.contract.program import Program
from beamfeed.launcher.completion import SHELLS
from beamfeed.launcher.stage import PREPROCESS, TRAIN


@dataclass(frozen=True)
class Command:
    """A command of `beamfeed`.

    Attributes:
      about: what it does, in a sentence without a capital letter and full stop.
      example: a command line.
      options: its own, beside those that every command has.
      program: that it starts, whose options it has, too.
      stages: of a job, that it runs.
      takes_beam: whether options for Beam may follow --.
    """

    about: str
    example: str
    options: Options = ()
    program: Program | None = None
    stages: tuple[str, ...] = ()
    takes_beam: bool = False


_OF_JOB = (
    flag("--dry-run", "print what would run and what it takes, and run nothing"),
    option("--prices", metavar="FILE", help="dollars an hour, for --dry-run and the question before a cloud job"),
    flag("--yes", "start jobs that are billed without a question", short="-y"),
    MAX_ASSETS,
)
COMMANDS = {
    "init": Command(
        "look at files and write a first, commented job file for them",
        "beamfeed init data/fleet --out job.yaml",
        program=options.INIT,
    ),
    "adopt": Command(
        "use existing TFRecords as a dataset, without copying them; options for Beam follow --",
        "beamfeed adopt flowers --target label --classes label=auto --job job.yaml",
        program=options.ADOPT,
        takes_beam=True,
    ),
    "run": Command(
        "preprocess the data, then train; what is complete is skipped",
        "beamfeed run job.yaml --set train.epochs=3 --max-assets 5",
        (JOB, SET, REPLACE, REFIT, *_OF_JOB, *options.TRAIN.options),
        stages=(PREPROCESS, TRAIN),
        takes_beam=True,
    ),
    "preprocess": Command(
        "write the dataset of a job; options for Beam follow --",
        "beamfeed preprocess job.yaml -- --runner=DirectRunner",
        (JOB, SET, REPLACE, REFIT, *_OF_JOB),
        stages=(PREPROCESS,),
        takes_beam=True,
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
    "check": Command(
        "report what a job would do and whether it would work; writes nothing",
        "beamfeed check job.yaml --set windows.length=64",
        (JOB, SET, MAX_ASSETS),
        options.CHECK,
    ),
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
        (RUN, SET),
    ),
    "cancel": Command("stop a run, wherever it runs", "beamfeed cancel job.yaml", (RUN, SET, MAX_ASSETS)),
    "inspect": Command(
        "show what is in a dataset",
        "beamfeed inspect out/data --windows 2",
        (DATASET_OR_JOB, SET),
        options.INSPECT,
    ),
    "profile": Command(
        "measure how fast a dataset feeds a training run, and what limits it",
        "beamfeed profile out/data --job job.yaml",
        (DATASET_OR_JOB,),
        options.PROFILE,
    ),
    "compact": Command(
        "merge the small shards of a dataset that has grown, and let old records go; options for Beam follow --",
        "beamfeed compact job.yaml --set output.keep=90d",
        (JOB, SET),
        options.COMPACT,
        takes_beam=True,
    ),
    "export": Command(
        "write a dataset in another format; options for Beam follow --",
        "beamfeed export out/data --to parquet --out out/parquet",
        (DATASET_OR_JOB, SET),
        options.EXPORT,
        takes_beam=True,
    ),
    "predict": Command(
        "write what a trained model says of its dataset, or of new files; options for Beam follow --",
        "beamfeed predict job.yaml --files 'new/*.parquet' --out out/new",
        (JOB, SET),
        options.PREDICT,
        takes_beam=True,
    ),
    "train-each": Command(
        "train a model for each asset, or other group, of a dataset; options for Beam follow --",
        "beamfeed train-each job.yaml --by region -- --direct_num_workers=4",
        (JOB, SET),
        options.TRAIN_EACH,
        takes_beam=True,
    ),
    "score": Command(
        "find which assets behave oddly, and since when, in predictions of series",
        "beamfeed score job.yaml --predictions out/new",
        (JOB, SET),
        options.SCORE,
    ),
    "report": Command(
        "tell of a dataset, and of the model that was trained on it, in one HTML file",
        "beamfeed report job.yaml",
        (DATASET_OR_JOB,),
        options.REPORT,
    ),
    "compare": Command(
        "tell how far data have drifted: two datasets, new files, or predictions; options for Beam follow --",
        "beamfeed compare job.yaml --files 'new/*.parquet'",
        (
            option(
                "reference",
                metavar="DATASET|JOB|DIR",
                help="what was: a dataset, its job file, or a folder of predictions",
            ),
            options.CURRENT,
        ),
        options.COMPARE,
        takes_beam=True,
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
        about = command.about
        description = f"{about[0].upper()}{about[1:]}."
        own = commands.add_parser(name, help=about, description=description, example=command.example, before=BEFORE)
        own.set_defaults(parser=own)
        output = own.add_argument_group("output")
        loudness = output.add_mutually_exclusive_group()
        loudness.add_argument("-q", "--quiet", action="store_true", help="print only errors and results")
        loudness.add_argument("-v", "--verbose", action="store_true", help="also print INFO log messages")
        add_options(output, (JSON,))
        add_options(own, (*command.options, *(command.program.options if command.program else ())))
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"beamfeed {version('beamfeed')}")
        parser.exit()
