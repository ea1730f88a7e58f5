"""What the bytes of an image say before it is decoded: its format, its size, and whether they can stay as they are.

Formats: JPEG (ITU-T T.81, annex B), PNG (W3C, third edition), GIF89a, BMP (Windows), WebP (RFC 9649).
"""

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

JPEG = b"\xff\xd8\xff"  # begins one
Format = Literal["jpeg", "png", "gif", "bmp", "webp"]


class BadImage(Exception):
    """An image that cannot be used: where, and why."""

    def __init__(self, place: str, reason: str):
        super().__init__(place, reason)
        self.place, self.reason = place, reason


@dataclass(frozen=True)
class Header:
    """What is known of an image.

    Attributes:
      format: of the file, whatever its name says.
      width, height: pixels, before the image is turned.
      plain: whether TensorFlow shows these bytes as Pillow does, but for what `tagged` says.
      tagged: whether there is a tag that may say that the image is to be turned.
      tables: of a JPEG whose pixels cannot be broken so that a decoder stops, see `_tables`; else empty.
    """

    format: Format
    width: int
    height: int
    plain: bool
    tagged: bool
    tables: bytes = b""


def read_header(data: bytes) -> Header:
    """Reads the header of a file.

    Raises:
      BadImage: if it is no image of a format that is read, or broken already here.
    """
    format_ = _format(data)
    try:
        header = _READERS[format_](data)
    except (struct.error, IndexError):
        raise BadImage("header", f"is cut off: a {format_.upper()} of {len(data):,} bytes") from None
    if not header.width or not header.height:
        raise BadImage("header", f"has {header.width:,} x {header.height:,} pixels")
    return header


_BEGINNINGS: tuple[tuple[bytes, Format], ...] = (
    (JPEG, "jpeg"),
    (rb"\x89PNG\r\n\x1a\n", "png"),
    (rb"GIF8[79]a", "gif"),
    (rb"RIFF.{4}WEBP", "webp"),
    (rb"BM.{12}[\x0c\x10\x28\x34\x38\x40\x6c\x7c]\0{3}.", "bmp"),  # with a header of one of these sizes
)
# Of what is met in place of images: how a file begins, and what it is.
_OTHERS = (
    (rb"(?:II\*\0|MM\0\*)", "is a TIFF"),
    (rb"....ftyp(?:heic|heix|mif1|msf1)", "is a HEIC"),
    (rb"....ftypavi[fs]", "is an AVIF"),
    (rb"\xff\x0a|\0\0\0\x0cJXL ", "is a JPEG XL"),
    (rb"\0\0\0\x0cjP  ", "is a JPEG 2000"),
    (rb"%PDF", "is a PDF"),
    (rb"\s*<svg|\s*<\?xml[^>]*>\s*(?:<!--.*?-->\s*)?<svg", "is an SVG"),
    (rb"\s*(?:<!--.*?-->\s*)?<(?:!doctype html|html|head|body)", "is HTML: a page of a server, not an image"),
    (rb"\s*<\?xml", "is XML"),
    (rb"\s*[{\[]\s*[\"{]", "is JSON"),
    (rb"version https://git-lfs", "is a pointer of Git LFS, not the image"),
)


def _format(data: bytes) -> Format:
    for beginning, image_format in _BEGINNINGS:
        if re.match(beginning, data, re.DOTALL):
            return image_format
    if not data:
        raise BadImage("file", "is empty")
    start = data[:512].removeprefix(b"\xef\xbb\xbf")
    for pattern, format_name in _OTHERS:
        if re.match(pattern, start, re.IGNORECASE | re.DOTALL):
            raise BadImage("header", f"{format_name}; JPEG, PNG, WebP, BMP and GIF are read")
    if not any(start):
        raise BadImage("header", "begins with zeros")
    begins = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in start[:12])
    raise BadImage("header", f"is not a known image format; it begins with {begins!r}")


