"""The exact sum over any window, from every event in it: a sketch with a body."""

from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from recency.extending import (
    INT64_MIN,
    NEVER,
    UNITS,
    Admitted,
    BatchAlgorithm,
    Estimate,
    Int64Array,
    PerKey,
    Sketch,
    State,
    by_key,
    corrupt,
    offsets,
    question,
    ranges,
    ticks_between,
    to_duration,
    to_ticks,
    validate,
    zigzag,
)

MOST = 2**20


@dataclass(frozen=True, eq=False)
class Events:
    """Events of ``size`` keys, in order of key, time and value."""

    size: int
    keys: Int64Array
    times: Int64Array
    values: Int64Array

    @classmethod
    def sorted(cls, size, keys, times, values):
        order = np.lexsort((values, times, keys))
        return cls(size, keys[order], times[order], values[order])

    @classmethod
    def joined(cls, bodies):
        firsts = accumulate((body.size for body in bodies), initial=0)
        shifted = [body.keys + first for body, first in zip(bodies, firsts, strict=False)]
        columns = ([body.times for body in bodies], [body.values for body in bodies])
        return cls(sum(body.size for body in bodies), *map(np.concatenate, (shifted, *columns)))

    def take(self, keys):
        counts = by_key.counts(self.keys, self.size)
        rows = ranges(offsets(counts)[keys], counts[keys])
        renumbered = np.repeat(np.arange(keys.size), counts[keys])
        return Events(keys.size, renumbered, self.times[rows], self.values[rows])

    def split(self):
        return [self.take(np.array([key])) for key in range(self.size)]

    @property
    def entries(self):
        return self.times.size

    @property
    def nbytes(self):
        return 24 * self.times.size


class EveryEventAlgorithm(BatchAlgorithm):
    merge_law = "exact"

    def __init__(self, window, unit):
        self.window, self.unit = window, unit

    def empty(self, size, merge_levels=0, first_stream=0):
        none = np.empty(0, dtype=np.int64)
        return State(PerKey.empty(size), Events(size, none, none, none))

    def check(self, size, value=1, at=None):
        at, value = to_ticks(at, self.unit), validate.integers(value, "value", 0, MOST)
        return validate.as_columns(size, at=at, value=value)

    def admit(self, tally, keys, columns):
        latest = by_key.raised(tally.latest, keys, columns[0])
        return Admitted(replace(tally, latest=latest), keys, columns)

    def absorb(self, state, keys, columns):
        times, values = columns
        tally, body = state
        new = Events(body.size, keys, times, values)
        columns = (np.concatenate([getattr(each, name) for each in (body, new)])
                   for name in ("keys", "times", "values"))  # fmt: skip
        return self._within(tally, *columns)

    def _within(self, tally, keys, times, values):
        rows = times > self.cutoff(tally)[keys]
        return Events.sorted(tally.size, keys[rows], times[rows], values[rows])

    def merge(self, state, into, size):
        tally, body = state
        latest = by_key.raised(np.full(size, NEVER), into, tally.latest)
        merged = PerKey(latest)
        return State(merged, self._within(merged, into[body.keys], body.times, body.values))

    def guarantee(self, state):
        return np.zeros(state.tally.size)

    def write(self, state, writer):
        tally, body = state
        counts = by_key.counts(body.keys, body.size)
        writer.scalar(counts.astype(np.uint64))
        writer.ragged(zigzag(tally.latest[tally.seen]), tally.seen.astype(np.int64))
        writer.ragged(ticks_between(body.times, tally.latest[body.keys]), counts)
        writer.ragged(body.values.astype(np.uint64), counts)

    def read(self, reader):
        counts = reader.integer()
        seen = counts > 0
        latest = np.full(reader.size, NEVER)
        latest[seen] = reader.signed(seen.astype(np.int64))
        ages = reader.ragged(counts)
        keys = np.repeat(np.arange(reader.size), counts)
        times = (latest[keys].view(np.uint64) - ages).view(np.int64)
        values = reader.integers(counts, MOST)
        tally = PerKey(latest)
        if (latest[seen] == NEVER).any() or (ages >= ticks_between(INT64_MIN, latest[keys])).any():
            corrupt(reader.name, "times out of range")
        ends = np.zeros(reader.size, dtype=np.int64)
        ends[keys[ages == 0]] = 1
        if (ends != seen).any() or (times <= self.cutoff(tally)[keys]).any():
            corrupt(reader.name, "times that no stream leads to")
        return State(tally, Events.sorted(reader.size, keys, times, values))


@dataclass(frozen=True)
class EveryEventConfig:
    window: int | None
    unit: str | None


class EveryEvent(Sketch):
    family, config_class = 221, EveryEventConfig

    def __init__(self, window=None, unit=None):
        validate.one_of(unit, "unit", UNITS)
        window = None if window is None else to_duration(window, unit)
        self.config = EveryEventConfig(window, unit)
        super().__init__(EveryEventAlgorithm(window, unit))

    def update(self, value=1, *, at):
        self._keyed.add_row(value, at)

    def update_many(self, value=1, *, at):
        self._keyed.update_many(None, {"value": value, "at": at})

    @question
    def query(view, window=None, now=None) -> Estimate:
        """The sum of the values in (now - window, now]."""
        events = view.state.body
        rows = events.times > view.since(window, now)[events.keys]
        total = np.bincount(events.keys[rows], events.values[rows], events.size)
        return Estimate(total, total, total)
