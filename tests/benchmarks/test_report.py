"""What measures, what fits and what reports: the text says what the figures say."""

import copy
import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))  # the scripts import each other as siblings
measure = importlib.import_module("measure")
report = importlib.import_module("report")
run = importlib.import_module("run")


def entry(seconds, memory, size=1000):
    return {
        "seconds": seconds,
        "cpu_seconds": seconds,
        "peak_rss_mb": memory,
        "runs": [seconds],
        "bytes": size,
        "files": 1,
    }


def growth(memory):
    points = [
        {"factor": factor, "assets": 1, "rows": 1_000_000 * factor, **entry(5.0 + factor, at)}
        for factor, at in zip((1, 2, 4, 8, 10), memory, strict=True)
    ]
    return {"points": points, "fit": {"seconds_per_million_rows": 1.0, "seconds_at_zero": 5.0, "r2": 1.0}}


@pytest.fixture
def results():
    return {
        "command": "make bench SIZE=large",
        "size": "large",
        "windows": {"length": 64, "stride": 16},
        "workers": 2,
        "machine": {
            "cpu": "Abacus 9",
            "cores": 2,
            "memory_gb": 24,
            "system": "Linux x86_64",
            "python": "3.11.7",
            "versions": {"apache-beam": "2.77.0", "dask": None},
            "load_before": 0.1,
        },
        "alternatives": {"bound": "bare floats.", "beamfeed": "ours.", "Beam": "plain.", "Dask": "gathered."},
        "start_up": {
            "bound": entry(0.5, 100),
            "beamfeed": entry(4.0, 800),
            "Beam": entry(4.0, 700),
            "Dask": {"skipped": "dask is not installed"},
        },
        "preprocess": [
            {
                "assets": 8,
                "rows": 2_000_000,
                "windows": 1_000_000,
                "raw_bytes": 1000,
                "results": {
                    "bound": entry(2.5, 500),
                    "beamfeed": entry(10.0, 900, 1100),
                    "Beam": entry(82.0, 800, 4000),
                    "Dask": {"failed": "exit code -9: out\nof memory"},
                },
            }
        ],
        "growth": {"rows": growth((900, 905, 900, 910, 945)), "assets": growth((900, 950, 990, 1010, 1080))},
        "feed": {
            "results": {
                "beamfeed": {"windows_per_second": 500_000.0, "peak_rss_mb": 900.0},
                "grain": {"windows_per_second": 25_000.0, "peak_rss_mb": 1200.0},
            }
        },
        "shapes": [
            {"family": "width", "shape": shape, "seconds": seconds, "peak_rss_mb": memory, "failed": failed}
            for shape, seconds, memory, failed in (
                ("16 columns", {"now": 4.0, "before": 5.0}, {"now": 500.0, "before": 600.0}, {}),
                ("1,000 columns", {"now": 6.0}, {"now": 650.0}, {}),
                ("9 columns", {}, {}, {"now": "exit code -9: out of\nmemory"}),
            )
        ],
        "tables": {
            "rows": 1_000_000,
            "plain_rows": 40_000,
            "columns": 20,
            "ours": {"rows_per_second": 160_000.0, "start_up": 14.0, "peak_rss_mb": 1171.0},
            "plain": {"rows_per_second": 6000.0, "start_up": 44.0, "peak_rss_mb": 2714.0},
            "preprocess_ratio": 26.64,
            "feed": {"ours": 2_600_000.0, "plain": 12_000.0},
            "feed_ratio": 217.4,
            "growth": [
                {"rows": 500_000, "seconds": 15.5, "peak_rss_mb": 1140.0},
                {"rows": 1_000_000, "seconds": 30.0, "peak_rss_mb": 1150.0},
            ],
            "records": [
                {"rows": 1, "seconds": 40.0, "bytes": 90e6, "fed": 130_000.0},
                {"rows": None, "seconds": 15.0, "bytes": 60e6, "fed": 2_600_000.0},
            ],
        },
        "arrays": {
            "rows": 131_072,
            "row_bytes": 4096,
            "batch": 256,
            "ways": {
                "memcpy": {"bytes_per_second": 8e9, "of_memcpy": 1.0},
                "one file": {"bytes_per_second": 6e9, "of_memcpy": 0.75},
            },
        },
        "images": {
            "prepared": {
                "thumbnails": {
                    "side": 64,
                    "images": 20_000,
                    "ours": {"images_per_second": 4000.0},
                    "plain": {"images_per_second": 1000.0},
                    "ratio": 4.0,
                    "growth": [{"peak_rss_mb": 1000.0}, {"peak_rss_mb": 1010.0}],
                }
            },
            "fed": {
                "side": 256,
                "size": 224,
                "batch": 64,
                "results": {
                    "beamfeed": {"windows_per_second": 1000.0, "peak_rss_mb": 800.0},
                    "a faster one": {"windows_per_second": 1100.0, "peak_rss_mb": 700.0},
                },
            },
        },
        "torch": {
            "results": {
                "torch_dataset, 0 workers": {
                    "windows_per_second": 60_000.0,
                    "peak_rss_mb": 900.0,
                    "times_record_by_record": 30.0,
                },
                "record by record, 0 workers": {"windows_per_second": 2000.0, "peak_rss_mb": 500.0},
            }
        },
        "train": {
            "batch": 64,
            "models": [
                {
                    "model": "A model",
                    "results": {
                        "keras.Model.fit": {"windows_per_second": 4000.0, "steps_per_second": 62.5},
                        "beamfeed, one worker": {"windows_per_second": 5000.0, "steps_per_second": 78.1},
                    },
                }
            ],
        },
    }


