"""Every stored image decodes in TensorFlow to the upright picture of 8 bits that Pillow shows."""

import io
import random
import re
import struct
import zlib

import numpy as np
import pytest
import tensorflow as tf
from albums import TURNS, encoded, picture, pixels, png, turned
from PIL import Image

from beamfeed.contract.config.sources.image import Store
from beamfeed.transforms.sources.image import picture as picture_module
from beamfeed.transforms.sources.image.header import MOST_SCANS, BadImage, Header, read_header
from beamfeed.transforms.sources.image.picture import make_picture

ORIGINAL = Store()
MOST = 10_000_000


def shown(image: Image.Image, turn: int = 1) -> np.ndarray:
    """The image as a viewer shows it on a white page, uint8 [height, width, 1 or 3]; by Pillow's own steps."""
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) // 256).astype(np.uint8))
    gray = image.mode in ("1", "L", "LA")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        page = Image.new("RGBA", image.size, (255, 255, 255, 255))
        page.alpha_composite(image)
        image = page
    image = image.convert("L" if gray else "RGB")
    found = np.asarray(image.transpose(TURNS[turn]) if turn > 1 else image)
    return found[..., None] if gray else found


def check(data: bytes, *, kept: bool, turn: int = 1) -> None:
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        expected = shown(image, turn)
    found = make_picture(data, ORIGINAL, MOST)
    assert found.is_original == kept
    assert (found.data == data) == kept
    assert (found.height, found.width) == expected.shape[:2]
    decoded = tf.io.decode_image(found.data, expand_animations=False).numpy()
    if kept and data.startswith(b"\xff\xd8"):
        # TensorFlow's own choice is a faster transform, which is off by some levels.
        assert abs(decoded.astype(int) - expected).max() <= 12
        decoded = tf.io.decode_jpeg(found.data, dct_method="INTEGER_ACCURATE").numpy()
    np.testing.assert_array_equal(decoded, expected)


KEPT = {
    "a jpeg": encoded(picture(), "JPEG"),
    "a gray jpeg": encoded(picture(mode="L"), "JPEG"),
    "a progressive jpeg": encoded(picture(), "JPEG", progressive=True),
    "a jpeg without subsampling": encoded(picture(), "JPEG", subsampling=0, quality=98),
    "a jpeg with restarts": encoded(picture(), "JPEG", restart_marker_rows=1),
    "a jpeg in rgb": encoded(picture(), "JPEG", keep_rgb=True),
    "a jpeg with an upright tag": turned(picture(), 1),
    "a jpeg with a broken tag": encoded(picture(), "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x09"),
    "a jpeg with more behind it": encoded(picture(), "JPEG") + b"\0" * 40 + b"more",
    "a png": encoded(picture(), "PNG"),
    "a gray png": encoded(picture(mode="L"), "PNG"),
    "a png with a palette": encoded(picture().quantize(40), "PNG"),
    "a small palette in 8 bits": encoded(picture().quantize(3), "PNG", bits=8),
    "a png with a profile": encoded(picture(), "PNG", icc_profile=b"not really a profile", dpi=(72, 72)),
    "a bmp": encoded(picture(), "BMP"),
}


@pytest.mark.parametrize("data", KEPT.values(), ids=KEPT)
def test_bytes_that_tensorflow_shows_alike_stay_as_they_are(data):
    check(data, kept=True)


def gray_16() -> Image.Image:
    return Image.fromarray((pixels(21, 30, 1)[..., 0].astype(np.uint16) << 8) + 77)


def transparent_gif() -> bytes:
    image = picture().quantize(20)
    return encoded(image, "GIF", transparency=3)


def two_frames(format_: str) -> bytes:
    return encoded(picture(), format_, save_all=True, append_images=[picture(seed=1), picture(seed=2)])


