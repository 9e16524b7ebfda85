"""The largest value ever seen, and how often it occurred."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from recency.extending import (
    INT64_MIN,
    NEVER,
    UNITS,
    Estimate,
    Int64Array,
    NoBody,
    PerKey,
    Sketch,
    State,
    TallyAlgorithm,
    by_key,
    floats_above,
    floats_below,
    question,
    to_ticks,
    validate,
)


@dataclass(frozen=True, eq=False)
class PeakTally(PerKey):
    largest: Int64Array
    times: Int64Array
    start: ClassVar = {**PerKey.start, "largest": INT64_MIN}


class PeakAlgorithm(TallyAlgorithm):
    tally = PeakTally

    def __init__(self, unit):
        self.unit = unit

    def check(self, size, value, at):
        at, value = to_ticks(at, self.unit), validate.integers(value, "value")
        return validate.as_columns(size, at=at, value=value, times=np.asarray(1))

    def merge(self, state, into, size):
        rows = state.tally
        latest = by_key.raised(np.full(size, NEVER), into, rows.latest)
        largest = by_key.raised(np.full(size, INT64_MIN), into, rows.largest)
        of_largest = np.where(rows.largest == largest[into], rows.times, 0)
        times, too_many = by_key.sums(into, of_largest, size)
        if too_many.any():
            raise ValueError("times must stay within int64")
        return State(PeakTally(latest, largest, times), NoBody(size))

    def flaw(self, tally):
        return None if (tally.times > 0).all() else "a peak that never came"


@dataclass(frozen=True)
class PeakConfig:
    unit: str | None


class Peak(Sketch):
    family, config_class = 220, PeakConfig

    def __init__(self, unit=None):
        self.config = PeakConfig(validate.one_of(unit, "unit", UNITS))
        super().__init__(PeakAlgorithm(unit))

    def update(self, value, *, at):
        self._keyed.add_row(value, at)

    def update_many(self, value, *, at):
        self._keyed.update_many(None, {"value": value, "at": at})

    @question
    def query(view) -> Estimate:
        """The largest value; 0 of nothing."""
        largest = np.where(view.state.tally.seen, view.state.tally.largest, 0)
        return Estimate(largest.astype(np.float64), floats_below(largest), floats_above(largest))

    @question
    def times(view) -> Estimate:
        """Return how often the largest value occurred."""
        times = view.state.tally.times
        return Estimate(times.astype(np.float64), floats_below(times), floats_above(times))
