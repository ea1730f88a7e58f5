"""Mistakes in job files and command lines, and what the one line must name: the value, and the place it came from."""

from dataclasses import dataclass

FLEET = """\
name: small
source:
  kind: timeseries
  files: {folder}/fleet
  time: {{column: t}}
  features: [x0, x1]
windows: {{length: 8, stride: 2}}
split: {{by: time, train: 0.6, eval: 0.2, test: 0.2}}
output: {{path: {folder}/data}}
train:
  model: {{name: recurrent_autoencoder, units: [4], latent: 2}}
  feed: {{batch_size: 16}}
  workdir: {folder}/model
"""


@dataclass(frozen=True)
class InFile:
    """The job file with `old` replaced by `new`, or all of it; the line names `value`, `key`, and the file with a line.

    Attributes:
      line: the line of the file, where there is one.
    """

    old: str
    new: str | bytes
    value: str
    key: str = ""
    line: int | None = None

    def text(self, job: str) -> bytes:
        if not self.old:
            return self.new if isinstance(self.new, bytes) else self.new.encode()
        assert self.old in job
        return job.replace(self.old, str(self.new), 1).encode()

    def told(self, path: str) -> list[str]:
        place = path if self.line is None else f"{path}:{self.line}:"
        return [place, self.value, self.key]