def test_tables_hold_figures_and_ratios_to_ours(results):
    text = report.render(results)
    assert "| bound | 2.5 | 0.25x | 2.0 | 500 | 1.0x |" in text
    assert "| **beamfeed** | 10 | 1.0x | 6.0 | 900 | 1.1x |" in text
    assert "| Beam | 82 | 8.2x | 78 | 800 | 4.0x |" in text
    assert "| grain | 25,000 | 0.05x | 1,200 |" in text
    assert "| **beamfeed, one worker** | 5,000 | 1.25x |" in text


def test_another_fleet_has_a_column_and_remarks(results):
    taken = {"bound": entry(0.5, 100), "beamfeed": entry(5.0, 900), "Beam": entry(30.0, 700)}
    case = {"assets": 32, "rows": 1000, "windows": 900, "raw_bytes": 2 << 20, "results": taken}
    results["preprocess"].append(case | {"results": taken | {"Dask": {"failed": "too slow"}}})
    text = report.render(results)
    assert "| seconds for 32 assets of 1,000 rows |" in text
    assert "| Beam | 82 | 8.2x | 78 | 800 | 4.0x | 30 |" in text
    assert "- 32 assets of 1,000 rows: Beam uses less memory (700 MB against 900 MB).\n" in text
    assert "- Dask: too slow" in text


def test_models_that_are_trained_have_a_column_each(results):
    faster = {"keras.Model.fit": {"windows_per_second": 1000.0}, "beamfeed, xla": {"windows_per_second": 1500.0}}
    results["train"]["models"].append({"model": "Another", "results": faster})
    text = report.render(results)
    assert "| windows/s | A model | vs fit | Another | vs fit |" in text
    assert "| keras.Model.fit | 4,000 | 1.00x | 1,000 | 1.00x |" in text
    assert "| **beamfeed, one worker** | 5,000 | 1.25x | - | - |" in text
    assert "| **beamfeed, xla** | - | - | 1,500 | 1.50x |" in text


def test_small_files_have_a_line(results):
    points = [{"files": files, "seconds": files / 1000, "peak_rss_mb": 850.0} for files in (2000, 4000, 16_000)]
    results["files"] = {"rows": 20, "points": points, "seconds_per_thousand_files": 1.0}
    text = report.render(results)
    assert "2,000 to 16,000 small files of 20 rows each: 2.0 to 16 s, 850 MB." in text
    assert "1.0 s per thousand files." in text


def test_growth_says_from_where_to_where(results):
    text = report.render(results)
    assert "One asset of 1,000,000 to 10,000,000 rows: 6.0 to 15 s, 900 to 945 MB." in text
    assert "Linear fit: 1.000 s per million rows, 5.0 s to start (R² 1.000)." in text


def test_images_and_pytorch_are_beside_what_they_are_compared_with(results):
    text = report.render(results)
    assert "| 20,000 thumbnails, 64 x 64 | 4,000 | 1,000 | 4.0x | 1,000; 1,010 |" in text
    assert "| a faster one | 1,100 | 1.1x | 700 |\n\nFaster than Beamfeed: a faster one." in text
    assert "- **torch_dataset, 0 workers**: 60,000 windows/s (30x), 900 MB\n" in text
    assert "- record by record, 0 workers: 2,000 windows/s, 500 MB\n" in text


def test_it_names_machine_versions_and_command(results):
    text = report.render(results)
    assert "    make bench SIZE=large" in text
    assert "Abacus 9, 2 cores, 24 GB memory, Linux x86_64; Python 3.11.7, apache-beam 2.77.0. Load" in text


def test_it_says_where_ours_falls_short(results):
    text = report.render(results)
    assert "- Beamfeed takes 4.0x the time of the bound, 3.0x without the start-up of both." in text
    assert "- Beam uses less memory (800 MB against 900 MB) and uses less disk" not in text
    assert "- Beam uses less memory (800 MB against 900 MB)." in text
    results["preprocess"][0]["results"]["Beam"]["seconds"] = 9.0
    assert "- Beam is faster (9.0 s against 10 s) and uses less memory" in report.render(results)


def test_it_says_what_was_not_measured(results):
    text = report.render(results)
    assert "- Dask: exit code -9: out of memory" in text
    assert "| Dask |" not in text


