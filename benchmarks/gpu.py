"""How fast a GPU is fed, the demo's model and one of ten million weights: `python benchmarks/gpu.py [--docs docs]`.

`beamfeed profile` measures the feed up to each stage, the model's step on a batch that is there, and the wait for
input. With --docs the table replaces what docs/benchmarks.md says of GPUs.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from marks import write_section

ROOT = Path(__file__).resolve().parents[1]
LARGE = "train.model={name: recurrent_autoencoder, cell: lstm, units: [1120], latent: 64}"
CASES = {
    "the demo's": [],
    "the demo's, XLA": ["train.devices.xla=true"],
    "10 million weights": [LARGE],
    "10 million weights, mixed_bfloat16": [LARGE, "train.devices.precision=mixed_bfloat16"],
}


def device() -> str:
    """The name of the first GPU, and how many there are; empty where there is none."""
    if shutil.which("nvidia-smi") is None:
        return ""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=60)
    names = [] if listed.returncode else listed.stdout.splitlines()
    return f"{len(names)} x {names[0]}" if names and used() else ""


def used() -> bool:
    """Whether TensorFlow finds one: without all of CUDA it computes on the processor, and says nothing."""
    program = "import sys, tensorflow as tf; sys.exit(not tf.config.list_physical_devices('GPU'))"
    return subprocess.run([sys.executable, "-c", program], stderr=subprocess.DEVNULL).returncode == 0


def profile(data: Path, overrides: list[str], out: Path, seconds: float) -> dict:
    """What `beamfeed profile` finds for the demo's job, changed so."""
    command = [sys.executable, "-m", "beamfeed.launcher.cli", "profile", str(data), "--job", "examples/fleet.yaml"]
    for override in overrides:
        command += ["--set", override]
    subprocess.run([*command, "--seconds", str(seconds), "--out", str(out)], cwd=ROOT, check=True)
    return json.loads((out / "profile.json").read_text())


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--docs", type=Path, help="the folder of benchmarks.md")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    arguments = parser.parse_args()
    gpu = device()
    lines = [
        f"Measured by `python benchmarks/gpu.py` on {gpu or 'no GPU'}, with the data of `make demo`.",
        "",
        "| model | step alone, ms | step fed, ms | waiting for input | windows/s fed | the feed alone, windows/s |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    with tempfile.TemporaryDirectory() as folder:
        fleet, data = Path(folder, "fleet"), Path(folder, "data")
        subprocess.run([sys.executable, "examples/make_fleet.py", "--out", str(fleet)], cwd=ROOT, check=True)
        command = [sys.executable, "-m", "beamfeed.launcher.cli", "preprocess", "examples/fleet.yaml"]
        command += ["--set", f"source.files={fleet}", "--set", f"output.path={data}"]
        subprocess.run(command, cwd=ROOT, check=True)
        for name, overrides in CASES.items():
            measured = profile(data, overrides, Path(folder, "profile"), arguments.seconds)
            steps = measured["steps"]
            alone, fed = 1000 * steps["resident"], 1000 * steps["fed"]
            lines.append(
                f"| {name} | {alone:.2f} | {fed:.2f} | {steps['share_waiting']:.2%} | "
                f"{measured['batch_size'] / steps['fed']:,.0f} | {measured['stages'][-1]['windows_per_second']:,.0f} |"
            )
    print("\n".join(lines))
    if arguments.docs and not gpu:
        raise SystemExit("TensorFlow finds no GPU here: docs are left as they are")
    if arguments.docs:
        write_section(arguments.docs / "benchmarks.md", "gpu", "\n".join(lines))


if __name__ == "__main__":
    main()
