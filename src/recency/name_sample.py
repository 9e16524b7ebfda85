"""Names of heavy items, for sketches that know items by their hashes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.core.arrays import INT64_MAX, BoolArray, Int64Array, UInt64Array, cutoffs
from recency.core.codec import RecordReader, RecordWriter, corrupt
from recency.core.hashing import hash_events, hash_items, is_one
from recency.core.level_sample import LevelSample, group_of, levels_of_weights, surely_repeated
from recency.core.sample_states import (
    CoinCodec,
    ItemCodec,
    SampleStates,
    read_states,
    write_states,
)
from recency.event_sketch import warn_of_shared_coins

IDENTITY_BITS = 53
_LEVELS = (0, 116)  # of events with weights from 1 to 2⁵³, or more: no higher
_CODECS = (CoinCodec(), ItemCodec())
_BLOCK = 1 << 13  # events looked at in one pass: temporaries that stay in the cache
_FLUSH = 1 << 19
_ABSORB = 1 << 14  # survivors collected, at least, before the sample takes them in


def capacity_for_names(least_share: float, failure_probability: float) -> int:
    """Elements per level, so that all items of at least this share of a window are in the sample.

    Of a window whose level i holds all its events, and level i − 1 had more than ``capacity``, an
    item with the share φ has at least φ · capacity at levels from i on, in expectation and but for
    the deviation of a count of 1/φ times as many, which the factor allows for. It has none with
    probability exp(−that), and there are at most 1/φ such items.
    """
    return math.ceil(1.25 * math.log(1 / (least_share * failure_probability)) / least_share)


def as_objects(items: Any, size: int) -> NDArray[Any]:
    """Items as plain Python objects, in an array of ``size``; a single one is broadcast."""
    out = np.empty(() if is_one(items) else size, dtype=object)
    if is_one(items):
        out[()] = items.item() if isinstance(items, np.generic) else items
        return np.broadcast_to(out, size)
    plain = items if isinstance(items, Sequence) else np.asarray(items).tolist()
    out[:] = [item.item() if isinstance(item, np.generic) else item for item in plain]
    return out


class NameSample:
    """A sample of *events*, which keeps the latest of each item at each level, with its name.

    Unlike in a :class:`~recency.RandomizedWave`, the coin is the event's, so that the more often an
    item occurs, the surer it is named. Otherwise it is one: a function of the events and their
    coins, in any order; merging is exact. It is part of another sketch, and has no bytes of its
    own.

    This object is what the settings mean: functions of the sample of many keys, which none changes.
    """

    def __init__(self, window: int | None, capacity: int, seed: int) -> None:
        self.window, self.capacity, self.seed = window, capacity, seed

    def empty(self) -> LevelSample:
        """The sample of keys without events."""
        return LevelSample.empty(self.capacity, True, [codec.dtype for codec in _CODECS])

    def absorb(
        self,
        sample: LevelSample,
        cutoff: Int64Array,
        keys: Int64Array,
        ticks: Int64Array,
        levels: Int64Array,
        hashes: UInt64Array,
        items: NDArray[Any],
    ) -> LevelSample:
        """The sample with events, last rows first: mostly they are the newest."""
        survivors: list[tuple[NDArray[Any], ...]] = []
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
                survivors, collected = [], 0
        return _absorbed(sample, survivors, cutoff)

    def write(
        self,
        sample: LevelSample,
        latest: Int64Array,
        seen: BoolArray,
        by_id: BoolArray,
        stream: Int64Array,
        index: Int64Array,
        writer: RecordWriter,
    ) -> None:
        """See :mod:`recency.core.sample_states`; ``index`` counts the events."""
        states = SampleStates(sample, seen, np.where(seen, latest, 0), (stream, index), by_id)
        write_states(states, _CODECS, writer)

    def read(self, reader: RecordReader) -> SampleStates:
        """The inverse; refuses what no stream leads to."""
        states = read_states(
            self.empty(), self.window, _LEVELS, 2, _CODECS, reader, samples=1, ids=True
        )
        identity, items = states.sample.columns
        hashes = hash_items(list(items), self.seed)
        if (hashes >> np.uint64(64 - IDENTITY_BITS) != identity).any():
            corrupt(reader.name, "an item that does not belong to its hash")
        return states

    def names(self, sample: LevelSample, bits: int, since: int) -> dict[int, Any]:
        """Names in the sample of a single key, by the highest bits of their hashes.

        Where several share them: one that was seen later than ``since``, of the highest level.
        """
        identity, items = sample.columns
        order = np.lexsort((identity, sample.times, sample.levels, sample.times > since))
        hashes = (identity[order] >> np.uint64(IDENTITY_BITS - bits)).tolist()
        return dict(zip(hashes, items[order].tolist(), strict=True))


def _absorbed(
    sample: LevelSample, blocks: Sequence[tuple[NDArray[Any], ...]], cutoff: Int64Array
) -> LevelSample:
    none = (sample.groups[:0], sample.times[:0], *(column[:0] for column in sample.columns))
    groups, times, *columns = map(np.concatenate, zip(*blocks, none, strict=True))
    return sample.absorb(groups, times, tuple(columns), cutoff)


class NameTally:
    """The names of one sketch: a :class:`NameSample`, its sample, and what was counted."""

    def __init__(self, names: NameSample, stream: int = 0) -> None:
        self._names, self._stream = names, stream
        self._index, self._by_id = 0, False
        self.latest: int | None = None
        self._sample = names.empty()
        self._rows: list[tuple[Any, ...]] = []
        self._buffered = 0

    @property
    def is_empty(self) -> bool:
        """Whether there was no event."""
        return self.latest is None

    def empty_like(self) -> "NameTally":
        """The same without events."""
        return NameTally(self._names, self._stream)

    def copy(self) -> "NameTally":
        """An independent twin."""
        self.settle()
        twin = self.empty_like()
        vars(twin).update({**vars(self), "_rows": []})
        return twin

    def put(
        self,
        items: Any,
        hashes: UInt64Array,
        ticks: Int64Array,
        weights: Int64Array,
        coins: UInt64Array | None,
    ) -> None:
        """Events, with coins if they have ids; those of no weight have no part."""
        rows = np.flatnonzero(weights)
        if not rows.size:
            return
        items = as_objects(items, ticks.size)[rows]
        hashes = np.broadcast_to(hashes, ticks.size)[rows]
        ticks, weights = ticks[rows], weights[rows]
        self._by_id |= coins is not None
        if coins is None:
            bits = hashes.view(np.int64)
            coins = hash_events(self._names.seed, self._stream, self._index, bits, ticks)
        else:
            coins = coins[rows]
        self._index = min(self._index + rows.size, INT64_MAX)
        newest = int(ticks.max())
        self.latest = newest if self.latest is None else max(self.latest, newest)
        levels = levels_of_weights(weights.astype(np.float64), coins)
        self._rows.append((ticks, levels, hashes, items))
        self._buffered += rows.size
        if self._buffered >= _FLUSH:
            self.settle()

    def settle(self) -> None:
        """Absorb what is buffered."""
        columns = [np.concatenate(column) for column in zip(*self._rows, strict=True)]
        if columns:
            keys = np.zeros(columns[0].size, dtype=np.int64)
            self._sample = self._names.absorb(self._sample, self._cutoff(), keys, *columns)
        self._rows, self._buffered = [], 0

    def _cutoff(self) -> Int64Array:
        return cutoffs(np.array([self.latest]), self._names.window)

    @staticmethod
    def merged(tallies: Sequence["NameTally"]) -> "NameTally":
        """All events of several."""
        merged = tallies[0].copy()
        merged._stream = min(each._stream for each in tallies)
        merged._index = min(sum(each._index for each in tallies), INT64_MAX)
        merged._by_id = any(each._by_id for each in tallies)
        merged.latest = max(each.latest for each in tallies if each.latest is not None)
        samples = [each.copy()._sample for each in tallies]
        merged._sample = LevelSample.merge(samples, merged._cutoff())
        kept = [(e._stream, s.times) for e, s in zip(tallies, samples, strict=True) if not e._by_id]
        warn_of_shared_coins([(n, int(t.min()), int(t.max())) for n, t in kept if t.size])
        return merged

    @staticmethod
    def write(tallies: Sequence["NameTally"], writer: RecordWriter) -> None:
        """A record for each."""
        copies = [each.copy() for each in tallies]
        columns = (
            [e.latest or 0, e.latest is not None, e._by_id, e._stream, e._index] for e in copies
        )
        sample = LevelSample.side_by_side([each._sample for each in copies])
        latest, seen, by_id, stream, index = map(np.array, zip(*columns, strict=True))
        tallies[0]._names.write(sample, latest, seen, by_id, stream, index, writer)

    @staticmethod
    def read(names: NameSample, reader: RecordReader) -> list["NameTally"]:
        """The inverse."""
        states = names.read(reader)
        assert states.by_id is not None
        out = []
        for i, sample in enumerate(states.sample.split(np.arange(reader.size + 1))):
            each = NameTally(names, int(states.extra[0][i]))
            each._index, each._by_id = int(states.extra[1][i]), bool(states.by_id[i])
            each.latest = int(states.latest[i]) if states.seen[i] else None
            each._sample = sample
            out.append(each)
        return out

    def names(self, bits: int, since: int) -> dict[int, Any]:
        """See :meth:`NameSample.names`."""
        self.settle()
        return self._names.names(self._sample, bits, since)
