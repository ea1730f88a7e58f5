"""Writes scikit-learn's digits as arrays: two inputs (the image, its row sums) and two outputs (digit, parity).

    python examples/make_digits.py --out out/digits/arrays

The images are cut into two files, as large arrays are; the others are one file each.
"""

import argparse
from pathlib import Path

import numpy as np


def digits() -> dict[str, np.ndarray]:
    """1,797 images of handwritten digits, 8 by 8, from 0 to 16 (UCI; Alpaydin and Kaynak 1998), mixed by a seed."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    image = found.images[order].astype(np.uint8)
    digit = found.target[order].astype(np.int64)
    return {"image": image, "sums": image.sum(axis=2).astype(np.float32), "digit": digit, "even": digit % 2 == 0}


def write(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes the files that `examples/digits.yaml` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(np.split(arrays["image"], [1000])):
        np.save(folder / f"image-{number}.npy", part)
    for name in ("sums", "digit", "even"):
        np.save(folder / f"{name}.npy", arrays[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/digits/arrays"), help="folder to write to")
    args = parser.parse_args()
    arrays = digits()
    write(args.out, arrays)
    print(f"{args.out}: {len(arrays['digit']):,} digits")


if __name__ == "__main__":
    main()
