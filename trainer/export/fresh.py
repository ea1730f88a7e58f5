"""An export is read again as a stranger would: in a process that has TensorFlow, but neither Keras nor this project.

What it returns for a sample is compared with what the trained model makes of the same rows.
"""

import base64
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from beamfeed.contract.errors import JobFailed

# Imports TensorFlow at once, and then waits to be told what to load: the import takes seconds. TensorFlow would load
# Keras with it, if it is there, which takes as long again; who serves a model has none.
READER = """
import base64, gc, json, sys
gc.disable()  # a tenth of the import
sys.modules["keras"] = sys.modules["tf_keras"] = None
import tensorflow as tf
gc.freeze()
gc.enable()

path = sys.stdin.readline().strip()
if path:
    with open(path) as file:
        asked = json.load(file)

    def read(one):
        return tf.io.parse_tensor(base64.b64decode(one["bytes"]), tf.as_dtype(one["dtype"]))

    def written(one):
        return {"dtype": one.dtype.name, "bytes": base64.b64encode(tf.io.serialize_tensor(one).numpy()).decode()}

    model = tf.saved_model.load(asked["folder"])
    replies = []
    for call in asked["calls"]:
        given = {name: read(one) for name, one in call["inputs"].items()}
        found = model.signatures[call["signature"]](**given)
        replies.append({name: written(one) for name, one in found.items()})
    with open(asked["replies"], "w") as file:
        json.dump(replies, file)
"""
LINK = "model"  # to the SavedModel, in the folder that the process works in
PATIENCE = 1800  # seconds; of a large model on a busy machine
TOLERANCE = 1e-3  # of the largest number of an output: other kernels, other orders of adding up
ON_GPU = 2e-2  # those multiply with fewer bits by default
EDGE = 0.02  # probabilities nearer to each other, or to a threshold, may fall on either side

Tensors = Mapping[str, Any]  # by name


@dataclass(frozen=True)
class Call:
    """What a signature gets, and what it must return.

    Attributes:
      signature: its name.
      inputs: tensors by the names of its arguments, `[rows, ...]`.
      expected: by the names of outputs, `[rows, ...]`; it may return others beside.
      places: where each row is from, for messages.
    """

    signature: str
    inputs: Tensors
    expected: Tensors
    places: Sequence[str]


class FreshProcess:
    """A process that loads a SavedModel; to be used in a `with`, at whose beginning it starts."""

    def __enter__(self) -> "FreshProcess":
        self._folder = tempfile.TemporaryDirectory(prefix="beamfeed-export-")
        self._errors = open(os.path.join(self._folder.name, "errors.txt"), "w+")
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}  # the GPU's memory is the trainer's
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", READER], stdin=subprocess.PIPE, stdout=self._errors, stderr=self._errors,
            env={**os.environ, **quiet}, text=True, cwd=self._folder.name,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()
        self._folder.cleanup()

    def ask(self, folder: str, calls: Sequence[Call]) -> None:
        """Lets it load a SavedModel and call it; returns at once."""
        if "://" not in folder:
            # TensorFlow takes letters of a path for a glob; where the process works, the link has none.
            os.symlink(os.path.abspath(folder), os.path.join(self._folder.name, LINK))
            folder = LINK
        request = {
            "folder": folder,
            "replies": self._replies,
            "calls": [
                {"signature": call.signature, "inputs": {name: _written(value) for name, value in call.inputs.items()}}
                for call in calls
            ],
        }
        path = os.path.join(self._folder.name, "asked.json")
        with open(path, "w") as file:
            json.dump(request, file)
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: `answers` says why
            self._process.stdin.write(path + "\n")
            self._process.stdin.flush()

    def answers(self, folder: str) -> list[Tensors]:
        """What the signatures returned, call by call; waits for it.

        Raises:
          JobFailed: if the SavedModel could not be loaded or called.
        """
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise JobFailed(f"{folder}: the SavedModel did not answer in {PATIENCE} s in a fresh process") from None
        if code:
            self._errors.seek(0)
            lines = [line.strip() for line in self._errors if line.strip()]
            why = lines[-1] if lines else "it said nothing"
            raise JobFailed(f"{folder}: the SavedModel fails in a fresh process (exit code {code}): {why}")
        with open(self._replies) as file:
            replies = json.load(file)
        return [{name: _read(encoded) for name, encoded in reply.items()} for reply in replies]

    @property
    def _replies(self) -> str:
        return os.path.join(self._folder.name, "replies.json")


