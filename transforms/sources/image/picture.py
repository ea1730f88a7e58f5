"""The bytes of a file -> what a record holds of the image: pure, with Pillow.

Whatever the file holds becomes an upright picture of 8 bits, gray or RGB. Bytes that TensorFlow shows as just that
stay as they are, so that nothing is lost and nothing is encoded.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO

import numpy as np
from PIL import ExifTags, Image, ImageOps
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from beamfeed.contract.config.sources.image import Store
from beamfeed.transforms.sources.image.header import JPEG, BadImage, Format, Header, read_header

# The readers are called by their names: each file is of one format, which its bytes say, and its size is known before.
_READERS: dict[Format, type[ImageFile]] = {
    "jpeg": JpegImageFile, "png": PngImageFile, "gif": GifImageFile, "bmp": BmpImageFile, "webp": WebPImageFile,
}  # fmt: skip
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip
_PNG_LEVEL = 3  # of zlib: of higher ones the time grows faster than the size falls
_DRAFT = 2  # times the wanted size that a JPEG is decoded at least at, before it is made smaller

warnings.filterwarnings("ignore", module=r"PIL\.")  # of odd tags, which nothing hangs on


@dataclass(frozen=True)
class Picture:
    """What a record holds of an image.

    Attributes:
      data: encoded, or of format raw uint8 [height, width, channels] in row-major order.
      format: of the file.
      width, height: of the upright image in the file.
      is_original: whether `data` are the file's bytes.
    """

    data: bytes
    format: Format
    width: int
    height: int
    is_original: bool


def make_picture(data: bytes, store: Store, max_pixels: int) -> Picture:
    """Looks at the bytes of a file, all of them, and gives what a record holds.

    Raises:
      BadImage: if they are no image, or a broken one, or have too many pixels.
    """
    return quick_picture(data, store, max_pixels) or decoded_picture(data, store, max_pixels)


def decoded_picture(data: bytes, store: Store, max_pixels: int) -> Picture:
    """The same, and all pixels are decoded."""
    header = _header(data, max_pixels)
    with _broken_bytes():
        image = _open(data, header)
        turn = _turn(image) if header.tagged else 1
        width, height = (header.height, header.width) if turn >= 5 else (header.width, header.height)
        if store.format == "original" and header.plain and turn == 1:
            _check(image)
            return Picture(data, header.format, width, height, is_original=True)
        encoded = _encode(_to_size(_upright(image, turn, store), store), store)
        return Picture(encoded, header.format, width, height, is_original=False)


def quick_picture(data: bytes, store: Store, max_pixels: int) -> Picture | None:
    """The same where no pixels have to be decoded for it; else None.

    These are JPEGs whose bytes stay as they are, and of which no pixels can make a decoder fail.

    Raises:
      BadImage: if the header says that it cannot be used.
    """
    if store.format != "original" or data[:3] != JPEG:
        return None
    header = _header(data, max_pixels)
    if not header.tables or not _decodes(header.tables):
        return None
    if header.tagged:
        with _broken_bytes():
            if _turn(_open(data, header)) != 1:
                return None
    return Picture(data, header.format, header.width, header.height, is_original=True)


def _header(data: bytes, max_pixels: int) -> Header:
    header = read_header(data)
    pixels = header.width * header.height
    if pixels > max_pixels:
        sizes = f"{header.width:,} x {header.height:,} are {pixels:,} pixels; source.max_pixels is {max_pixels:,}"
        raise BadImage("header", sizes)
    return header


def _open(data: bytes, header: Header) -> ImageFile:
    """The image, of which nothing is decoded yet."""
    image = _READERS[header.format](BytesIO(data))
    if image.size != (header.width, header.height):
        sizes = f"{header.width:,} x {header.height:,} pixels, and for Pillow {image.width:,} x {image.height:,}"
        raise BadImage("header", f"tells of {sizes}")
    return image


@contextmanager
def _broken_bytes() -> Iterator[None]:
    """Raises BadImage of whatever broken bytes make a decoder raise."""
    try:
        yield
    except (BadImage, MemoryError):  # memory is the machine's, as the size is known
        raise
    except Exception as error:
        message = " ".join(str(error).split())[:200] or type(error).__name__
        raise BadImage("pixels", f"cannot be decoded: {message}") from None


@lru_cache(maxsize=1024)
def _decodes(tables: bytes) -> bool:
    """Whether an image without pixels can be decoded, in full: most cameras and programs write ever the same tables."""
    try:
        JpegImageFile(BytesIO(tables)).load()
    except MemoryError:
        raise
    except Exception:
        return False
    return True


def _check(image: ImageFile) -> None:
    """Decodes an image whose bytes stay: of a JPEG all its bits, of which only a gray one of an eighth is made.

    Not of one whose colours do not lie evenly between the grays: there are some that no decoder can put together.
    """
    if isinstance(image, JpegImageFile):
        wide, high = (max(layer[place] for layer in image.layer) for place in (1, 2))
        if all(wide % layer[1] == 0 and high % layer[2] == 0 for layer in image.layer):
            image.draft("L", (1, 1))
    image.load()


def _turn(image: ImageFile) -> int:
    """How an image is to be turned, from 1 (not at all) to 8, as EXIF numbers it; broken tags say nothing."""
    try:
        turn = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # as viewers do
        return 1
    return turn if turn in _TURNS else 1


def _upright(image: ImageFile, turn: int, store: Store) -> Image.Image:
    """The image as it is to be seen, of mode L or RGB."""
    if image.format == "JPEG" and store.size is not None:
        high, wide = store.size if isinstance(store.size, tuple) else (store.size, store.size)
        wide, high = (high, wide) if turn >= 5 else (wide, high)
        image.draft(None, (_DRAFT * wide, _DRAFT * high))
    image.load()
    upright = to_8_bits(image)
    upright = upright.transpose(_TURNS[turn]) if turn > 1 else upright
    channels = store.channels or (3 if store.format == "raw" else None)
    return upright if channels is None else upright.convert("L" if channels == 1 else "RGB")


def to_8_bits(image: Image.Image) -> Image.Image:
    """An image of any mode as one of mode L or RGB: of 16 bits the upper 8; what is transparent lies on white."""
    if image.mode == "I" or image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
    gray = image.mode in ("1", "L", "LA", "La")
    if image.has_transparency_data:
        over = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", over.size, "white"), over)
    return image if image.mode in ("L", "RGB") else image.convert("L" if gray else "RGB")


def _to_size(image: Image.Image, store: Store) -> Image.Image:
    filter_ = Image.Resampling.BICUBIC  # over all pixels that become one
    match store.size:
        case None:
            return image
        case int() as shorter:
            share = shorter / min(image.size)
            size = max(1, round(image.width * share)), max(1, round(image.height * share))
            return image if share >= 1 else image.resize(size, filter_)
        case (height, width):
            if store.fit == "stretch":
                return image.resize((width, height), filter_)
            fit = ImageOps.fit if store.fit == "crop" else ImageOps.pad
            return fit(image, (width, height), filter_)


def _encode(image: Image.Image, store: Store) -> bytes:
    if store.format == "raw":
        return image.tobytes()
    image.info.clear()  # profiles and the like, which nobody reads
    target = BytesIO()
    if store.format == "jpeg":
        image.save(target, "JPEG", quality=store.quality)
    else:
        image.save(target, "PNG", compress_level=_PNG_LEVEL)
    return target.getvalue()
