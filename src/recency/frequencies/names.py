"""Names of heavy items, for sketches that know items by their hashes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.core import by_key
from recency.core.arrays import BoolArray, Int64Array, UInt64Array, cutoffs
from recency.core.codec import RecordReader, RecordWriter, corrupt
from recency.core.hashing import hash_items, is_one
from recency.core.level_sample import LevelSample, group_of, levels_of_weights, surely_repeated
from recency.frequencies.sample_cells import KeyedSample
from recency.frequencies.tally import CellTally, Events, index_after
from recency.samples.coins import check_shared
from recency.samples.records import (
    CoinCodec,
    ItemCodec,
    SampleStates,
    read_states,
    write_states,
)

IDENTITY_BITS = 53
_LEVELS = (0, 116)  # of events with weights from 1 to 2⁵³, or more: no higher
_CODECS = (CoinCodec(), ItemCodec())
_BLOCK = 1 << 13  # events looked at in one pass: temporaries that stay in the cache
_ABSORB = 1 << 14  # survivors collected, at least, before the sample takes them in


def capacity_for_names(least_share: float, failure_probability: float) -> int:
    """Elements per level, so that all items of at least this share of a window are in the sample.

    Of a window whose level i holds all its events, and level i − 1 had more than ``capacity``, an
    item with the share φ has at least φ · capacity at levels from i on, in expectation and but for
    the deviation of a count of 1/φ times as many, which the factor allows for. It has none with
    probability exp(−that), and there are at most 1/φ such items.
    """
    return math.ceil(1.25 * math.log(1 / (least_share * failure_probability)) / least_share)


class NameSample:
    """A sample of *events*, which keeps the latest of each item at each level, with its name.

    Unlike in a :class:`~recency.RandomizedWave`, the coin is the event's, so that the more often an
    item occurs, the surer it is named. Otherwise it is one: a function of the events and their
    coins, in any order; merging is exact. It is part of another sketch, and has no bytes of its
    own.
    """

    draws_coins = True
    drawn_columns = 2

    def __init__(self, window: int | None, capacity: int, seed: int) -> None:
        self.window, self.capacity, self.seed = window, capacity, seed

    def empty(self, size: int, merge_levels: int) -> KeyedSample:
        """No elements."""
        none = LevelSample.empty(self.capacity, True, [codec.dtype for codec in _CODECS])
        return KeyedSample(size, 1, 1, none)

    # --- update ---

    def draw(
        self, tally: CellTally, events: Events, counted: Any
    ) -> tuple[dict[str, Any], tuple[NDArray[Any], ...]]:
        """A level for each event with weight, and its item."""
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
        body: KeyedSample,
        tally: CellTally,
        keys: Int64Array,
        hashes: UInt64Array,
        ticks: Int64Array,
        weights: Int64Array,
        levels: Int64Array,
        items: NDArray[Any],
    ) -> KeyedSample:
        """Last rows first: mostly they are the newest."""
        sample, cutoff = body.sample, cutoffs(tally.named_latest, self.window)
        none = (sample.groups[:0], sample.times[:0], *(column[:0] for column in sample.columns))
        survivors: list[tuple[NDArray[Any], ...]] = [none]
        collected = 0
        for end in range(ticks.size, 0, -_BLOCK):
            rows = slice(max(0, end - _BLOCK), end)
            groups, times = group_of(keys[rows], levels[rows]), ticks[rows]
            identity = hashes[rows] >> np.uint64(64 - IDENTITY_BITS)
            kept = sample.may_be_kept(groups, times) & (times > cutoff[keys[rows]])
            kept &= ~surely_repeated(identity, groups, times)
            index = np.flatnonzero(kept)
            survivors.append((groups[index], times[index], identity[index], items[rows][index]))
            collected += index.size
            if collected >= max(_ABSORB, sample.times.size // 2):
                sample = _absorbed(sample, survivors, cutoff)
                survivors, collected = [none], 0
        return body.of(_absorbed(sample, survivors, cutoff))

    # --- merge ---

    def merge(
        self, body: KeyedSample, tally: CellTally, merged: CellTally, into: Int64Array
    ) -> tuple[dict[str, Any], KeyedSample]:
        """Exact."""
        check_shared(tally.of_names, into, body.sample.keys, body.sample.times)
        return {}, body.merged(into, merged.size, cutoffs(merged.named_latest, self.window))

    def drawn(self, tally: CellTally) -> BoolArray:
        """Whose coins came from the stream: none from ids."""
        return tally.of_names.seen & ~tally.named_by_id

    def finalize(self, body: KeyedSample, tally: CellTally) -> KeyedSample:
        """As it is."""
        return body

    # --- questions ---

    def names(self, body: KeyedSample, bits: int, since: int) -> dict[int, Any]:
        """Names in the sample of a single key, by the highest bits of their hashes.

        Where several share them: one that was seen later than ``since``, of the highest level.
        """
        sample = body.sample
        identity, items = sample.columns
        order = np.lexsort((identity, sample.times, sample.levels, sample.times > since))
        hashes = (identity[order] >> np.uint64(IDENTITY_BITS - bits)).tolist()
        return dict(zip(hashes, items[order].tolist(), strict=True))

    # --- bytes ---

    def write(self, body: KeyedSample, tally: CellTally, writer: RecordWriter) -> None:
        """See :mod:`recency.samples.records`."""
        of_names = tally.of_names
        extra = tally.stream, tally.named
        states = SampleStates(
            body.sample, of_names.seen, of_names.known_latest, extra, (tally.named_by_id,)
        )
        write_states(states, _CODECS, writer)

    def read(
        self, reader: RecordReader, counted: dict[str, Any]
    ) -> tuple[dict[str, Any], KeyedSample]:
        """The inverse; refuses what no stream leads to, given what else was counted."""
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
        return fields, body.of(states.sample)


def as_objects(items: Any, size: int) -> NDArray[Any]:
    """Items as plain Python objects, in an array of ``size``; a single one is broadcast."""
    out = np.empty(() if is_one(items) else size, dtype=object)
    if is_one(items):
        out[()] = items.item() if isinstance(items, np.generic) else items
        return np.broadcast_to(out, size)
    plain = items if isinstance(items, Sequence) else np.asarray(items).tolist()
    out[:] = [item.item() if isinstance(item, np.generic) else item for item in plain]
    return out


def _absorbed(
    sample: LevelSample, blocks: Sequence[tuple[NDArray[Any], ...]], cutoff: Int64Array
) -> LevelSample:
    groups, times, *columns = map(np.concatenate, zip(*blocks, strict=True))
    return sample.absorb(groups, times, tuple(columns), cutoff)
