"""Logs: which events of many streams are remembered, and how many there were up to each.

What the rank log (:mod:`recency.core.rank_log`) and the tick log (:mod:`recency.core.tick_log`)
have in common: all but the rule of what to remember. All events of one stream with one time are one
*entry*: its time, its rank z (how many events there were up to and including it), and its value v
(how many it stands for), so that it holds the ranks (z − v, z].
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from recency.core.arrays import BoolArray, Int64Array, is_sorted, offsets, ranges

Rows = slice | Int64Array


@dataclass(frozen=True, eq=False)
class Log:
    """The remembered entries of many streams, by key 0, 1, …, and by time within a key.

    A value: every operation returns a new log, and arrays are never written to once they are in
    one, so logs may share them.
    """

    totals: Int64Array  # per key: how many events there were
    starts: Int64Array  # key i owns entries starts[i]:starts[i + 1]
    times: Int64Array
    ranks: Int64Array  # z
    values: Int64Array  # v ≥ 1

    @classmethod
    def _empty(cls, size: int, *settings: Any) -> Self:
        """A log of ``size`` keys without entries; ``settings`` are the fields of the subclass."""
        none = np.empty(0, dtype=np.int64)
        zeros = np.zeros(size + 1, dtype=np.int64)
        return cls(zeros[1:], zeros, none, none, none, *settings)

    def _settings(self, keys: Rows) -> tuple[Any, ...]:
        """The fields of the subclass, for some keys."""
        raise NotImplementedError

    @classmethod
    def joined(cls, logs: Sequence[Self]) -> Self:
        """The keys of several logs one after the other; what all keys share must be equal."""
        settings = zip(*(log._settings(slice(None)) for log in logs), strict=True)
        return cls(
            np.concatenate([log.totals for log in logs]),
            offsets(np.concatenate([log.counts for log in logs])),
            np.concatenate([log.times for log in logs]),
            np.concatenate([log.ranks for log in logs]),
            np.concatenate([log.values for log in logs]),
            *(np.concatenate(x) if isinstance(x[0], np.ndarray) else x[0] for x in settings),
        )

    def _part(self, keys: Rows, starts: Int64Array, entries: Rows) -> Self:
        return type(self)(
            self.totals[keys],
            starts,
            self.times[entries],
            self.ranks[entries],
            self.values[entries],
            *self._settings(keys),
        )

    def take(self, keys: Int64Array) -> Self:
        """The log of some keys, on its own."""
        counts = self.counts[keys]
        return self._part(keys, offsets(counts), ranges(self.starts[keys], counts))

    def section(self, first: int, end: int) -> Self:
        """The log of the keys from ``first`` up to ``end``, without it."""
        starts = self.starts[first : end + 1]
        entries = slice(int(starts[0]), int(starts[-1]))
        return self._part(slice(first, end), starts - starts[0], entries)

    def split(self) -> list[Self]:
        """A log for each key."""
        starts = np.stack([np.zeros(self.size, dtype=np.int64), self.counts], axis=1)
        return [
            self._part(slice(i, i + 1), starts[i], slice(begin, end))
            for i, (begin, end) in enumerate(pairwise(self.starts.tolist()))
        ]

    @property
    def size(self) -> int:
        """Number of keys."""
        return self.totals.size

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return self.times.size

    @property
    def nbytes(self) -> int:
        """Memory held by entries."""
        return 24 * self.times.size

    @property
    def counts(self) -> Int64Array:
        """How many entries each key has."""
        return self.starts[1:] - self.starts[:-1]  # as np.diff, which takes several times as long

    def entry_keys(self) -> Int64Array:
        """The key of each entry."""
        return np.repeat(np.arange(self.size), self.counts)

    def gaps(self) -> Int64Array:
        """Events between each entry and the one before it, or the start of its stream."""
        gaps: Int64Array = self.ranks - self.values - previous(self.ranks, self.starts)
        return gaps

    def _grown(self, keys: Int64Array, added: Int64Array) -> Self:
        """This log with larger totals of some keys."""
        totals = self.totals.copy()
        totals[keys] += added
        return replace(self, totals=totals)

    def _interleaved(self, old: Rows | BoolArray, *batch: Int64Array) -> list[Int64Array]:
        """Keys, times, ranks and values of old entries and of those of a batch, by key.

        The batch is in order of keys, and later than the old entries of its keys.
        """
        own = self.entry_keys(), self.times, self.ranks, self.values
        columns = [np.concatenate([mine[old], new]) for mine, new in zip(own, batch, strict=True)]
        if is_sorted(columns[0]):
            return columns
        order = np.argsort(columns[0], kind="stable")  # two sorted runs: one merge
        return [column[order] for column in columns]

    def _kept(
        self,
        keys: Int64Array,
        times: Int64Array,
        ranks: Int64Array,
        values: Int64Array,
        keep: BoolArray,
        expired: BoolArray,
        level_of: Callable[[Int64Array], Int64Array],
    ) -> Self:
        """This log with those of some entries (by key, then time) that are to be kept.

        Of those that have expired, only the ones whose level is above that of all newer expired
        ones. ``level_of`` gives the levels of some of the entries; ``keep`` is overwritten.
        """
        some = np.flatnonzero(expired & keep)
        if some.size > 1:
            level, highest = newest_first(self.size - keys[some], level_of(some))
            keep[some[::-1][1:][level[1:] <= highest[:-1]]] = False
        if not keep.all():
            index = np.flatnonzero(keep)  # several times faster than masks, from the second use on
            keys, times, ranks, values = keys[index], times[index], ranks[index], values[index]
        starts = offsets(np.bincount(keys, minlength=self.size))
        return replace(self, starts=starts, times=times, ranks=ranks, values=values)


def previous(x: NDArray[Any], starts: Int64Array) -> NDArray[Any]:
    """The element before each; 0 for the first one of each segment."""
    before = np.zeros_like(x)
    before[1:] = x[:-1]
    begin, end = starts[:-1], starts[1:]
    before[begin[begin < end]] = 0
    return before


def newest_first(place: Int64Array, level: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Levels of entries, newest first, and the highest so far, apart for each key.

    ``place`` falls from key to key. With it above the level in one number, a running maximum never
    looks back beyond the key.
    """
    tag = (place << 6 | level)[::-1]
    return tag, np.maximum.accumulate(tag)
