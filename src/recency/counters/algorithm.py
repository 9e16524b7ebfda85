"""Counters of streams in time order, and of these the exponential histogram and the wave.

Both are a rank log (see :mod:`recency.core.rank_log`) with a clock, and a record of what merging
has cost; they differ in the rule of what to remember.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from recency.algorithm import Admitted, Algorithm, Columns, State, described
from recency.core import by_key, validate
from recency.core.appended import Appended
from recency.core.arrays import INT64_MAX, FloatArray, Int64Array, broadcast, is_sorted
from recency.core.codec import RecordReader, RecordWriter
from recency.core.rank_log import RankLog, Rule, guarantee, loosest, tightness_for_tree
from recency.counters.arrival import NOT_BY_COUNT, Arrival, CounterTally, check_total
from recency.counters.records import CounterStates, read_states, write_states
from recency.keyed import only_key

_LARGEST_BATCH = 1 << 20  # bounds the memory that one kernel call takes
_MOST_FACTOR = 1e300  # finite, and far beyond the 2 at which it stops saying anything


class InOrderAlgorithm(Algorithm):
    """What counters of a stream in time order have in common: all but the body.

    Rows are (time, value).
    """

    needs_order = True

    most_value: int = INT64_MAX
    """The largest value that a row may have."""

    def __init__(self, window: int | None, relative_error: float, arrival: Arrival) -> None:
        self.window, self.unit = window, arrival.unit
        self.arrival, self.relative_error = arrival, relative_error

    def check(self, size: int | None, value: Any = 1, at: Any = None) -> Columns:
        """Columns of times and values."""
        values = validate.integers(value, "value", 0, self.most_value)
        ticks, size = self.arrival.check(at, {"value": values}, size)
        return ticks, broadcast(values, size)

    def check_row(self, tally: Any, last: Any, value: Any, at: Any) -> Any:
        """Time and value, then the latest time, the total and how many were late so far."""
        value = validate.integer(value, "value", 0, self.most_value)
        if last is None:
            latest, total, late_count = (
                int(column[0]) for column in (tally.latest, tally.totals, tally.late_count)
            )
        else:
            _, _, latest, total, late_count = last
        tick, late = self.arrival.place_one(latest, at)
        check_total(total, value, self.arrival.total_name)
        if late:
            late_count = min(late_count + 1, INT64_MAX)
        return tick, value, tick, total + value, late_count

    def stack(self, tally: Any, rows: Sequence[Any]) -> Admitted:
        """The rows as columns; the last row has counted all."""
        ticks, values, latest, totals, late_counts = np.array(rows, dtype=np.int64).T
        last = CounterTally(latest[-1:], totals[-1:], late_counts[-1:], tally.merge_factor)
        return self._counted(last, only_key(ticks.size), ticks, values)

    def admit(self, tally: Any, keys: Int64Array, columns: Columns) -> Admitted:
        """The rows, counted in the tally."""
        ticks, values = columns
        tally, ticks = self.arrival.place(tally, keys, ticks, values)
        return self._counted(tally, keys, ticks, values)

    def _counted(
        self, tally: CounterTally, keys: Int64Array, ticks: Int64Array, values: Int64Array
    ) -> Admitted:
        """The rows without zeros, which only move the clock."""
        if not values.all():
            rows = np.flatnonzero(values)
            keys, ticks, values = keys[rows], ticks[rows], values[rows]
        return Admitted(tally, keys, (ticks, values))

    def what_was_seen(self, state: State) -> list[str]:
        """The total, and the latest time."""
        return described("total={}, latest={}", state.tally.totals, state.tally.latest)


class CounterAlgorithm(InOrderAlgorithm):
    """The body is a rank log."""

    merge_law = "bounded"
    preview_rows = 32

    def __init__(
        self, rule: Rule, window: int | None, relative_error: float, arrival: Arrival
    ) -> None:
        super().__init__(window, relative_error, arrival)
        self.rule, self.tightness = rule, rule.tightness(relative_error)
        self.has_clock = arrival.by == "time"
        self.unmergeable = None if self.has_clock else NOT_BY_COUNT

    def empty(self, size: int, merge_levels: int = 0, first_stream: int = 0) -> State:
        """After h levels of merging the error is (1 + ε')ʰ⁺¹ − 1, where ε' is that of the leaves.

        So leaves for ``merge_levels`` = h are kept with ε' = (1 + ε)^(1/(h + 1)) − 1.
        """
        tightness = self.tightness
        if merge_levels:
            tightness = tightness_for_tree(self.rule, self.relative_error, merge_levels)
        log = RankLog.empty(self.rule, np.full(size, tightness))
        return State(CounterTally.empty(size), log)

    def absorb(self, state: State, keys: Int64Array, columns: Columns) -> RankLog:
        """The log with the rows appended, in order of time, a block at a time."""
        ticks, values = columns
        log: RankLog = state.body
        cutoff = self.cutoff(state.tally)
        if ticks.size > _LARGEST_BATCH and not is_sorted(ticks):
            order = np.argsort(ticks, kind="stable")
            keys, ticks, values = keys[order], ticks[order], values[order]
        for begin in range(0, max(ticks.size, 1), _LARGEST_BATCH):
            rows = slice(begin, begin + _LARGEST_BATCH)
            log = log.append(keys[rows], ticks[rows], values[rows], cutoff)
        return log

    def preview(self, state: State, columns: Columns) -> Appended:
        """The log with the rows put behind it, none of them looked at."""
        ticks, values = columns
        return Appended.to(state.body, ticks, values, self.cutoff(state.tally))

    # --- merge ---

    def merge(self, state: State, into: Int64Array, size: int) -> State:
        """Papapetrou et al. 2012, Theorem 4, for any number of operands in one step.

        Replaying a log moves at most its relative error of the units across any window edge, on
        top of what earlier merges moved: so the factors (1 + ε) multiply along a path of merges.
        A stream of zeros moves the clock, no more.
        """
        tally, log = state
        merged_tally = tally.merged(into, size, self.arrival.total_name)

        # One operand of each key represents it: one that counted if any did, or else one that saw
        # anything.
        weight = tally.seen.astype(np.int64) + (tally.totals > 0)
        most = by_key.raised(np.zeros(size, dtype=np.int64), into, weight)
        candidates = np.flatnonzero(weight == most[into])
        chosen = candidates[by_key.firsts(into[candidates], size)]
        counting = tally.totals > 0
        several = by_key.counts(into[counting], size) > 1

        factor = tally.merge_factor[chosen]
        if several.any():
            replayed = np.flatnonzero(counting & several[into])
            grown = tally.merge_factor * (1 + self.rule.relative_error(log.tightness))
            np.maximum.at(factor, into[replayed], grown[replayed])
            tightness = log.tightness[chosen]
            np.maximum.at(tightness, into[replayed], log.tightness[replayed])
        merged_tally = replace(merged_tally, merge_factor=np.minimum(factor, _MOST_FACTOR))
        cutoff = self.cutoff(merged_tally)
        if not several.any():
            none = np.empty(0, dtype=np.int64)
            return State(merged_tally, log.take(chosen).append(none, none, none, cutoff))
        alone = np.flatnonzero(~several)
        rest = log.take(chosen[alone]).among(alone, tightness)
        own_cutoff = self.cutoff(tally)[replayed]
        body = log.take(replayed).replayed_into(rest, into[replayed], own_cutoff, cutoff)
        return State(merged_tally, body)

    def finalize(self, state: State, prototype: State) -> State:
        """No tighter than it takes to meet the error asked for after this much merging."""
        tally, log = state
        tightness = loosest(self.rule, self.relative_error, tally.merge_factor)
        return State(tally, log.loosened(tightness, self.cutoff(tally)))

    def guarantee(self, state: State) -> FloatArray:
        """The error of the log, and what merging has moved."""
        log_error: FloatArray = self.rule.relative_error(state.body.tightness)
        return guarantee(state.tally.merge_factor, log_error)

    # --- bytes ---

    def write(self, state: State, writer: RecordWriter) -> None:
        """A record as :mod:`recency.counters.records` describes it."""
        tally, log = state
        states = CounterStates(log.take(np.flatnonzero(tally.seen)), log.tightness, tally)
        write_states(states, self.tightness, writer)

    def read(self, reader: RecordReader) -> State:
        """The inverse of :meth:`write`."""
        states = read_states(self.rule, self.tightness, self.window, reader)
        states.check_order(reader.name, self.arrival.by, self.arrival.late)
        log = states.log.among(np.flatnonzero(states.tally.seen), states.tightness)
        return State(replace(states.tally, totals=log.totals), log)