MADE = {
    "a cmyk jpeg": encoded(picture(mode="CMYK"), "JPEG"),
    "a webp": encoded(picture(), "WEBP"),
    "a webp without loss": encoded(picture(), "WEBP", lossless=True),
    "a transparent webp": encoded(picture(mode="RGBA"), "WEBP", lossless=True),
    "a webp of frames": two_frames("WEBP"),
    "a gif": encoded(picture(), "GIF"),
    "a gray gif": encoded(picture(mode="L"), "GIF"),
    "a transparent gif": transparent_gif(),
    "a gif of frames": two_frames("GIF"),
    "a png of frames": two_frames("PNG"),
    "a transparent png": encoded(picture(mode="RGBA"), "PNG"),
    "a transparent gray png": encoded(picture(mode="LA"), "PNG"),
    "a png with a transparent colour": png(
        2, 2, 8, 2, b"\0" + bytes(range(6)) + b"\0" + bytes(range(6, 12)), (b"tRNS", struct.pack(">HHH", 0, 1, 2))
    ),
    "a palette with a transparent colour": encoded(picture().quantize(20), "PNG", transparency=2),
    "a png of 16 bits": encoded(gray_16(), "PNG"),
    "a png in colour of 16 bits": png(1, 2, 16, 2, b"\0" + bytes(range(12))),
    "a png of 1 bit": encoded(picture(mode="L").convert("1"), "PNG"),
    "a png of 4 bits": png(2, 4, 4, 0, b"\0\x01\x23\0\x4f\xa7"),
    "a palette of 2 bits": encoded(picture().quantize(4), "PNG", bits=2),
    "a bmp with a palette": encoded(picture().quantize(20), "BMP"),
    "a gray bmp": encoded(picture(mode="L"), "BMP"),
    "a bmp of 32 bits": encoded(picture(mode="RGBA"), "BMP"),
}  # fmt: skip


@pytest.mark.parametrize("data", MADE.values(), ids=MADE)
def test_others_are_encoded_without_loss(data):
    check(data, kept=False)


