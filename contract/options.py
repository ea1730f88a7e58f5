"""What the commands of `beamfeed`, and the programs that they start, are asked: each option once.

A command has the options of its program. Loads nothing that takes time.
"""

import argparse
from functools import partial

from beamfeed.contract.arguments import (
    at_least,
    flag,
    from_zero,
    from_zero_up,
    option,
    positive,
    repeated,
    seconds,
    share,
    steps,
)
from beamfeed.contract.program import Program
from beamfeed.contract.splits import SPLITS

EXPORT_FORMATS = ("parquet", "webdataset", "array_record", "numpy")
EXPORTED = ("windows", "rows")
ROW_SCORES = ("mean", "max", "last")
RISK = 0.001
DRIFT = 0.2
KINDS = ("timeseries", "table", "image", "array")  # that `beamfeed init` knows
BATCH, SHUFFLE, SECONDS = 256, 10_000, 2.0  # of `beamfeed profile`
LEAST_RATES, RATES = 16, 150  # learning rates that --find-lr tries
BEFORE = "beamfeed: "  # each message on stderr

_JOB = {"metavar": "JOB", "help": "the job file, local or gs://"}
JOB = option("job", **_JOB)
DATASET_OR_JOB = option(
    "dataset", metavar="DATASET|JOB", help="the folder that holds manifest.json, or the job file that writes it"
)
SET = repeated("--set", "KEY=VALUE", "replace a value of the job file, such as windows.stride=4; may be repeated")
MAX_ASSETS = option(
    "--max-assets", type=positive, metavar="N", help="smoke test on N assets, in separate folders: ...-N-assets"
)
RUN = option("run", metavar="RUN", help="the id of a run, the folder that it writes to, or its job file")
JSON = flag("--json", "write JSON for programs: one object per line on stdout")
QUIET = flag("--quiet", "write only errors")

_REPLACE = "replace the dataset of another job at output.path"
_REFIT = "with output.grow: prepare all files again, with statistics of all of them"
REPLACE, REFIT = flag("--replace", _REPLACE), flag("--refit", _REFIT)
_JOB_OPTION = option("--job", required=True, **_JOB)
_DATASET = option("dataset", metavar="DATASET", help="the folder that holds manifest.json, local or gs://")
_FOR_LAUNCHER = option("--progress-dir", help=argparse.SUPPRESS)
OF_DATASET = option("--data", help=argparse.SUPPRESS)  # of a sweep, whose trials share one

_OVERWRITE = flag("--force", "overwrite an existing job file")
_GUESSED = {
    "label": "the column to predict, or none",
    "time": "the column of times",
    "asset": "the column that says which rows belong together, such as a machine",
}
INIT = Program(
    "beamfeed.pipelines.suggest_job",
    "look at files and write a first, commented job file for them",
    "data/fleet --out job.yaml",
    (QUIET, JSON),
    (
        option("folder", metavar="FOLDER", help="the folder of the files, a glob or a file, local or gs://"),
        option("--out", metavar="JOB", help="the job file to write; printed if left out"),
        *(
            option(f"--{name}", metavar="NAME", help=f"{meaning}; guessed if left out")
            for name, meaning in _GUESSED.items()
        ),
        option("--kind", choices=KINDS, help="what the files hold; guessed if left out"),
        _OVERWRITE,
    ),
    before=BEFORE,
)

_ROLES = {
    "target": "a feature for the model to predict",
    "key": "a feature that the model does not get",
    "input": "a string feature for the model, which gets numbers and images anyway",
    "weight": "a feature that says how much each row counts",
}
_VALUES = {
    "classes": "treat a target as classes: label=auto, or their names, label=cat,dog",
    "default": "the value for records without one: age=0",
    "shape": "the shape of a value: image=28,28, or boxes=any,4",
    "split": "the files of a split: train=*/2023/*, or a fraction, eval=0.1; guessed from file names if left out",
}
ADOPT = Program(
    "beamfeed.pipelines.adopt",
    "use existing TFRecords as a dataset, without copying them",
    "flowers --target label --classes label=auto --job job.yaml",
    (QUIET, JSON),
    (
        option("folder", metavar="FOLDER", help="the folder of the TFRecords, local or gs://"),
        *(repeated(f"--{name}", "NAME", f"{meaning}; may be repeated") for name, meaning in _ROLES.items()),
        *(repeated(f"--{name}", "NAME=VALUE", meaning) for name, meaning in _VALUES.items()),
        option("--name", metavar="NAME", help="the name of the dataset; the folder's if left out"),
        option("--out", metavar="DIR", help="write manifest and index to this folder instead of beside the shards"),
        option("--job", metavar="JOB", help="write a job file that trains on it"),
        _OVERWRITE,
    ),
    before=BEFORE,
    beam="anywhere",
)

