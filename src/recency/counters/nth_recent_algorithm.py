"""The n-th most recent 1: what is remembered of one or many streams, and how it is written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recency.algorithm import Admitted, Algorithm, Columns, PerKey, State, described
from recency.core import by_key, validate
from recency.core.arrays import (
    INT64_MAX,
    FloatArray,
    Int64Array,
    broadcast,
    cutoffs,
    offsets,
)
from recency.core.codec import RecordReader, RecordWriter, corrupt, zigzag
from recency.core.rank_log import WAVE
from recency.core.segments import ages_of, running_sums, segment_sums, times_of
from recency.core.tick_log import TickLog
from recency.errors import OutOfOrderError
from recency.keyed import only_key
from recency.timeunit import to_tick, to_ticks

_ONE = np.asarray(np.int64(1))


@dataclass(frozen=True, eq=False)
class OnesTally(PerKey):
    """What is counted of each stream."""

    totals: Int64Array
    """How many 1s there were."""


class NthRecentAlgorithm(Algorithm):
    """The body is a tick log. Rows are times of 1s."""

    merge_law = "exact"
    needs_order = True

    def __init__(self, window: int | None, relative_error: float, unit: str | None) -> None:
        self.window, self.unit = window, unit
        self.tightness = WAVE.tightness(relative_error)

    def empty(self, size: int, merge_levels: int = 0, first_stream: int = 0) -> State:
        """Merging is exact, so the number of levels has no effect; and there are no coins."""
        return State(OnesTally.empty(size), TickLog.empty(self.tightness, size))

    # --- update ---

    def check(self, size: int | None, value: Any = 1, at: Any = None) -> Columns:
        """Times and values."""
        values = validate.integers(value, "value", 0, 1)
        ticks = to_ticks(at, self.unit)
        if size is None:
            size = validate.common_length({"value": values, "at": ticks})
        return broadcast(ticks, size), broadcast(values, size)

    def check_row(self, tally: Any, last: Any, value: Any, at: Any) -> Any:
        """Time and value, then the latest time and the total so far."""
        value = validate.integer(value, "value", 0, 1)
        tick = to_tick(at, self.unit)
        if last is None:
            latest, total = int(tally.latest[0]), int(tally.totals[0])
        else:
            _, _, latest, total = last
        if tick < latest:
            _refuse_late(tick, latest)
        _check_total(total, value)
        return tick, value, tick, total + value

    def stack(self, tally: Any, rows: Sequence[Any]) -> Admitted:
        """The last row has counted all."""
        ticks, values, latest, totals = np.array(rows, dtype=np.int64).T
        keys, ticks = _ones(only_key(ticks.size), ticks, values)
        return Admitted(OnesTally(latest[-1:], totals[-1:]), keys, (ticks,))

    def admit(self, tally: Any, keys: Int64Array, columns: Columns) -> Admitted:
        """The times of 1s; a 0 moves the clock, and no more."""
        ticks, values = columns
        size = tally.size
        if size > 1 or ticks.min() < tally.latest[0]:
            before = tally.latest[keys]
            late = np.flatnonzero(ticks < before)
            if late.size:
                first = late[ticks[late].argmin() if size == 1 else 0]
                _refuse_late(int(ticks[first]), int(before[first]))
        latest = by_key.raised(tally.latest, keys, ticks)
        keys, ticks = _ones(keys, ticks, values)
        added = by_key.counts(keys, size)
        totals, over = by_key.added(tally.totals, added)
        if over.any():
            key = over.argmax()
            _check_total(int(tally.totals[key]), int(added[key]))
        return Admitted(OnesTally(latest, totals), keys, (ticks,))

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
        totals, over = by_key.sums(into, tally.totals, size)
        if over.any():
            _refuse_sum(tally.totals[into == over.argmax()])
        latest = by_key.raised(OnesTally.empty(size).latest, into, tally.latest)
        merged = OnesTally(latest, totals)
        return State(merged, log.merge(into, latest, self.cutoff(merged)))

    def guarantee(self, state: State) -> FloatArray:
        """Merging does not change it."""
        return np.full(state.tally.size, WAVE.relative_error(self.tightness))

    def what_was_seen(self, state: State) -> list[str]:
        """The number of 1s, and the latest time."""
        return described("total={}, latest={}", state.tally.totals, state.tally.latest)

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
        """The inverse."""
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
        return State(OnesTally(np.where(seen, latest, OnesTally.start["latest"]), totals), log)


def _ones(keys: Int64Array, ticks: Int64Array, values: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Keys and times of the rows that are 1s."""
    if values.all():
        return keys, ticks
    rows = np.flatnonzero(values)
    return keys[rows], ticks[rows]


def _refuse_late(tick: int, latest: int) -> None:
    raise OutOfOrderError(f"at must not be before the latest time seen ({latest}), got {tick}")


def _check_total(total: int, added: int) -> None:
    if total + added > INT64_MAX:
        raise ValueError(f"the number of 1s must stay within int64, got {total} + {added}")


def _refuse_sum(totals: Int64Array) -> None:
    """Name the first of the totals that is too much, and the sum of those before it."""
    running = 0
    for total in totals.tolist():
        _check_total(running, total)
        running += total
