"""64-bit hashes, the same in every process and on every platform, vectorised.

Integers: XXH64 of the 8-byte little-endian value, with the seed ``xxh64(seed, 42)``. This is what
Spark's ``xxhash64(lit(seed), column)`` computes for long columns, so that sampling can be pushed
down into Spark. Strings (UTF-8) and bytes: the low half of MurmurHash3 x64-128 (with its seed 1 or
2; under 0 the empty string would be the integer 0), then mixed with the seed like an integer. An
integer, its decimal string, and the bytes of that are different items.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import count, repeat
from typing import Any

import mmh3
import numpy as np

from recency.core import validate
from recency.core.arrays import Int64Array, UInt64Array
from recency.core.murmur import low_halves

_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_START = np.uint64((0x27D4EB2F165667C5 + 8) & (2**64 - 1))  # the fifth prime, and the length
_SPARK_SEED = 42
_MASK = 2**64 - 1
_STRINGS, _BYTES = 1, 2  # seeds of MurmurHash3
_BLOCK = 1 << 14  # rows per pass: temporaries that stay in the cache


def xxh64(x: UInt64Array, seed: int | UInt64Array) -> UInt64Array:
    """XXH64 of each element taken as eight bytes, with one seed or one for each."""
    if not isinstance(seed, np.ndarray):
        seed = np.array(seed & _MASK, dtype=np.uint64)
    start: UInt64Array = np.asarray(seed + _START)
    out = np.empty(x.size, dtype=np.uint64)
    for begin in range(0, x.size, _BLOCK):
        block = slice(begin, begin + _BLOCK)
        out[block] = _xxh64_block(x[block], start[block] if start.ndim else start)
    return out


def _xxh64_block(x: UInt64Array, start: np.uint64 | UInt64Array) -> UInt64Array:
    h = x * _PRIME_2
    spare = np.empty_like(h)  # two buffers for all steps: allocating costs more than computing

    def rotate(left: int) -> None:
        np.right_shift(h, np.uint64(64 - left), out=spare)
        np.left_shift(h, np.uint64(left), out=h)
        np.bitwise_or(h, spare, out=h)

    def fold(right: int, factor: np.uint64) -> None:
        np.right_shift(h, np.uint64(right), out=spare)
        np.bitwise_xor(h, spare, out=h)
        np.multiply(h, factor, out=h)

    rotate(31)
    np.multiply(h, _PRIME_1, out=h)
    np.bitwise_xor(h, start, out=h)
    rotate(27)
    np.multiply(h, _PRIME_1, out=h)
    np.add(h, _PRIME_4, out=h)
    fold(33, _PRIME_2)
    fold(29, _PRIME_3)
    np.right_shift(h, np.uint64(32), out=spare)
    np.bitwise_xor(h, spare, out=h)
    return h


def hash_integers(x: Int64Array, seed: int) -> UInt64Array:
    """Seeded hash of integers."""
    return xxh64(x.view(np.uint64), _mixed_seed(seed))


@lru_cache(maxsize=64)
def _mixed_seed(seed: int) -> int:
    return int(xxh64(np.array([seed & _MASK], dtype=np.uint64), _SPARK_SEED)[0])


def hash_rows(seed: int | UInt64Array, *columns: Int64Array) -> UInt64Array:
    """Hash of rows of integers: one linear combination, one hash; one seed, or one for each row.

    The multipliers are large and odd, so rows that differ by small steps do not meet.
    """
    mixed = xxh64(seed, _SPARK_SEED) if isinstance(seed, np.ndarray) else _mixed_seed(seed)
    out = np.empty(columns[0].size, dtype=np.uint64)
    for begin in range(0, out.size, _BLOCK):
        block = slice(begin, begin + _BLOCK)
        row = columns[0][block].view(np.uint64)
        for column, factor in zip(columns[1:], (_PRIME_1, _PRIME_3), strict=True):
            row = row + column[block].view(np.uint64) * factor
        out[block] = xxh64(row, mixed[block] if isinstance(mixed, np.ndarray) else mixed)
    return out


def hash_chain(seed: int, *columns: Int64Array) -> UInt64Array:
    """Hash of rows of integers that depends on all of them, whatever their structure.

    One hash per column: the combination of :func:`hash_rows` would confuse some rows of small whole
    numbers, as floats, with others.
    """
    return chained(hash_integers(columns[0], seed), *columns[1:])


def chained(hashes: UInt64Array, *columns: Int64Array) -> UInt64Array:
    """The hash of rows that go on: each column is hashed with what came before as its seed.

    With hashes of integers this is Spark's ``xxhash64(seed, integers, columns…)``; doubles go by
    their bits, without negative zeros.
    """
    for column in columns:
        hashes = xxh64(np.ascontiguousarray(column).view(np.uint64), hashes)
    return hashes


def hash_events(
    seed: int, stream: int, index: int, bits: Int64Array, ticks: Int64Array
) -> UInt64Array:
    """Coins of events: of the stream, their running index in it from ``index`` on, value, time."""
    position = (np.arange(ticks.size).view(np.uint64) + np.uint64(index)).view(np.int64)
    stream_seed = int(hash_integers(np.array([stream]), seed)[0])
    return hash_rows(stream_seed, position, bits, np.ascontiguousarray(ticks))


def hash_items(items: Any, seed: int, name: str = "item") -> UInt64Array:
    """Seeded hash of items: integers (within int64), strings, bytes; one, or a column of them."""
    if is_one(items):
        items = [items]
    return xxh64(_keys(items, name), _mixed_seed(seed))


def is_one(items: Any) -> bool:
    """Whether this is a single item and not a column of them."""
    return isinstance(items, str | bytes | int | np.integer) and not isinstance(items, bool)


def check_one(item: Any, name: str) -> None:
    """Refuse what is not a single item."""
    if not is_one(item):
        kind = "None" if item is None else type(item).__name__
        raise TypeError(f"{name} must be an integer, a string or bytes, got {kind}")
    if not isinstance(item, str | bytes):
        validate.integer(item, name)


def _keys(items: Any, name: str) -> UInt64Array:
    """What goes into the seeded hash: an integer itself, or a string's own hash."""
    in_buffer = _arrow_keys(items)
    if in_buffer is not None:
        return in_buffer
    is_list = isinstance(items, Sequence) and not isinstance(items, str | bytes)
    if not (is_list or hasattr(items, "__array__")) or getattr(items, "ndim", 1) == 0:
        raise TypeError(f"{name} must be integers, strings or bytes, got {type(items).__name__}")
    if not is_list:
        array = validate.column(items, name)
        if array.dtype.kind in "iu":
            return _integer_keys(array, name)
        items = array.tolist() if array.dtype.kind in "USO" else array
    kinds = set(map(type, items))
    bad = [kind for kind in kinds if not _is_item(kind)]
    if bad:
        raise TypeError(f"{name} must be integers, strings or bytes, got {bad[0].__name__}")
    for kind, to_keys in _BY_KIND:
        if kinds and all(issubclass(each, kind) for each in kinds):
            return to_keys(items, name)
    keys = np.empty(len(items), dtype=np.uint64)
    for kind, to_keys in _BY_KIND:
        of_kind = np.array([isinstance(item, kind) for item in items], dtype=np.bool_)
        if of_kind.any():
            keys[of_kind] = to_keys([item for item in items if isinstance(item, kind)], name)
    return keys