def check_answers(folder: str, calls: Sequence[Call], answers: Sequence[Tensors], thresholds: Tensors) -> None:
    """Compares what a SavedModel returned with what it must.

    Args:
      folder: of the SavedModel.
      calls: what was asked.
      answers: what it said, call by call.
      thresholds: `threshold`, of classes that are decided by one, with the name of the output before it.

    Raises:
      JobFailed: for the output and the row that are farthest off.
    """
    tolerance = ON_GPU if tf.config.list_physical_devices("GPU") else TOLERANCE
    worst, line = 1.0, ""
    for call, answer in zip(calls, answers, strict=True):
        for name, tensor in call.expected.items():
            expected = tensor.numpy()
            subject = f"{folder}: the SavedModel is not the trained model: {name!r} of its signature {call.signature!r}"
            if name not in answer:
                raise JobFailed(f"{subject} is not there")
            actual = answer[name].numpy()
            if actual.shape != expected.shape:
                raise JobFailed(f"{subject} is {list(actual.shape)}, the model gives {list(expected.shape)}")
            off = _off(actual, expected, tolerance, _sure(name, call.expected, thresholds))
            if off.max(initial=0) > worst:
                at = np.unravel_index(int(np.argmax(off)), off.shape)
                worst, line = off[at], f"{subject} is {_text(actual[at])} where the model gives {_text(expected[at])}"
                line += f", for {call.places[int(at[0])]}"
    if line:
        raise JobFailed(f"{line}; do not serve it")


def _off(actual: np.ndarray, expected: np.ndarray, tolerance: float, sure: np.ndarray | None) -> np.ndarray:
    """How far values are off, in tolerances, `[rows, ...]`: infinitely, where others than floats differ.

    Floats are not off where both are no number. `sure` are the rows that may not differ, `[rows]`; None: all.
    """
    if actual.dtype.kind != "f":
        counts = True if sure is None else sure.reshape(-1, *[1] * (actual.ndim - 1))
        return np.where((actual != expected) & counts, math.inf, 0.0)
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        distances = np.abs(actual.astype(np.float64) - expected)
    size = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    return np.where(same, 0, np.where(np.isfinite(distances), distances / (tolerance * max(size, 1e-6)), math.inf))


def _sure(name: str, expected: Tensors, thresholds: Tensors) -> np.ndarray | None:
    """Whether rounding cannot turn a class into another, `[rows]`; None for what is no class."""
    probabilities = f"{name.removesuffix('class')}probabilities"
    if not name.endswith("class") or probabilities not in expected:
        return None
    shares = expected[probabilities].numpy()
    threshold = thresholds.get(f"{name.removesuffix('class')}threshold")
    if threshold is not None:
        return np.abs(shares[:, 1] - float(threshold)) > EDGE
    ordered = np.sort(shares, axis=1)
    return ordered[:, -1] - ordered[:, -2] > EDGE if shares.shape[1] > 1 else np.full(len(shares), True)


def _text(value: Any) -> str:
    return repr(value.decode(errors="replace")) if isinstance(value, bytes) else f"{value:.6g}"


def _written(tensor: Any) -> dict[str, str]:
    tensor = tf.convert_to_tensor(tensor)
    return {"dtype": tensor.dtype.name, "bytes": base64.b64encode(tf.io.serialize_tensor(tensor).numpy()).decode()}


def _read(encoded: Mapping[str, str]) -> tf.Tensor:
    return tf.io.parse_tensor(base64.b64decode(encoded["bytes"]), tf.as_dtype(encoded["dtype"]))
