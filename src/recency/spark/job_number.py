"""The number of a job, which its coins are drawn by: separate jobs draw different ones.

Where events draw coins (``SumWave`` and others, without an ``id``), two sketches that are built
with the same stream draw the same coins for the same events at the same places. Partitions of one
job differ in their streams; jobs differ in their numbers, from which the streams are counted. All
this is decided on the driver: a task that runs again draws the same coins.
"""

from hashlib import blake2b
from typing import Any

from recency.core import validate
from recency.sketch import Sketch
from recency.spark.frame_text import frame_text

_NUMBER_BITS = 63
_FIRST_BITS = 62  # and as many for counting on: streams are below 2⁶³


def draws_coins(prototype: Sketch) -> bool:
    """Whether its events draw coins, unless they have ids."""
    return bool(prototype._algorithm.draws_coins)


def given_number(stream: object) -> int | None:
    """What a caller asks for: an integer is itself, a name is hashed, None is up to us."""
    if stream is None:
        return None
    if isinstance(stream, str):
        return _hashed(_NUMBER_BITS, "stream", stream)
    if not validate.is_integer(stream):
        kind = type(stream).__name__
        raise TypeError(f"stream must be an integer or a string, got {kind} {stream!r}")
    return validate.integer(stream, "stream", 0)


def number_of_frame(df: Any, prototype: Any) -> int:
    """The number of a job that builds a sketch of all columns of a frame."""
    return _hashed(_NUMBER_BITS, "frame", str(prototype._stream), *frame_text(df))


def number_of(prototype: Sketch, *words: str) -> int:
    """The number of a job that has no frame, but words that tell it from others."""
    return _hashed(_NUMBER_BITS, "words", str(prototype._stream), *words)


def first_stream(number: int, contents: bytes = b"") -> int:
    """The stream that those of a job are counted from: neighbouring numbers are far apart here."""
    return _hashed(_FIRST_BITS, "first", str(number), contents)


def _hashed(bits: int, *parts: str | bytes) -> int:
    """A hash of this many bits, the same in every process."""
    digest = blake2b(digest_size=8)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return int.from_bytes(digest.digest(), "little") >> (64 - bits)
