"""The command line: commands, their options, and what their help says. Loads nothing that takes time."""

import argparse
from typing import Any

from beamfeed.contract.arguments import Parser, from_zero, positive, seconds, steps
from beamfeed.launcher.completion import SHELLS
from beamfeed.launcher.stage import ADOPT, PREPROCESS, TRAIN

FORMATS = ("parquet", "webdataset", "array_record", "numpy")  # of `beamfeed export`
KINDS = ("timeseries", "table", "image")  # that `beamfeed init` knows
SPLITS = ("train", "eval", "test")
BEFORE = "beamfeed: "  # each message on stderr


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

    _init_command(commands)
    _adopt_command(commands)
    both = _job_command(
        commands,
        "run",
        (PREPROCESS, TRAIN),
        "preprocess the data, then train; what is complete is skipped",
        "beamfeed run job.yaml --set train.epochs=3 --max-assets 5",
    )
    _job_command(
        commands,
        "preprocess",
        (PREPROCESS,),
        "write the dataset of a job; options for Beam follow --",
        "beamfeed preprocess job.yaml -- --runner=DirectRunner",
    )
    train = _job_command(
        commands,
        "train",
        (TRAIN,),
        "train on the dataset of a job",
        "beamfeed train job.yaml --set launch.train.workers=4",
    )
    for command in (both, train):
        start = command.add_mutually_exclusive_group()
        start.add_argument("--restart", action="store_true", help="train from the start, not from the last checkpoint")
        start.add_argument(
            "--from-step", type=positive, metavar="N", help="train from the checkpoint of this step, not from the last"
        )
        command.add_argument(
            "--once", metavar="NAME", help="with one of these: a start of this name that was done is not done again"
        )
        command.add_argument(
            "--profile-steps",
            type=steps,
            metavar="A-B",
            help="record the steps A to B for a profile in TensorBoard",
        )
    train.add_argument("--find-lr", action="store_true", help="try learning rates, print what to set, and train not")
    train.add_argument("--list-checkpoints", action="store_true", help="print the steps for --from-step, and train not")

    _check_command(commands)

    stop = _command(commands, "cancel", "cancel", "stop what a job runs in a cloud", "beamfeed cancel job.yaml")
    stop.add_argument("job", metavar="JOB", help="the job file, local or gs://")
    stop.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as in beamfeed run")
    _max_assets(stop)

    look = _command(
        commands, "inspect", "inspect", "show what is in a dataset", "beamfeed inspect out/data --windows 2"
    )
    look.add_argument("dataset", metavar="DATASET|JOB", help="the folder that holds manifest.json, or the job file")
    look.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as in beamfeed run; of a JOB")
    look.add_argument("--picture", metavar="FILE.png", help="draw a record into this file")
    look.add_argument("--windows", type=positive, metavar="N", help="print the first N windows")
    look.add_argument("--verify", action="store_true", help="read every shard and compare it with the manifest")

    feed = _command(
        commands,
        "profile",
        "profile",
        "measure how fast a dataset feeds a training run, and what limits",
        "beamfeed profile out/data --job job.yaml",
    )
    feed.add_argument(
        "dataset", metavar="DATASET|JOB", help="the folder that holds manifest.json, or the job file, measured as --job"
    )
    feed.add_argument("--job", metavar="JOB", help="measure the training steps of this job file's model, too")
    feed.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="as in beamfeed run; goes with --job"
    )
    feed.add_argument("--batch", type=positive, metavar="N", help="windows in a batch (the job's, or 256)")
    feed.add_argument("--shuffle", type=from_zero, metavar="N", help="windows mixed at a time (the job's, or 10000)")
    feed.add_argument("--seconds", type=seconds, metavar="S", help="of each of about 22 measurements (2)")
    feed.add_argument("--out", metavar="DIR", help="write profile.png and profile.json into this folder")

    _export_command(commands)
    _command(
        commands,
        "schema",
        "schema",
        "print the JSON Schema of the job file, for editors",
        "beamfeed schema > job.schema.json",
    )
    _completion_command(commands, parser)
    return parser


def _export_command(commands: Any) -> None:
    out = _command(
        commands,
        "export",
        "export",
        "write a dataset in a format of other programs; options for Beam follow --",
        "beamfeed export out/data --to parquet --out out/parquet",
    )
    out.set_defaults(takes_beam=True)
    out.add_argument("dataset", metavar="DATASET|JOB", help="the folder that holds manifest.json, or the job file")
    out.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as in beamfeed run; of a JOB")
    out.add_argument("--to", required=True, choices=FORMATS, metavar="FORMAT", help=", ".join(FORMATS))
    out.add_argument("--out", required=True, metavar="DIR", help="the folder to write, local or gs://")
    out.add_argument(
        "--what", choices=("windows", "rows"), metavar="WHAT", help="windows (the default), or the rows of records"
    )
    out.add_argument(
        "--split",
        action="append",
        default=[],
        choices=SPLITS,
        metavar="SPLIT",
        help="this split alone: train, eval or test; may be repeated",
    )
    out.add_argument("--fields", metavar="NAMES", help="these fields alone, such as label,values")
    out.add_argument("--force", action="store_true", help="replace another export that is there")