IN_FILE = {
    "an unknown section": InFile("windows:", "tables: 3\nwindows:", "unknown key (allowed: name", "tables", 7),
    "a near miss": InFile("stride: 2", "strid: 2", "did you mean 'stride'?", "windows.strid", 7),
    "a near miss of a section": InFile("windows:", "window:", "did you mean 'windows'?", "window", 7),
    "a word for a number": InFile("length: 8", "length: eight", "'eight'", "windows.length", 7),
    "a fraction for a whole number": InFile("length: 8", "length: 8.5", "8.5", "windows.length", 7),
    "a list for a mapping": InFile("{length: 8, stride: 2}", "[3]", "not [3]", "windows", 7),
    "a word for a mapping": InFile(
        "time: {column: t}", "time: t", "such as {column: cycle}, not 't'", "source.time", 5
    ),
    "a word for a list": InFile("features: [x0, x1]", "features: x0", "such as [x0]", "source.features", 6),
    "a mapping for a list": InFile("features: [x0, x1]", "features: {x0: 1}", "{x0: 1}", "source.features", 6),
    "a number for a path": InFile("files: ", "files: 3 #", "3 is not allowed", "source.files", 4),
    "below zero": InFile("stride: 2", "stride: -2", "-2", "windows.stride", 7),
    "zero": InFile("length: 8", "length: 0", "0 is not allowed", "windows.length", 7),
    "no number": InFile("length: 8", "length: .nan", "nan", "windows.length", 7),
    "a huge number": InFile("length: 8", "length: 100000000", "100000000", "windows.length", 7),
    "yes for a number": InFile("length: 8", "length: yes", "true", "windows.length", 7),
    "nothing after a key": InFile("length: 8, stride: 2", "length: ", "is empty", "windows.length", 7),
    "a key that is missing": InFile("length: 8, ", "", "is missing, it must be a whole number", "windows.length", 7),
    "a section that is missing": InFile(
        "output: {path", "limits: {max_rejected_fraction: 1}\n#", "is missing", "output"
    ),
    "a key that is there twice": InFile("stride: 2", "stride: 2, stride: 3", "is given twice", "windows.stride", 7),
    "a tab": InFile("  kind", "\tkind", "is not YAML", "", 3),
    "a bracket that is not closed": InFile("[x0, x1]", "[x0, x1", "is not YAML", "", 7),
    "a key that is no text": InFile("length: 8", "length: 8, 3: 4", "the key 3", "windows", 7),
    "a date that is none": InFile("name: small", "name: 2024-13-01", "month must be in 1..12"),
    "a tag of Python": InFile("name: small", "name: !!python/name:os.system", "is not YAML", "", 1),
    "a name with a space": InFile("name: small", "name: my fleet", "'my fleet'", "name", 1),
    "another kind": InFile("timeseries", "timeserie", "'timeserie'", "source", 2),
    "a choice that there is not": InFile("by: time", "by: colour", "'colour'", "split.by", 8),
    "fractions that do not add up": InFile("train: 0.6", "train: 0.7", "train + eval + test is 1.1", "split", 8),
    "a duration that is none": InFile("windows:", "prepare: {max_gap: 5x}\nwindows:", "'5x'", "prepare.max_gap", 7),
    "a range the wrong way round": InFile(
        "windows:", "prepare: {range: {x0: [3, 2]}}\nwindows:", "[3, 2]", "prepare", 7
    ),
    "a range of one end": InFile("windows:", "prepare: {range: {x0: [3]}}\nwindows:", "[3]", "prepare.range.x0", 7),
    "no regular expression": InFile(
        "  features", "  asset: {from: path, pattern: '('}\n  features", "'('", "source.asset.pattern", 6
    ),
    "no time zone": InFile(
        "{column: t}", "{column: t, zone: Mars}", "'Mars' is not a time zone", "source.time.zone", 5
    ),
    "no time format": InFile("{column: t}", "{column: t, format: '%Q'}", "'%Q' holds %Q", "source.time.format", 5),
    "a key cut short": InFile(
        "batch_size: 16", "batch: 16", "unknown key; did you mean 'batch_size'?", "train.feed.batch", 12
    ),
    "a section of another kind": InFile("windows:", "features: {a: numeric}\nwindows:", "timeseries", "features", 7),
    "folders that are the same": InFile("/model\n", "/data\n", "are the same folder", "train.workdir"),
    "an unknown model": InFile("name: recurrent_autoencoder", "name: lstm", "'lstm'", "train.model", 11),
    "units that are no list": InFile("units: [4]", "units: 4", "such as [64, 32]", "train.model.units", 11),
    "a class without a module": InFile(
        "{name: recurrent_autoencoder, units: [4], latent: 2}", "{class: Mine}", "'Mine'", "train.model.class", 11
    ),
    "an unknown backend": InFile(
        "train:\n", "launch: {train: {backend: moon}}\ntrain:\n", "'moon'", "launch.train.backend", 10
    ),
    "a backend without its section": InFile(
        "train:\n", "launch: {preprocess: {backend: dataflow}}\ntrain:\n", "needs a section", "launch.preprocess", 10
    ),
    "two labels of one name": InFile("train:\n", "label: [{column: a}, {column: b}]\ntrain:\n", "'label'", "label", 10),
    "a job that is empty": InFile("", "", "is empty; a job file is a mapping with the keys name"),
    "a job that is a list": InFile("", "- name: small\n- source: x\n", "holds [{name: small}, {source: x}]"),
    "a job that is a word": InFile("", "small\n", "holds 'small'"),
    "a job in UTF-16": InFile("", "name: small".encode("utf-16"), "is not text in UTF-8"),
    "a job that is binary": InFile("", b"PAR1\x15\x04\xf0\xff", "is not text in UTF-8"),
    "a job with a zero byte": InFile("", b"name: a\x00b\n", "is not YAML"),
    "a job that holds itself": InFile("", "name: &a [*a]\n", "is nested too deeply"),
}
# What is the launcher's alone: a stage passes over what backends say.
LAUNCHERS = ("an unknown backend", "a backend without its section")

# On the command line: `--set`, and what the line must name beside it.
SETS = {
    "windows.length": "needs key=value, such as windows.stride=4",
    "windows.strid=4": "did you mean 'stride'?",
    "windows.stride=[": "the value '[' is not YAML",
    "windows.stride=x": "'x' is not allowed, it must be a whole number from 1",
    "windows..stride=3": "needs key=value",
    "name.first=x": "name is 'small', it holds no keys",
    "split.train=0.9": "train + eval + test is 1.3",
    "source.kind=null": "needs kind: timeseries or table or image or array",
    "train.optimizer.learning_rate=-1": "-1 is not allowed, it must be a number above 0",
    "train.optimizer.learning_rate=.inf": "inf is not allowed, it must be a number above 0",
    "train.epochs=0": "0 is not allowed, it must be a whole number above 0",
    "train.seed=99999999999999999999": "it must be a whole number from 0 to 4,294,967,295",
    "train.early_stopping=5": "such as {patience: 3}, not 5",
    "train.task={name: clasify}": "did you mean 'classify'?",
    "train.writers=[wandb]": "'wandb' is not allowed (allowed: tensorboard, csv, mlflow)",
    "launch.train.workers=0": "0 is not allowed, it must be a whole number from 1 to 1,024",
}

