"""What `beamfeed check` says before a run is what the run then does."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml
from fleets import Fleet, make_table

from beamfeed.contract import storage
from beamfeed.contract.config.load import load_job
from beamfeed.contract.config.split import SPLITS
from beamfeed.contract.dataset.fingerprint import data_fingerprint, run_fingerprint
from beamfeed.contract.dataset.layout import DataLayout, RunLayout
from beamfeed.contract.dataset.manifest import read_manifest
from beamfeed.pipelines import check, preprocess
from beamfeed.pipelines.job_check import check_job
from beamfeed.transforms.rejects import to_jsonl

EXAMPLES = Path(__file__).parents[2] / "examples"


def without_bytes(manifest) -> dict:
    """All that a manifest says, but for the bytes of shards, which are only known when they are written."""
    found = manifest.model_dump()
    found.pop("previous")
    for split in found["splits"].values():
        split.pop("bytes")
        for key in ("bytes", "crc32c"):
            split["shards"].pop(key)
    return found


def assert_foretold(path: str, *overrides: str) -> None:
    """The check of a job says what its run publishes: each count, each reject and each note."""
    job = load_job(path, overrides)
    checked = check_job(job)
    assert checked.exact
    assert not checked.problems
    assert not Path(job.output.path).exists()
    sets = [part for one in overrides for part in ("--set", one)]
    assert preprocess.main(["--job", path, *sets]) == 0
    manifest = read_manifest(job.output.path)
    assert without_bytes(checked.manifest) == without_bytes(manifest)
    rejects = Path(DataLayout(job.output.path, manifest.data).rejects)
    assert to_jsonl(checked.rehearsal.rejects) == (rejects.read_text() if rejects.exists() else "")
    for name, split in manifest.splits.items():
        assert checked.manifest.splits[name].bytes == pytest.approx(split.bytes, rel=0.3, abs=3000)


def example(name: str, files: Path, folder: Path) -> tuple[str, ...]:
    sets = (f"source.files={files}", f"output.path={folder}/data", f"train.workdir={folder}/model")
    return (str(EXAMPLES / f"{name}.yaml"), *sets)


def simulate(folder: Path, assets: int, rows: int) -> Path:
    command = ["examples/make_fleet.py", "--out", str(folder), "--assets", str(assets), "--rows", str(rows)]
    subprocess.run([sys.executable, *command], check=True, cwd=EXAMPLES.parent, timeout=120)
    return folder


def test_turbofan_is_foretold(data, tmp_path):
    assert_foretold(*example("turbofan", data / "turbofan", tmp_path))


def test_the_demo_is_foretold(tmp_path):
    assert_foretold(*example("fleet", simulate(tmp_path / "fleet", 12, 3000), tmp_path))


@pytest.mark.slow
def test_the_faults_of_pumps_are_foretold(tmp_path):
    fleet = simulate(tmp_path / "fleet", 24, 3000)
    assert_foretold(*example("fleet_faults", fleet, tmp_path), "limits.max_rejected_fraction=0.5")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "files"), [("fraud", "fraud/**/*.parquet"), ("census", "census/adult.csv"), ("sms", "sms/sms.tsv")]
)
def test_tables_are_foretold(data, tmp_path, name, files):
    assert_foretold(*example(name, data / files, tmp_path))


@pytest.mark.slow
def test_engines_in_texts_and_a_label_that_is_derived_are_foretold(data, tmp_path):
    job = example("turbofan_life", data / "turbofan_csv", tmp_path)
    assert_foretold(*job, "source.max_assets=20")


def write_odd(fleet: Fleet) -> None:
    """Assets of which some are fine, some come with notes, and some are set aside, each for another reason."""
    for i in range(8):
        fleet.write(f"fine{i}.parquet", make_table(60, seed=i))
    fleet.write("short.parquet", make_table(5))
    fleet.write("text.csv", make_table(60))
    (fleet.files / "text.csv").write_text((fleet.files / "text.csv").read_text() + "60,1,none of this\n")
    fleet.write("twice.parquet", make_table(60, t=np.repeat(np.arange(30), 2)))
    fleet.write("back.parquet", make_table(60, t=np.arange(60)[::-1]))
    fleet.write("holes.parquet", make_table(60, x0=np.where(np.arange(60) % 4 == 0, np.nan, 1).astype("f4")))
    fleet.write("hole.parquet", make_table(60, x0=np.where(np.arange(60) == 31, np.nan, 1).astype("f4")))
    (fleet.files / "broken.parquet").write_bytes((fleet.files / "fine0.parquet").read_bytes()[:-9])
    (fleet.files / "empty.csv").write_text("")


def test_what_is_odd_in_a_fleet_is_foretold(fleet):
    write_odd(fleet)
    fleet.job |= {"prepare": {"missing": {"fill": "drop"}, "max_gap": 1}}
    fleet.job["train"]["feed"] = {"batch_size": 4}
    assert_foretold(str(fleet.write_job()))
    reasons = {reject["asset"]: reject["reason"] for reject in fleet.rejects()}
    assert {"short", "text", "holes", "broken", "empty"} == set(reasons)
    assert any("made one" in note for note in fleet.manifest.notes)  # the times that come twice


def test_a_fleet_of_many_rejects_is_told_and_cannot_work(fleet, capsys):
    write_odd(fleet)
    path = str(fleet.write_job())
    before = sorted(fleet.folder.rglob("*"))
    assert check.main(["--job", path, "--set", "limits.max_rejected_fraction=0.1"]) == 2
    told = capsys.readouterr()
    (problem,) = told.err.splitlines()
    assert "% of the assets were rejected, limits.max_rejected_fraction is 10.0%" in problem
    assert "set aside" in told.out
    assert "made one (duplicates: first)" in told.out
    assert "short.parquet: file: has 5 rows, a window needs 8" in told.out
    assert sorted(fleet.folder.rglob("*")) == before  # nothing was written


@pytest.mark.parametrize(
    ("overrides", "problems"),
    [
        (["train.feed.batch_size=5000"], ["fewer than one batch of 5000"]),
        (["source.time.column=tt"], ["'tt' is not a column of the files; did you mean 't'?"]),
        (["label={column: fault}", "train.task={name: regress}"], ["label.column: 'fault' is not a column"]),
        (["split={seed: 1, train: 0.999, eval: 0.001, test: 0}"], ["split.eval: 0.001 of 8 assets came to none"]),
        (["train.workdir={files}/fine0.parquet/model"], ["fine0.parquet is a file"]),
        (["output.path={files}"], ["holds something else (fine0.parquet"]),
        (["windows.length=61"], ["100.0% of the assets were rejected"]),
        (["windows.length=60", "split={by: time, train: 0.5, eval: 0.5, test: 0}"], ["100.0% of the assets"]),
        (["train.feed.batch_size=5000", "output.path={files}"], ["holds something else", "fewer than one batch"]),
    ],
)
def test_what_cannot_work_is_told_in_a_line_each(fleet, capsys, overrides, problems):
    for i in range(8):
        fleet.write(f"fine{i}.parquet", make_table(60, seed=i))
    fleet.job["train"]["feed"] = {"batch_size": 4}
    sets = [part for one in overrides for part in ("--set", one.replace("{files}", str(fleet.files)))]
    assert check.main(["--job", str(fleet.write_job()), *sets]) == 2
    told = capsys.readouterr().err
    assert all(problem in told for problem in problems)
    assert len(told.splitlines()) == len(problems)
    assert all(line.startswith("beamfeed: ") for line in told.splitlines())


def test_the_batch_of_a_smoke_test_is_told_and_no_problem(fleet, capsys):
    for i in range(8):
        fleet.write(f"fine{i}.parquet", make_table(60, seed=i))
    job = str(fleet.write_job())
    assert check.main(["--job", job, "--set", "source.max_assets=1", "--set", "train.feed.batch_size=5000"]) == 0
    assert "a batch is of 27 windows, not of 5,000" in capsys.readouterr().out


def test_a_batch_that_workers_cannot_share_is_told(fleet, capsys):
    for i in range(4):
        fleet.write(f"fine{i}.parquet", make_table(60, seed=i))
    sets = ["train.feed.batch_size=3", "launch.train.workers=4"]
    assert check.main(["--job", str(fleet.write_job()), *(part for one in sets for part in ("--set", one))]) == 2
    assert "launch.train.workers: 4 workers cannot share a batch of 3; set it to 3 or less" in capsys.readouterr().err


def test_json_is_one_object_with_the_same_figures(fleet, capsys):
    for i in range(8):
        fleet.write(f"fine{i}.parquet", make_table(60, seed=i, other=np.arange(60)))
    fleet.job["train"]["feed"] = {"batch_size": 4}
    job = str(fleet.write_job())
    assert check.main(["--job", job, "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert found["works"]
    assert found["exact"]
    assert found["left_out"] == ["other"]
    assert sum(split["windows"] for split in found["splits"].values()) == 8 * 27
    assert found["times"]["first"] == "0"
    assert found["times"]["last"] == "59"
    assert check.main(["--job", job, "--json", "--set", "source.features=[y]"]) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert not json.loads(line)["works"]


def test_gaps_repeats_and_missing_values_are_counted(fleet):
    times = np.concatenate([np.arange(30), [29], 100 + np.arange(29)])
    fleet.write("one.parquet", make_table(60, t=times, x1=np.where(np.arange(60) < 6, np.nan, 1).astype("f4")))
    fleet.job |= {"prepare": {"duplicates": "first", "max_gap": 5}}
    found = check_job(load_job(str(fleet.write_job()))).rehearsal.overview
    assert (found.times.pauses, found.times.longest, found.times.repeats, found.times.decreases) == (1, "71", 1, 0)
    assert found.times.step == "1"
    assert {one.name: one.missing for one in found.missing}["x1"] == 6


def test_a_sample_of_a_large_fleet_is_told_as_estimates(fleet, capsys, monkeypatch):
    for i in range(20):
        fleet.write(f"m{i:02d}.parquet", make_table(200, seed=i))
    fleet.job["train"]["feed"] = {"batch_size": 4}
    path = str(fleet.write_job())
    size = sum(file.stat().st_size for file in fleet.files.iterdir())
    monkeypatch.setattr("beamfeed.pipelines.job_check.SAMPLE_BYTES", size // 2)
    assert check.main(["--job", path]) == 0
    told = capsys.readouterr().out
    assert "10 of them were read, so that figures with ~ are estimates" in told
    checked = check_job(load_job(path))
    windows = sum(split.windows for split in checked.manifest.splits.values())
    assert windows == pytest.approx(20 * 97, rel=0.02)
    assert check_job(load_job(path), full=True).exact


def test_of_a_sample_of_files_that_mix_assets_there_are_at_least_so_many(fleet, capsys, monkeypatch):
    for i in range(8):
        table = make_table(400, seed=i)
        fleet.write(f"part{i}.parquet", table.append_column("machine", [[f"m{row % 4}" for row in range(400)]]))
    fleet.job["source"] |= {"asset": {"column": "machine"}, "features": ["x1", "x2"]}
    fleet.job["prepare"] = {"duplicates": "first"}
    fleet.job["train"]["feed"] = {"batch_size": 4}
    path = str(fleet.write_job())
    size = sum(file.stat().st_size for file in fleet.files.iterdir())
    monkeypatch.setattr("beamfeed.pipelines.job_check.SAMPLE_BYTES", size // 2)
    check.main(["--job", path])
    assert "assets        at least 4\n" in capsys.readouterr().out
    checked = check_job(load_job(path))
    assert checked.look.mixed
    assert checked.manifest.counts.assets == 4


def test_of_a_sample_the_splits_are_those_of_all_paths(fleet, capsys, monkeypatch):
    for i in range(8):
        fleet.write(f"m{i}.parquet", make_table(200, seed=i))
    fleet.job |= {"split": {"seed": 1, "train": 0.8, "eval": 0.1, "test": 0.1}}
    fleet.job["train"]["feed"] = {"batch_size": 4}
    path = str(fleet.write_job())
    whole = check_job(load_job(path)).manifest
    assert [whole.splits[name].assets for name in SPLITS] == [6, 1, 1]
    size = sum(file.stat().st_size for file in fleet.files.iterdir())
    monkeypatch.setattr("beamfeed.pipelines.job_check.SAMPLE_BYTES", size // 4)
    checked = check_job(load_job(path))
    assert len(checked.look.files) == 3  # one of each split
    assert not checked.warnings
    assert not checked.problems
    for name, split in whole.splits.items():
        assert checked.manifest.splits[name].assets == split.assets
        assert checked.manifest.splits[name].windows == pytest.approx(split.windows, rel=0.02)
    assert checked.manifest.counts.assets == 8
    empty = check_job(load_job(path, ["split.test=0.001", "split.train=0.899"]))
    assert [line[:44] for line in empty.problems] == ["split.test: 0.001 of 8 assets came to none w"]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_of_large_tables_rows_from_all_over_the_files_are_read(tmp_path, monkeypatch, suffix):
    rows = 12_000
    for i in range(3):
        times = np.datetime64("2024-01-01", "s") + 60 * np.arange(i * rows, (i + 1) * rows)
        table = pa.table({
            "t": times, "x": np.random.default_rng(i).normal(size=rows),
            "c": pa.array([None if row % 5 == 0 else f'say "{row % 7}"' for row in range(rows)]),
            "y": np.arange(rows) % 2,
        })  # fmt: skip
        path = tmp_path / "files" / f"p{i}.{suffix}"
        path.parent.mkdir(exist_ok=True)
        if suffix == "parquet":
            pq.write_table(table, path, row_group_size=2000)
        elif suffix == "csv":
            pa.csv.write_csv(table, path)
        else:
            path.write_text("".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()))
    cuts = [str(np.datetime64("2024-01-01") + np.timedelta64(row, "m")) for row in (3000, 30_000, 34_000)]
    job = {
        "name": "big",
        "source": {"kind": "table", "files": str(path.parent), "time": "t"},
        "features": {"x": "numeric", "c": "categorical"},
        "label": {"column": "y", "classes": [0, 1]},
        "split": {"by": "time", **dict(zip(("train_from", "eval_from", "test_from"), cuts, strict=True))},
        "output": {"path": str(tmp_path / "data")},
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    monkeypatch.setattr("beamfeed.pipelines.job_check.SAMPLE_BYTES", 3 * path.stat().st_size // 4)
    checked = check_job(load_job(str(tmp_path / "job.yaml")))
    assert not checked.warnings
    assert not checked.problems
    assert not checked.exact
    assert 7000 < sum(one.rows for one in checked.rehearsal.assets.values()) < 11_000
    told = checked.rows
    assert told.rows == pytest.approx(3 * rows, rel=0.02)
    for name, count in {"train": 27_000, "eval": 4000, "test": 2000}.items():
        assert told.splits[name] == pytest.approx(count, abs=1500)
        assert checked.manifest.splits[name].windows == told.splits[name]
    assert told.left_out == pytest.approx(3000, abs=1500)
    (missing,) = [one for one in checked.rehearsal.overview.missing if one.name == "c"]
    assert missing.missing / missing.values == pytest.approx(0.2, rel=0.05)


def test_a_text_whose_values_go_on_in_the_next_line_is_read_whole(tmp_path, monkeypatch):
    text = "x,c,y\n" + "".join(f'{row},"two\nlines",{row % 2}\n' for row in range(2000))
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.csv").write_text(text)
    job = {
        "name": "lines",
        "source": {"kind": "table", "files": str(tmp_path / "files")},
        "features": {"x": "numeric", "c": "categorical"},
        "label": {"column": "y", "classes": [0, 1]},
        "output": {"path": str(tmp_path / "data")},
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    monkeypatch.setattr("beamfeed.pipelines.job_check.SAMPLE_BYTES", len(text) // 4)
    checked = check_job(load_job(str(tmp_path / "job.yaml")))
    assert checked.rows.rows == 2000
    assert not checked.rehearsal.rejects


def test_what_a_sample_lacks_is_told_as_such(fleet, capsys, monkeypatch):
    for i in range(20):
        fleet.write(f"m{i:02d}.parquet", make_table(3 if i % 2 else 200, seed=i))
    fleet.job |= {"limits": {"max_rejected_fraction": 0.0}}
    fleet.job["train"]["feed"] = {"batch_size": 4}
    path = str(fleet.write_job())
    size = sum(file.stat().st_size for file in fleet.files.iterdir())
    monkeypatch.setattr("beamfeed.pipelines.job_check.SAMPLE_BYTES", size // 2)
    assert check.main(["--job", path]) == 0
    assert "warning       of what was read: " in capsys.readouterr().out


def test_a_mistake_that_only_the_launcher_knows_is_told_once(fleet):
    fleet.write("m.parquet", make_table(60))
    fleet.job |= {"launch": {"preprocess": {"backend": "dataflo"}}}
    command = [sys.executable, "-m", "beamfeed.launcher.cli", "check", str(fleet.write_job())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "dataflo" in done.stderr


def test_neither_beam_nor_tensorflow_is_loaded(fleet):
    for i in range(8):
        fleet.write(f"fine{i}.parquet", make_table(60, seed=i))
    fleet.job["train"]["feed"] = {"batch_size": 4}
    code = (
        "import sys; from beamfeed.pipelines.check import main; assert main(sys.argv[1:]) == 0; "
        "assert not {'apache_beam', 'tensorflow', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, "--job", str(fleet.write_job())], check=True)


def test_the_command_takes_the_job_and_its_overrides(fleet):
    for i in range(8):
        fleet.write(f"fine{i}.parquet", make_table(60, seed=i))
    path = fleet.write_job()
    path.write_text(yaml.safe_dump(fleet.job | {"limits": {}}))
    command = [sys.executable, "-m", "beamfeed.launcher.cli", "check", str(path), "--max-assets", "2"]
    done = subprocess.run([*command, "--set", "windows.length=10"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "assets        2" in done.stdout
    assert not (fleet.folder / "data-2-assets").exists()


def test_the_training_run_of_another_job_in_the_working_folder_is_a_warning(fleet, capsys):
    for i in range(8):
        fleet.write(f"fine{i}.parquet", make_table(60, seed=i))
    fleet.job["train"]["feed"] = {"batch_size": 4}
    path = str(fleet.write_job())
    job = load_job(path)
    data = data_fingerprint(job, job.source.list_files())
    (fleet.folder / "model").mkdir()
    for fingerprint, warned in ((run_fingerprint(job.train, data), False), ("another", True)):
        storage.write_text(RunLayout(job.train.workdir).run, json.dumps({"fingerprint": fingerprint}))
        assert check.main(["--job", path]) == 0
        assert ("holds another training run" in capsys.readouterr().out) == warned


def test_a_split_that_no_time_is_in_is_told_by_both(tmp_path):
    """Dates of 2000 to 2010 and cuts of 2024: all rows train."""
    months = (np.datetime64("2000-01") + np.arange(120)).astype("datetime64[D]")
    pq.write_table(pa.table({"date": months, "price": np.arange(120.0)}), tmp_path / "a.parquet")
    job = {
        "name": "late",
        "source": {"kind": "table", "files": str(tmp_path / "a.parquet"), "time": "date"},
        "features": {"price": "numeric"},
        "split": {"by": "time", "eval_from": "2024-03-01", "test_from": "2024-06-01"},
        "output": {"path": str(tmp_path / "data")},
    }
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    cuts = "no time of the files is in it (eval_from: 2024-03-01, test_from: 2024-06-01)"
    told = [f"the split {name} has no row: {cuts}" for name in ("eval", "test")]
    assert check_job(load_job(str(path))).warnings == told
    assert_foretold(str(path))
    assert list(read_manifest(job["output"]["path"]).notes) == told


@pytest.mark.parametrize(
    ("split", "advice"),
    [
        ({"train": 0.8, "eval": 0.1, "test": 0.1}, "; try a smaller windows.length, or more split.{}"),
        ({"eval_from": 24, "test_from": 27}, ", if any (eval_from: 24, test_from: 27)"),
    ],
)
def test_a_split_by_time_of_fewer_rows_than_a_window_is_told_as_such(fleet, split, advice):
    """Of 30 rows an asset has 3 in each of them."""
    for i in range(2):
        fleet.write(f"m{i}.parquet", make_table(30, seed=i))
    fleet.job |= {"windows": {"length": 6}, "split": {"by": "time", **split}, "train": None}
    checked = check_job(load_job(str(fleet.write_job())))
    assert checked.rows.splits == {"train": 48, "eval": 6, "test": 6}
    why = "has no window: no asset has the rows of one in it (windows.length: 6)"
    told = [f"the split {name} {why}{advice.format(name)}" for name in ("eval", "test")]
    assert checked.warnings == told
    assert fleet.preprocess() == 0
    assert fleet.manifest.notes[:2] == told
