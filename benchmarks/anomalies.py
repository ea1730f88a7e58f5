"""Does the untouched job of `beamfeed init` find anomalies, and what do simple methods find of the same rows?

    python benchmarks/anomalies.py [FOLDER] [--label anomaly ...] [--seeds 1 2 3] [--set KEY=VALUE ...] [--out FILE]
    python benchmarks/anomalies.py SERIES.csv|FOLDER --windows combined_windows.json [...]
    python benchmarks/anomalies.py FOLDER --first 400 --label anomaly changepoint [...]

FOLDER/train holds series of usual rows and FOLDER/test others of the same columns, with a column that is not 0 where
something is unusual. Without FOLDER it is the simulated fleet of examples/make_fleet.py: 18 pumps without a fault,
and 6 with one in their last tenth. The job is trained on the first alone, and `beamfeed score` scores the rows of the
second. Where a method gives scores of windows, a row gets the mean of those of its windows. For each file of the second
the area under the curve of precision and recall (average precision) says how well the rows are found, and VUS-PR
(buffers up to 100 rows) how well the ranges are; the table shows the means of all files with such rows.

SERIES.csv is one of NAB, or FOLDER one of its, with the windows of anomalies as published there. All rows go into the
dataset, of which those train that the split of the job says, and all are judged. Where it holds out whole series, the
simple methods get these, too.

With `--first`, so many rows of each CSV file in FOLDER with the first label train, and all are judged, as SKAB has it.

Beside it, fitted on the same training rows, on the same features and windows, missing values interpolated: the mean
square of a row's scaled values; of the windows of all files PCA, with as many components as the model has latent
numbers, and the distance to the nearest of 20 centres of k-means; and both of each file alone, scaled by that file,
where the second has files of the same names.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import yaml
from sklearn.cluster import KMeans
from sklearn.metrics import average_precision_score
from turns import say, write_json

from beamfeed.transforms.scoring.vus import vus_pr

ROOT = Path(__file__).resolve().parent.parent
CENTRES = 20
AT_ONCE = 4096  # windows
KNOWN = "anomaly"  # the column of what is unusual, where files are written here
BUFFER = 100  # rows, the largest of VUS-PR
SCORED, MODEL = "Beamfeed, the job of init and score", "the error of its model alone"

Scores = Callable[[np.ndarray], np.ndarray]  # windows `[n, length, features]` -> `[n]`


def simulate(folder: Path) -> None:
    """The simulated fleet: pumps without a fault in `train`, without the column that tells, the others in `test`."""
    made = ["--out", str(folder / "all"), "--assets", "24", "--rows", "10000", "--seed", "7"]
    subprocess.run([sys.executable, ROOT / "examples" / "make_fleet.py", *made], check=True, stdout=subprocess.DEVNULL)
    for path in (folder / "all").glob("*.parquet"):
        table = pq.read_table(path)
        usual = not pc.any(table["fault"]).as_py()
        (folder / ("train" if usual else "test")).mkdir(exist_ok=True)
        table = table.drop_columns("fault") if usual else table.rename_columns({"fault": "anomaly"})
        pq.write_table(table, folder / ("train" if usual else "test") / path.name)


def write_parts(folder: Path, name: str, rows: pd.DataFrame, unusual: pd.Series | np.ndarray, trains: int) -> None:
    """The first rows of a series in `train`, and all in `test` with what is known of them."""
    for part, table in (("train", rows[:trains]), ("test", rows.assign(**{KNOWN: unusual}))):
        (folder / part).mkdir(exist_ok=True)
        table.to_parquet(folder / part / f"{name}.parquet", index=False)


def from_nab(data: Path, windows: Path, folder: Path) -> None:
    """A series of NAB, or all in a folder, but for rows whose time another has."""
    published = {Path(name).name: spans for name, spans in json.loads(windows.read_text()).items()}
    for series in sorted(data.glob("*.csv")) if data.is_dir() else [data]:
        rows = pd.read_csv(series, parse_dates=["timestamp"]).drop_duplicates("timestamp").sort_values("timestamp")
        within = [rows["timestamp"].between(*map(pd.Timestamp, span)) for span in published[series.name]]
        write_parts(folder, series.stem, rows, np.any([np.zeros(len(rows), bool), *within], axis=0), len(rows))


def from_labelled(data: Path, labels: list[str], first: int, folder: Path) -> None:
    """Each series of a folder that has the first label; no other column may be called as what is known."""
    for path in sorted(data.rglob("*.csv")):
        rows = pd.read_csv(path, sep=None, engine="python")
        if labels[0] in rows:
            assert KNOWN in labels or KNOWN not in rows, f"{path}: {KNOWN} is a feature"
            name = "_".join(path.relative_to(data).with_suffix("").parts)
            write_parts(folder, name, rows.drop(columns=labels, errors="ignore"), rows[labels[0]] != 0, first)


def read(path: Path, columns: list[str]) -> np.ndarray:
    """float32 `[rows, columns]`."""
    return pq.read_table(path, columns=columns).to_pandas().interpolate(limit_direction="both").to_numpy("f4")


def windows_of(rows: np.ndarray, length: int) -> np.ndarray:
    """Each window: `[rows - length + 1, length, features]`, a view."""
    return np.lib.stride_tricks.sliding_window_view(rows, length, axis=0).transpose(0, 2, 1)


def row_scores(of_windows: np.ndarray, length: int) -> np.ndarray:
    """The mean of the windows that each row is in and that have a score, `[rows]`; 0 where none has."""
    known = np.isfinite(of_windows)
    sums = np.convolve(np.where(known, of_windows, 0), np.ones(length))
    return sums / np.maximum(np.convolve(known, np.ones(length)), 1)


def pca(windows: np.ndarray, count: int) -> Scores:
    """The mean square of what so many components leave."""
    flat = windows.reshape(len(windows), -1).astype("f8")
    mean = flat.mean(0)
    _, directions = np.linalg.eigh(np.cov(flat.T, bias=True))
    components = directions[:, ::-1][:, :count]

    def score(some: np.ndarray) -> np.ndarray:
        apart = some.reshape(len(some), -1) - mean
        return np.square(apart - apart @ components @ components.T).mean(1)

    return score


def k_means(windows: np.ndarray, seed: int) -> Scores:
    """The distance to the nearest centre."""
    fitted = KMeans(min(CENTRES, len(windows)), n_init=1, random_state=seed).fit(windows.reshape(len(windows), -1))
    return lambda some: fitted.transform(some.reshape(len(some), -1)).min(1)


def scaled(rows: np.ndarray, like: np.ndarray) -> np.ndarray:
    """By mean and deviation of other rows; what does not vary there is only moved."""
    deviation = like.std(0)
    return (rows - like.mean(0)) / np.where(deviation > 1e-6, deviation, 1)


def train(folder: Path, work: Path, seed: int, changes: list[str]) -> dict:
    """Runs `init` and the job that it wrote; the job."""
    beamfeed = [sys.executable, "-m", "beamfeed.launcher.cli"]
    path = work / "job.yaml"
    run = {"cwd": work, "check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([*beamfeed, "init", str(folder / "train"), "--out", str(path), "--force"], **run)
    job = yaml.safe_load(path.read_text())
    sets = [*changes, f"train.seed={seed}", f"train.feed.seed={seed}"]
    subprocess.run(
        [*beamfeed, "run", str(path), "--restart", *(part for one in sets for part in ("--set", one))], **run
    )
    return job


def scored_rows(folder: Path, work: Path, changes: list[str]) -> tuple[dict[str, pd.Series], dict[str, pd.Series]]:
    """The scores of the rows of FOLDER/test and the model's errors of its windows, by the number of the (first) row.

    Both by the name of the file without its suffix.
    """
    sets = [part for one in changes for part in ("--set", one)]
    beamfeed = [sys.executable, "-m", "beamfeed.launcher.cli"]
    new = ["--files", str(folder / "test" / "*.parquet"), "--out", "new"]
    for command in (["predict"], ["predict", *new], ["score", "--predictions", "new", "--out", "scores"]):
        line = [*beamfeed, command[0], "job.yaml", *sets, *command[1:]]
        subprocess.run(line, cwd=work, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def by_asset(name: str, row: str) -> dict[str, pd.Series]:
        table = (
            ds.dataset(work / name, exclude_invalid_files=True).to_table(columns=["asset", row, "score"]).to_pandas()
        )
        return {asset: some.set_index(row)["score"] for asset, some in table.groupby("asset")}

    return by_asset("scores/rows", "row"), by_asset("new", "start")


def described(workdir: Path) -> tuple[list[str], int, int]:
    """Features, length and latent numbers of an exported model."""
    import tensorflow as tf

    signatures = tf.saved_model.load(str(workdir / "saved_model")).signatures
    facts = {name: value.numpy() for name, value in signatures["features"]().items()}
    latent = signatures["serving_default"].structured_outputs["latent"].shape[-1]
    return [name.decode() for name in facts["features"]], int(facts["length"]), latent


def guesses(parts: dict[str, np.ndarray], length: int, latent: int, seed: int) -> Iterator[tuple[str, str, Scores]]:
    """Simple methods: their names, the file that each is for or none, and their scores of windows of raw values."""
    rows = np.concatenate(list(parts.values()))
    yield "size of the scaled values", "", lambda some: np.square(scaled(some[:, -1], rows)).mean(1)
    every = np.concatenate([windows_of(scaled(one, rows), length)[::4] for one in parts.values()])
    for method, score in (
        (f"PCA of all, {latent} components", pca(every, latent)),
        (f"k-means of all, {CENTRES} centres", k_means(every, seed)),
    ):
        yield method, "", lambda some, score=score: score(scaled(some, rows))
    for name, one in parts.items() if len(parts) > 1 else ():
        windows = windows_of(scaled(one, one), length)
        for method, score in (
            (f"PCA of each file, {latent} components", pca(windows, latent)),
            (f"k-means of each file, {CENTRES} centres", k_means(windows, seed)),
        ):
            yield method, name, lambda some, score=score, one=one: score(scaled(some, one))


def measure(
    folder: Path, label: str, seed: int, changes: list[str], *, in_parts: bool
) -> dict[str, tuple[float, float]]:
    """The mean average precision and VUS-PR over the files, by method.

    Args:
      in_parts: whether all rows that are judged are in the dataset, too; of which the job may take the first to train.
    """
    with tempfile.TemporaryDirectory(prefix="beamfeed-anomalies-") as work:
        job = train(folder, Path(work), seed, changes)
        names, length, latent = described(Path(work, job["train"]["workdir"]))
        parts = {path.name: read(path, names) for path in sorted((folder / "train").glob("*.parquet"))}
        if in_parts and job["split"]["by"] == "rows":
            parts = {name: rows[: int(job["split"]["train"] * len(rows))] for name, rows in parts.items()}
        methods = list(guesses(parts, length, latent, seed))
        rows, errors = scored_rows(folder, Path(work), [*changes, f"train.seed={seed}", f"train.feed.seed={seed}"])
        found: dict[str, list[tuple[float, float]]] = {}

        def judge(name: str, unusual: np.ndarray, scores: np.ndarray) -> None:
            pair = (average_precision_score(unusual, scores), vus_pr(unusual, scores, BUFFER))
            found.setdefault(name, []).append(pair)

        for path in sorted((folder / "test").glob("*.parquet")):
            unusual = pq.read_table(path, columns=[label])[label].to_numpy() != 0
            if not unusual.any():
                continue
            judge(SCORED, unusual, rows[path.stem].reindex(range(len(unusual)), fill_value=0.0).to_numpy())
            starts = range(len(unusual) - length + 1)
            judge(MODEL, unusual, row_scores(errors[path.stem].reindex(starts).to_numpy(), length))
            windows = windows_of(read(path, names), length)
            for name, file, score in methods:
                if file in ("", path.name):
                    of_windows = [score(windows[i : i + AT_ONCE]) for i in range(0, len(windows), AT_ONCE)]
                    judge(name, unusual, row_scores(np.concatenate(of_windows), length))
    return {name: tuple(np.mean(values, axis=0).tolist()) for name, values in found.items() if values}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?", help="a folder, or a series of NAB")
    parser.add_argument("--windows", type=Path, help="of anomalies of series of NAB, JSON")
    parser.add_argument("--first", type=int, help="rows of each file that train", metavar="ROWS")
    parser.add_argument("--label", nargs="+", default=["anomaly"], help="the column, and others that do not train")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a change of the job")
    parser.add_argument("--out", type=Path, help="a file for the figures, JSON")
    args = parser.parse_args()
    results: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="beamfeed-anomalies-") as made:
        folder = Path(made)
        if args.data is None:
            simulate(folder)
        elif args.windows is not None:
            from_nab(args.data, args.windows, folder)
        elif args.first is not None:
            from_labelled(args.data, args.label, args.first, folder)
        else:
            folder = args.data.resolve()
        label = args.label[0] if folder != Path(made) else KNOWN
        for seed in args.seeds:
            for name, value in measure(folder, label, seed, args.set, in_parts=bool(args.windows)).items():
                results.setdefault(name, []).append(value)
    for name, pairs in results.items():
        for measured, values in zip(("average precision", "VUS-PR"), zip(*pairs, strict=True), strict=True):
            each = ", ".join(f"{value:.3f}" for value in values)
            say(f"{name:40} {measured:17} {np.mean(values):.3f}  ({each})")
    write_json(results, args.out)


if __name__ == "__main__":
    main()
