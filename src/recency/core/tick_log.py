"""Tick log: which events are the first at or after some remembered ticks (n-th most recent 1).

The deterministic wave remembers ranks at distances that grow with their age. Here *ticks of the
clock* take the place of ranks (Gibbons & Tirthapura 2004, §5): of the ticks whose number is an odd
multiple of 2ʲ, the newest K up to the latest time are remembered, and of the stream, for every
remembered tick p, the first event at or after p, with its rank. Events of one time are one entry
(z, v, t), as in :mod:`recency.core.rank_log`.

**What a question needs.** The r-th 1 is at the time of an entry that holds rank r, or lies in the
gap between two stored entries t' and t (or after the last). No remembered tick lies between t' and
an event of the gap, for the first event at or after that tick would be stored. So the whole gap
lies before p, the first remembered tick after t': the r-th 1 is in (t', min(t, p)). Remembered
ticks p' ≤ t' < p that follow each other are 2ʲ apart at most, where more than 2ʲ⁻¹/ε ticks lie
between p and the latest time (Lemma 1 there). So the midpoint is off by less than ε times the age.

**The first remembered tick after t'.** Level j remembers its ticks after 2ʲ⁺¹m_j, where m_j of them
are forgotten, and 2ʲ⁺¹m_j does not grow with j. Let L be the lowest level that remembers all its
ticks after t'. Then so do higher ones: all multiples of 2ᴸ after t' are remembered. The level below
has forgotten a tick after t', so 2ᴸm_{L−1} is a multiple of 2ᴸ after t', and no level below L
remembers a tick up to there. So p is the next multiple of 2ᴸ.

**Merging is exact.** For a tick that is remembered at the later of two clocks, both logs know their
first event at or after it and how many 1s came before: the union's are the earlier one and the sum.

Ticks are counted from the beginning of int64, as unsigned numbers: the first that an event can have
is 1, the last is 2⁶⁴ − 1, and nothing here computes the tick after that.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from recency.core.arrays import (
    INT64_MIN,
    BoolArray,
    Int64Array,
    UInt64Array,
    highest_bit,
    is_sorted,
    offsets,
    run_lengths,
    run_starts,
    stable_order,
)
from recency.core.log import Log, Rows, previous

_ONE = np.uint64(1)
_ORIGIN = np.uint64(-INT64_MIN)


@dataclass(frozen=True, eq=False)
class TickLog(Log):
    """The entries of many independent streams of 1s, as remembered ticks of the clock ask for.

    Clocks are not in the log: ``latest`` is the time of each key's.
    """

    tightness: int  # K, of all keys

    @staticmethod
    def empty(tightness: int, size: int = 1) -> "TickLog":
        """A log of ``size`` keys without events."""
        return TickLog._empty(size, tightness)

    def _settings(self, keys: Rows) -> tuple[Any, ...]:
        return (self.tightness,)

    def append(
        self,
        keys: Int64Array,
        times: Int64Array,
        values: Int64Array,
        latest: Int64Array,
        cutoff: Int64Array,
    ) -> "TickLog":
        """Add ``values`` ≥ 1 events at ``times``, which are in order within each key.

        No time may be before the newest entry of its key. Clocks move on to ``latest``, and what is
        not later than ``cutoff`` (per key) expires. The values of a batch must add up to less than
        2⁶³, and so must the new totals.
        """
        if not is_sorted(keys):
            order = stable_order(keys)
            keys, times, values = keys[order], times[order], values[order]
        key_row = run_starts(keys)
        touched = keys[key_row]
        running = np.cumsum(values)
        before_key = running[key_row] - values[key_row]
        shift = np.repeat(self.totals[touched] - before_key, run_lengths(key_row, keys.size))
        grown = self._grown(touched, np.diff(before_key, append=running[-1:]))
        keys, times, ranks, values = self._interleaved(
            slice(None), keys, times, running + shift, values
        )
        # Events of one key and time are one entry; the newest goes on growing while its time lasts.
        first = run_starts(times, keys)
        if first.size < times.size:
            ranks = ranks[np.append(first[1:], times.size) - 1]
            keys, times, values = keys[first], times[first], np.add.reduceat(values, first)
        return grown._retained(keys, times, ranks, values, latest, cutoff)

    def merge(self, into: Int64Array, latest: Int64Array, cutoff: Int64Array) -> "TickLog":
        """Key ``into[i]`` of a new log has the events of key i, and of all others that go there.

        For a remembered tick p let t be the earliest of the logs' first events at or after p. No
        log has an event between p and t, so the 1s before p are those before t, and the entry that
        each log stores at or after t says how many those are; past the end of a log there is no
        event, and all of its 1s lie before. So the 1s before t grow, from one entry of a log to the
        next, by what lies between their beginnings: a sum over all entries before t.
        """
        before = self.ranks - self.values
        begin, end = self.starts[:-1], self.starts[1:]
        has_entries = begin < end
        at_first = self.totals.copy()
        at_first[has_entries] = before[begin[has_entries]]
        until_next = np.append(before[1:], np.int64(0))[: before.size]
        until_next[end[has_entries] - 1] = self.totals[has_entries]
        totals, base = np.zeros((2, latest.size), dtype=np.int64)
        np.add.at(totals, into, self.totals)
        np.add.at(base, into, at_first)

        keys = into[self.entry_keys()]
        order = np.argsort(self.times, kind="stable")
        if not is_sorted(keys[order]):
            order = order[stable_order(keys[order])]
        keys, times = keys[order], self.times[order]
        first = run_starts(times, keys)
        passed = offsets((until_next - before)[order])[first]
        keys, times = keys[first], times[first]
        values = np.add.reduceat(self.values[order], first)
        key_entry = run_starts(keys)
        shift = base[keys[key_entry]] - passed[key_entry]
        ranks = passed + np.repeat(shift, run_lengths(key_entry, keys.size)) + values
        merged = replace(TickLog.empty(self.tightness, latest.size), totals=totals)
        return merged._retained(keys, times, ranks, values, latest, cutoff)

    def locate(self, ranks: Int64Array, latest: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Per key, the earliest and the latest time at which the 1 of this rank can be."""
        begin, end = self.starts[:-1], self.starts[1:]
        keys, now = self.entry_keys(), _ticks(latest)
        # The first entry that ends at this rank or later, if any.
        i = begin + np.bincount(keys[self.ranks < ranks[keys]], minlength=self.size)
        found = np.flatnonzero(i < end)
        entry = i[found]
        last, inside = now.copy(), np.zeros(self.size, dtype=np.bool_)
        last[found] = _ticks(self.times[entry])
        inside[found] = self.ranks[entry] - self.values[entry] < ranks[found]
        earliest = last.copy()
        gap = np.flatnonzero(~inside)
        if gap.size:
            after, i = np.zeros(gap.size, dtype=np.uint64), i[gap]
            older = np.flatnonzero(i > begin[gap])
            after[older] = _ticks(self.times[i[older] - 1])
            before_entry = last[gap] - (i < end[gap])
            earliest[gap] = after + _ONE
            before_remembered = _before_next_remembered(after, now[gap], self.tightness)
            last[gap] = np.minimum(before_entry, before_remembered)
        return _times(earliest), _times(last)

    def flaw(self, latest: Int64Array, cutoff: Int64Array) -> str | None:
        """What keeps this from being a log that :meth:`append` could have made, if anything."""
        keys, gaps = self.entry_keys(), self.gaps()
        has_entries = self.counts > 0
        newest = self.starts[1:][has_entries] - 1
        in_last_gap = self.totals.copy()
        in_last_gap[has_entries] -= self.ranks[newest]
        if (self.values < 1).any() or (gaps < 0).any() or (self.ranks < self.values).any():
            return "ranks out of order"
        if (in_last_gap < 0).any():
            return "more 1s than the total"
        ascends = (self.times[1:] > self.times[:-1]) | (keys[1:] != keys[:-1])
        if not ascends.all() or (self.times[newest] > latest[has_entries]).any():
            return "times out of order"
        kept = self._retained(keys, self.times, self.ranks, self.values, latest, cutoff)
        if kept.times.size < self.times.size:
            return "an item that is not remembered"
        # Where 1s are missing, the tick after the entry before them is where they are most easily
        # forgotten: a longer interval may only hold a higher level.
        ticks = _ticks(self.times)
        after = previous(ticks, self.starts)
        forgotten = ~_is_remembered(after, after + _ONE, _ticks(latest)[keys], self.tightness)
        # Among expired entries it is enough that the entry after them has the highest level.
        outdone = highest_bit((after + _ONE) ^ ticks) == highest_bit(after ^ ticks)
        is_expired = self.times <= cutoff[keys]
        possible = (ticks - after > _ONE) & (forgotten | (is_expired & outdone))
        now = _ticks(latest)
        after = np.zeros(self.size, dtype=np.uint64)
        after[has_entries] = ticks[newest]
        forgotten = ~_is_remembered(after, after + _ONE, now, self.tightness)
        possible_in_last = (after < now) & forgotten
        if ((gaps > 0) & ~possible).any() or ((in_last_gap > 0) & ~possible_in_last).any():
            return "1s at a time that cannot be"
        return None

    def _retained(
        self,
        keys: Int64Array,
        times: Int64Array,
        ranks: Int64Array,
        values: Int64Array,
        latest: Int64Array,
        cutoff: Int64Array,
    ) -> "TickLog":
        """This log with those of the given entries (by key, then time) that are still needed.

        An entry is the first event for the ticks after the entry before it, up to its own. A
        remembered tick between the event before an entry and the *stored* entry before it would
        have made that event a stored one; so the stored one may stand for it. For expiry see the
        rank log.
        """
        ticks = _ticks(times)
        after = previous(ticks, offsets(np.bincount(keys, minlength=self.size)))
        keep = _is_remembered(after, ticks, _ticks(latest)[keys], self.tightness)

        def level_of(some: Int64Array) -> Int64Array:
            return highest_bit(after[some] ^ ticks[some])

        return self._kept(keys, times, ranks, values, keep, times <= cutoff[keys], level_of)


