"""Bytes: one frame per sketch, written and read for thousands of sketches in one pass.

A frame is ``b"RC"``, format version, family, flags (none yet, 0), the length of the
configuration, the configuration, the payload, and the CRC-32 of all that (little-endian).

The payload is nothing but unsigned varints (LEB128, shortest form), so the payloads of many
sketches are cut into numbers by one vectorised pass; :class:`RecordWriter` and
:class:`RecordReader` then put columns together and take them apart for all sketches at once.
Counts are compared with what is present before anything of that size is made.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from recency.core.arrays import Int64Array, UInt64Array, offsets, ranges
from recency.errors import CorruptSketchError

MAGIC = b"RC"
FORMAT_VERSION = 1
_HEADER = len(MAGIC) + 4
_CRC = 4
_BLOCK = 1 << 15  # numbers encoded at once
_TOGETHER = 1 << 17  # numbers of records that are put together at once
_MOST_VARINT_BYTES = 10  # ⌈64 / 7⌉

Scalar = int | float | str | tuple[Any, ...] | None


def corrupt(name: str, reason: str) -> NoReturn:
    """Refuse bytes of a sketch called ``name``: raises a ``CorruptSketchError`` with the reason."""
    raise CorruptSketchError(f"corrupt {name}: {reason}")


# --- numbers ----------------------------------------------------------------------------------


def zigzag(x: Int64Array) -> UInt64Array:
    """Signed integers as unsigned ones: 0, −1, 1, −2 as 0, 1, 2, 3. Small ones take fewer bytes."""
    return ((x << 1) ^ (x >> 63)).view(np.uint64)


def unzigzag(x: UInt64Array) -> Int64Array:
    """The inverse of :func:`zigzag`."""
    one = np.uint64(1)
    return ((x >> one) ^ (~(x & one) + one)).view(np.int64)


def float_bits(x: NDArray[np.float64]) -> UInt64Array:
    """Floats as unsigned integers of the same bits; ``view(np.float64)`` is the inverse."""
    return x.view(np.uint64)


def encode_varints(x: UInt64Array) -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
    """All numbers as LEB128, and the number of bytes of each."""
    if x.size > _BLOCK:  # temporaries that stay in the cache
        blocks = [encode_varints(x[i : i + _BLOCK]) for i in range(0, x.size, _BLOCK)]
        return np.concatenate([out for out, _ in blocks]), np.concatenate([n for _, n in blocks])
    sizes = np.ones(x.size, dtype=np.int8)
    for bits in range(7, int(x.max(initial=0)).bit_length(), 7):
        sizes += x >> np.uint64(bits) > 0
    ends = np.cumsum(sizes, dtype=np.int64)
    out = np.empty(int(ends[-1]) if ends.size else 0, dtype=np.uint8)
    position, rest = ends - sizes, x
    while rest.size:
        more = rest >= 0x80
        out[position] = rest.astype(np.uint8) & 0x7F | more.view(np.uint8) << 7
        index = np.flatnonzero(more)
        position, rest = position[index] + 1, rest[index] >> np.uint64(7)
    return out, sizes


def decode_varints(data: NDArray[np.uint8], name: str) -> tuple[UInt64Array, Int64Array]:
    """Numbers and the position after each; refuses what :func:`encode_varints` never writes."""
    is_last = data < 0x80
    ends = np.flatnonzero(is_last) + 1
    if data.size and not is_last[-1]:
        corrupt(name, "the payload ends inside a number")
    sizes = np.diff(ends, prepend=0)
    if (sizes > _MOST_VARINT_BYTES).any():
        corrupt(name, "a number does not fit 64 bits")
    last = data[ends - 1]
    if ((sizes > 1) & (last == 0)).any() or ((sizes == _MOST_VARINT_BYTES) & (last > 1)).any():
        corrupt(name, "a number is not in its shortest form")
    x = np.zeros(ends.size, dtype=np.uint64)
    position, open_ = ends - sizes, np.arange(ends.size)
    for shift in range(0, 7 * _MOST_VARINT_BYTES, 7):
        if not open_.size:
            break
        byte = data[position[open_] + shift // 7]
        x[open_] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        open_ = open_[byte >= 0x80]
    return x, ends


# --- columns ----------------------------------------------------------------------------------


class RecordWriter:
    """Collects the columns of many records, one for each key.

    A record is a sequence of unsigned numbers: what each column has of it, one after the other.
    """

    def __init__(self, size: int) -> None:
        self._ones = np.ones(size, dtype=np.int64)
        self._parts: list[tuple[UInt64Array, Int64Array]] = []

    def scalar(self, values: UInt64Array) -> None:
        """A column of one number for each record."""
        self._parts.append((values, self._ones))

    def ragged(self, values: UInt64Array, counts: Int64Array) -> None:
        """``counts[i]`` numbers for record i, all records one after the other in ``values``."""
        self._parts.append((values, counts))

    def numbers(self) -> tuple[UInt64Array, Int64Array]:
        """All numbers, record by record, and how many each record has."""
        blocks = [np.empty(0, dtype=np.uint64), *(block for block, _ in self.blocks())]
        return np.concatenate(blocks), np.sum([counts for _, counts in self._parts], axis=0)

    def blocks(self) -> Iterator[tuple[UInt64Array, Int64Array]]:
        """The same, some records at a time, with where each of these ends."""
        starts = [offsets(counts) for _, counts in self._parts]
        total = offsets(np.sum([counts for _, counts in self._parts], axis=0))
        cuts = np.searchsorted(total, np.arange(_TOGETHER, total[-1], _TOGETHER))
        for first, end in pairwise(np.unique([0, *cuts.tolist(), total.size - 1]).tolist()):
            out = np.empty(int(total[end] - total[first]), dtype=np.uint64)
            cursor = total[first:end] - total[first]
            for (values, counts), start in zip(self._parts, starts, strict=True):
                own = counts[first:end]
                out[ranges(cursor, own)] = values[start[first] : start[end]]
                cursor = cursor + own
            yield out, cursor


class RecordReader:
    """Takes columns off many records, in the order in which they were written.

    ``size`` says how many records there are, ``name`` is the sketch's, for :func:`corrupt`.
    """

    def __init__(self, name: str, numbers: UInt64Array, sizes: Int64Array) -> None:
        self.name = name
        self.size = sizes.size
        self._numbers = numbers
        bounds = offsets(sizes)
        self._cursor, self._end = bounds[:-1], bounds[1:]

    def sums(self, counts: Int64Array, records: Int64Array) -> Int64Array:
        """What ``counts`` add up to in each record; more than any can still have is refused."""
        if (counts > int((self._end - self._cursor).max(initial=0))).any():
            corrupt(self.name, "the payload is shorter than its counts say")
        sums = np.zeros(self.size, dtype=np.int64)
        np.add.at(sums, records, counts)
        return sums

    def scalar(self) -> UInt64Array:
        """A column of one number for each record, any number."""
        return self.ragged(np.ones(self.size, dtype=np.int64))

    def integer(self, most: int = 2**63 - 1) -> Int64Array:
        """A column of one integer in [0, most] for each record; others are refused."""
        return self.integers(np.ones(self.size, dtype=np.int64), most)

    def signed(self, counts: Int64Array) -> Int64Array:
        """:meth:`ragged` of what was written by :func:`zigzag`: integers of any sign."""
        return unzigzag(self.ragged(counts))

    def ragged(self, counts: Int64Array) -> UInt64Array:
        """``counts[i]`` numbers of record i, those of all records one after the other."""
        if (counts > self._end - self._cursor).any():
            corrupt(self.name, "the payload is shorter than its counts say")
        out = self._numbers[ranges(self._cursor, counts)]
        self._cursor = self._cursor + counts
        return out

    def integers(self, counts: Int64Array, most: int = 2**63 - 1) -> Int64Array:
        """:meth:`ragged`, refusing numbers above ``most``."""
        x = self.ragged(counts)
        if (x > np.uint64(most)).any():
            corrupt(self.name, f"a number is above {most}")
        return x.view(np.int64)

    def finish(self, written: RecordWriter) -> None:
        """Everything must have been taken, and be what is written for what it was taken for.

        So equal states and equal bytes are the same thing.
        """
        if (self._cursor != self._end).any():
            corrupt(self.name, "the payload is longer than its counts say")
        numbers, _ = written.numbers()
        if not np.array_equal(numbers, self._numbers):
            corrupt(self.name, "the payload is not in its canonical form")


# --- configurations ---------------------------------------------------------------------------


def encode_config(fields: Sequence[Scalar]) -> bytes:
    """Plain values as bytes, each with a tag."""
    out = []
    for value in fields:
        match value:
            case None:
                out.append(b"\x00")
            case bool():
                out.append(b"\x05" if value else b"\x04")
            case int():
                out.append(b"\x01" + struct.pack("<q", value))
            case float():
                out.append(b"\x02" + struct.pack("<d", value))
            case str():
                text = value.encode()
                out.append(struct.pack("<BB", 3, len(text)) + text)
            case tuple():
                inner = encode_config(value)
                out.append(struct.pack("<BB", 6, len(inner)) + inner)
    return b"".join(out)


def decode_config(data: bytes, name: str) -> list[Scalar]:
    """The inverse of :func:`encode_config`."""
    fields: list[Scalar] = []
    position = 0
    try:
        while position < len(data):
            tag = data[position]
            position += 1
            if tag == 0:
                fields.append(None)
            elif tag == 1 or tag == 2:
                fields.append(struct.unpack_from("<q" if tag == 1 else "<d", data, position)[0])
                position += 8
            elif tag == 4 or tag == 5:
                fields.append(tag == 5)
            elif tag == 3 or tag == 6:
                end = position + 1 + data[position]
                if end > len(data):
                    raise IndexError
                part = data[position + 1 : end]
                fields.append(part.decode() if tag == 3 else tuple(decode_config(part, name)))
                position = end
            else:
                corrupt(name, f"unknown tag {tag} in the configuration")
    except (struct.error, IndexError, UnicodeDecodeError):
        corrupt(name, "malformed configuration")
    return fields


# --- frames -----------------------------------------------------------------------------------


def encode_many(family: int, config: bytes, writer: RecordWriter) -> list[bytes]:
    """One frame for each record."""
    header = MAGIC + struct.pack("<BBBB", FORMAT_VERSION, family, 0, len(config)) + config
    header_crc = zlib.crc32(header)
    frames = []
    for numbers, ends in writer.blocks():
        payload, varint_sizes = encode_varints(numbers)
        buffer, bounds = payload.tobytes(), offsets(varint_sizes)[ends].tolist()
        for begin, end in pairwise([0, *bounds]):
            body = buffer[begin:end]
            crc = zlib.crc32(body, header_crc)
            frames.append(header + body + crc.to_bytes(_CRC, "little"))
    return frames


def read_header(frame: bytes, name: str = "sketch") -> bytes:
    """What a frame that is whole begins with: all but its payload and its checksum."""
    if len(frame) < _HEADER + _CRC:
        corrupt(name, f"expected at least {_HEADER + _CRC} bytes, got {len(frame)}")
    if frame[:2] != MAGIC:
        corrupt(name, f"expected magic {MAGIC!r}, got {bytes(frame[:2])!r}")
    version, _, flags, config_size = struct.unpack_from("<BBBB", frame, 2)
    if not 1 <= version <= FORMAT_VERSION:
        corrupt(name, f"expected format 1 to {FORMAT_VERSION}, got {version}")
    if int.from_bytes(frame[-_CRC:], "little") != zlib.crc32(memoryview(frame)[:-_CRC]):
        corrupt(name, "checksum mismatch")
    if flags:
        corrupt(name, f"unknown flags {flags}")
    if _HEADER + config_size + _CRC > len(frame):
        corrupt(name, "the configuration is longer than the frame")
    return frame[: _HEADER + config_size]


def family_and_config(header: bytes) -> tuple[int, bytes]:
    """The number of the class and the configuration that a header says."""
    return header[3], header[_HEADER:]


def check_whole(frames: Sequence[bytes], header: bytes, name: str = "sketch") -> list[bytes]:
    """The payloads of frames with this header, which are what was written."""
    begin = len(header)
    if min(map(len, frames)) < begin + _CRC:
        corrupt(name, "the configuration is longer than the frame")
    bodies = [frame[begin:-_CRC] for frame in frames]
    header_crc = zlib.crc32(header)
    found = np.array([zlib.crc32(body, header_crc) for body in bodies], dtype="<u4")
    if found.tobytes() != b"".join([frame[-_CRC:] for frame in frames]):
        corrupt(name, "checksum mismatch")
    return bodies


def read_payloads(bodies: Sequence[bytes], name: str) -> RecordReader:
    """A reader of payloads: a record for each."""
    data = np.frombuffer(b"".join(bodies), dtype=np.uint8)
    numbers, ends = decode_varints(data, name)
    body_ends = np.cumsum([len(body) for body in bodies])
    last = np.searchsorted(ends, body_ends, side="right")  # numbers up to the end of each body
    whole = (last == 0) & (body_ends == 0)
    whole[last > 0] = ends[last[last > 0] - 1] == body_ends[last > 0]
    if not whole.all():
        corrupt(name, "the payload ends inside a number")
    return RecordReader(name, numbers, np.diff(last, prepend=0))
