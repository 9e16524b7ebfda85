"""What :mod:`recency.name_sample` still needs of the old classes; goes with it."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from recency.core.arrays import BoolArray, Int64Array, UInt64Array
from recency.core.hashing import hash_items
from recency.core.level_sample import Columns, levels_of_items, surely_repeated
from recency.core.sample_states import (
    ColumnCodec,
    IdentityCodec,
    ItemCodec,
    SampleStates,
    identities,
)
from recency.items import as_list
from recency.randomized_wave import RandomizedWaveConfig
from recency.sample_sketch import SampleSketch


class OldItemSample(SampleSketch):
    """The randomized wave as it was before the keyed engine."""

    config: RandomizedWaveConfig
    config_class = RandomizedWaveConfig
    _distinct = True
    _least_flush = 1 << 19

    def __init__(self, window: int | None, *, keep_items: bool, capacity: int, seed: int) -> None:
        self.config = RandomizedWaveConfig(window, 0.05, 0.95, keep_items, capacity, seed, None)
        self._start()

    guarantee = 0.05

    def _start(self) -> None:
        # hash, time, and where the item waits
        self._pending_columns = 3 if self.config.keep_items else 2
        super()._start()
        self._items: list[Any] = []

    def _codecs(self) -> Sequence[ColumnCodec]:
        return [IdentityCodec(), ItemCodec()] if self.config.keep_items else [IdentityCodec()]

    def _buffer(
        self, hashes: Any, items: Any, ticks: Int64Array, size: int, *more: Int64Array
    ) -> None:
        columns = [hashes.view(np.int64), ticks]
        if self.config.keep_items:
            if self._pending.size and self._pending.size + size > self._room():
                self._flush()  # before the new items join those that wait
            columns.append(np.arange(len(self._items), len(self._items) + size))
            self._items += as_list(items, size)
        self._add([*columns, *more], int(ticks.max()), size)
        if not self._pending.size:
            self._items = []

    def _buffer_rows(self) -> None:
        """Rows come in blocks only."""

    def _flush(self) -> None:
        super()._flush()
        self._items = []

    def _levels(self, columns: Sequence[Int64Array]) -> Int64Array:
        return levels_of_items(columns[0].view(np.uint64))

    def _further(self, columns: Sequence[Int64Array], levels: Int64Array) -> Columns:
        identity = self._identities(columns[0].view(np.uint64), levels)
        if not self.config.keep_items:
            return (identity,)
        if columns[2].dtype == object:
            return identity, columns[2]
        items = np.empty(levels.size, dtype=object)
        items[:] = [self._items[i] for i in columns[2]]
        return identity, items

    @classmethod
    def _identities(cls, hashes: UInt64Array, levels: Int64Array) -> UInt64Array:
        return identities(hashes, levels)

    def _not_needed(self, groups: Int64Array, times: Int64Array, further: Columns) -> BoolArray:
        return surely_repeated(further[0], groups, times)

    @classmethod
    def _check(cls, prototype: Self, states: SampleStates) -> str | None:
        if prototype.config.keep_items:
            identity, items = states.sample.columns
            hashes = hash_items(list(items), prototype.config.seed)
            levels = states.sample.levels
            if (cls._identities(hashes, levels) != identity).any() or not (
                cls._fits(hashes, levels)
            ).all():
                return "an item that does not belong to its hash"
        return None

    @classmethod
    def _fits(cls, hashes: UInt64Array, levels: Int64Array) -> BoolArray:
        """Whether items are at levels where they may be."""
        fits: BoolArray = levels_of_items(hashes) == levels
        return fits
