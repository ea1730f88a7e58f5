"""Batches of NumPy arrays, against those of `load_dataset`: one for one, whatever is in them and whoever reads them."""

import itertools
import pickle
import subprocess
import sys
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from datasets import write_dataset
from feeds import arguments, batch_reader
from records import FIELDS, make_records

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.errors import UserError
from beamfeed.contract.records import examples, pieces
from beamfeed.trainer.feed.dataset import load_dataset
from beamfeed.trainer.feed.sharding import Distribution
from beamfeed.trainer.numpy_feed import shards
from beamfeed.trainer.numpy_feed.windows import Ragged as RaggedWindows
from beamfeed.transforms.records.example_encoder import encode_examples
from beamfeed.transforms.sources.record_block import Ragged, RecordBlock

NAMES = [*(field.name for field in FIELDS), ".place"]
ROWS = [[9, 5, 12, 4], [], [7, 30, 6], [4]]
SERIES, SINGLE = Windows(length=4, stride=2), Windows(length=1)
DEFAULTS = {"batch_size": 4, "fields": NAMES}


def our_own(record, fields) -> bytes:
    """A record as our encoder writes it."""
    windows = our_own.windows
    rows = datasets.rows_of(record, fields)
    values = {field.name: to_values(record[field.name], field) for field in fields}
    (encoded,) = encode_examples(RecordBlock("", np.array([0]), np.array([rows]), values), fields, windows)
    return encoded


def to_values(found, field: Field):
    """Values as sources give them."""
    if field.is_ragged:
        lengths = np.array([len(value) for value in found])
        inner = field.model_copy(update={"shape": field.shape[1:]})
        return Ragged(to_values([entry for value in found for entry in value], inner), lengths)
    if field.dtype == "bytes":
        return pa.array([one for value in found for one in np.asarray(value, object).ravel()], pa.binary())
    return np.array(found, field.dtype).reshape(len(found), *field.shape)


