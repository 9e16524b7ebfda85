"""MurmurHash3 x64-128 of many byte strings at once, without a Python object for each.

For strings that lie one after the other in one buffer, as in an Arrow column. The strings go
through the rounds together, longest first, so that those with another block are always a prefix.
Long ones are left to mmh3.
"""

import mmh3
import numpy as np

from recency.core.arrays import Int64Array, UInt64Array, stable_order

_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_ADD1, _ADD2 = np.uint64(0x52DCE729), np.uint64(0x38495AB5)
_MIX1, _MIX2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_FIVE = np.uint64(5)
_ALL = np.uint64(2**64 - 1)
_ROWS = 1 << 13  # per pass: temporaries that stay in the cache


_LONG = 256  # bytes; each round costs some µs however few strings take part


def low_halves(data: bytes | memoryview, bounds: Int64Array, seed: int) -> UInt64Array:
    """The low 64 bits for each string ``data[bounds[i]:bounds[i + 1]]``."""
    out = np.empty(bounds.size - 1, dtype=np.uint64)
    for first in range(0, out.size, _ROWS):
        some = bounds[first : first + _ROWS + 1]
        begin, end = int(some[0]), int(some[-1])
        size = (end - begin + 7) // 8 + 3  # words, with room to read behind the last string
        words = np.zeros(size, dtype="<u8")
        words.view(np.uint8)[: end - begin] = np.frombuffer(data, np.uint8, end - begin, begin)
        out[first : first + _ROWS] = _low_halves(words.astype(np.uint64), some - begin, seed)
    for i in np.flatnonzero(np.diff(bounds) > _LONG):
        digest = mmh3.hash_bytes(bytes(memoryview(data)[bounds[i] : bounds[i + 1]]), seed)
        out[i] = int.from_bytes(digest[:8], "little")
    return out


def _low_halves(words: UInt64Array, bounds: Int64Array, seed: int) -> UInt64Array:
    lengths = np.diff(bounds)
    order = stable_order(int(lengths.max()) - lengths)
    position, lengths = bounds[:-1][order], lengths[order]
    h1 = np.full(lengths.size, seed, dtype=np.uint64)
    h2 = h1.copy()
    for block in range(min(int(lengths[0]), _LONG) // 16):
        n = int(np.searchsorted(-lengths, -16 * (block + 1), side="right"))
        a, b = h1[:n], h2[:n]
        a ^= _scrambled(_load(words, position[:n]), _C1, 31, _C2)
        a[:] = (_rotated(a, 27) + b) * _FIVE + _ADD1
        b ^= _scrambled(_load(words, position[:n] + 8), _C2, 33, _C1)
        b[:] = (_rotated(b, 31) + a) * _FIVE + _ADD2
        position[:n] += 16
    rest = (lengths & 15).astype(np.uint64)  # bytes of the last, incomplete block; none mix to 0
    h2 ^= _scrambled(_load(words, position + 8) & _mask(np.maximum(rest, 8) - 8), _C2, 33, _C1)
    h1 ^= _scrambled(_load(words, position) & _mask(np.minimum(rest, 8)), _C1, 31, _C2)
    h1 ^= lengths.view(np.uint64)
    h2 ^= lengths.view(np.uint64)
    h1 += h2
    h2 += h1
    out = np.empty_like(h1)
    out[order] = _mixed(h1) + _mixed(h2)
    return out


def _load(words: UInt64Array, position: Int64Array) -> UInt64Array:
    """Eight bytes from any position on, out of two words."""
    word = position >> 3
    shift = ((position & 7) << 3).view(np.uint64)
    high = words[word + 1] << np.uint64(1) << (np.uint64(63) - shift)
    eight: UInt64Array = (words[word] >> shift) | high
    return eight


def _mask(count: UInt64Array) -> UInt64Array:
    """The lowest ``count`` bytes of a word, 0 to 8."""
    bits = count << np.uint64(3)
    mask: UInt64Array = np.where(bits > 0, _ALL >> (np.uint64(64) - np.maximum(bits, 1)), 0)
    return mask


def _rotated(x: UInt64Array, left: int) -> UInt64Array:
    rotated: UInt64Array = (x << np.uint64(left)) | (x >> np.uint64(64 - left))
    return rotated


def _scrambled(x: UInt64Array, before: np.uint64, left: int, after: np.uint64) -> UInt64Array:
    return _rotated(x * before, left) * after


def _mixed(x: UInt64Array) -> UInt64Array:
    x = (x ^ (x >> np.uint64(33))) * _MIX1
    x = (x ^ (x >> np.uint64(33))) * _MIX2
    return x ^ (x >> np.uint64(33))
