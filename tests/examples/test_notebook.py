"""The script that a notebook user reads, run as it is on a smaller fleet and job; it knows but the public interface."""

import ast
import shutil
import subprocess
import sys

import pytest
import yaml


@pytest.mark.slow
def test_the_notebook_runs(root, tmp_path):
    (tmp_path / "examples").mkdir()
    for name in ("notebook.py", "make_fleet.py", "fleet.yaml"):
        shutil.copy(root / "examples" / name, tmp_path / "examples" / name)
    job = yaml.safe_load((tmp_path / "examples" / "fleet.yaml").read_text())
    job["train"]["review"] = {"baselines": "none"}
    job["launch"]["train"]["workers"] = 1
    (tmp_path / "examples" / "fleet.yaml").write_text(yaml.safe_dump(job))
    make = [sys.executable, "examples/make_fleet.py", "--out", "out/fleet", "--assets", "8", "--rows", "4000"]
    subprocess.run(make, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    done = subprocess.run(
        [sys.executable, "examples/notebook.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("(128, 32, 8) {'inlet_bar': ") for line in lines), done.stdout
    assert any(line.startswith("epochs 2 best eval loss 0.") for line in lines), done.stdout


@pytest.mark.parametrize("name", ["notebook.py", "own_pipeline.py"])
def test_examples_import_the_public_interface_alone(root, name):
    tree = ast.parse((root / "examples" / name).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {module for module in imported if module.startswith("beamfeed")} == {"beamfeed"}
    import beamfeed

    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "beamfeed"
    }
    assert used <= set(beamfeed.__all__)
