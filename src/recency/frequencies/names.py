"""Sample of the names of frequent items, for sketches that only store hashes of items."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.core import by_key
from recency.core.arrays import BoolArray, Int64Array, UInt64Array, cutoffs
from recency.core.codec import RecordReader, RecordWriter, corrupt
from recency.core.hashing import hash_items
from recency.core.level_sample import (
    Columns,
    Edges,
    LevelSample,
    group_of,
    levels_of_weights,
    surely_repeated,
    take,
)
from recency.core.samples import Samples
from recency.frequencies.tally import CellTally, Events, index_after
from recency.samples.algorithm import Placed, Placing, blocks_of, taken_in
from recency.samples.coins import check_shared
from recency.samples.items import as_objects
from recency.samples.records import (
    CoinCodec,
    ItemCodec,
    SampleStates,
    read_states,
    write_states,
)

IDENTITY_BITS = 53
_LEVELS = (0, 116)  # levels of events of weight 1 to 2⁵³; larger weights have no higher ones
_CODECS = (CoinCodec(), ItemCodec())
_BLOCK = 1 << 13  # events per pass: temporaries stay in the cache
_ABSORB = 1 << 14  # rows to collect, at least, before the sample absorbs them


def capacity_for_names(least_share: float, failure_probability: float) -> int:
    """Return the elements per level for which all items with at least this share are sampled.

    Take a window such that level i still has all events of it and level i − 1 had more than
    ``capacity``. An item with share φ of the window then has an expected number of at least
    φ · capacity events at levels ≥ i, up to the deviation of a count that is 1/φ times as large; a
    factor allows for that. It has none with probability exp(−that number), and there are at most
    1/φ such items.
    """
    return math.ceil(1.25 * math.log(1 / (least_share * failure_probability)) / least_share)


class NameSample:
    """A sample of *events* that keeps the latest event of each item at each level, with its name.

    Unlike in a :class:`~recency.RandomizedWave` the coin is drawn per event, so the more often an
    item occurs, the more likely its name is sampled. As there, the state depends only on the
    events and their coins, in any order, and merging is exact. The sample is a part of another
    sketch and has no bytes of its own.
    """

    draws_coins = True
    drawn_columns = 2

    def __init__(self, window: int | None, capacity: int, seed: int) -> None:
        self.window, self.capacity, self.seed = window, capacity, seed

    def empty(self, size: int, merge_levels: int) -> Samples:
        """Return keys without elements."""
        none = LevelSample.empty(self.capacity, True, [codec.dtype for codec in _CODECS])
        return Samples(none, np.ones(size, dtype=np.int64))

    # --- update ---

    def draw(
        self, tally: CellTally, events: Events, counted: Any
    ) -> tuple[dict[str, Any], tuple[NDArray[Any], ...]]:
        """Return the level and the item of each event whose weight is not 0."""
        items = as_objects(events.items, events.ticks.size)[counted]
        events = events.taken(counted)
        coins, by_id = events.coins(self.seed, tally.of_names)
        changes = {
            "named_latest": by_key.raised(tally.named_latest, events.keys, events.ticks),
            "named": index_after(tally.of_names, events.keys),
            "named_by_id": tally.named_by_id | by_id,
        }
        return changes, (levels_of_weights(events.weights.astype(np.float64), coins), items)

    def absorb(
        self,
        body: Samples,
        tally: CellTally,
        keys: Int64Array,
        hashes: UInt64Array,
        ticks: Int64Array,
        weights: Int64Array,
        levels: Int64Array,
        items: NDArray[Any],
    ) -> Samples:
        """Add rows."""
        placing = NamePlacing(cutoffs(tally.named_latest, self.window))
        blocks = blocks_of(keys, (hashes, ticks, levels, items), _BLOCK)
        return replace(body, sample=taken_in(body.sample, placing, blocks, _ABSORB))

    # --- merge ---

    def merge(
        self, body: Samples, tally: CellTally, merged: CellTally, into: Int64Array
    ) -> tuple[dict[str, Any], Samples]:
        """Merge keys; this is exact."""
        check_shared(tally.of_names, into, body.sample.keys, body.sample.times)
        joint = body.alike(into, merged.size)
        sample = joint.sample.united(cutoffs(merged.named_latest, self.window))
        return {}, replace(joint, sample=sample)

    def drawn(self, tally: CellTally) -> BoolArray:
        """Return which keys drew coins from their stream number, none from ids."""
        return tally.of_names.seen & ~tally.named_by_id

    def finalize(self, body: Samples, tally: CellTally) -> Samples:
        """Return the body unchanged."""
        return body

    # --- questions ---

    def names(self, body: Samples, bits: int, since: int) -> dict[int, Any]:
        """Return the names in the sample of a single key, by the highest bits of their hashes.

        If several names have the same bits, one that occurred after ``since`` is preferred, and
        then that of the highest level.
        """
        sample = body.sample
        identity, items = sample.columns
        order = np.lexsort((identity, sample.times, sample.levels, sample.times > since))
        hashes = (identity[order] >> np.uint64(IDENTITY_BITS - bits)).tolist()
        return dict(zip(hashes, items[order].tolist(), strict=True))

    # --- bytes ---

    def write(self, body: Samples, tally: CellTally, writer: RecordWriter) -> None:
        """Write the records that :mod:`recency.samples.records` describes."""
        of_names = tally.of_names
        extra = tally.stream, tally.named
        states = SampleStates(
            body.sample, of_names.seen, of_names.known_latest, extra, (tally.named_by_id,)
        )
        write_states(states, _CODECS, writer)

    def read(self, reader: RecordReader, counted: dict[str, Any]) -> tuple[dict[str, Any], Samples]:
        """Read what :meth:`write` wrote; refuse samples that contradict the counts."""
        body = self.empty(reader.size, 0)
        states = read_states(body.sample, self.window, _LEVELS, 2, _CODECS, reader, flags=1)
        name, (stream, named) = reader.name, states.extra
        identity, items = states.sample.columns
        hashes = hash_items(list(items), self.seed)
        if (hashes >> np.uint64(64 - IDENTITY_BITS) != identity).any():
            corrupt(name, "an item that does not belong to its hash")
        totals = counted["totals"]
        latest = np.where(states.seen, states.latest, CellTally.start["named_latest"])
        if (totals[~states.seen] > 0).any():
            corrupt(name, "events without names")
        if (totals[states.seen] == 0).any() or (latest > counted["latest"]).any():
            corrupt(name, "names without events")
        if (named > totals).any() or (named < (totals > 0)).any():
            corrupt(name, "names of more events than there were")
        if (stream != counted.get("stream", stream)).any():
            corrupt(name, "names of another stream")
        fields = {
            "stream": stream,
            "named_latest": latest,
            "named": named,
            "named_by_id": states.flags[0],
        }
        return fields, replace(body, sample=states.sample)


class NamePlacing(Placing):
    """Rule that places each item at the level of its event."""

    def place(self, edges: Edges, keys: Int64Array, rows: Columns) -> Placed:
        """Return items later than the edge of their level, without most that come again."""
        hashes, times, levels, items = rows
        groups, identity = group_of(keys, levels), hashes >> np.uint64(64 - IDENTITY_BITS)
        kept = times > np.maximum(edges.of(groups), by_key.of_rows(self.cutoff, keys))
        kept &= ~surely_repeated(identity, groups, times)
        return take(np.flatnonzero(kept), groups, times, (identity, items))
