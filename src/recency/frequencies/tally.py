"""Tally of the sketches of rows of cells, and admitted events with their coins."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from recency.algorithm import NEVER
from recency.core import by_key
from recency.core.arrays import BoolArray, Int64Array, UInt64Array
from recency.core.hashing import chained
from recency.counters.arrival import CounterTally
from recency.samples.coins import CoinTally, drawn


@dataclass(frozen=True, eq=False)
class CellTally(CounterTally):
    """Tally with the stream number, from which sampled cells and names draw separate coins."""

    stream: Int64Array
    index: Int64Array
    """How many events drew the coins of cells."""
    by_id: BoolArray
    """Whether any had an id."""
    named_latest: Int64Array
    named: Int64Array
    """How many events drew coins to be named: those with weight."""
    named_by_id: BoolArray
    start = {  # noqa: RUF012
        **CounterTally.start,
        "by_id": False,
        "named_latest": NEVER,
        "named_by_id": False,
    }

    @property
    def of_cells(self) -> CoinTally:
        """The fields on which coins of cells depend."""
        return CoinTally(self.latest, self.stream, self.index, self.by_id)

    @property
    def of_names(self) -> CoinTally:
        """The fields on which coins of names depend."""
        return CoinTally(self.named_latest, self.stream, self.named, self.named_by_id)


class Events(NamedTuple):
    """Admitted rows, including those of weight 0."""

    keys: Int64Array
    hashes: UInt64Array
    ticks: Int64Array
    weights: Int64Array
    ids: UInt64Array | None
    has_id: BoolArray | None
    """Which have an id; None for all, if there are ids."""
    items: Any
    """As they came."""

    def taken(self, rows: Any) -> "Events":
        """Return some of the rows; ``items`` are not selected."""
        keys, hashes, ticks, weights, ids, has_id, items = self
        ids = None if ids is None else ids[rows]
        has_id = None if has_id is None else has_id[rows]
        return Events(keys[rows], hashes[rows], ticks[rows], weights[rows], ids, has_id, items)

    def coins(self, seed: int, tally: CoinTally) -> tuple[UInt64Array, BoolArray]:
        """Return the coins of all rows, and which keys have an event with an id.

        Events with ids share a coin only if time, item and weight are equal, too.
        """
        keys, hashes, ticks, weights, ids, has_id, _ = self
        bits = np.ascontiguousarray(hashes).view(np.int64)
        by_id = np.zeros(tally.size, dtype=np.bool_)
        if ids is None:
            return drawn(seed, tally, keys, bits, ticks), by_id
        of_ids = chained(ids, ticks, bits, weights)
        if has_id is None:
            by_id[keys] = True
            return of_ids, by_id
        by_id[keys[has_id]] = True
        return np.where(has_id, of_ids, drawn(seed, tally, keys, bits, ticks)), by_id


def index_after(tally: CoinTally, keys: Int64Array) -> Int64Array:
    """Return the number of events of each key, including the given rows."""
    index, _ = by_key.added(tally.index, by_key.counts(keys, tally.size))
    return index