def _ticks(times: Int64Array) -> UInt64Array:
    return times.view(np.uint64) + _ORIGIN


def _times(ticks: UInt64Array) -> Int64Array:
    times: UInt64Array = ticks - _ORIGIN
    return times.view(np.int64)


def _ticks_of_level(now: UInt64Array, level: UInt64Array) -> UInt64Array:
    """How many odd multiples of 2ʲ there are up to ``now``: at most 2⁶³."""
    multiples = now >> level
    odd: UInt64Array = (multiples >> _ONE) + (multiples & _ONE)
    return odd


def _is_remembered(
    after: UInt64Array, upto: UInt64Array, now: UInt64Array, tightness: int
) -> BoolArray:
    """Whether there is a remembered tick in (after, upto], which is not empty.

    Its tick of the highest level, the highest bit in which both ends differ, stands for all.
    """
    level = highest_bit(after ^ upto).view(np.uint64)
    m = upto >> level >> _ONE
    remembered: BoolArray = m + np.uint64(tightness) >= _ticks_of_level(now, level)
    return remembered


def _before_next_remembered(after: UInt64Array, now: UInt64Array, tightness: int) -> UInt64Array:
    """The last tick before the first remembered one later than ``after``, or ``now``."""
    # Ticks of level j are 2ʲ⁺¹ apart: (K + 1)·2ʲ⁺¹ ticks or more hold too many for level j. So
    # L is this level, or one of the next two, for as many ticks hold at most one more than that.
    level = np.maximum(highest_bit((now - after) // np.uint64(tightness + 1)), 0)
    while True:
        wide = level.view(np.uint64)
        remembered_since = _ticks_of_level(after, wide) + np.uint64(tightness)
        forgets = remembered_since < _ticks_of_level(now, wide)
        if not forgets.any():
            break
        level = level + forgets
    last_before: UInt64Array = after | ((_ONE << wide) - _ONE)
    return np.minimum(last_before, now)
