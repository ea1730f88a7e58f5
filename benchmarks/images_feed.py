"""Compares ways to feed images to a training run, decoded, augmented and in batches: images per second, peak memory.

    python benchmarks/images_feed.py --images 4000 --json out/bench/images_feed.json

All read the same JPEGs, from the page cache, scale them to one size, flip, crop and relight them by chance, and give
float32. Ours and tf.data decode with TensorFlow, Grain and PyTorch with Pillow: all are libjpeg-turbo. The readers take
turns, each time in a process of its own; a figure is the median of its turns.
"""

import argparse
import functools
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import turns

OURS = "beamfeed"
SHARDS, ARRAYS, FILES = "data", "arrays", "files"
SIDE, QUALITY, CLASSES = 256, 90, 10  # of the JPEGs
DIFFERENT = 400  # then the same come again
CROP, LIGHT = 0.8, 0.2  # of augmentation
SHUFFLE = 2000
NEEDS = {
    "Grain, threads": "grain", "Grain, processes": "grain", "PyTorch DataLoader": "torch",
}  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """
    Attributes:
      size: pixels of each side that a model gets.
    """

    images: int
    size: int
    batch: int
    shards: int = 8


@functools.lru_cache(DIFFERENT)
def jpeg(number: int) -> bytes:
    """A colour image with large and small structures, as photographs have them."""
    from PIL import Image

    random = np.random.default_rng([7, number])
    image = np.zeros((SIDE, SIDE, 3), np.float32)
    for side, strength in ((4, 90), (16, 50), (64, 25), (SIDE, 6)):
        noise = random.normal(size=(side, side, 3)).astype(np.float32)
        for channel in range(3):
            layer = Image.fromarray(noise[:, :, channel]).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
            image[:, :, channel] += strength * np.asarray(layer)
    buffer = io.BytesIO()
    Image.fromarray(np.clip(image + 128, 0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()


def write_inputs(folder: str, sizes: Sizes) -> None:
    """Our dataset, whose shards tf.data reads too; ArrayRecords; and files."""
    write_shards(os.path.join(folder, SHARDS), sizes)
    os.makedirs(os.path.join(folder, FILES))
    for number in range(sizes.images):
        with open(os.path.join(folder, FILES, f"{number % CLASSES}-{number:06d}.jpg"), "wb") as file:
            file.write(jpeg(number % DIFFERENT))
    try:
        from array_record.python import array_record_module
    except ImportError:
        return
    os.makedirs(os.path.join(folder, ARRAYS))
    for shard in range(sizes.shards):
        path = os.path.join(folder, ARRAYS, f"part-{shard:05d}.array_record")
        writer = array_record_module.ArrayRecordWriter(path, "group_size:1,uncompressed")
        for number in range(shard, sizes.images, sizes.shards):
            writer.write(jpeg(number % DIFFERENT))
        writer.close()


def write_shards(output: str, sizes: Sizes) -> None:
    import tensorflow as tf
    from feed_data import write_dataset

    from beamfeed.contract.config.prepare import Windows
    from beamfeed.contract.dataset.fields import Field
    from beamfeed.contract.dataset.manifest import Target

    def example(number: int) -> tuple[bytes, int]:
        feature = {
            "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[jpeg(number % DIFFERENT)])),
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[number % CLASSES])),
        }
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString(), 1

    fields = [
        Field(name="image", dtype="bytes", role="input", content="image"),
        Field(name="label", dtype="int64", role="target", classes=[str(one) for one in range(CLASSES)]),
    ]
    shards = [map(example, range(index, sizes.images, sizes.shards)) for index in range(sizes.shards)]
    targets = {"label": Target(counts=[sizes.images // CLASSES] * CLASSES)}
    write_dataset(output, "image", fields, Windows(length=1), "windows", sizes.images, shards, targets)


def ours(folder: str, sizes: Sizes) -> Iterator[Any]:
    from beamfeed.contract.config.train import Train
    from beamfeed.contract.dataset.manifest import read_manifest
    from beamfeed.trainer.decode import preparation_of
    from beamfeed.trainer.feed.dataset import load_dataset
    from beamfeed.trainer.feed.options import FeedOptions

    augment = {"flip": "horizontal", "crop": CROP, "brightness": LIGHT, "contrast": LIGHT}
    train = Train.model_validate(
        {
            "model": {"name": "residual"},
            "inputs": {"image": {"size": [sizes.size] * 2, "augment": augment}},
            "workdir": "none",
        }
    )
    output = os.path.join(folder, SHARDS)
    manifest = read_manifest(output)
    preparation = preparation_of(train, manifest)
    options = FeedOptions(manifest=manifest, preparation=preparation and preparation.training)
    batches = load_dataset(output, "train", batch_size=sizes.batch, shuffle=SHUFFLE, epochs=None, options=options)
    return (fields["image"] for fields in batches)


def _examples(folder: str) -> Any:
    import tensorflow as tf

    files = tf.data.Dataset.list_files(os.path.join(folder, SHARDS, "*", "train", "*.tfrecord"))
    records = files.interleave(
        tf.data.TFRecordDataset, cycle_length=8, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )
    return records.shuffle(SHUFFLE).repeat()


def _decode(record: Any, sizes: Sizes) -> Any:
    import tensorflow as tf

    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    parsed = tf.io.parse_single_example(record, spec)
    image = tf.image.resize(tf.io.decode_jpeg(parsed["image"], 3), [sizes.size] * 2)
    return tf.ensure_shape(image, [sizes.size, sizes.size, 3]) / 255.0, parsed["label"]


def chain_one_by_one(folder: str, sizes: Sizes) -> Iterator[Any]:
    """The chain of most tutorials: each image is decoded and augmented by itself."""
    import tensorflow as tf

    def make(record: Any) -> Any:
        image, label = _decode(record, sizes)
        image = tf.image.random_flip_left_right(image)
        crop_side = tf.cast(tf.random.uniform([], CROP, 1.0) * sizes.size, tf.int32)
        image = tf.image.resize(tf.image.random_crop(image, [crop_side, crop_side, 3]), [sizes.size] * 2)
        image = tf.image.random_contrast(tf.image.random_brightness(image, LIGHT), 1 - LIGHT, 1 + LIGHT)
        return tf.clip_by_value(image, 0.0, 1.0), label

    images = _examples(folder).map(make, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
    return (image for image, _ in images.batch(sizes.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE))


def chain_of_batches(folder: str, sizes: Sizes) -> Iterator[Any]:
    """The best that we found: images are decoded one by one, and augmented a batch at a time, in few operations."""
    import tensorflow as tf

    def augment(images: Any, labels: Any) -> Any:
        batch = [sizes.batch]
        share = tf.random.uniform(batch, CROP, 1.0)
        top, left = tf.random.uniform(batch) * (1 - share), tf.random.uniform(batch) * (1 - share)
        flip = tf.random.uniform(batch) < 0.5
        right = left + share
        boxes = tf.stack([top, tf.where(flip, right, left), top + share, tf.where(flip, left, right)], 1)
        images = tf.image.crop_and_resize(images, boxes, tf.range(sizes.batch), [sizes.size] * 2)
        factor = tf.random.uniform(batch, 1 - LIGHT, 1 + LIGHT)[:, None, None, None]
        added = tf.random.uniform(batch, -LIGHT, LIGHT)[:, None, None, None]
        mean = tf.reduce_mean(images, [1, 2], keepdims=True)
        return tf.clip_by_value(images * factor + (mean * (1 - factor) + added), 0.0, 1.0), labels

    images = (
        _examples(folder)
        .map(lambda record: _decode(record, sizes), num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
        .batch(sizes.batch, drop_remainder=True)
        .map(augment, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
    )
    return (image for image, _ in images.prefetch(tf.data.AUTOTUNE))


def pillow(data: bytes, size: int, random: np.random.Generator) -> np.ndarray:
    """One image as Grain and PyTorch get it: decoded, and scaled with its crop and flip at once."""
    from PIL import Image

    image = Image.open(io.BytesIO(data)).convert("RGB")
    share = random.uniform(CROP, 1.0)
    left, top = (random.uniform(0, 1 - share) * side for side in image.size)
    box = (left, top, left + share * image.size[0], top + share * image.size[1])
    image = image.resize((size, size), Image.Resampling.BILINEAR, box=box)
    values = np.asarray(image, np.float32) / 255
    if random.random() < 0.5:
        values = values[:, ::-1]
    factor = random.uniform(1 - LIGHT, 1 + LIGHT)
    mean = values.mean((0, 1))
    return np.clip(values * np.float32(factor) + (mean * (1 - factor) + random.uniform(-LIGHT, LIGHT)), 0, 1).astype(
        "f4"
    )


def _grain(folder: str, sizes: Sizes, threads: int) -> Any:
    import grain

    arrays = os.path.join(folder, ARRAYS)
    source = grain.sources.ArrayRecordDataSource([os.path.join(arrays, name) for name in sorted(os.listdir(arrays))])
    return (
        grain.MapDataset.source(source)
        .shuffle(seed=7)
        .repeat()
        .random_map(lambda data, random: pillow(data, sizes.size, random), seed=7)
        .batch(sizes.batch, drop_remainder=True)
        .to_iter_dataset(grain.ReadOptions(num_threads=threads, prefetch_buffer_size=4))
    )


def grain_threads(folder: str, sizes: Sizes) -> Iterator[Any]:
    return iter(_grain(folder, sizes, os.cpu_count() or 1))


def grain_processes(folder: str, sizes: Sizes) -> Iterator[Any]:
    import grain

    options = grain.MultiprocessingOptions(num_workers=os.cpu_count() or 1)
    return iter(_grain(folder, sizes, 1).mp_prefetch(options))


def torch_loader(folder: str, sizes: Sizes) -> Iterator[Any]:
    """PyTorch's DataLoader on files, with a worker process for each core."""
    import torch

    files = os.path.join(folder, FILES)
    paths = [os.path.join(files, name) for name in sorted(os.listdir(files))]

    class Files(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(paths)

        def __getitem__(self, place: int) -> Any:
            with open(paths[place], "rb") as file:
                return torch.from_numpy(pillow(file.read(), sizes.size, np.random.default_rng()))

    loader = torch.utils.data.DataLoader(
        Files(), sizes.batch, shuffle=True, num_workers=os.cpu_count() or 1, drop_last=True, persistent_workers=True
    )
    while True:
        yield from loader


READERS: dict[str, Callable[[str, Sizes], Iterator[Any]]] = {
    OURS: ours,
    "tf.data, augmented one by one": chain_one_by_one,
    "tf.data, augmented in batches": chain_of_batches,
    "Grain, threads": grain_threads,
    "Grain, processes": grain_processes,
    "PyTorch DataLoader": torch_loader,
}


def _child(args: argparse.Namespace) -> None:
    sizes = Sizes(args.images, args.size, args.batch)
    if args.child == turns.INPUTS:
        write_inputs(args.folder, sizes)
        return
    turns.leave(turns.rate(READERS[args.child](args.folder, sizes), args.seconds), args.folder)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--size", type=int, default=224, help="pixels of each side that a model gets")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=6.0, help="measured in each turn, after half of it to warm up")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(READERS), choices=list(READERS), metavar="NAME")
    parser.add_argument("--json", help="file to write to")
    turns.add_child_options(parser)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    if args.child:
        _child(args)
        return
    names = turns.installed([OURS, *(name for name in args.only if name != OURS)], NEEDS)
    options = {option: getattr(args, option) for option in ("images", "size", "batch", "seconds")}
    with tempfile.TemporaryDirectory(prefix="beamfeed-images-") as folder:
        turns.run_child(__file__, turns.INPUTS, folder, options)
        result = turns.compare(names, lambda name: turns.turn(__file__, name, folder, options), args.repeats)
    turns.add_ratio(result, OURS)
    measured = {"side": SIDE, "size": args.size, "batch": args.batch, "results": result}
    print(json.dumps(measured, indent=1))
    turns.write_json(measured, args.json)


if __name__ == "__main__":
    main()
