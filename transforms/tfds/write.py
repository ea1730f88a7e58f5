"""The files with which tensorflow-datasets reads a dataset of ours: where each record is one example.

dataset_info.json and features.json as version 4.9 writes them, and the names of
classes, lie in the data folder: `tfds.builder_from_directory(that folder)`.
"""

import json
import re
from typing import Any

from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.transforms.tfds.read import FEATURES, IMAGE, INFO, LABELS

MODULE = "tensorflow_datasets.core.features"
TEMPLATE = "{SPLIT}/part-{SHARD_X_OF_Y}.{FILEFORMAT}"  # of contract.dataset.layout
VERSION = "1.0.0"


def is_readable(manifest: Manifest) -> bool:
    """Whether tensorflow-datasets can read the shards: an example a record, not compressed, in one folder a split."""
    infos = manifest.splits.values()
    return (
        manifest.adopted is None
        and not manifest.has_grown
        and manifest.compression == "none"
        and all(info.records == info.windows for info in infos)
        and not any(shard.folder for info in infos for shard in info.shards)
        and not any(field.part for field in manifest.fields)  # rows to be forecast would be among the inputs
        # A window of several rows has no one list of numbers that is the value of such fields.
        and not any(_of_rows(field, manifest) and (field.is_ragged or field.is_raw) for field in manifest.fields)
    )


def tfds_files(manifest: Manifest) -> dict[str, str]:
    """The files by their names in the data folder; none where it cannot read the dataset."""
    if not is_readable(manifest):
        return {}
    features = {field.name: _feature(field, manifest) for field in manifest.fields}
    described = _as("features_dict.FeaturesDict", "featuresDict", {"features": features})
    labels = {
        f"{field.name}{LABELS}": "".join(" ".join(name.splitlines()) + "\n" for name in field.classes)
        for field in manifest.fields
        if _is_label(field, manifest)
    }
    return {FEATURES: _text(described), INFO: _text(_info(manifest)), **labels}


def _info(manifest: Manifest) -> dict[str, Any]:
    content: dict[str, Any] = {
        "name": dataset_name(manifest.name),
        "version": VERSION,
        "fileFormat": "tfrecord",
        "releaseNotes": {},
        "splits": [
            {
                "name": name,
                "filepathTemplate": TEMPLATE,
                "numBytes": str(info.bytes),
                "shardLengths": [str(shard.records) for shard in info.shards],
            }
            for name, info in manifest.splits.items()
            if info.records
        ],
    }
    inputs, targets = ([field.name for field in manifest.fields if field.role == role] for role in ("input", "target"))
    if len(inputs) == 1 and len(targets) == 1:
        pair = [{"featureKey": name} for name in (*inputs, *targets)]
        content["supervisedKeys"] = {"tuple": {"items": pair}}
    return content


def dataset_name(name: str) -> str:
    """The name as tensorflow-datasets wants it: small letters, digits and _, with a letter first.

    Example:
      >>> dataset_name("Fleet-2.1")
      'fleet_2_1'
    """
    plain = re.sub(r"[^a-z0-9_]", "_", name.lower())
    return plain if re.match(r"[a-z]", plain) else f"d_{plain}"


def _feature(field: Field, manifest: Manifest) -> dict[str, Any]:
    rows = (manifest.windows.length,) if _of_rows(field, manifest) else ()
    shape = (*rows, *field.shape)
    if _is_label(field, manifest):
        return _as("class_label_feature.ClassLabel", "classLabel", {"numClasses": str(len(field.classes))})
    if field.content == IMAGE and not shape:
        image = {"dtype": "uint8", "shape": _dimensions((None, None, 3))}
        return _as("image_feature.Image", "image", image)
    dtype, encoding = (field.dtype, "bytes") if field.is_raw else (field.dtype.replace("bytes", "string"), "none")
    tensor = {"dtype": dtype, "encoding": encoding, "shape": _dimensions(shape)}
    return _as("tensor_feature.Tensor", "tensor", tensor)


def _of_rows(field: Field, manifest: Manifest) -> bool:
    """Whether an example has values of several rows."""
    return field.per == "row" and manifest.windows.length > 1


def _is_label(field: Field, manifest: Manifest) -> bool:
    return bool(field.classes) and field.dtype == "int64" and not field.shape and not _of_rows(field, manifest)


def _as(python_class: str, kind: str, content: dict[str, Any]) -> dict[str, Any]:
    return {kind: content, "pythonClassName": f"{MODULE}.{python_class}"}


def _dimensions(shape: tuple[int | None, ...]) -> dict[str, Any]:
    return {"dimensions": [str(-1 if size is None else size) for size in shape]} if shape else {}


def _text(value: Any) -> str:
    return json.dumps(value, indent=4, sort_keys=True)