def _completion_command(commands: Any, parser: Parser) -> None:
    shells = _command(
        commands,
        "completion",
        "completion",
        "print a script that lets a shell complete commands and options",
        'eval "$(beamfeed completion bash)"',
    )
    shells.add_argument("shell", metavar="SHELL", choices=SHELLS, help=" or ".join(SHELLS))
    shells.set_defaults(whole=parser)


def _init_command(commands: Any) -> None:
    start = _command(
        commands,
        "init",
        "init",
        "look at files and write a first job file for them, with comments",
        "beamfeed init data/fleet --out job.yaml",
    )
    start.add_argument("folder", metavar="FOLDER", help="the folder of the files, a glob or a file, local or gs://")
    start.add_argument("--out", metavar="JOB", help="the job file to write; without it, it is printed")
    columns = {
        "label": "the column to learn; none for none",
        "time": "the column of times",
        "asset": "the column that says which rows belong together, such as a machine",
    }
    for name, told in columns.items():
        start.add_argument(f"--{name}", metavar="NAME", help=f"{told}; without it, it is guessed")
    start.add_argument("--kind", choices=KINDS, help="what the files hold; without it, it is guessed")
    start.add_argument("--force", action="store_true", help="write over a job file that is there")


def _adopt_command(commands: Any) -> None:
    take = _command(
        commands,
        "adopt",
        "adopt",
        "make a dataset of TFRecords that others wrote, where they lie; options for Beam follow --",
        "beamfeed adopt flowers --target label --classes label=auto --job job.yaml",
    )
    take.set_defaults(stages=(ADOPT,))
    take.add_argument("folder", metavar="FOLDER", help="the folder of the TFRecords, local or gs://")
    roles = {
        "target": "a feature that a model is to tell",
        "key": "a feature that no model gets",
        "input": "a feature of strings that a model gets; it gets numbers and images anyway",
        "weight": "a feature that says how much each row counts",
    }
    for name, told in roles.items():
        take.add_argument(f"--{name}", action="append", default=[], metavar="NAME", help=f"{told}; may be repeated")
    values = {
        "classes": "the numbers or texts of a target are classes: auto, or their names, label=cat,dog",
        "default": "stands for the value that some records lack: age=0",
        "shape": "of a value: image=28,28, or boxes=any,4",
        "split": "the files of a split: train=*/2023/*, or a fraction of the files, eval=0.1; else by their names",
    }
    for name, told in values.items():
        take.add_argument(f"--{name}", action="append", default=[], metavar="NAME=VALUE", help=told)
    take.add_argument("--name", metavar="NAME", help="of the dataset; that of the folder, if it is left out")
    take.add_argument("--out", metavar="DIR", help="write manifest and index into this folder, not beside the shards")
    take.add_argument("--job", metavar="JOB", help="write a job file that trains on it")
    take.add_argument("--force", action="store_true", help="write over a job file that is there")


def _job_command(commands: Any, name: str, stages: tuple[str, ...], about: str, example: str) -> Parser:
    command = _command(commands, name, "run", about, example)
    command.set_defaults(stages=stages)
    command.add_argument("job", metavar="JOB", help="the job file, local or gs://")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="put another value in the place of the job file's, such as windows.stride=4; may be repeated",
    )
    if PREPROCESS in stages:
        command.add_argument("--replace", action="store_true", help="replace the dataset of another job at output.path")
    command.add_argument("--dry-run", action="store_true", help="print what would be run, and run nothing")
    _max_assets(command)
    return command


def _check_command(commands: Any) -> None:
    command = _command(
        commands,
        "check",
        "check",
        "tell what a job would do, and whether it can; nothing is written",
        "beamfeed check job.yaml --set windows.length=64",
    )
    command.add_argument("job", metavar="JOB", help="the job file, local or gs://")
    command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as in beamfeed run")
    command.add_argument("--full", action="store_true", help="read all files, however large they are")
    _max_assets(command)


def _max_assets(command: Parser) -> None:
    command.add_argument(
        "--max-assets",
        type=positive,
        metavar="N",
        help="a smoke test on N assets, in folders of its own: ...-N-assets",
    )


def _command(commands: Any, name: str, call: str, about: str, example: str) -> Parser:
    command: Parser = commands.add_parser(
        name, help=about, description=about[0].upper() + about[1:] + ".", example=example, before=BEFORE
    )
    command.set_defaults(call=call, parser=command)
    _common_options(command)
    return command


def _common_options(command: Parser) -> None:
    """What every command understands, alike."""
    told = command.add_argument_group("what is told")
    much = told.add_mutually_exclusive_group()
    much.add_argument("-q", "--quiet", action="store_true", help="tell only errors, and the answer that was asked for")
    much.add_argument("-v", "--verbose", action="store_true", help="tell also what is logged (level INFO)")
    told.add_argument("--json", action="store_true", help="tell it to programs: a JSON object a line, on stdout")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"beamfeed {version('beamfeed')}")
        parser.exit()
