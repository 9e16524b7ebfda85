"""States of many window counters as columns, and their bytes.

A record is: which optional parts follow (flags); the tightness if it is not the configuration's;
then, unless nothing was ever seen: the latest time; how many events were late; 1 + ε₂ after a
merge; the number of items n (of each log, where a sketch has several) and, for n > 0, the common
divisor of all time differences, the n differences to the next newer time of the log (the newest
item's to the latest time) over that divisor, the n gaps in rank before each item, and the n values
less one. Gaps or values that are all zero are
left out: a stream of single units has no values, one that nothing was dropped from has no gaps.
"""

from dataclasses import dataclass

import numpy as np

from recency.algorithm import NEVER
from recency.core.arrays import BoolArray, Int64Array, UInt64Array, cutoffs, offsets
from recency.core.codec import RecordReader, RecordWriter, corrupt, float_bits, zigzag
from recency.core.rank_log import MAX_TIGHTNESS, RankLog, Rule
from recency.core.segments import ages_of, running_sums, segment_sums, times_of
from recency.counters.arrival import CounterTally

_SEEN, _TIGHTNESS, _LATE, _MERGED, _GAPS, _VALUES = (1 << bit for bit in range(6))


@dataclass(frozen=True, eq=False)
class CounterStates:
    """One row per sketch of one configuration; all sketches have the same number of logs.

    ``log`` has the keys of the sketches that have seen anything, one after the other.
    """

    log: RankLog
    tightness: Int64Array
    tally: CounterTally
    """Without totals when it was read: they follow from the log."""

    def check_order(self, name: str, by: str, late: str) -> None:
        """Refuse what sketches with these settings cannot have seen."""
        latest, _, late_count, merge_factor = vars(self.tally).values()
        if late == "raise" and late_count.any():
            corrupt(name, "late events in a sketch that refuses them")
        if by == "count" and (
            (latest[self.tally.seen] < 1).any()
            or (self.log.times < 1 + (self.log.gaps() > 0)).any()
            or (merge_factor > 1).any()
        ):
            corrupt(name, "positions out of range")


def write_states(
    states: CounterStates, usual_tightness: int, writer: RecordWriter, logs: int = 1
) -> None:
    """Append the columns of all states, of ``logs`` logs each, to ``writer``."""
    log, tally = states.log, states.tally
    size, seen = tally.size, np.flatnonzero(tally.seen)
    items = np.zeros(size, dtype=np.int64)
    items[seen] = np.diff(log.starts[::logs])
    filled = items > 0
    first = offsets(items)[:-1][filled]
    gaps, values = log.gaps(), log.values - 1
    has_gaps, has_values = np.zeros((2, size), dtype=np.bool_)
    has_gaps[filled] = np.maximum.reduceat(gaps, first) > 0
    has_values[filled] = np.maximum.reduceat(values, first) > 0
    odd_tightness = states.tightness != usual_tightness
    late = tally.late_count > 0
    merged = tally.merge_factor > 1
    flags = np.zeros(size, dtype=np.uint64)
    for present, flag in [
        (tally.seen, _SEEN),
        (odd_tightness, _TIGHTNESS),
        (late, _LATE),
        (merged, _MERGED),
        (has_gaps, _GAPS),
        (has_values, _VALUES),
    ]:
        flags[present] |= np.uint64(flag)
    writer.scalar(flags)
    _optional(writer, states.tightness.view(np.uint64), odd_tightness)
    _optional(writer, zigzag(tally.latest), tally.seen)
    _optional(writer, tally.late_count.view(np.uint64), late)
    _optional(writer, float_bits(tally.merge_factor), merged)
    writer.ragged(log.counts.view(np.uint64), tally.seen * logs)

    ages = ages_of(log.times, log.starts, np.repeat(tally.latest[seen], logs))
    divisor = np.ones(size, dtype=np.uint64)
    divisor[filled] = np.maximum(np.gcd.reduceat(ages, first), np.uint64(1))
    _optional(writer, divisor, filled)
    if (divisor > 1).any():
        ages //= np.repeat(divisor, items)
    writer.ragged(ages, items)
    for column, present in ((gaps, has_gaps), (values, has_values)):
        of_those = column if present.all() else column[np.repeat(present, items)]
        writer.ragged(of_those.view(np.uint64), items * present)


def read_states(
    rule: Rule, usual_tightness: int, window: int | None, reader: RecordReader, logs: int = 1
) -> CounterStates:
    """The inverse of :func:`write_states`; refuses what no stream leads to."""
    flags = reader.integer(most=2 * _VALUES - 1)
    seen, odd_tightness, late, merged, has_gaps, has_values = (
        flags & flag > 0 for flag in (_SEEN, _TIGHTNESS, _LATE, _MERGED, _GAPS, _VALUES)
    )
    tightness = np.full(reader.size, usual_tightness)
    tightness[odd_tightness] = reader.integers(odd_tightness.astype(np.int64))
    latest, late_count = np.zeros((2, reader.size), dtype=np.int64)
    latest[seen] = reader.signed(seen.astype(np.int64))
    late_count[late] = reader.integers(late.astype(np.int64))
    spread = np.ones(reader.size)
    spread[merged] = reader.ragged(merged.astype(np.int64)).view(np.float64)
    # Reading compares counts with what is there: only then is anything of that size made.
    counts = reader.integers(seen * logs)
    records = np.repeat(np.flatnonzero(seen), logs)
    items = reader.sums(counts, records)
    filled = items > 0
    divisor = np.ones(reader.size, dtype=np.uint64)
    divisor[filled] = reader.ragged(filled.astype(np.int64))
    ages = reader.ragged(items)
    owners = np.repeat(records, counts)
    gaps, values = np.zeros((2, ages.size), dtype=np.int64)
    gaps[has_gaps[owners]] = reader.integers(items * has_gaps)
    values[has_values[owners]] = reader.integers(items * has_values)
    if ((late | merged | has_gaps | has_values) & ~seen).any():
        corrupt(reader.name, "an empty sketch with a state")
    if not (np.isfinite(spread).all() and (spread >= 1).all()):
        corrupt(reader.name, "the record of past merging is not a factor above 1")
    if (tightness < usual_tightness).any():
        corrupt(reader.name, "it is less tight than its configuration asks for")
    if (tightness > MAX_TIGHTNESS).any():
        corrupt(reader.name, "tightness out of range")

    starts = offsets(counts)
    divided = divisor[owners]
    if (divided == 0).any() or (ages > np.uint64(2**64 - 1) // np.maximum(divided, 1)).any():
        corrupt(reader.name, "times out of range")
    times = times_of(ages * divided, starts, latest[records], reader.name)
    steps = gaps.view(np.uint64) + values.view(np.uint64) + np.uint64(1)  # each part below 2⁶³
    totals = segment_sums(steps, starts, reader.name)
    if (totals > np.uint64(2**63 - 1)).any():
        corrupt(reader.name, "the total does not fit int64")
    ranks = running_sums(steps, starts).view(np.int64)
    log_totals, log_tightness = totals.view(np.int64), tightness[records]
    log = RankLog(log_totals, starts, times, ranks, values + 1, rule, log_tightness)
    flaw = log.flaw(latest[records], cutoffs(latest, window)[records])
    if flaw:
        corrupt(reader.name, flaw)
    latest[~seen] = NEVER
    tally = CounterTally(latest, np.zeros_like(latest), late_count, spread)
    return CounterStates(log, tightness, tally)


def _optional(writer: RecordWriter, values: UInt64Array, present: BoolArray) -> None:
    writer.ragged(values[present], present.astype(np.int64))
