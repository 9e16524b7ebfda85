"""Rank log: exponential histograms and deterministic waves, many at once.

Give each unit of a stream its rank 1, 2, …, R. Both structures remember the time of *some*
ranks, and which ones is a pure function of the rank and R. So there is no cascade of bucket
merges (Datar et al. 2002) and no queue per level (Gibbons & Tirthapura 2004, Fig. 4): new units
are appended, then all are put to one vectorised test. Ranks only ever stop passing it, so what
was dropped is never missed, and the outcome does not depend on how the stream was cut into
batches.

**Entries.** All units of one key with one time are one entry: rank z after it, value v, so that it
holds ranks (z − v, z]. The newest entry may still grow. No window edge falls inside an entry.

**Levels.** The level of a rank is the largest j such that 2ʲ divides it: it is (2m + 1)·2ʲ for
some m. The level of an entry is the highest level of its ranks, the highest bit in which z − v
and z differ (Gibbons & Tirthapura 2004, §3.3); the rank that has it is unique, and its m is
z >> (j + 1). Both rules have one form: *of the ranks of level j, those with m ≥ m_j are
remembered*, where m_j depends on R alone and 2ʲ⁺¹·m_j does not grow with j. So the ranks
remembered reach further back on higher levels, and an entry holds a remembered rank iff its
highest one is remembered: an entry is kept iff z >> (j + 1) ≥ m_j.

**Exponential histogram**, k = tightness. Level 0 holds at most k + 1 buckets, any other level
c + 1 with c = ⌈k/2⌉; one too many, and the two oldest become one of the next level. So of E_l
buckets that ever reached level l, E_{l+1} = max(0, ⌊(E_l − c_l) / 2⌋) pairs went on (c_0 = k,
else c). From l = 1 on, adding c to both sides gives E_{l+1} + c = ⌊(E_l + c) / 2⌋, hence

    E_{l+1} = max(0, (F >> l) − c),   F = E_1 + c,   E_1 = max(0, (R − k) >> 1).

A bucket of level l ends at a multiple of 2ˡ. A rank of level j ends a bucket until the pair that
it is the older half of has gone on, which is so for the first E_{j+1} of them: m_j = E_{j+1}.
A bucket of size 2ˡ has at least k·2ˡ⁻¹ newer units, so the midpoint of the gap before it errs by
less than 1/k of the truth.

**Deterministic wave**, K = tightness: of the ranks of level j the newest K are remembered. There
are M_j = ((R >> j) + 1) >> 1 of them, so m_j = M_j − K. With K = ⌈(1/ε + 1)/2⌉ this is Gibbons &
Tirthapura 2004, §3.2 without a highest level, so no bound on the count has to be known. Lemma 1
there gives the error 1/(2K − 1).

**First entry.** It is kept until it expires: a window that starts before it is answered exactly.

**Expiry.** Entries not later than the key's cutoff are outside every window that may still be
asked. The newest of them tells how many units lie before the window; when it stops passing the
test, the next older one that passes takes its place. An entry that passes implies that every
newer one of the same or a higher level passes too, so an expired entry is not needed once a newer
expired one has a level at least its own. What is left has falling levels: at most 63 entries.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from recency.core.arrays import (
    INT64_MAX,
    INT64_MIN,
    BoolArray,
    FloatArray,
    Int64Array,
    exact_sum,
    highest_bit,
    is_sorted,
    offsets,
    run_lengths,
    run_starts,
    stable_order,
    ticks_between,
)
from recency.core.log import Log, Rows, newest_first

_ROUNDING = 1e-9  # outward slack on bounds that went through floating point
_LEAST_ERROR = 2.0**-1000  # of leaves: one over it is a float
_MANY = 64  # entries of a key in one batch, from which on remembered ranks are listed
_SCANNED = 1 << 14  # entries up to which looking at all is faster than halving
MOST_LEVELS = 1000  # of a tree of merges
_MIN_TIGHTNESS = 2  # an error below 1; less would break the order of the levels
MAX_TIGHTNESS = 2**62  # keeps everything: no stream is longer than 2⁶³ − 1


class Rule(Protocol):
    """Which ranks are remembered, given how many there are."""

    name: str

    def tightness(self, relative_error: float) -> int:
        """The smallest parameter that keeps the error at or below ``relative_error``."""
        ...

    def relative_error(self, tightness: Any) -> Any:
        """The error that a parameter, or each of an array, guarantees."""
        ...

    def oldest(self, level: Int64Array, totals: Int64Array, tightness: Int64Array) -> Int64Array:
        """m_j: ranks (2m + 1)·2ʲ of this level are remembered from this m on."""
        ...


class ExponentialRule:
    """Datar, Gionis, Indyk & Motwani 2002; Papapetrou et al. 2012, §3 (invariant 1)."""

    name = "eh"

    def tightness(self, relative_error: float) -> int:
        """The parameter k = ⌈1/ε⌉."""
        return int(np.clip(np.ceil(1 / relative_error), _MIN_TIGHTNESS, MAX_TIGHTNESS))

    def relative_error(self, tightness: Any) -> Any:
        """The error 1/k."""
        return 1 / tightness

    def oldest(self, level: Int64Array, totals: Int64Array, tightness: Int64Array) -> Int64Array:
        """E_{j+1}: the number of pairs of buckets that have gone on to the next level."""
        c = (tightness + 1) >> 1
        f: Int64Array = np.maximum((totals - tightness) >> 1, 0) + c
        pairs: Int64Array = np.maximum((f >> level) - c, 0)
        return pairs


class WaveRule:
    """Gibbons & Tirthapura 2004, §3.2–3.3, each position stored at its highest level only."""

    name = "dw"

    def tightness(self, relative_error: float) -> int:
        """The parameter K = ⌈(1/ε + 1)/2⌉."""
        k = np.ceil((1 / relative_error + 1) / 2)
        return int(np.clip(k, _MIN_TIGHTNESS, MAX_TIGHTNESS))

    def relative_error(self, tightness: Any) -> Any:
        """The error 1/(2K − 1)."""
        return 1 / (2 * tightness - 1)

    def oldest(self, level: Int64Array, totals: Int64Array, tightness: Int64Array) -> Int64Array:
        """M_j − K: all but the newest K have left their queue."""
        return _ranks_of_level(totals, level) - tightness


EXPONENTIAL = ExponentialRule()
WAVE = WaveRule()


Floats = TypeVar("Floats", float, FloatArray)


def guarantee(factor: Floats, log_error: Floats) -> Floats:
    """(1 + ε₂)(1 + ε) − 1, where ``factor`` is 1 + ε₂; exactly ε if nothing was ever merged."""
    return (factor - 1) + factor * log_error


def tightness_for_tree(rule: Rule, relative_error: float, levels: int) -> int:
    """The least tightness of leaves that keeps the error after ``levels`` levels of merging."""
    leaf_error = math.expm1(math.log1p(relative_error) / (levels + 1))
    tightness = rule.tightness(max(leaf_error, _LEAST_ERROR))
    while tightness < MAX_TIGHTNESS:
        error, spread = rule.relative_error(tightness), 1.0
        for _ in range(levels):
            spread *= 1 + error
        if guarantee(spread, error) <= relative_error:
            break
        tightness += 1  # rounding
    return tightness


def kept_ranks(rule: Rule, totals: Int64Array, tightness: int) -> Int64Array:
    """How many ranks are remembered of ``totals`` units that came one by one, none expired."""
    levels = np.arange(62)[:, None]
    oldest = rule.oldest(levels, totals, np.full(1, tightness))
    kept: Int64Array = np.maximum(_ranks_of_level(totals, levels) - np.maximum(oldest, 0), 0)
    return np.asarray(kept.sum(axis=0) + (oldest[0] > 0))  # and the first, whatever its rank


def before_merging(
    lower: Int64Array, upper: Int64Array, totals: Int64Array, factor: FloatArray | float
) -> tuple[Int64Array, Int64Array]:
    """Bounds on the truth x from bounds on a merged log's y, where |y − x| ≤ ε₂ x.

    ``factor`` is 1 + ε₂. Merging moves no unit beyond the first or the last entry: none and all
    stay exact.
    """
    moved = np.asarray(factor) - 1
    if not moved.any():
        return lower, upper
    inside = (lower > 0) & (lower < totals) & (moved > 0)
    shrunk = np.ceil(lower / factor * (1 - _ROUNDING)).astype(np.int64)
    lower = np.where(inside, shrunk, lower)
    inside = (upper > 0) & (upper < totals) & (moved > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = np.floor(upper / np.maximum(1 - moved, 0) * (1 + _ROUNDING))
    grown = np.where(inside & (grown < totals), grown, 0)  # it may be beyond int64
    at_most = np.where(grown > 0, grown.astype(np.int64), totals)
    return lower, np.where(inside, at_most, upper)


def loosest(rule: Rule, relative_error: float, spread: FloatArray) -> Int64Array:
    """The least tightness that keeps (1 + ε₂)(1 + ε) − 1 at or below the error asked for.

    ``spread`` is 1 + ε₂. The largest tightness there is where merging has used up that error.
    """
    distinct, which = np.unique(spread, return_inverse=True)
    tightness = np.full(distinct.size, MAX_TIGHTNESS)
    for i, factor in enumerate(distinct.tolist()):
        left = (1 + relative_error) / factor - 1
        if factor == 1:
            tightness[i] = rule.tightness(relative_error)
        elif left > 0:
            enough = rule.tightness(left)
            too_far = guarantee(factor, rule.relative_error(enough)) > relative_error
            tightness[i] = enough + too_far  # rounding
    return tightness[which]


@dataclass(frozen=True, eq=False)
class RankLog(Log):
    """The entries of many independent streams of units, as a rule remembers them."""

    rule: Rule
    tightness: Int64Array  # per key: k or K

    @staticmethod
    def empty(rule: Rule, tightness: Int64Array) -> "RankLog":
        """A log without entries, with a key for each element of ``tightness``."""
        return RankLog._empty(tightness.size, rule, tightness)

    def _settings(self, keys: Rows) -> tuple[Any, ...]:
        return self.rule, self.tightness[keys]

    def replaced(self, keys: Int64Array, part: "RankLog") -> "RankLog":
        """This log with those of a few keys, which are ascending, as in ``part``."""
        counts, totals = self.counts, self.totals.copy()
        counts[keys], totals[keys] = part.counts, part.totals
        own = np.append(self.starts[np.stack([keys, keys + 1])].T.ravel(), self.times.size).tolist()
        new = part.starts.tolist()

        def spliced(old: Int64Array, entries: Int64Array) -> Int64Array:
            pieces, end = [], 0
            for i in range(keys.size):
                pieces += [old[end : own[2 * i]], entries[new[i] : new[i + 1]]]
                end = own[2 * i + 1]
            return np.concatenate([*pieces, old[end:]])

        return replace(
            self,
            totals=totals,
            starts=offsets(counts),
            times=spliced(self.times, part.times),
            ranks=spliced(self.ranks, part.ranks),
            values=spliced(self.values, part.values),
        )

    def among(self, keys: Int64Array, tightness: Int64Array) -> "RankLog":
        """These keys as ``keys``, which are ascending, among others without entries."""
        counts, totals = np.zeros((2, tightness.size), dtype=np.int64)
        counts[keys], totals[keys] = self.counts, self.totals
        return replace(self, tightness=tightness, totals=totals, starts=offsets(counts))

    def expired(self, cutoff: Int64Array) -> "RankLog":
        """Without what nobody needs whose windows begin at ``cutoff`` (per key) or later."""
        filled = np.flatnonzero(self.counts)
        if not (self.times[self.starts[filled]] <= cutoff[filled]).any():
            return self
        return self._retained(self.entry_keys(), self.times, self.ranks, self.values, cutoff)

    def loosened(self, tightness: Int64Array, cutoff: Int64Array) -> "RankLog":
        """The log that the same streams have with less tightness: ranks kept there are kept here.

        Both rules remember ranks from an m_j on that falls as tightness grows.
        """
        less = replace(self, tightness=np.minimum(self.tightness, tightness))
        return less._retained(self.entry_keys(), self.times, self.ranks, self.values, cutoff)

    def append(
        self, keys: Int64Array, times: Int64Array, values: Int64Array, cutoff: Int64Array
    ) -> "RankLog":
        """Add ``values`` units ≥ 1 at ``times``; entries up to ``cutoff`` (per key) expire.

        No time may be before the newest entry of its key. Within the batch any order will do. The
        new totals must be below 2⁶³; those of all keys together need not be.
        """
        if not times.size:
            return self.expired(cutoff)
        if not is_sorted(times):
            order = np.argsort(times, kind="stable")
            keys, times, values = keys[order], times[order], values[order]
        if not is_sorted(keys):
            order = stable_order(keys)
            keys, times, values = keys[order], times[order], values[order]
        return self.append_sorted(keys, times, values, cutoff)

    def append_sorted(
        self, keys: Int64Array, times: Int64Array, values: Int64Array, cutoff: Int64Array
    ) -> "RankLog":
        """:meth:`append` of a batch, not empty, that is in order of keys, then of times."""
        log, begin = self, 0
        for end in _ends_within_int64(keys, values):
            rows = slice(begin, end)
            log = log._append_sum(keys[rows], times[rows], values[rows], cutoff)
            begin = end
        return log

    def _append_sum(
        self, keys: Int64Array, times: Int64Array, values: Int64Array, cutoff: Int64Array
    ) -> "RankLog":
        """:meth:`append_sorted` of values that add up to less than 2⁶³."""
        # Units of one key and time are one entry. Times and keys are rows here, `first` the row
        # that begins each entry, `running` the units up to and including each row.
        first = run_starts(times, keys)
        running = np.cumsum(values)
        key_row = run_starts(keys)
        touched = keys[key_row]
        before_key = running[key_row] - values[key_row]
        added = np.append(before_key[1:], running[-1]) - before_key
        grown = self._grown(touched, added)

        def entry_of(unit: Int64Array) -> Int64Array:
            row = unit if running[-1] == running.size else np.searchsorted(running, unit + 1)
            if first.size == running.size:
                return row
            return np.searchsorted(first, row, side="right") - 1

        key_entry = np.searchsorted(first, key_row)
        entries = run_lengths(key_entry, first.size)
        chosen, counts = grown._candidates(touched, added, before_key, key_entry, entries, entry_of)
        row = first[chosen]
        is_last = chosen + 1 == first.size
        last_row = np.where(is_last, running.size, first[np.where(is_last, 0, chosen + 1)]) - 1
        values = running[last_row] - running[row] + values[row]
        ranks = running[last_row] + np.repeat(self.totals[touched] - before_key, counts)
        return self._with_batch(grown, touched, counts, times[row], ranks, values, cutoff)

    def append_units(
        self, counts: Int64Array, times_of: Callable[[Int64Array], Int64Array], cutoff: Int64Array
    ) -> "RankLog":
        """:meth:`append_sorted` of units that all have different times, ``counts`` for each key.

        ``times_of`` gives the times of some rows: few will be asked for.
        """
        touched = np.flatnonzero(counts)
        added = counts[touched]
        before_key = offsets(added)[:-1]
        grown = self._grown(touched, added)
        row, taken = grown._candidates(
            touched, added, before_key, before_key, added, lambda unit: unit
        )
        ranks = row + np.repeat(self.totals[touched] - before_key + 1, taken)
        values = np.ones(row.size, dtype=np.int64)
        return self._with_batch(grown, touched, taken, times_of(row), ranks, values, cutoff)

    def _with_batch(
        self,
        grown: "RankLog",
        touched: Int64Array,
        counts: Int64Array,
        times: Int64Array,
        ranks: Int64Array,
        values: Int64Array,
        cutoff: Int64Array,
    ) -> "RankLog":
        """``grown`` with entries of this log and ``counts`` of a batch, each key's first too."""
        keys = np.repeat(touched, counts)
        if not self.times.size:
            return grown._retained(keys, times, ranks, values, cutoff)
        # The newest entry of a key goes on growing while its time lasts.
        key_first = offsets(counts)[:-1]
        still_old = np.ones(self.times.size, dtype=np.bool_)
        newest = self.starts[touched + 1] - 1
        grows = newest >= self.starts[touched]
        grows[grows] = self.times[newest[grows]] == times[key_first[grows]]
        values[key_first[grows]] += self.values[newest[grows]]
        still_old[newest[grows]] = False

        keys, times, ranks, values = self._interleaved(still_old, keys, times, ranks, values)
        return grown._retained(keys, times, ranks, values, cutoff)

    def replayed_into(
        self, log: "RankLog", keys: Int64Array, own_cutoff: Int64Array, cutoff: Int64Array
    ) -> "RankLog":
        """``log`` with the streams of this one, key i as key ``keys[i]``, in one step.

        Each log is replayed (Papapetrou et al. 2012, §5.1): an entry at its own time, the units
        between two entries half at the older time and half at the newer. So at most half a gap
        crosses any window edge, which is within the log's relative error (Lemma 1 there). Units
        before the oldest entry belong to entries that have expired: there the log's own cutoff is
        the older time. The keys must have no entries in ``log``.
        """
        own_keys, times, values = self._replayed(own_cutoff)
        return log.append(keys[own_keys], times, values, cutoff)

    def bounds(
        self, since: Int64Array, cutoff: Int64Array | None = None
    ) -> tuple[Int64Array, Int64Array]:
        """Per key, the least and the most units later than ``since`` that fit the log.

        ``since`` must not be before the cutoff of the last change, nor before ``cutoff``: answers
        are those of a log from which all has expired up to there.
        """
        if self.size == 1 and cutoff is None:
            one = self.bounds_of_one(int(since[0]))
            return np.array(one[:1]), np.array(one[1:])
        begin, end = self.starts[:-1], self.starts[1:]
        if self.times.size > max(16 * self.size, _SCANNED):
            i = self._first_later(since)
        else:
            later = offsets((self.times > np.repeat(since, end - begin)).view(np.int8))
            i = end - (later[end] - later[begin])
        has_entry, has_older = i < end, (begin < i) & (i < end)
        if not has_entry.any():
            return np.zeros(self.size, dtype=np.int64), np.zeros(self.size, dtype=np.int64)
        entry, older = np.where(has_entry, i, 0), np.where(has_older, i - 1, 0)
        if cutoff is not None:
            # Of what would have expired, the newest that is remembered is read. All but perhaps the
            # first entry of a stream, which is kept for other reasons while it is in reach, are.
            is_first = (self.ranks[older] == self.values[older]) & (self.times[older] <= cutoff)
            keys = np.flatnonzero(has_older & is_first)
            if keys.size:
                at = older[keys]
                has_older[keys] = self._remembers(keys, self.ranks[at], self.values[at])
                older[~has_older] = 0
        lower = np.where(has_entry, self.totals - self.ranks[entry] + self.values[entry], 0)
        upper = np.where(has_entry, self.totals - np.where(has_older, self.ranks[older], 0), 0)

        # The units in the gap lie strictly between the times of its two entries: where the window
        # begins at one of them, it is known on which side of the edge they are.
        all_in = has_older & (self.times[older] == since)
        all_out = has_entry & (self.times[entry] == since + 1)
        return np.where(all_in, upper, lower), np.where(all_out, lower, upper)

    def _first_later(self, since: Int64Array) -> Int64Array:
        """Per key, the first entry later than ``since``, or where its entries end: by halving."""
        begin, end = self.starts[:-1], self.starts[1:]
        for _ in range(int((end - begin).max()).bit_length()):
            middle = (begin + end) >> 1
            # Of a key that is done, begin is end: it stays as it is.
            is_later = self.times[np.minimum(middle, self.times.size - 1)] > since
            begin = np.where(is_later | (begin == end), begin, middle + 1)
            end = np.where(is_later, middle, end)
        return begin

    def bounds_of_one(self, since: int) -> tuple[int, int]:
        """:meth:`bounds` of a log with one key, in a tenth of the time."""
        total, i = int(self.totals[0]), int(self.times.searchsorted(since, side="right"))
        if i == self.times.size:
            return 0, 0
        lower = total - int(self.ranks[i]) + int(self.values[i])
        upper = total - int(self.ranks[i - 1]) if i else total
        all_in = i > 0 and int(self.times[i - 1]) == since
        all_out = int(self.times[i]) == since + 1
        return upper if all_in else lower, lower if all_out else upper

    def flaw(self, latest: Int64Array, cutoff: Int64Array) -> str | None:
        """What keeps this from being a log that :meth:`append` could have made, if anything."""
        keys = self.entry_keys()
        gaps = self.gaps()
        if (self.tightness < _MIN_TIGHTNESS).any() or (self.tightness > MAX_TIGHTNESS).any():
            return "tightness out of range"
        if (self.values < 1).any() or (gaps < 0).any() or (self.ranks < self.values).any():
            return "ranks out of order"
        if (self.times[1:] <= self.times[:-1])[keys[1:] == keys[:-1]].any():
            return "times out of order"
        has_entries = self.counts > 0
        newest = self.starts[1:][has_entries] - 1
        if (self.totals[~has_entries] != 0).any() or (
            self.ranks[newest] != self.totals[has_entries]
        ).any():
            return "newest item does not end at the total"
        if (self.times[newest] > latest[has_entries]).any():
            return "an item is later than the latest time"
        if self._retained(keys, self.times, self.ranks, self.values, cutoff).times.size < keys.size:
            return "an item that is not remembered"
        same_key = keys[1:] == keys[:-1]
        apart = ticks_between(self.times[:-1], self.times[1:])
        if ((apart < 2) & (gaps[1:] > 0))[same_key].any():
            return "units at a time that cannot be"
        if self._lacks_expired(keys, gaps, cutoff):
            return "a remembered item is missing among the expired"
        live_gap = (gaps > 0) & (self.times > cutoff[keys])
        keys, before, gaps = keys[live_gap], (self.ranks - self.values)[live_gap], gaps[live_gap]
        if self._remembers(keys, before, gaps).any():
            return "a remembered item is missing"
        if ((before == gaps) & (cutoff[keys] == INT64_MIN)).any():
            return "the first item is missing, and nothing can have expired"
        return None

    def _replayed(self, cutoff: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Keys, times and values of a stream that fits the log; see :meth:`merge`."""
        keys, gaps = self.entry_keys(), self.gaps()
        to_older = gaps >> 1
        filled = np.flatnonzero(self.counts > 0)
        oldest = self.starts[filled]
        to_older[oldest] = (gaps[oldest] + 1) >> 1  # a unit at least of that gap has expired
        values = self.values + gaps - to_older
        to_cutoff = to_older[oldest]
        to_older[oldest] = 0
        values[:-1] += to_older[1:]
        filled, to_cutoff = filled[to_cutoff > 0], to_cutoff[to_cutoff > 0]
        return (
            np.concatenate([filled, keys]),
            np.concatenate([cutoff[filled], self.times]),
            np.concatenate([to_cutoff, values]),
        )

    def _candidates(
        self,
        touched: Int64Array,
        added: Int64Array,
        before_key: Int64Array,
        key_entry: Int64Array,
        entries: Int64Array,
        entry_of: Callable[[Int64Array], Int64Array],
    ) -> tuple[Int64Array, Int64Array]:
        """Which entries of a batch to look at, and how many of each key.

        All that may be kept, and the first of each key.

        ``key_entry`` is the first entry of each key, ``entries`` how many it has, and ``entry_of``
        finds the entry of a unit.

        A key with many new entries keeps few of them. There the remembered ranks are listed, level
        by level, and looked up; testing each entry would cost several passes over the batch.
        """
        take = np.ones(entries.size, dtype=np.bool_)
        many = np.flatnonzero(entries > _MANY)
        if many.size:
            new = self.totals[touched[many]][:, None]
            old = new - added[many][:, None]
            level = np.arange(highest_bit(new.max(keepdims=True)).item() + 1)
            begin = self.rule.oldest(level, new, self.tightness[touched[many]][:, None])
            begin = np.maximum(begin, _ranks_of_level(old, level))
            count = np.maximum(_ranks_of_level(new, level) - begin, 0)
            few = count.sum(axis=1) < entries[many] // 2
            begin, count, many = begin[few], count[few], many[few]
            take[many] = False
        if not many.size:
            return np.arange(entries.sum()), entries
        taken = np.repeat(take, entries)
        taken[key_entry] = True
        flat = count.ravel()
        nth = np.arange(flat.sum()) - np.repeat(offsets(flat)[:-1], flat)
        m = np.repeat(begin.ravel(), flat) + nth
        rank = (2 * m + 1) << np.repeat(np.broadcast_to(level, count.shape).ravel(), flat)
        shift = (before_key - self.totals[touched] + added)[many]
        unit = rank + np.repeat(shift, count.sum(axis=1)) - 1
        taken[entry_of(unit)] = True
        chosen = np.flatnonzero(taken)
        return chosen, run_lengths(np.searchsorted(chosen, key_entry), chosen.size)

    def remembers(self, before: int, upto: int, total: int) -> bool:
        """Whether the rule keeps an entry of the only key, when there are ``total`` units."""
        level: Any = (before ^ upto).bit_length() - 1
        oldest = self.rule.oldest(level, total, int(self.tightness[0]))  # type: ignore[arg-type]
        return bool(upto >> (level + 1) >= oldest)

    def _remembers(self, keys: Int64Array, ranks: Int64Array, values: Int64Array) -> BoolArray:
        """Whether the rule keeps entries (or any other intervals of ranks)."""
        level = _levels(ranks, values)
        oldest = self.rule.oldest(level, self.totals[keys], self.tightness[keys])
        return ranks >> (level + 1) >= oldest

    def _all_remembered(self, keys: Int64Array, ranks: Int64Array, values: Int64Array) -> BoolArray:
        """:meth:`_remembers` of many entries, of which the newest are, whatever their levels."""
        newest = self.rule.oldest(np.zeros(1, dtype=np.int64), self.totals, self.tightness)
        remembered: BoolArray = ranks >> 1 >= newest[keys]
        some = np.flatnonzero(~remembered)
        if 2 * some.size > keys.size:  # cheaper than to cut them out
            return self._remembers(keys, ranks, values)
        remembered[some] = self._remembers(keys[some], ranks[some], values[some])
        return remembered

    def _lacks_expired(self, keys: Int64Array, gaps: Int64Array, cutoff: Int64Array) -> bool:
        """Whether a gap among expired entries hides a remembered rank above all newer levels."""
        expired = np.flatnonzero(self.times <= cutoff[keys])
        level = _levels(self.ranks[expired], self.values[expired])
        _, highest = newest_first(self.size - keys[expired], level)
        hidden = expired[gaps[expired] > 0]
        before, width = (self.ranks - self.values)[hidden], gaps[hidden]
        tag = (self.size - keys[hidden]) << 6 | _levels(before, width)
        above = tag > highest[::-1][gaps[expired] > 0]
        return bool((above & self._remembers(keys[hidden], before, width)).any())

    def _retained(
        self,
        keys: Int64Array,
        times: Int64Array,
        ranks: Int64Array,
        values: Int64Array,
        cutoff: Int64Array,
    ) -> "RankLog":
        """This log with those of the given entries (by key, then time) that are still needed."""
        expired = times <= cutoff[keys]
        keep = self._all_remembered(keys, ranks, values) | ((ranks == values) & ~expired)

        def level_of(some: Int64Array) -> Int64Array:
            return _levels(ranks[some], values[some])

        return self._kept(keys, times, ranks, values, keep, expired, level_of)


def _ends_within_int64(keys: Int64Array, values: Int64Array) -> list[int]:
    """Where to cut rows, in order of keys, so that all parts have sums within int64.

    Cuts are between keys; what comes to one key fits.
    """
    if exact_sum(values) <= INT64_MAX:
        return [keys.size]
    starts = run_starts(keys)
    sums = np.add.reduceat(values, starts)
    ends, running = [], 0
    for start, total in zip(starts.tolist(), sums.tolist(), strict=True):
        if running + total > INT64_MAX:
            ends.append(start)
            running = 0
        running += total
    return [*ends, keys.size]


def _ranks_of_level(totals: Int64Array, level: Int64Array) -> Int64Array:
    """How many of the ranks up to ``totals`` are odd multiples of 2ʲ: M_j = ⌊(⌊R/2ʲ⌋ + 1)/2⌋.

    Without the sum, which 2⁶³ − 1 has no room for.
    """
    return (totals >> level >> 1) + ((totals >> level) & 1)


def _levels(ranks: Int64Array, values: Int64Array) -> Int64Array:
    return highest_bit((ranks - values) ^ ranks)
