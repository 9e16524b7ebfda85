"""Grids: functions that hash items to one cell in each of several rows.

A grid follows from the settings alone. Every row counts every event once. Row r has the cells
r · width, …, (r + 1) · width − 1.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from recency.core import geometry, validate
from recency.core.arrays import Int32Array, Int64Array, UInt64Array
from recency.core.hashing import check_one, hash_items, xxh64

ROUNDING = 1e-12  # relative; bounds are moved outwards by it, for rounding errors
_BLOCK = 1 << 13  # events per pass: temporaries stay in the cache
_HALF = np.uint64(32)


class HashGrid:
    """Rows of a count-min sketch (Cormode & Muthukrishnan 2005), each with its own hash."""

    def __init__(self, width: int, depth: int, product: bool, seed: int) -> None:
        self.width, self.rows, self.size = width, depth, width * depth
        self.point_rows = depth
        self.noise = math.e / width
        self._product, self._seed = product, seed

    @property
    def counters_of_an_answer(self) -> int:
        """How many counters must all be within their bounds for an answer."""
        return geometry.counters_of_an_answer(self.width, self.rows, self._product)

    def error(self, cell_error: Any) -> Any:
        """Return the error bound of answers, given the error bound of cells."""
        return geometry.total_error(cell_error, self.width, self._product)

    def check_item(self, item: Any) -> None:
        """Check that ``item`` may be an item."""
        check_one(item, "item")

    def hashes(self, items: Any, name: str = "item") -> UInt64Array:
        """Return the hashes of items; a single item gives one."""
        return hash_items(items, self._seed, name)

    def cells_of(self, hashes: UInt64Array) -> Int32Array:
        """Return the cell of each item in each row: high bits of products with odd numbers.

        The hashes are seeded and mixed, so products with different odd numbers serve as independent
        hashes.
        """
        factors, first = _odd_numbers(self.rows), self.width * np.arange(self.rows)[:, None]
        cells = np.empty((self.rows, hashes.size), dtype=np.int32)
        for begin in range(0, hashes.size, _BLOCK):
            block = slice(begin, begin + _BLOCK)
            high = hashes[block] * factors
            high >>= _HALF
            high *= np.uint64(self.width)
            high >>= _HALF
            cells[:, block] = high.view(np.int64) + first
        return cells

    def cells_of_points(self, hashes: UInt64Array) -> Int64Array:
        """Return the cells that count single items and their collisions: one in every row."""
        return self.cells_of(hashes).astype(np.int64)


class DyadicGrid:
    """Rows for each scale i, whose items are the ranges [k·2ⁱ, (k+1)·2ⁱ).

    First the rows of scale 0, then of scale 1, …, and last one row with one cell per range.
    """

    def __init__(
        self, width: int, depth: int, range_depth: int, universe_bits: int, names: bool, seed: int
    ) -> None:
        self.width, self._depth, self.range_depth = width, depth, range_depth
        self.universe_bits, self._names, self._seed = universe_bits, names, seed
        self.point_rows = depth
        self.exact_scale = max(universe_bits - width.bit_length() + 1, 0)
        """The finest scale with a cell for each range."""
        noisy = self.exact_scale
        self.rows = (depth + (noisy - 1) * range_depth if noisy else 0) + 1
        self.size = width * self.rows
        self.noise = math.e / width if noisy else 0.0
        self.largest = (1 << universe_bits) - 1

    @property
    def counters_of_an_answer(self) -> int:
        """How many counters must all be within their bounds for an answer."""
        return geometry.counters_of_an_answer(0, self._depth, False)

    def error(self, cell_error: Any) -> Any:
        """Return the error bound of answers, given the error bound of cells."""
        if not self.noise:
            return cell_error
        return geometry.total_error(cell_error, self.width, False)

    # --- items ---

    def check_item(self, item: Any) -> None:
        """Check that ``item`` may be an item."""
        if self._names:
            check_one(item, "item")
        else:
            validate.integer(item, "item", 0, self.largest)

    def hashes(self, items: Any, name: str = "item") -> UInt64Array:
        """Return items, or their hashes with ``names``; a single item gives one."""
        if self._names:
            return hash_items(items, self._seed, name)
        values = validate.integers(items, name, 0, self.largest)
        return np.atleast_1d(values).view(np.uint64)

    def _values(self, hashes: UInt64Array) -> UInt64Array:
        """Return items as integers of the universe; with ``names`` the highest bits of hashes."""
        return hashes >> np.uint64(64 - self.universe_bits) if self._names else hashes

    # --- cells ---

    def ranges(self, scale: int) -> int:
        """Return the number of ranges of a scale."""
        return 1 << (self.universe_bits - scale)

    def rows_of(self, scale: int) -> range:
        """Return the rows of a scale."""
        if scale == self.exact_scale:
            return range(self.rows - 1, self.rows)
        first = self._depth + (scale - 1) * self.range_depth if scale else 0
        return range(first, first + (self.range_depth if scale else self._depth))

    def cells_of(self, hashes: UInt64Array) -> Int32Array:
        """Return the cell of each item in each row."""
        cells = np.empty((self.rows, hashes.size), dtype=np.int32)
        for begin in range(0, hashes.size, _BLOCK):
            block = slice(begin, begin + _BLOCK)
            values = self._values(hashes[block])
            for scale in range(self.exact_scale + 1):
                rows = self.rows_of(scale)
                cells[rows.start : rows.stop, block] = self.cells_of_nodes(scale, values)
                values = values >> np.uint64(1)
        return cells

    def cells_of_points(self, hashes: UInt64Array) -> Int64Array:
        """Return the cells that count single items and their collisions: those of scale 0."""
        return self.cells_of_nodes(0, self._values(hashes))

    def cells_of_nodes(self, scale: int, nodes: UInt64Array) -> Int64Array:
        """Return the cell of each range of a scale, in each row of that scale."""
        rows = np.array(self.rows_of(scale))[:, None]
        if scale == self.exact_scale:
            return rows * self.width + nodes.view(np.int64)
        return self._hashed(rows, scale, nodes)

    def cells_of_ranges(self, scales: Int64Array, nodes: UInt64Array) -> Int64Array:
        """Return the cells of ranges of several hashed scales, one per row of a scale."""
        rows = np.array([self.rows_of(int(scale)).start for scale in scales])
        return self._hashed(rows + np.arange(self.range_depth)[:, None], scales, nodes)

    def _hashed(self, rows: Int64Array, scales: int | Int64Array, nodes: UInt64Array) -> Int64Array:
        """Return the cell of each range in some rows of its scale: high bits of products.

        Ranges are first mixed with the seed and their scale, so products with different odd numbers
        serve as independent hashes.
        """
        factors, keys = _factors(self._seed, self.rows, self.exact_scale)
        cells = factors[rows] * _mixed(nodes + keys[scales])
        cells >>= _HALF
        cells *= np.uint64(self.width)
        cells >>= _HALF
        placed: Int64Array = cells.view(np.int64) + rows * self.width
        return placed


Grid = HashGrid | DyadicGrid


@lru_cache(maxsize=64)
def _odd_numbers(rows: int) -> UInt64Array:
    """Return a column of odd numbers, one per row."""
    return (xxh64(np.arange(rows, dtype=np.uint64), 0) | np.uint64(1))[:, None]


@lru_cache(maxsize=64)
def _factors(seed: int, rows: int, scales: int) -> tuple[UInt64Array, UInt64Array]:
    """Return an odd number per row, and a number per scale."""
    numbers = xxh64(np.arange(rows + scales, dtype=np.uint64), seed & (2**64 - 1))
    return numbers[:rows] | np.uint64(1), numbers[rows:]


def _mixed(x: UInt64Array) -> UInt64Array:
    """Mix hashes: every bit depends on every bit (Stafford's mix 13 of Murmur's finalizer)."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x
