"""Names of heavy items, for sketches that know items by their hashes."""

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from recency.core.arrays import BoolArray, Int64Array, UInt64Array
from recency.core.level_sample import levels_of_weights
from recency.core.sample_states import CoinCodec, ColumnCodec, ItemCodec
from recency.event_sketch import DrawsCoins
from recency.items import as_list
from recency.old_item_sample import OldItemSample

IDENTITY_BITS = 53


def capacity_for_names(least_share: float, doubt: float) -> int:
    """Elements per level, so that all items of at least this share of a window are in the sample.

    Of a window whose level i holds all its events, and level i − 1 had more than ``capacity``, an
    item with the share φ has at least φ · capacity at levels from i on, in expectation and but for
    the deviation of a count of 1/φ times as many, which the factor allows for. It has none with
    probability exp(−that), and there are at most 1/φ such items.
    """
    return math.ceil(1.25 * math.log(1 / (least_share * doubt)) / least_share)


class NameSample(OldItemSample, DrawsCoins):
    """A sample of *events*, which keeps the latest of each item at each level, with its name.

    Unlike in a :class:`RandomizedWave`, the coin is the event's, so that the more often an item
    occurs, the surer it is named. Otherwise it is one: a function of the events and their coins,
    in any order; merging is exact. It is part of another sketch, and has no bytes of its own.
    """

    _level_range = (0, 116)  # of events with weights from 1 to 2⁵³, or more: no higher

    def __init__(self, window: int | None, capacity: int, seed: int, stream: int = 0) -> None:
        super().__init__(window, keep_items=True, capacity=capacity, seed=seed)
        self._stream = stream

    def _start(self) -> None:
        super()._start()
        self._pending_columns = 4  # hash, time, where the item waits, level
        self._pending = type(self._pending)(4)
        self._stream = self._index = 0

    def _codecs(self) -> Sequence[ColumnCodec]:
        return [CoinCodec(), ItemCodec()]

    def empty_like(self, merge_levels: int = 0, stream: int | None = None) -> Self:
        """A new sample of the same configuration."""
        config = self.config
        empty = type(self)(config.window, config.capacity, config.seed)
        empty._stream = self._stream if stream is None else stream
        return empty

    def put(
        self,
        items: Any,
        hashes: UInt64Array,
        ticks: Int64Array,
        weights: Int64Array,
        coins: UInt64Array | None,
    ) -> None:
        """Events, with coins if they have ids; those of no weight have no part."""
        size = ticks.size
        if not weights.all():
            rows = np.flatnonzero(weights)
            listed = as_list(items, size)
            items = [listed[row] for row in rows]
            hashes = np.broadcast_to(hashes, size)[rows]
            coins = None if coins is None else np.broadcast_to(coins, size)[rows]
            ticks, weights, size = ticks[rows], weights[rows], rows.size
        if not size:
            return
        self._by_id |= coins is not None
        if coins is None:
            bits = np.ascontiguousarray(np.broadcast_to(hashes, size)).view(np.int64)
            coins = self._next_coins(bits, ticks)
        self._count(size)
        levels = levels_of_weights(weights.astype(np.float64), np.broadcast_to(coins, size))
        self._buffer(np.broadcast_to(hashes, size), items, ticks, size, levels)

    def _levels(self, columns: Sequence[Int64Array]) -> Int64Array:
        return columns[3]

    @classmethod
    def _identities(cls, hashes: UInt64Array, levels: Int64Array) -> UInt64Array:
        return hashes >> np.uint64(64 - IDENTITY_BITS)

    @classmethod
    def _fits(cls, hashes: UInt64Array, levels: Int64Array) -> BoolArray:
        return np.ones(levels.size, dtype=np.bool_)

    def names(self, bits: int, since: int) -> dict[int, Any]:
        """Names by the highest bits of their hashes.

        Where several share them: one that was seen later than ``since``, of the highest level.
        """
        self._settle()
        sample = self._sample
        identity, items = sample.columns
        order = np.lexsort((identity, sample.times, sample.levels, sample.times > since))
        keys = (identity[order] >> np.uint64(IDENTITY_BITS - bits)).tolist()
        return dict(zip(keys, items[order].tolist(), strict=True))