WRITERS = ("protobuf's", "our own", "compressed")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A dataset of all kinds of fields for each kind of windows: its records as protobuf writes them, and as we do."""
    found = {}
    for windows, writer in itertools.product((SERIES, SINGLE), WRITERS):
        folder = str(tmp_path_factory.mktemp("data"))
        with pytest.MonkeyPatch.context() as patch:
            if writer != "protobuf's":
                our_own.windows = windows
                patch.setattr(datasets, "encode", our_own)
            compression = "gzip" if writer == "compressed" else "none"
            records = make_records(FIELDS, ROWS, windows)
            write_dataset(folder, FIELDS, {"train": records}, windows, compression=compression)
        found[windows.length, writer] = folder
    return found


@pytest.fixture(params=[SERIES.length, SINGLE.length], ids=["series", "single"])
def output(request, written):
    return written[request.param, "our own"]


def read(output, first=0, stride=1, **options):
    return list(batch_reader(output, **{**DEFAULTS, **options}).read(first, stride))


def load(output, **options):
    return list(load_dataset(output, "train", **arguments(**{**DEFAULTS, **options})))


def same(batch, expected) -> None:
    """Compares a batch with that of `load_dataset`, to the bit."""
    fields, weights = expected if isinstance(expected, tuple) else (expected, None)
    assert (batch.weights is None) == (weights is None)
    if weights is not None:
        np.testing.assert_array_equal(batch.weights, weights)
        assert batch.weights.dtype == np.float32
    assert set(batch.fields) == set(fields)
    for name, value in fields.items():
        found = batch.fields[name]
        if isinstance(value, tf.RaggedTensor):
            assert isinstance(found, RaggedWindows)
            lengths = value.values.row_lengths() if found.lengths.ndim == 2 else value.row_lengths()
            np.testing.assert_array_equal(found.lengths.ravel(), lengths)
            found, value = found.values, value.flat_values if found.lengths.ndim == 1 else value.values.flat_values
        if value.dtype == tf.string:
            assert found == value.numpy().tolist()
        else:
            np.testing.assert_array_equal(found, value.numpy())
            assert found.dtype == value.numpy().dtype
            assert found.flags.writeable


OPTIONS = {
    "in order": {},
    "padded": {"remainder": "pad", "batch_size": 7},
    "shuffled": {"shuffle": 20, "epochs": 3},
    "from a step on": {"shuffle": 20, "epochs": 3, "start": (5, 4)},
    "few lanes": {"shuffle": 20, "seed": -3, "lanes": 3, "batch_size": 5, "epochs": 2},
    "some fields": {"fields": ["label", "who"], "shuffle": 5},
    "shuffled and padded": {"shuffle": 9, "remainder": "pad", "batch_size": 6, "epochs": 2},
}


FEW = ("padded", "from a step on")  # of rows that are windows themselves, in the tests that are run each time
CASES = [
    pytest.param(
        windows.length, name, marks=() if windows is SERIES or name in FEW else pytest.mark.slow, id=f"{told}-{name}"
    )
    for windows, told in ((SERIES, "series"), (SINGLE, "single"))
    for name in OPTIONS
]


@pytest.mark.parametrize(("length", "name"), CASES)
def test_batches_are_those_of_load_dataset(written, length, name):
    options = OPTIONS[name]
    expected = load(written[length, "our own"], **options)
    assert len(expected) > 1
    for writer in WRITERS:
        for batch, other in zip(read(written[length, writer], **options), expected, strict=True):
            same(batch, other)


def equal(found, expected) -> None:
    """Compares batches with others of ours."""
    for batch, other in zip(found, expected, strict=True):
        for name, value in other.fields.items():
            parts, expected_parts = (x if isinstance(x, RaggedWindows) else (x,) for x in (batch.fields[name], value))
            for part, expected_part in zip(parts, expected_parts, strict=True):
                np.testing.assert_array_equal(part, expected_part)


def test_workers_read_their_rows(output):
    names = ["values", "label", "who", "mask"]
    options = {"shuffle": 20, "epochs": 2, "batch_size": 7, "fields": names}
    parts = [read(output, **options, distribution=Distribution(worker, 3)) for worker in range(3)]
    for batch, *turn in zip(read(output, **options), *parts, strict=True):
        assert [len(part.fields["label"]) for part in turn] == [2, 2, 3]
        for name in names:
            together = [one for part in turn for one in list(part.fields[name])]
            np.testing.assert_array_equal(together, list(batch.fields[name]))


def test_padded_parts_of_workers_are_those_of_load_dataset(written):
    options = {"batch_size": 7, "remainder": "pad", "distribution": Distribution(1, 3)}
    output = written[SERIES.length, "our own"]
    for batch, other in zip(read(output, **options), load(output, **options), strict=True):
        same(batch, other)


def test_our_own_records_are_walked_together(written, monkeypatch):
    monkeypatch.setattr(examples, "_take_apart", None)
    for length in (SERIES.length, SINGLE.length):
        assert read(written[length, "our own"])
        with pytest.raises(TypeError):
            read(written[length, "protobuf's"])


def test_readers_that_share_batches_have_each_once(output, monkeypatch):
    monkeypatch.setattr("beamfeed.trainer.feed.batching.LEAST_BYTES", 0)  # so that there are several rounds
    options = {"shuffle": 8, "epochs": 2}
    parts = [read(output, first=reader, stride=3, **options) for reader in range(3)]
    equal([batch for turn in itertools.zip_longest(*parts) for batch in turn if batch], read(output, **options))


def test_a_reader_can_be_sent_to_another_process(output):
    reader = pickle.loads(pickle.dumps(batch_reader(output, **DEFAULTS, shuffle=8)))
    equal(reader.read(), read(output, shuffle=8))


def test_a_relative_path_is_of_the_folder_at_the_call(output, monkeypatch):
    monkeypatch.chdir(Path(output).parent)
    reader = batch_reader(Path(output).name, **DEFAULTS)
    monkeypatch.chdir("/")
    equal(reader.read(), read(output))


def test_the_next_epochs_come_where_there_is_no_end(output):
    endless = batch_reader(output, **{**DEFAULTS, "shuffle": 20, "epochs": None})
    expected = read(output, shuffle=20, epochs=3)
    equal(itertools.islice(endless.read(), len(expected)), expected)
    with pytest.raises(TypeError, match="no end"):
        len(endless)


def test_the_number_of_batches_is_known(output):
    reader = batch_reader(output, **{**DEFAULTS, "epochs": 2, "start": (3, 2)})
    assert len(reader) == len(list(reader.read())) == 2 * reader.steps - 2


@pytest.mark.parametrize("together", [1, 10**6])
def test_strings_are_found_together_and_one_by_one(output, together, monkeypatch):
    expected = read(output)
    monkeypatch.setattr(pieces, "TOGETHER", together)
    equal(read(output), expected)


@pytest.mark.parametrize("step", [0.0, 1e9])
def test_records_are_found_together_and_one_by_one(output, step, monkeypatch):
    expected = read(output)
    monkeypatch.setattr(shards, "STEP", step)
    equal(read(output), expected)


def test_a_damaged_byte_is_told_with_its_place(tmp_path):
    manifest = write_dataset(str(tmp_path), FIELDS, {"train": make_records(FIELDS, [[5, 6, 7]], SINGLE)}, SINGLE)
    (path,) = manifest.shard_paths(str(tmp_path), "train")
    shard = Path(path)
    data = shard.read_bytes()
    for at in (20, len(data) - 2):
        broken = bytearray(data)
        broken[at] ^= 1
        shard.write_bytes(broken)
        with pytest.raises(UserError, match=rf"{path}: damaged: .* at byte \d+; preprocess again"):
            read(str(tmp_path))
    shard.write_bytes(data[:-5])
    with pytest.raises(UserError, match=rf"{path}: damaged: ends before byte {len(data)}"):
        read(str(tmp_path))
    shard.unlink()
    with pytest.raises(UserError, match=rf"{path}: the manifest lists this shard, but it is missing"):
        read(str(tmp_path))


def test_shards_that_differ_from_the_manifest_are_told(tmp_path):
    made = {"train": make_records(FIELDS, [[5, 6, 7]], SINGLE)}
    manifest = write_dataset(str(tmp_path), FIELDS, made, SINGLE)
    fields = {"count": {"dtype": "float32"}, "values": {"shape": (4,)}, "pixels": {"shape": (3,)}}
    for name, change in fields.items():
        changed = [f.model_copy(update=change) if f.name == name else f for f in manifest.fields]
        text = manifest.model_copy(update={"fields": changed}).model_dump_json()
        (tmp_path / "manifest.json").write_text(text)
        told = "of another type" if name == "count" else f"differ from the manifest: field {name}"
        with pytest.raises(UserError, match=told):
            read(str(tmp_path))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0, it must be at least 1"),
        ({"remainder": "keep"}, "remainder is 'keep', it must be one of drop, pad"),
        ({"epochs": 0}, "epochs is 0"),
        ({"lanes": 0}, "lanes is 0"),
        ({"shuffle": -1}, "shuffle is -1"),
        ({"start": (0, 99)}, r"start is \(0, 99\)"),
        ({"distribution": Distribution(0, 1, 2)}, "replicas is 2"),
        ({"skip_corrupt": True}, "torch_dataset has no option skip_corrupt; it has start, lanes, where, manifest"),
    ],
)
def test_wrong_arguments_are_told(output, wrong, message):
    with pytest.raises(ValueError, match=message):
        read(output, **wrong)


def test_a_worker_unpacks_the_shards_of_its_part_alone(helpers, tmp_path):
    segments = helpers.segments_of([40] * 8, 2)
    written = helpers.write_dataset(str(tmp_path), {"eval": segments}, length=8, stride=4, shards=4, compression="gzip")
    for path in written.shards("eval")[1:]:
        Path(path).write_bytes(b"")
    reader = batch_reader(written.output, "eval", batch_size=8, remainder="pad", distribution=Distribution(0, 4))
    found = np.concatenate([batch.fields["values"][batch.weights > 0] for batch in reader.read()])
    of_first_shard = [window for segment in segments[::4] for window in helpers.frame(segment, 8, 4)]
    np.testing.assert_array_equal(found, of_first_shard)


def test_neither_tensorflow_nor_beam_is_loaded(output):
    code = (
        "import sys\n"
        "from beamfeed.trainer.numpy_feed.batches import BatchReader\n"
        "from beamfeed.trainer.feed.batching import Batching\n"
        f"reader = BatchReader({output!r}, 'train', Batching(4, shuffle=20))\n"
        "print(len(list(reader.read())), [m for m in ('tensorflow', 'apache_beam', 'keras') if m in sys.modules])\n"
        "import os; os.half = reader.read(); next(os.half)"  # half read, it says nothing at the end
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{len(read(output, shuffle=20))} []\n", "")
