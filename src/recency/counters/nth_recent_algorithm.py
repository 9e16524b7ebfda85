"""The n-th most recent 1: what is remembered of one or many streams, and how it is written."""

from dataclasses import replace

import numpy as np

from recency.algorithm import NEVER, Admitted, Columns, State
from recency.core import by_key
from recency.core.arrays import INT64_MAX, FloatArray, Int64Array, broadcast, cutoffs, offsets
from recency.core.codec import RecordReader, RecordWriter, corrupt, zigzag
from recency.core.rank_log import WAVE
from recency.core.segments import ages_of, running_sums, segment_sums, times_of
from recency.core.tick_log import TickLog
from recency.counters.algorithm import InOrderAlgorithm
from recency.counters.arrival import Arrival, CounterTally

_ONE = np.asarray(np.int64(1))


class NthRecentAlgorithm(InOrderAlgorithm):
    """The body is a tick log. Of the rows that are let in, the times of the 1s go there."""

    merge_law = "exact"
    most_value = 1

    def __init__(self, window: int | None, relative_error: float, unit: str | None) -> None:
        arrival = Arrival("time", "raise", unit, can_clamp=False, total_name="the number of 1s")
        super().__init__(window, relative_error, arrival)
        self.tightness = WAVE.tightness(relative_error)

    def empty(self, size: int, merge_levels: int = 0, first_stream: int = 0) -> State:
        """Merging is exact, so the number of levels has no effect; and there are no coins."""
        return State(CounterTally.empty(size), TickLog.empty(self.tightness, size))

    def _counted(
        self, tally: CounterTally, keys: Int64Array, ticks: Int64Array, values: Int64Array
    ) -> Admitted:
        """The times of the 1s."""
        admitted = super()._counted(tally, keys, ticks, values)
        return admitted._replace(columns=admitted.columns[:1])

    def absorb(self, state: State, keys: Int64Array, columns: Columns) -> TickLog:
        """In order of time, some at a time: the log looks at each of its items and of the rows."""
        (ticks,) = columns
        log: TickLog = state.body
        latest, cutoff = state.tally.latest, self.cutoff(state.tally)
        keys, ticks = by_key.in_time_order(keys, ticks, latest.size)
        begin = 0
        while begin < max(ticks.size, 1):
            end = begin + max(self.flush_rows, latest.size, log.entries)
            times = ticks[begin:end]
            values = broadcast(_ONE, times.size)
            log = log.append(keys[begin:end], times, values, latest, cutoff)
            begin = end
        return log

    # --- merge ---

    def merge(self, state: State, into: Int64Array, size: int) -> State:
        """The log of all events together."""
        tally, log = state
        merged = tally.merged(into, size, self.arrival.total_name)
        return State(merged, log.merge(into, merged.latest, self.cutoff(merged)))

    def guarantee(self, state: State) -> FloatArray:
        """The error asked for, which merging does not change."""
        return np.full(state.tally.size, WAVE.relative_error(self.tightness))

    # --- bytes ---

    def write(self, state: State, writer: RecordWriter) -> None:
        """Clock, total, and of each item its age, the 1s before it, and its own less one."""
        tally, log = state
        counts, seen, latest = log.counts, tally.seen, tally.known_latest
        writer.scalar(seen.astype(np.uint64))
        writer.ragged(zigzag(latest[seen]), seen.astype(np.int64))
        writer.scalar(log.totals.view(np.uint64))
        writer.scalar(counts.view(np.uint64))
        writer.ragged(ages_of(log.times, log.starts, latest), counts)
        writer.ragged(log.gaps().view(np.uint64), counts)
        writer.ragged((log.values - 1).view(np.uint64), counts)

    def read(self, reader: RecordReader) -> State:
        """The inverse of :meth:`write`."""
        present = reader.integer(most=1)
        seen = present > 0
        latest = np.zeros(reader.size, dtype=np.int64)
        latest[seen] = reader.signed(present)
        totals, counts = reader.integer(), reader.integer()
        ages = reader.ragged(counts)
        gaps, values = reader.integers(counts), reader.integers(counts)
        if totals[~seen].any() or counts[~seen].any():
            corrupt(reader.name, "an empty sketch with a state")
        starts = offsets(counts)
        times = times_of(ages, starts, latest, reader.name)
        steps = gaps.view(np.uint64) + values.view(np.uint64) + np.uint64(1)  # each part below 2⁶³
        if (segment_sums(steps, starts, reader.name) > np.uint64(INT64_MAX)).any():
            corrupt(reader.name, "the total does not fit int64")
        ranks = running_sums(steps, starts).view(np.int64)
        log = TickLog(totals, starts, times, ranks, values + 1, self.tightness)
        flaw = log.flaw(latest, cutoffs(latest, self.window))
        if flaw:
            corrupt(reader.name, flaw)
        tally = CounterTally.empty(reader.size)
        return State(replace(tally, latest=np.where(seen, latest, NEVER), totals=totals), log)