_ARROW_TEXT = {"string": _STRINGS, "binary": _BYTES}


def _arrow_keys(items: Any) -> UInt64Array | None:
    """Keys of an Arrow array of strings or bytes, straight from its buffers; None for all else."""
    kind = str(getattr(items, "type", "")).removeprefix("large_")
    if kind not in _ARROW_TEXT or not hasattr(items, "buffers") or items.null_count:
        return None
    if not len(items):
        return np.empty(0, dtype=np.uint64)
    _, offsets, data = items.buffers()
    width = np.int64 if str(items.type).startswith("large_") else np.int32
    bounds = np.frombuffer(offsets, width)[items.offset : items.offset + len(items) + 1]
    return low_halves(data or b"", bounds.astype(np.int64), _ARROW_TEXT[kind])


def _is_item(kind: type) -> bool:
    return issubclass(kind, int | np.integer | str | bytes) and not issubclass(kind, bool)


def _integer_keys(items: Any, name: str) -> UInt64Array:
    return validate.integers(items, name).view(np.uint64)


def _text_keys(items: Sequence[Any], name: str, murmur_seed: int = _STRINGS) -> UInt64Array:
    code: defaultdict[Any, int] = defaultdict(count().__next__)  # numbers items as they first come
    codes = np.fromiter(map(code.__getitem__, items), np.intp, len(items))
    return _murmur(code, murmur_seed)[codes]


def _bytes_keys(items: Sequence[Any], name: str) -> UInt64Array:
    return _text_keys(items, name, murmur_seed=_BYTES)


def _murmur(items: Iterable[Any], seed: int) -> UInt64Array:
    if seed == _STRINGS:
        try:
            items = list(map(str.encode, items))
        except UnicodeEncodeError:  # lone surrogates, which mmh3 does not survive
            items = [item.encode("utf-8", "surrogatepass") for item in items]
    digests = b"".join(map(mmh3.hash_bytes, items, repeat(seed)))  # 16 bytes each, low half first
    return np.frombuffer(digests, dtype="<u8")[::2].astype(np.uint64)


_BY_KIND: list[tuple[Any, Callable[[Sequence[Any], str], UInt64Array]]] = [
    (str, _text_keys),
    (bytes, _bytes_keys),
    (int | np.integer, _integer_keys),
]
