"""Tick log: which events are the first at or after some remembered ticks (n-th most recent 1).

The deterministic wave remembers ranks at distances that grow with their age. Here *ticks of the
clock* take the place of ranks (Gibbons & Tirthapura 2004, §5): of the ticks whose number is an odd
multiple of 2ʲ, the newest K up to the latest time are remembered, and of the stream, for every
remembered tick p, the first event at or after p, with its rank. Events of one time are one item
(z, v, t), as in :mod:`recency.core.rank_log`.

**What a question needs.** The r-th 1 is at the time of an item that holds rank r, or lies in the
gap between two stored items t' and t (or after the last). No remembered tick lies between t' and an
event of the gap, for the first event at or after that tick would be stored. So the whole gap lies
before p, the first remembered tick after t': the r-th 1 is in (t', min(t, p)). Remembered ticks
p' ≤ t' < p that follow each other are 2ʲ apart at most, where more than 2ʲ⁻¹/ε ticks lie between p
and the latest time (Lemma 1 there). So the midpoint is off by less than ε times the age.

**Merging is exact.** For a tick that is remembered at the later of two clocks, both logs know their
first event at or after it and how many 1s came before: the union's are the earlier one and the sum.

Ticks are counted from the beginning of int64, so that they are positive.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recency.core.arrays import (
    INT64_MIN,
    BoolArray,
    Int64Array,
    UInt64Array,
    highest_bit,
    run_starts,
)


@dataclass(frozen=True, eq=False)
class TickLog:
    """A value: every operation returns a new log."""

    tightness: int  # K
    total: int
    times: Int64Array
    ranks: Int64Array  # z
    values: Int64Array  # v ≥ 1

    @staticmethod
    def empty(tightness: int) -> "TickLog":
        """No events."""
        none = np.empty(0, dtype=np.int64)
        return TickLog(tightness, 0, none, none, none)

    def append(self, times: Int64Array, values: Int64Array, latest: int, cutoff: int) -> "TickLog":
        """Add ``values`` ≥ 1 events at ``times`` (ascending, none before the newest item)."""
        first = run_starts(times)
        running = np.cumsum(values)
        ends = np.append(first[1:], times.size) - 1
        new_ranks = self.total + running[ends] if first.size else first
        new_values = np.diff(new_ranks, prepend=self.total)
        new_times = times[first]
        total = int(new_ranks[-1]) if first.size else self.total
        if first.size and self.times.size and self.times[-1] == new_times[0]:
            new_values[0] += self.values[-1]
            old = slice(0, self.times.size - 1)
        else:
            old = slice(0, self.times.size)
        return TickLog(
            self.tightness,
            total,
            np.concatenate([self.times[old], new_times]),
            np.concatenate([self.ranks[old], new_ranks]),
            np.concatenate([self.values[old], new_values]),
        ).retained(latest, cutoff)

    @staticmethod
    def merge(logs: Sequence["TickLog"], latest: int, cutoff: int) -> "TickLog":
        """The log of the union of streams, for equal tightness.

        For a remembered tick p let t be the earliest of the logs' first events at or after p. No
        log has an event between p and t, so the 1s before p are those before t, and the item that
        each log stores at or after t says how many those are.
        """
        times = np.unique(np.concatenate([log.times for log in logs]))
        before, values = np.zeros((2, times.size), dtype=np.int64)
        for log in logs:
            # Past the end of a log there is no event, and all of its 1s lie before.
            i = np.searchsorted(log.times, times)
            before += np.append(log.ranks - log.values, log.total)[i]
            at_that_time = np.isin(times, log.times)
            values[at_that_time] += log.values
        total = sum(log.total for log in logs)
        merged = TickLog(logs[0].tightness, total, times, before + values, values)
        return merged.retained(latest, cutoff)

    def retained(self, latest: int, cutoff: int) -> "TickLog":
        """What is still needed when the clock stands at ``latest``; see the rank log for expiry."""
        low, high = self._intervals()
        level = highest_bit(low ^ high)
        keep = _is_remembered(high, level, latest, self.tightness)
        expired = np.flatnonzero(keep & (self.times <= cutoff))
        if expired.size > 1:
            newest_first = level[expired][::-1]
            highest = np.maximum.accumulate(newest_first)
            keep[expired[::-1][1:][newest_first[1:] <= highest[:-1]]] = False
        if keep.all():
            return self
        return TickLog(
            self.tightness, self.total, self.times[keep], self.ranks[keep], self.values[keep]
        )

    def locate(self, rank: int, latest: int) -> tuple[int, int]:
        """The earliest and the latest time at which the 1 of this rank can be."""
        i = int(np.searchsorted(self.ranks, rank))
        is_last_gap = i == self.ranks.size
        if not is_last_gap and self.ranks[i] - self.values[i] < rank:
            return int(self.times[i]), int(self.times[i])
        after = INT64_MIN if i == 0 else int(self.times[i - 1])
        before = _following_tick(after - INT64_MIN, latest, self.tightness) + INT64_MIN
        return after + 1, (before if is_last_gap else min(int(self.times[i]), before)) - 1

    def flaw(self, latest: int, cutoff: int) -> str | None:
        """What keeps this from being a log that :meth:`append` could have made, if anything."""
        gaps = np.diff(self.ranks, prepend=0) - self.values
        if (self.values < 1).any() or (gaps < 0).any():
            return "ranks out of order"
        if (self.times[1:] <= self.times[:-1]).any() or (self.times[-1:] > latest).any():
            return "times out of order"
        if (int(self.ranks[-1]) if self.ranks.size else 0) > self.total:
            return "more 1s than the total"
        if self.retained(latest, cutoff).times.size < self.times.size:
            return "an item that is not remembered"
        # Where 1s are missing between items there must be a time at which they could have been.
        starts = np.append(INT64_MIN, self.times)
        ends = np.append(self.times, min(latest + 1, 2**63 - 1))
        missing = np.append(gaps, self.total - (self.ranks[-1] if self.ranks.size else 0)) > 0
        for after, until in zip(starts[missing], ends[missing], strict=True):
            following = _following_tick(int(after) - INT64_MIN, latest, self.tightness)
            if until > cutoff and min(int(until), following + INT64_MIN) - int(after) < 2:
                return "1s at a time that cannot be"
        return None

    def _intervals(self) -> tuple[UInt64Array, UInt64Array]:
        """The ticks for which each item is the first event: after the item before it, to its own.

        A remembered tick between the event before an item and the *stored* item before it would
        have made that event a stored one; so the stored one may stand for it.
        """
        high = _positive(self.times)
        low = np.zeros(high.size, dtype=np.uint64)
        low[1:] = high[:-1]
        return low, high


def _ticks_up_to(now: int, level: int) -> int:
    """How many odd multiples of 2^level there are up to now."""
    return ((now >> level) + 1) >> 1


def _following_tick(tick: int, latest: int, tightness: int) -> int:
    """The first remembered tick after ``tick``; if none is left, the one after ``latest``."""
    now = latest - INT64_MIN
    candidates = [now + 1]
    for level in range(64):
        m = max(_ticks_up_to(tick, level), _ticks_up_to(now, level) - tightness)
        candidates.append((2 * m + 1) << level)
    return min(candidates)


def _positive(times: Int64Array) -> UInt64Array:
    return times.view(np.uint64) + np.uint64(-INT64_MIN)


def _is_remembered(ticks: UInt64Array, level: Int64Array, latest: int, tightness: int) -> BoolArray:
    """Whether an interval that ends at a tick and has this highest level holds a remembered one."""
    now = latest - INT64_MIN
    newest = np.array([_ticks_up_to(now, j) for j in range(64)], dtype=np.int64)
    m = (ticks >> level.view(np.uint64) >> np.uint64(1)).view(np.int64)
    kept: BoolArray = m >= newest[level] - tightness
    return kept
