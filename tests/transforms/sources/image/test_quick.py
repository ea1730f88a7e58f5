"""JPEGs that are not decoded: whatever happens to their bytes, those that pass can be decoded by who reads them."""

import random
from io import BytesIO

import numpy as np
import pytest
import tensorflow as tf
from albums import encoded, picture
from PIL import Image

from beamfeed.contract.config.sources.image import Store
from beamfeed.transforms.sources.image import picture as module
from beamfeed.transforms.sources.image.header import BadImage
from beamfeed.transforms.sources.image.picture import decoded_picture, make_picture, quick_picture

MOST = 10**7
WAYS = (
    {}, {"optimize": True}, {"restart_marker_rows": 1}, {"restart_marker_blocks": 3}, {"subsampling": 0},
    {"quality": 15}, {"progressive": True}, {"mode": "L"}, {"mode": "CMYK"}, {"exif": True}, {"icc_profile": b"p" * 90},
    {"comment": b"by hand"}, {"words": b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x01"},
    {"words": b"\xff\xed\x00\x1aPhotoshop 3.0\x008BIM\x04\x04\x00\x00\x00\x00"},
)  # fmt: skip
OF_PIXELS = ("mode", "words", "exif")


def jpegs():
    rng = np.random.default_rng(3)
    pixels = np.clip(np.cumsum(rng.normal(0, 9, (50, 70, 3)), 1) + 128, 0, 255).astype("u1")
    for way in WAYS:
        target = BytesIO()
        options = {name: value for name, value in way.items() if name not in OF_PIXELS}
        if "exif" in way:
            options["exif"] = Image.Exif()
            options["exif"][0x0112] = 1
        Image.fromarray(pixels).convert(way.get("mode", "RGB")).save(target, "JPEG", **options)
        data = target.getvalue()
        yield data[:20] + way.get("words", b"") + data[20:]


def spoiled(data: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, left out, put in, or cut off; more often in what stands before the pixels."""
    found = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 3, 8])):
        at = chance.randrange(min(len(found), 700 if chance.random() < 0.5 else len(found)))
        match chance.randrange(6):
            case 0:
                found[at] = chance.randrange(256)
            case 1:
                found[at] ^= 1 << chance.randrange(8)
            case 2:
                del found[at : at + chance.randrange(1, 50)]
            case 3:
                found[at:at] = chance.randbytes(chance.randrange(1, 20))
            case 4:
                found = found[: at + 1] + (b"\xff\xd9" if chance.random() < 0.5 else b"")
            case 5:
                found[at : at + 2] = bytes((255, chance.randrange(256)))
        if len(found) < 10:
            break
    return bytes(found)


def test_what_passes_unread_is_what_decoders_take():
    @tf.function(autograph=False, input_signature=[tf.TensorSpec([], tf.string)])
    def size(data):
        return tf.shape(tf.io.decode_jpeg(data, channels=3))

    chance, known, passed = random.Random(5), list(jpegs()), 0
    for _ in range(3000):
        data = spoiled(chance.choice(known), chance)
        try:
            found = quick_picture(data, Store(), MOST)
        except BadImage:
            continue
        if found is None:
            try:
                found = decoded_picture(data, Store(), MOST)
            except BadImage:
                continue
            if not found.is_original:
                continue
        else:
            passed += 1
            assert decoded_picture(data, Store(), MOST) == found  # raises where Pillow does not take it
        assert size(tf.constant(data)).numpy().tolist() == [found.height, found.width, 3]
    assert passed > 600


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_those_of_one_scan_pass_unread(way, monkeypatch):
    (data,) = (data for data, one in zip(jpegs(), WAYS, strict=True) if one == way)
    found = quick_picture(data, Store(), MOST)
    assert (found is None) == ("progressive" in way or way.get("mode") == "CMYK" or b"Photoshop" in str(way).encode())
    if found:
        module._decodes.cache_clear()
        monkeypatch.setattr(module, "_check", None)  # is what decodes the pixels
        assert quick_picture(data, Store(), MOST) == found
        assert found.data == data
        assert quick_picture(data, Store(format="png"), MOST) is None


def test_one_that_is_cut_off_does_not_pass_wherever_it_is_cut():
    (data, *_) = jpegs()
    for end in range(3, len(data) - 2):
        with pytest.raises(BadImage):
            make_picture(data[:end], Store(), MOST)


def test_a_turned_one_is_not_left_as_it_is():
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = encoded(picture(20, 30), "JPEG", exif=exif)
    assert quick_picture(turned, Store(), MOST) is None
    exif[0x0112] = 1
    upright = encoded(picture(20, 30), "JPEG", exif=exif)
    assert quick_picture(upright, Store(), MOST).data == upright


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("sampling", [(0x31, 0x21, 0x21), (0x41, 0x31, 0x31), (0x13, 0x12, 0x12)])
def test_colours_that_no_decoder_can_put_together_are_set_aside(sampling, progressive):
    data = bytearray(encoded(picture(64, 64), "JPEG", progressive=progressive, subsampling=0))
    frame = data.index(b"\xff\xc2" if progressive else b"\xff\xc0")
    for component, one in enumerate(sampling):
        data[frame + 11 + 3 * component] = one
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.io.decode_jpeg(bytes(data), channels=3)
    with pytest.raises(BadImage):
        make_picture(bytes(data), Store(), MOST)
