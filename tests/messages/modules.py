"""Mistakes that reach the main function of a module: in data, datasets, the environment, and code of one's own."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """A main function, its arguments, and what the line must name; as in COMMAND_LINES."""

    module: str
    arguments: list[str]
    told: list[str]
    env: dict[str, str] = field(default_factory=dict)
    code: int = 2  # 1: what only comes out in the data; told in a line as well, with the path of a log


PREPROCESS, TRAIN = "beamfeed.pipelines.preprocess", "beamfeed.trainer.main"
TOOLS = "beamfeed.trainer.tools."
INSPECT, PROFILE = f"{TOOLS}inspect_dataset", f"{TOOLS}profile_dataset"
FIND_RATE, CHECKPOINTS = f"{TOOLS}find_rate", f"{TOOLS}list_checkpoints"


def preprocess(message: list[str], *sets: str, code: int = 2) -> Case:
    return Case(PREPROCESS, ["--job", "{job}", *(part for one in sets for part in ("--set", one))], message, code=code)


def train(message: list[str], *sets: str, **env: str) -> Case:
    return Case(TRAIN, ["--job", "{job}", *(part for one in sets for part in ("--set", one))], message, env)


def model(name: str) -> str:
    return f"train.model={{class: '{name}'}}"


WORKERS = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": %s}}'
TORCHRUN = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "a", "MASTER_PORT": "9"}
# Each through the main function of a module, all in one process; {folder}/data holds the job's dataset.
MODULES = {
    "no job to preprocess": Case(PREPROCESS, [], ["--job: is missing"]),
    "a job without its option": Case(PREPROCESS, ["job.yaml"], ["'job.yaml'", "--job job.yaml"]),
    "a mistyped option of Beam": Case(
        PREPROCESS,
        ["--job", "{job}", "--direct_num_worker=2"],
        ["--direct_num_worker:", "did you mean '--direct_num_workers'?"],
    ),
    "an option of Beam in words": Case(
        PREPROCESS, ["--job", "{job}", "--direct_num_workers=x"], ["'x'", "--direct_num_workers"]
    ),
    "no runner": Case(PREPROCESS, ["--job", "{job}", "--runner=NoRunner"], ["--runner: 'NoRunner' is none of"]),
    "a runner of no module": Case(
        PREPROCESS, ["--job", "{job}", "--runner=no.Runner"], ["--runner: 'no.Runner' cannot be"]
    ),
    "files that are not there": preprocess(["source.files", "{folder}/none"], "source.files={folder}/none"),
    "files of another kind": preprocess(["source.files", "{folder}/other"], "source.files={folder}/other"),
    "a column that is not there": preprocess(["source.features", "'y9'"], "source.features=[x0, y9]"),
    "a time that is not there": preprocess(["source.time.column", "'tt'"], "source.time.column=tt"),
    "a time of text": preprocess(["source.time", "word"], "source.time.column=word"),
    "a feature of text": preprocess(["source.features", "word"], "source.features=[word]"),
    "an asset's column that is not there": preprocess(["source.asset", "'m'"], "source.asset={column: m}"),
    "a split's column that is not there": preprocess(["split", "'z'"], "split={by: column, column: z, train: [a]}"),
    "a pattern that fits no path": preprocess(
        ["job failed: ", "source.asset.pattern finds no 'asset' in it", "m0.csv", "; log: "],
        "source.asset={from: path, pattern: 'site-(?P<asset>x)'}",
        code=1,
    ),
    "windows longer than the data": preprocess(
        ["job failed: ", "has 200 rows, a window needs 100000 (windows.length)", "m0.csv", "; log: "],
        "windows.length=100000",
        code=1,
    ),
    "a file for a folder": preprocess(["output.path", "{folder}/file is a file"], "output.path={folder}/file"),
    "a place that is not written": preprocess(["/proc/x"], "output.path=/proc/x"),
    "a folder of something else": preprocess(
        ["output.path", "holds something else", "m0.csv"], "output.path={folder}/fleet"
    ),
    "a header with a name twice": preprocess(
        ["x0", "twice"], "source.files={folder}/twice", "output.path={folder}/twice-data"
    ),
    "steps of no module": preprocess(["prepare.steps", "nowhere"], "prepare.steps=['nowhere:step']"),
    "no job to train": Case(TRAIN, [], ["--job", "required"]),
    "a mistyped option of training": Case(
        TRAIN, ["--job", "{job}", "--restrat"], ["--restrat", "did you mean '--restart'?"]
    ),
    "a step in words": Case(
        TRAIN, ["--job", "{job}", "--from-step", "x"], ["'x' is not a whole number", "--from-step"]
    ),
    "steps that are none": Case(
        TRAIN, ["--job", "{job}", "--profile-steps", "x"], ["'x' is not like", "--profile-steps"]
    ),
    "a step that is not there": Case(TRAIN, ["--job", "{job}", "--from-step", "7"], ["{folder}/model", "step 7"]),
    "no dataset": train(["{folder}/none", "there is no dataset"], "output.path={folder}/none"),
    "a damaged manifest": train(["{folder}/damaged"], "output.path={folder}/damaged"),
    "a manifest of another version": train(["{folder}/older"], "output.path={folder}/older"),
    "a manifest of something else": train(["{folder}/foreign"], "output.path={folder}/foreign"),
    "a manifest that is a folder": train(["{folder}/odd"], "output.path={folder}/odd"),
    "a batch of more than there is": train(["100000", "batch"], "train.feed.batch_size=100000"),
    "a workdir that is a file": train(["{folder}/file", "train.workdir"], "train.workdir={folder}/file"),
    "a workdir that is not written": train(["/proc/x"], "train.workdir=/proc/x"),
    "a loss that there is not": train(["train.task.loss", "'hubber'"], "train.task={name: reconstruct, loss: hubber}"),
    "a metric that there is not": train(
        ["train.task.metrics", "'acuracy'"], "train.task={name: reconstruct, metrics: [acuracy]}"
    ),
    "something else to watch": train(["train.watch.metric", "'los'"], "train.watch.metric=los"),
    "a task without its label": train(
        ["--set train.task={name: classify}: train.task.target", "'label'"], "train.task={name: classify}"
    ),
    "partitions that there are not": train(["train.feed.where", "country"], "train.feed.where={country: DE}"),
    "a first model that is not there": train(["train.init.from", "{folder}/none"], "train.init={from: {folder}/none}"),
    "a server that is not named": train(["train.writers", "MLFLOW_TRACKING_URI"], "train.writers=[mlflow]"),
    "a model of no module": train(["train.model.class", "nowhere"], model("nowhere:Mine")),
    "a model of no such name": train(["train.model.class", "Nothing"], model("own_models:Nothing")),
    "a model whose module fails": train(["train.model.class", "no luck"], model("own_broken:Mine")),
    "a model that fails": train(["train.model.args", "out of luck"], model("own_models:fails")),
    "a model that is none": train(["train.model.class", "own_models:number"], model("own_models:number")),
    "a model of another shape": train(["train.model.class", "own_models:flat"], model("own_models:flat")),
    "a callback of no module": train(["train.callbacks", "nowhere"], "train.callbacks=['nowhere:Mine']"),
    "collectives that there are not": train(["train.devices.collectives", "'mpi'"], "train.devices.collectives=mpi"),
    "TF_CONFIG that is no JSON": train(["TF_CONFIG", "'{'"], TF_CONFIG="{"),
    "TF_CONFIG of a worker too many": train(["TF_CONFIG", "task.index"], TF_CONFIG=WORKERS % 5),
    "TF_CONFIG that is a list": train(["TF_CONFIG", "'[]'"], TF_CONFIG="[]"),
    "a rank too many": train(["RANK", "'2'"], **{**TORCHRUN, "RANK": "2"}),
    "no rank": train(["RANK: is not set"], WORLD_SIZE="2"),
    "an address alone": train(["MASTER_ADDR", "'a'"], MASTER_ADDR="a"),
    "a port that is none": train(["MASTER_PORT", "'x'"], **{**TORCHRUN, "MASTER_PORT": "x"}),
    "hosts of Slurm that are none": train(
        ["SLURM_JOB_NODELIST", "'n[1-'"],
        SLURM_JOB_ID="1",
        SLURM_STEP_ID="0",
        SLURM_NTASKS="2",
        SLURM_PROCID="0",
        SLURM_JOB_NODELIST="n[1-",
        SLURM_TASKS_PER_NODE="1(x2)",
    ),
    "a task of Slurm without a number": train(["SLURM_PROCID"], SLURM_JOB_ID="1", SLURM_STEP_ID="0", SLURM_NTASKS="2"),
    "nothing to look at": Case(INSPECT, [], ["dataset", "required"]),
    "a look at no dataset": Case(INSPECT, ["{folder}/none"], ["{folder}/none: there is no dataset"]),
    "a look at a file": Case(INSPECT, ["{folder}/file"], ["{folder}/file"]),
    "a look at a damaged manifest": Case(INSPECT, ["{folder}/damaged"], ["{folder}/damaged"]),
    "a look at another version": Case(INSPECT, ["{folder}/older"], ["{folder}/older"]),
    "a look at something else": Case(INSPECT, ["{folder}/foreign"], ["{folder}/foreign"]),
    "a look at windows below zero": Case(INSPECT, ["{folder}/data", "--windows=-1"], ["'-1' is not a whole number"]),
    "a profile of no dataset": Case(PROFILE, ["{folder}/none"], ["{folder}/none: there is no dataset"]),
    "a profile of a damaged manifest": Case(PROFILE, ["{folder}/damaged"], ["{folder}/damaged"]),
    "overrides of no job": Case(PROFILE, ["{folder}/data", "--set", "a=1"], ["--set", "goes with --job"]),
    "a profile of too large a batch": Case(PROFILE, ["{folder}/data", "--batch", "100000"], ["100000", "windows"]),
    "too few rates": Case(
        FIND_RATE, ["--job", "{job}", "--steps", "3"], ["'3' is not a whole number from 16", "--steps"]
    ),
    "rates of no dataset": Case(FIND_RATE, ["--job", "{job}", "--set", "output.path={folder}/none"], ["{folder}/none"]),
    "checkpoints of nothing": Case(CHECKPOINTS, ["{folder}/none"], ["{folder}/none/checkpoints: holds no checkpoint"]),
    "checkpoints of a file": Case(CHECKPOINTS, ["{folder}/file"], ["{folder}/file"]),
    "checkpoints of two folders": Case(CHECKPOINTS, ["a", "b"], ["unexpected argument 'b'"]),
}
