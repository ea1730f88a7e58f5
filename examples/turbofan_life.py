"""Scores models of examples/turbofan_life.yaml on NASA's test engines, which stop some time before they fail.

    python examples/turbofan_life.py --engines turbofan_test_FD001.txt --truth turbofan_rul_FD001.txt \\
        --model out/turbofan_life/model [--model ...] [--plot life.png]

Prints the root mean squared error of the last window of each engine, in flights, for each model and their mean, and the
same of lives that are limited as the model's are. Needs TensorFlow and matplotlib, and nothing of Beamfeed: the
SavedModel scales and frames the rows by itself.
"""

import argparse
from pathlib import Path

import numpy as np

LIMIT = 125  # of the job; many papers limit the true lives, too
COLUMNS = ["unit", "cycle", *(f"setting_{i}" for i in (1, 2, 3)), *(f"sensor_{i:02d}" for i in range(1, 22))]


def read_engines(path: Path) -> list[dict[str, np.ndarray]]:
    """The columns of each engine, float32 `[cycles]`, in order of time."""
    table = np.loadtxt(path, dtype=np.float32)
    return [dict(zip(COLUMNS, table[table[:, 0] == unit].T, strict=True)) for unit in np.unique(table[:, 0])]


def predict_lives(engines: list[dict[str, np.ndarray]], model: Path) -> np.ndarray:
    """Flights that the engines have left, by the last window of each: float32 `[engines]`."""
    import tensorflow as tf

    loaded = tf.saved_model.load(str(model / "saved_model"))  # kept: the signature holds no reference to it
    predict = loaded.signatures["rows"]
    names = [name.decode() for name in loaded.signatures["features"]()["features"].numpy()]  # in the model's order
    lives = []
    for engine in engines:
        rows = np.stack([engine[name] for name in names], axis=1)
        lives.append(predict(rows=tf.constant(rows))["prediction"].numpy()[-1])
    return np.array(lives)


def rmse(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((found - truth) ** 2)))


def draw(truth: np.ndarray, lives: list[np.ndarray], path: Path) -> None:
    """Predicted against true lives, and both over the engines in order of their truth."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    FigureCanvasAgg(figure)
    scatter, ordered = figure.subplots(1, 2)
    order = np.argsort(-truth, kind="stable")
    for number, found in enumerate(lives):
        scatter.scatter(truth, found, s=12, label=f"model {number + 1}")
        ordered.plot(found[order], ".", markersize=4, label=f"model {number + 1}")
    edge = [0, max(truth.max(), *(found.max() for found in lives))]
    scatter.plot(edge, edge, color="grey", linewidth=0.8)
    scatter.set(xlabel="true remaining life, flights", ylabel="predicted")
    ordered.plot(truth[order], color="black", label="true")
    ordered.set(xlabel="test engines, longest life first", ylabel="remaining life, flights")
    ordered.legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", type=Path, required=True, help="the text file of the test engines")
    parser.add_argument("--truth", type=Path, required=True, help="the text file of their remaining lives")
    parser.add_argument("--model", type=Path, required=True, action="append", help="train.workdir; may be given again")
    parser.add_argument("--plot", type=Path, help="PNG file to write")
    args = parser.parse_args()
    engines, truth = read_engines(args.engines), np.loadtxt(args.truth, dtype=np.float32)
    lives = [predict_lives(engines, model) for model in args.model]
    errors = [[rmse(found, true) for true in (truth, np.minimum(truth, LIMIT))] for found in lives]
    for model, (error, limited) in zip(args.model, errors, strict=True):
        print(
            f"{model}: root mean squared error {error:.2f} flights of {len(truth)} engines, {limited:.2f} up to {LIMIT}"
        )
    print("mean {:.2f}, {:.2f}".format(*np.mean(errors, axis=0)))
    if args.plot:
        draw(truth, lives, args.plot)


if __name__ == "__main__":
    main()