def test_memory_over_the_aim_is_called_so(results):
    text = report.render(results)
    assert "With 10x the rows, peak memory changes by +5.0%, within the target of 10% (highest: +5.0% at 10x)." in text
    assert (
        "With 10x the assets, peak memory changes by +20.0%, **over** the target of 10% (highest: +20.0% at 10x)."
        in text
    )


def test_a_peak_on_the_way_is_not_hidden(results):
    results["growth"]["rows"] = growth((900, 905, 1080, 910, 909))
    text = report.render(results)
    assert "With 10x the rows, peak memory changes by +1.0%, within the target of 10% (highest: +20.0% at 4x)." in text


def test_shapes_are_compared_with_the_first(results):
    text = report.render(results)
    assert "- width: 16 columns; 1,000 columns: 1.5x, 1.3x\n" in text
    assert "- width: 9 columns: exit code -9: out of memory" in text


def test_rows_of_tables_are_compared_with_the_plain_way(results):
    text = report.render(results)
    assert "| **beamfeed** | 160,000 | 14 | 1,171 | 2,600,000 |" in text
    assert "| ratio | 26.6x |  |  | 217x |" in text
    assert "500,000 to 1,000,000 rows: 16 to 30 s, 1,140 to 1,150 MB." in text
    assert "about 64 KB a record, takes 15 s and 60 MB on disk; `output.rows_per_record: 1` takes 40 s" in text
    assert "40 s and 90 MB, and feeds 0.05x as fast." in text


def test_arrays_are_compared_with_memcpy(results):
    text = report.render(results)
    assert "131,072 rows of 4,096 bytes in the page cache, in shuffled batches of 256." in text
    assert ": memcpy 8.00 (100%), one file 6.00 (75%)." in text


def test_growth_that_failed_has_no_line(results, tmp_path):
    points = [{"factor": factor, "assets": 1, "rows": 1, "failed": "exit code 1"} for factor in (1, 2, 4, 8, 10)]
    results["growth"]["rows"] = {"points": points, "fit": None}
    report.write(results, tmp_path)
    assert "- 4x: exit code 1" in (tmp_path / "benchmarks.md").read_text()


def test_a_faster_feed_is_named(results):
    results["feed"]["results"]["grain"]["windows_per_second"] = 600_000.0
    assert "Faster than Beamfeed: grain." in report.render(results)


def test_it_is_a_function_of_the_results_alone(results):
    before = copy.deepcopy(results)
    assert report.render(results) == report.render(copy.deepcopy(results))
    assert results == before


@pytest.mark.parametrize("missing", [None, {"failed": "exit code 1"}])
def test_pages_and_plots_are_written(results, missing, tmp_path):
    report.write(results, tmp_path / "with")
    report.write(results | {"feed": missing, "train": missing}, tmp_path / "without")
    text = (tmp_path / "with" / "benchmarks.md").read_text()
    for name in ("preprocess", "growth", "feed", "train"):
        assert f"images/bench-{name}.png" in text
        assert (tmp_path / "with" / "images" / f"bench-{name}.png").stat().st_size > 1000
    for name in ("feed", "train"):
        assert f"bench-{name}.png" not in (tmp_path / "without" / "benchmarks.md").read_text()
        assert not (tmp_path / "without" / "images" / f"bench-{name}.png").exists()


def test_fit_finds_a_line():
    fitted = run.fit([1_000_000, 2_000_000, 4_000_000, 8_000_000], [5.5, 6.0, 7.0, 9.0])
    assert fitted["seconds_per_million_rows"] == pytest.approx(0.5)
    assert fitted["seconds_at_zero"] == pytest.approx(5.0)
    assert fitted["r2"] == pytest.approx(1.0)


def test_count_windows():
    assert run.count_windows(3, 64) == 3
    assert run.count_windows(3, 63) == 0
    assert run.count_windows(1, 64 + 16 * 5 + 3) == 6


def test_memory_of_children_counts(tmp_path):
    code = "import time; held = b'x' * (150 << 20); time.sleep(0.5)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
    found = measure.measure([sys.executable, "-c", parent], str(tmp_path / "log"))
    assert 150 < found.peak_rss_mb < 400
    assert found.seconds >= 0.5
    assert 0 < found.cpu_seconds < 5


def test_a_command_that_fails_says_why(tmp_path):
    with pytest.raises(measure.CommandFailed, match=r"exit code 3: out of luck"):
        measure.measure([sys.executable, "-c", "print('out of luck'); exit(3)"], str(tmp_path / "log"))


def test_the_median_is_of_each_column():
    runs = [measure.Measured(3.0, 1.0, 10.0), measure.Measured(1.0, 2.0, 20.0), measure.Measured(2.0, 3.0, 30.0)]
    assert measure.median(runs) == measure.Measured(2.0, 2.0, 20.0)
    assert measure.median(runs[:2]) == measure.Measured(2.0, 1.5, 15.0)