_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # markers of a frame, which has the size
_START_OF_SCAN, _END, _APP1 = 0xDA, 0xD9, 0xE1
_MOST_SIDE = 65_500  # of libjpeg
MOST_SCANS = 100  # each goes over all pixels, and may take no bytes; progressive ones have about 10
_SIDES = struct.pack(">HH", 16, 16)
# A marker with a segment behind it, or the end: no fill byte, and nothing that stands among the bits of pixels.
_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd8\xff]")
# The same among the pixels of a scan, where what begins the next interval may stand if there are intervals.
_IN_PIXELS, _IN_INTERVALS = re.compile(rb"\xff[^\x00]"), re.compile(rb"\xff[^\x00\xd0-\xd7]")
_TABLES = frozenset((0xC4, 0xDB, 0xDD))  # of codes, of steps, and how long intervals are
_INTERVAL = 0xDD
_NEVER = 1 << 16  # no segment is as long
# What programs and people wrote, and how long it must be for Pillow not to read beyond its end; Photoshop's has parts.
_WORDS = dict.fromkeys((*range(0xE0, 0xF0), 0xFE), 2) | {0xE0: 16, 0xE2: 18, 0xED: _NEVER, 0xEE: 14}


def _segments(data: bytes) -> Iterator[tuple[int, int]]:
    """The markers of a JPEG, each with the place behind it, up to the mark of its end or to that of the bytes."""
    at = 2
    while match := _MARKER.search(data, at):
        at = match.end()
        yield data[at - 1], at
        if data[at - 1] == _END:
            return
        at += max(2, int.from_bytes(data[at : at + 2], "big"))


def _jpeg(data: bytes) -> Header:
    frame, tagged, scans, has_end, before = None, False, 0, False, list[tuple[int, int]]()
    for marker, at in _segments(data):
        if marker in _FRAMES and not scans:
            if frame is not None:
                raise BadImage("header", "has two frames, each with a size")
            frame = marker, *struct.unpack_from(">BHHB", data, at + 2)
        if not scans:
            before.append((marker, at))
        tagged |= marker == _APP1  # EXIF or XMP
        scans += marker == _START_OF_SCAN
        if scans > MOST_SCANS:
            raise BadImage("header", f"has more than {MOST_SCANS} scans, each over all its pixels")
        has_end = marker == _END
        if (
            marker == _START_OF_SCAN
            and scans == 1
            and frame is not None
            and (tables := _tables(data, before, frame[0]))
        ):
            return Header("jpeg", frame[3], frame[2], True, tagged, tables)
    if not scans:
        raise BadImage("header", "ends before its pixels")
    if frame is None:
        raise BadImage("header", "has no frame before its pixels")
    kind, precision, height, width, components = frame
    # Baseline, extended or progressive, by Huffman. TensorFlow reads on to the mark at the end; Pillow can do without.
    plain = has_end and kind in (0xC0, 0xC1, 0xC2) and precision == 8 and components in (1, 3)
    return Header("jpeg", width, height, plain, tagged)


def _tables(data: bytes, segments: list[tuple[int, int]], kind: int) -> bytes:
    """What decides whether a JPEG of one scan can be decoded; empty where more than that would have to be known.

    Where the pixels of all components stand in one scan, by Huffman and not progressively, each run of bits stands for
    some pixels: a decoder (libjpeg, of Pillow and of TensorFlow) takes what makes no sense as gray, and goes on. It can
    fail of what stands before, and of a marker among them. So where the end follows the pixels, this is left: an image
    of the same tables, with sides of 16, and no pixels.

    Args:
      data: of the file.
      segments: up to the first scan.
      kind: the marker of the frame.
    """
    parts, next_, one_scan, intervals, components = [b"\xff\xd8"], 2, kind in (0xC0, 0xC1), False, 0
    for marker, at in segments:
        size = int.from_bytes(data[at : at + 2], "big")
        one_scan &= at == next_ + 2 and size >= 2
        next_, body = at + size, data[at : at + size]
        if marker == kind:
            precision, height, width, components = struct.unpack_from(">BHHB", body, 2)
            one_scan &= precision == 8 and components in (1, 3) and max(height, width) <= _MOST_SIDE
            body = body[:3] + _SIDES + body[7:]
        elif marker == _START_OF_SCAN:
            one_scan &= body[2] == components
        elif marker not in _TABLES:
            one_scan &= size >= _WORDS.get(marker, _NEVER)
            continue
        intervals |= marker == _INTERVAL
        parts += (bytes((0xFF, marker)), body)
    end = (_IN_INTERVALS if intervals else _IN_PIXELS).search(data, next_) if one_scan else None
    return b"".join((*parts, b"\xff\xd9")) if end is not None and data[end.end() - 1] == _END else b""