# Of the `beamfeed` command: the arguments, and what the line must name. {job}, {data}: the job file, its dataset.
COMMAND_LINES = {
    "no command": ([], ["COMMAND", "try beamfeed --help"]),
    "an unknown command": (["fly"], ["'fly'", "COMMAND"]),
    "no job": (["run"], ["JOB", "try beamfeed run --help"]),
    "two jobs": (["run", "{job}", "k.yaml"], ["unexpected argument 'k.yaml'"]),
    "an unknown option": (["run", "{job}", "--color"], ["--color: unknown option"]),
    "a mistyped option": (["preprocess", "{job}", "--sett", "x=1"], ["--sett", "did you mean '--set'?"]),
    "a value that is missing": (["run", "{job}", "--set"], ["--set", "expected one argument"]),
    "no asset": (["run", "{job}", "--max-assets", "0"], ["'0' is not a whole number above 0", "--max-assets"]),
    "assets in words": (["run", "{job}", "--max-assets", "x"], ["'x' is not a whole number above 0"]),
    "a step below zero": (["train", "{job}", "--from-step=-3"], ["'-3' is not a whole number above 0", "--from-step"]),
    "steps that are garbage": (
        ["train", "{job}", "--profile-steps", "9-3"],
        ["'9-3' is not like 100-110", "--profile"],
    ),
    "two beginnings": (
        ["train", "{job}", "--restart", "--from-step", "3"],
        ["--from-step", "not allowed with", "--restart"],
    ),
    "a step that is not there": (
        ["run", "{job}", "--from-step", "7"],
        ["--from-step 7: {folder}/model", "(there: none)"],
    ),
    "an output that is a file": (
        ["run", "{job}", "--set", "output.path={folder}/file"],
        ["output.path: {folder}/file: is a file"],
    ),
    "an output of a damaged manifest": (
        ["run", "{job}", "--set", "output.path={folder}/damaged"],
        ["output.path: {folder}/damaged/manifest.json", "not JSON"],
    ),
    "a name for no beginning": (["train", "{job}", "--once", "a"], ["--once", "--restart or --from-step"]),
    "a restart of a search": (
        ["train", "{job}", "--find-lr", "--restart"],
        ["--restart", "does not go with --find-lr"],
    ),
    "options for Beam": (["train", "{job}", "--", "--runner=x"], ["options after --", "train"]),
    "options for Beam to look": (["inspect", "{data}", "--", "--x"], ["options after --", "inspect"]),
    "windows in words": (["inspect", "{data}", "--windows", "x"], ["'x' is not a whole number", "--windows"]),
    "no dataset to look at": (["inspect"], ["DATASET"]),
    "an empty batch": (["profile", "{data}", "--batch", "0"], ["'0' is not a whole number above 0", "--batch"]),
    "no seconds": (["profile", "{data}", "--seconds", "nan"], ["'nan' is not a number of seconds", "--seconds"]),
    "shuffling below zero": (["profile", "{data}", "--shuffle=-1"], ["'-1' is not a whole number from 0", "--shuffle"]),
    "an option of another command": (["schema", "--windows", "3"], ["--windows: unknown option"]),
    "a job that is not there": (["run", "{folder}/none.yaml"], ["{folder}/none.yaml: there is no such job file"]),
    "a folder for a job": (["check", "{folder}"], ["{folder}: is a folder, it must be a job file"]),
    "a job in other storage": (["check", "s3://bucket/job.yaml"], ["s3://bucket/job.yaml", "gs:// alone, not s3://"]),
    "a run in other storage": (["status", "hdfs://host/x"], ["hdfs://host/x", "gs:// alone, not hdfs://"]),
    "an output in other storage": (
        ["run", "{job}", "--set", "output.path=s3://bucket/data"],
        ["--set output.path=s3://bucket/data", "gs:// alone, not s3://"],
    ),
    "a job below a file": (["train", "{job}/job.yaml"], ["{job}/job.yaml", "Not a directory"]),
}