_BEAM = (
    "All options of Apache Beam may be given as well, such as {}; its documentation describes them "
    "(https://beam.apache.org/documentation/)"
)
_BEAM_USAGE = "--job JOB [--set KEY=VALUE ...] [options of Beam]"
# A template gives a value to every parameter, also to flags.
_BOTH = ("true", "false")
_PREPROCESSED = (
    option("--job", **_JOB),  # Beam parses its options again and again, mostly without it
    SET,
    option("--replace", help=_REPLACE, nargs="?", const="true", default="false", choices=_BOTH, metavar="true"),
    option("--refit", help=_REFIT, nargs="?", const="true", default="false", choices=_BOTH, metavar="true"),
    _FOR_LAUNCHER,
)
PREPROCESS = Program(
    "beamfeed.pipelines.preprocess",
    f"write the dataset of a job. {_BEAM.format('--direct_num_workers=4')}",
    "--job job.yaml --direct_num_workers=4",
    _PREPROCESSED,
    usage=_BEAM_USAGE,
)
_CLOUD = "--project=my-project --region=europe-west1 --temp_location=gs://bucket/tmp"
SUBMIT = Program(
    "beamfeed.pipelines.dataflow_template",
    f"submit preprocessing to Dataflow. {_BEAM.format(_CLOUD)}",
    f"--job job.yaml {_CLOUD}",
    _PREPROCESSED,
    usage=_BEAM_USAGE,
)