def _png(data: bytes) -> Header:
    if data[12:16] != b"IHDR":
        raise BadImage("header", "is a PNG that does not begin with the chunk IHDR")
    width, height, depth, colour = struct.unpack_from(">IIBB", data, 16)
    at, has_end, odd, tagged, memory = 8, False, False, False, memoryview(data)
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, end = data[at + 4 : at + 8], at + 12 + length
        if end > len(data):
            break
        (checksum,) = struct.unpack_from(">I", data, end - 4)
        if zlib.crc32(memory[at + 4 : end - 4]) != checksum:
            if kind in (b"IHDR", b"PLTE", b"IDAT"):
                raise BadImage(f"chunk {kind.decode()}", f"is damaged: its checksum is wrong, at byte {at:,}")
            odd = True
        if kind == b"IHDR" and at > 8:
            raise BadImage("header", "has two chunks IHDR, each with a size")
        odd |= kind in (b"tRNS", b"acTL")  # transparent, or of several frames
        tagged |= kind == b"eXIf" or (kind == b"iTXt" and data[at + 8 : at + 25] == b"XML:com.adobe.xmp")
        tagged |= kind in (b"tEXt", b"zTXt") and data[at + 8 : at + 24] == b"Raw profile type"
        if kind == b"IEND":
            has_end = True
            break
        at = end
    plain = has_end and not odd and depth == 8 and colour in (0, 2, 3)
    return Header("png", width, height, plain, tagged)


def _gif(data: bytes) -> Header:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + (3 << ((flags & 7) + 1) if flags & 0x80 else 0)
    while data[at] == 0x21:  # an extension: blocks, each with its length, until an empty one
        at += 2
        while size := data[at]:
            at += 1 + size
        at += 1
    if data[at] != 0x2C:
        raise BadImage("header", "is a GIF without a frame")
    left, top, wide, high = struct.unpack_from("<HHHH", data, at + 1)
    return Header("gif", max(width, left + wide), max(height, top + high), plain=False, tagged=False)


def _bmp(data: bytes) -> Header:
    start, size = struct.unpack_from("<II", data, 10)
    if size == 12:
        width, height = struct.unpack_from("<HH", data, 18)
        return Header("bmp", width, height, plain=False, tagged=False)
    width, height, _, bits, compression = struct.unpack_from("<iiHHI", data, 18)
    complete = len(data) == start + (width * 3 + 3) // 4 * 4 * abs(height)
    plain = size >= 40 and bits == 24 and not compression and width > 0 and complete
    return Header("bmp", abs(width), abs(height), plain, tagged=False)


def _webp(data: bytes) -> Header:
    kind = data[12:16]
    if kind == b"VP8X":
        sides = struct.unpack_from("<HBHB", data, 24)
        width, height = 1 + sides[0] + (sides[1] << 16), 1 + sides[2] + (sides[3] << 16)
    elif kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    elif kind == b"VP8 ":
        width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", data, 26))
    else:
        raise BadImage("header", "is a WebP without an image")
    return Header("webp", width, height, plain=False, tagged=True)


_READERS = {"jpeg": _jpeg, "png": _png, "gif": _gif, "bmp": _bmp, "webp": _webp}