@pytest.mark.parametrize("format_", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("turn", TURNS)
def test_a_turned_image_is_stored_upright(format_, turn):
    check(turned(picture(), turn, format_), kept=False, turn=turn)


def test_a_jpeg_without_its_last_mark_is_encoded_anew():
    check(encoded(picture(), "JPEG")[:-2], kept=False)


def test_a_name_says_nothing():
    assert read_header(encoded(picture(), "PNG")).format == "png"


JPEG, PNG = encoded(picture(200, 300), "JPEG"), encoded(picture(), "PNG")


def spoiled(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def bomb(format_: str) -> bytes:
    """A header that tells of far more pixels than there are."""
    if format_ == "png":
        return png(60_000, 60_000, 8, 2, b"\0" * 100)
    at = JPEG.index(b"\xff\xc0")
    return JPEG[: at + 5] + struct.pack(">HH", 60_000, 60_000) + JPEG[at + 9 :]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "file: is empty"),
        (b"\0" * 500, "header: begins with zeros"),
        (b"<!DOCTYPE html><html>404</html>", "header: is HTML"),
        (b"\xef\xbb\xbf\n <html>", "header: is HTML"),
        (b'{"error": 404}', "header: is JSON"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "header: is an SVG"),
        (b"II*\0\x08\0\0\0", "header: is a TIFF; JPEG, PNG"),
        (b"\0\0\0\x18ftypheic\0\0", "header: is a HEIC"),
        (b"just text", "header: is not a known image format; it begins with 'just text'"),
        (b"version https://git-lfs.github.com/spec/v1", "header: is a pointer of Git LFS"),
        (JPEG[:10], "header: ends before its pixels"),
        (JPEG[: JPEG.index(b"\xff\xc0") + 5], "header: is cut off"),
        (JPEG[: len(JPEG) // 2], "pixels: cannot be decoded: image file is truncated"),
        (JPEG[:2] + b"\xff\xd9", "header: ends before its pixels"),
        (PNG[:30], "pixels: cannot be decoded"),
        (PNG[: len(PNG) // 2], "pixels: cannot be decoded"),
        (spoiled(PNG, len(PNG) // 2), "chunk IDAT: is damaged"),
        (encoded(picture(), "GIF")[:60], "cut off|cannot be decoded"),
        (encoded(picture(), "WEBP")[:60], "pixels: cannot be decoded"),
        (encoded(picture(), "BMP")[:90], "pixels: cannot be decoded"),
        (bomb("png"), "header: 60,000 x 60,000 are 3,600,000,000 pixels; source.max_pixels is 10,000,000"),
        (bomb("jpeg"), "header: 60,000 x 60,000 are 3,600,000,000 pixels"),
        (png(0, 5, 8, 0, b""), "header: has 5 x 0 pixels"),
    ],
)
def test_what_is_no_image_is_told(data, told):
    with pytest.raises(BadImage) as caught:
        make_picture(data, ORIGINAL, MOST)
    assert re.search(told, f"{caught.value.place}: {caught.value.reason}")


WHOLE = {
    "jpeg": encoded(picture(40, 50), "JPEG"),
    "gray": encoded(picture(40, 50, "L"), "JPEG"),
    "progressive": encoded(picture(40, 50), "JPEG", progressive=True),
    "restarts": encoded(picture(40, 50), "JPEG", restart_marker_rows=1),
    "turned": turned(picture(40, 50), 6),
    "cmyk": encoded(picture(40, 50, "CMYK"), "JPEG"),
    "png": encoded(picture(40, 50), "PNG"),
    "palette": encoded(picture(40, 50).quantize(30), "PNG"),
    "webp": encoded(picture(40, 50), "WEBP"),
    "gif": encoded(picture(40, 50), "GIF"),
    "bmp": encoded(picture(40, 50), "BMP"),
}
MANY = 2500


def damaged(whole: bytes, chance: random.Random) -> bytes:
    """The bytes of a file with some changed, cut out, or doubled; more often at its beginning."""
    data = bytearray(whole)
    for _ in range(chance.choice([1, 1, 1, 3])):
        at, size = chance.randrange(len(data)), chance.randrange(1, 12)
        at = chance.randrange(min(len(data), 400)) if chance.random() < 0.4 else at
        match chance.randrange(4):
            case 0:
                data[at : at + size] = chance.randbytes(size)
            case 1:
                del data[at : at + size]
            case 2:
                data[at:at] = data[at : at + size]
            case 3:
                data[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
    return bytes(data)


@pytest.mark.parametrize("count", [100, pytest.param(MANY, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", WHOLE)
def test_damaged_bytes_are_refused_or_are_what_tensorflow_shows(name, count):
    """No other error, and never a record that TensorFlow cannot read, or shows as another picture than Pillow."""
    chance = random.Random(name)
    for _ in range(count):
        data = damaged(WHOLE[name], chance)
        try:
            found = make_picture(data, ORIGINAL, MOST)
        except BadImage:
            continue
        if found.data.startswith(b"\xff\xd8"):
            decoded = tf.io.decode_jpeg(found.data, dct_method="INTEGER_ACCURATE").numpy()
        else:
            decoded = tf.io.decode_image(found.data, expand_animations=False).numpy()
        assert decoded.shape[:2] == (found.height, found.width)
        with Image.open(io.BytesIO(found.data)) as image:
            shown = np.asarray(image.convert("L" if decoded.shape[2] == 1 else "RGB"))
        np.testing.assert_array_equal(decoded, shown.reshape(decoded.shape))


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def second_size(format_: str) -> bytes:
    """A file that first tells of 10 x 10 pixels, and then of 3,000 x 3,000."""
    if format_ == "jpeg":
        large, small = encoded(picture().resize((3000, 3000)), "JPEG"), encoded(picture(10, 10), "JPEG")
        at, first = large.index(b"\xff\xc0"), small.index(b"\xff\xc0")
        size = 2 + int.from_bytes(small[first + 2 : first + 4], "big")
        return large[:at] + small[first : first + size] + large[at:]
    data = png(3000, 3000, 8, 0, b"\0" * 3001 * 3000)
    return data[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 10, 10, 8, 0, 0, 0, 0)) + data[8:]


@pytest.mark.parametrize(("format_", "told"), [("png", "has two chunks IHDR, each"), ("jpeg", "has two frames, each")])
def test_a_second_size_does_not_get_past_the_most_pixels(format_, told):
    with pytest.raises(BadImage, match=told):
        make_picture(second_size(format_), ORIGINAL, 1000)


def test_a_jpeg_of_more_scans_than_anybody_writes_is_refused():
    """Each goes over all pixels: a file of a megabyte could keep a worker for hours."""
    data = encoded(picture(), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    scans = data.count(b"\xff\xda")
    assert make_picture(data[:-2] + data[last:-2] * (MOST_SCANS - scans) + data[-2:], ORIGINAL, MOST).is_original
    with pytest.raises(BadImage, match="has more than 100 scans"):
        make_picture(data[:-2] + data[last:-2] * (MOST_SCANS - scans + 1) + data[-2:], ORIGINAL, MOST)


def test_a_chunk_before_that_of_the_size_is_refused():
    data = png(1, 1, 8, 0, b"\0\x07")
    with pytest.raises(BadImage, match="does not begin with the chunk IHDR"):
        make_picture(data[:8] + chunk(b"tEXt", b"a\0b") + data[8:], ORIGINAL, MOST)


def test_nothing_is_decoded_where_pillow_finds_another_size(monkeypatch):
    monkeypatch.setattr(picture_module, "read_header", lambda data: Header("png", 10, 10, plain=True, tagged=False))
    with pytest.raises(BadImage, match="10 x 10 pixels, and for Pillow 30 x 20"):
        make_picture(encoded(picture(20, 30), "PNG"), ORIGINAL, 1000)


def test_sizes():
    data = encoded(picture(400, 600), "JPEG", quality=95)

    def size(**store):
        found = make_picture(data, Store(**store), MOST)
        assert (found.width, found.height, found.is_original) == (600, 400, False)
        if store["format"] == "raw":
            return len(found.data)
        with Image.open(io.BytesIO(found.data)) as image:
            return image.format, image.height, image.width, image.mode

    assert size(format="jpeg", size=100) == ("JPEG", 100, 150, "RGB")
    assert size(format="png", size=1000) == ("PNG", 400, 600, "RGB")  # none is made larger
    assert size(format="jpeg", size=(30, 20)) == ("JPEG", 30, 20, "RGB")
    assert size(format="png", size=(30, 20), fit="pad", channels=1) == ("PNG", 30, 20, "L")
    assert size(format="jpeg") == ("JPEG", 400, 600, "RGB")
    assert size(format="raw", size=(30, 20)) == 30 * 20 * 3
    assert size(format="raw", size=(30, 20), channels=1) == 30 * 20


def raw(data: bytes, **store) -> np.ndarray:
    how = Store(format="raw", **store)
    found = np.frombuffer(make_picture(data, how, MOST).data, np.uint8)
    return found.reshape(*how.size, how.channels or 3)


def test_raw_pixels_are_those_of_the_image():
    image = picture(20, 30)
    np.testing.assert_array_equal(raw(encoded(image, "PNG"), size=(20, 30)), np.asarray(image))
    gray = raw(encoded(picture(20, 30, "L"), "PNG"), size=(20, 30))
    np.testing.assert_array_equal(gray, np.repeat(np.asarray(picture(20, 30, "L"))[..., None], 3, -1))
    np.testing.assert_array_equal(raw(turned(image, 6, "PNG"), size=(30, 20)), np.asarray(image.transpose(TURNS[6])))


def test_fits():
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 200
    data = encoded(Image.fromarray(wide), "PNG")
    assert (raw(data, size=(10, 10)) == 200).all()  # the middle
    padded = raw(data, size=(30, 30), fit="pad")
    assert not padded[:10].any()
    assert not padded[20:].any()
    np.testing.assert_array_equal(padded[10:20], wide)
    stretched = raw(data, size=(10, 15), fit="stretch")
    assert (stretched[:, 7] == 200).all()
    assert not stretched[:, 0].any()


def test_a_large_jpeg_made_small_is_close_to_what_all_its_pixels_give():
    image = picture(20, 30).resize((1203, 801), Image.Resampling.BICUBIC)
    data = encoded(image, "JPEG", quality=95)
    with Image.open(io.BytesIO(data)) as decoded:
        expected = np.asarray(decoded.convert("RGB").resize((60, 40), Image.Resampling.BICUBIC)).astype(int)
    assert abs(raw(data, size=(40, 60), fit="stretch").astype(int) - expected).mean() < 2


def test_a_png_with_a_damaged_text_is_refused_as_pillow_does():
    data = png(1, 1, 8, 0, b"\0\x07", (b"tEXt", b"a\0b"))
    at = data.index(b"tEXt")
    check(data, kept=True)
    with pytest.raises(BadImage, match="cannot be decoded"):
        make_picture(spoiled(data, at + 6), ORIGINAL, MOST)