TRAIN_FROM = (
    flag("--restart", "train from the start, not from the last checkpoint"),
    option("--from-step", type=positive, metavar="N", help="train from the checkpoint of this step, not the last"),
)
ONCE = option("--once", metavar="NAME", help="do --restart or --from-step at most once under this name")
TRAIN = Program(
    "beamfeed.trainer.main",
    "train a model on a dataset, as one of the workers that the environment names",
    "--job job.yaml --set train.epochs=3",
    (_JOB_OPTION, SET, _FOR_LAUNCHER),
    (
        TRAIN_FROM,
        ONCE,
        option(
            "--profile-steps", type=steps, metavar="A-B", help="record the steps A to B for a profile in TensorBoard"
        ),
    ),
)
FIND_RATE = Program(
    "beamfeed.trainer.tools.find_rate",
    "try learning rates, plot the loss at each, and print the one to set; keeps no weights",
    "--job job.yaml",
    (
        _JOB_OPTION,
        SET,
        option("--steps", type=partial(at_least, lowest=LEAST_RATES), default=RATES, help=f"at most ({RATES})"),
        JSON,
    ),
)
CHECKPOINTS = Program(
    "beamfeed.trainer.tools.list_checkpoints",
    "list the checkpoints that a training run can go back to (--from-step)",
    "out/model",
    (option("workdir", help="train.workdir of a job"), JSON),
)
CHECK = Program(
    "beamfeed.pipelines.check",
    "report what a job would do and whether it would work; writes nothing",
    "--job job.yaml",
    (_JOB_OPTION, SET, JSON),
    (flag("--full", "read all files, however large they are"),),
    before=BEFORE,
)
INSPECT = Program(
    "beamfeed.trainer.tools.inspect_dataset",
    "show what is in a dataset",
    "out/data --windows 2",
    (_DATASET, JSON),
    (
        option(
            "--windows",
            type=from_zero,
            default=3,
            metavar="N",
            help="print the first window of N records of each split (3)",
        ),
        option("--picture", metavar="FILE.png", help="draw a record into this file"),
        flag("--verify", "read every shard and compare it with the manifest"),
    ),
)
PROFILE = Program(
    "beamfeed.trainer.tools.profile_dataset",
    "measure how fast a dataset feeds a training run, and what limits it",
    "out/data --job job.yaml",
    (_DATASET, JSON),
    (
        option("--job", metavar="JOB", help="also measure training steps of this job file's model"),
        SET,
        option("--batch", type=positive, metavar="N", help=f"windows in a batch (the job's, or {BATCH})"),
        option("--shuffle", type=from_zero, metavar="N", help=f"windows mixed at a time (the job's, or {SHUFFLE})"),
        option(
            "--seconds",
            type=seconds,
            default=SECONDS,
            metavar="S",
            help=f"seconds per measurement, of about 22 ({SECONDS:g})",
        ),
        option("--out", metavar="DIR", help="write profile.png and profile.json into this folder"),
    ),
)
PREDICT = Program(
    "beamfeed.pipelines.predict",
    "write what a trained model says of its dataset, or of new files",
    "--job job.yaml --files 'new/*.parquet' --out out/new",
    (_JOB_OPTION, SET, JSON),
    (
        repeated("--files", "PATTERN", "new files, local or gs://; the dataset if left out; may be repeated"),
        option("--out", metavar="DIR", help="the folder to write; left out, predictions in train.workdir"),
        repeated("--keep", "COLUMNS", "of a table's new files, columns to keep beside the predictions: ID,AMOUNT"),
        repeated("--split", "SPLIT", "of the dataset, only this split; may be repeated", choices=SPLITS),
        flag("--force", "replace other predictions"),
    ),
    before=BEFORE,
    beam="after --",
)
TRAIN_EACH = Program(
    "beamfeed.pipelines.train_each",
    "train a model for each asset, or other group, of a dataset",
    "--job job.yaml --by asset --out out/each",
    (_JOB_OPTION, SET, JSON),
    (
        option("--by", metavar="NAME", default="asset", help="a key field or partition that names groups (asset)"),
        option("--out", metavar="DIR", help="the folder to write; left out, each in train.workdir"),
        flag("--no-models", "keep the results alone"),
        flag("--force", "replace other results and models"),
    ),
    before=BEFORE,
    beam="after --",
)
ONE_BY_ONE = Program(
    "beamfeed.trainer.one_by_one",
    "train the jobs that stdin names, a line of JSON each, one after another",
    "scratch",
    (option("folder", metavar="DIR", help="where they read and write; removed when stdin ends"),),
)
SCORE = Program(
    "beamfeed.pipelines.score",
    "find which assets behave oddly, and since when, in predictions of series",
    "--job job.yaml --predictions out/new",
    (_JOB_OPTION, SET, JSON),
    (
        option("--predictions", metavar="DIR", help="those to score; left out, those of the dataset"),
        option("--out", metavar="DIR", help="the folder to write; left out, scores in train.workdir, or DIR-scores"),
        option(
            "--rows",
            choices=ROW_SCORES,
            default="mean",
            metavar="HOW",
            help="a row gets the mean (the default) or max of its windows, or the last that has ended",
        ),
        option("--smooth", type=positive, default=1, metavar="N", help="a row gets the mean of N rows up to it (1)"),
        (
            option(
                "--risk",
                type=share,
                default=RISK,
                metavar="P",
                help=f"flag a row of usual operation with this probability ({RISK:g})",
            ),
            option("--threshold", type=float, metavar="X", help="flag rows over this score"),
        ),
        option("--least", type=positive, default=1, metavar="N", help="rows of a flagged interval, at least (1)"),
        option("--gap", type=from_zero, default=0, metavar="N", help="join intervals that N rows are between (0)"),
        option("--events", metavar="FILE", help="known events (asset, begin, end), CSV or Parquet, to compare with"),
        flag("--force", "replace other scores"),
    ),
    before=BEFORE,
)
REPORT = Program(
    "beamfeed.pipelines.report",
    "tell of a dataset, and of the model that was trained on it, in one HTML file",
    "out/data --job job.yaml",
    (_DATASET, JSON),
    (
        option("--job", metavar="JOB", help="also tell of this job file's model"),
        SET,
        option(
            "--out",
            metavar="FILE",
            help="the file to write; left out, report.html in train.workdir, or DATASET-report.html",
        ),
    ),
    before=BEFORE,
)
CURRENT = option("current", nargs="?", metavar="CURRENT", help="what is: likewise; left out, --files")
COMPARE = Program(
    "beamfeed.pipelines.compare",
    "tell how far data have drifted: two datasets, new files, or predictions",
    "out/data --files 'new/*.parquet' --job job.yaml",
    (option("reference", metavar="DATASET|DIR", help="what was: a dataset, or a folder of predictions"), CURRENT, JSON),
    (
        repeated("--files", "PATTERN", "new files, local or gs://, to compare with the dataset; may be repeated"),
        option("--job", metavar="JOB", help="the job file of the dataset, by which --files are read"),
        SET,
        option(
            "--threshold",
            type=from_zero_up,
            default=DRIFT,
            metavar="X",
            help=f"a column drifts from this stability index on ({DRIFT:g})",
        ),
        option("--out", metavar="FILE", help="write all columns to this Parquet file, local or gs://"),
        option("--show", type=from_zero, default=20, metavar="N", help="print the N columns that drift most (20)"),
    ),
    before=BEFORE,
    beam="after --",
)
COMPACT = Program(
    "beamfeed.pipelines.compact",
    "merge the small shards of a dataset that has grown, and let old records go",
    "--job job.yaml",
    (_JOB_OPTION, SET, JSON),
    before=BEFORE,
    beam="after --",
)
EXPORT = Program(
    "beamfeed.pipelines.export_dataset",
    "write a dataset in another format",
    "out/data --to parquet --out out/parquet",
    (_DATASET, JSON),
    (
        option("--to", required=True, choices=EXPORT_FORMATS, metavar="FORMAT", help=", ".join(EXPORT_FORMATS)),
        option("--out", required=True, metavar="DIR", help="the folder to write, local or gs://"),
        option(
            "--what",
            choices=EXPORTED,
            default="windows",
            metavar="WHAT",
            help="what to write: windows (the default) or rows",
        ),
        repeated("--split", "SPLIT", "only this split: train, eval or test; may be repeated", choices=SPLITS),
        option("--fields", metavar="NAMES", help="only these fields, such as label,values"),
        flag("--force", "replace another export"),
    ),
    before=BEFORE,
    beam="after --",
)
