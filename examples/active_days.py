"""A sketch of your own: on how many of the last days anything happened. See docs/extending.md."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from recency import extending as ext

ONE, MOST = np.uint64(1), 63


@dataclass(frozen=True, eq=False)
class Days(ext.PerKey):
    """The tally: besides ``latest``, bit i says whether anything happened on day ``latest`` - i."""

    active: ext.UInt64Array
    start: ClassVar = {**ext.PerKey.start, "active": np.uint64(0)}


class ActiveDaysAlgorithm(ext.TallyAlgorithm):
    """The state of a key is its tally alone."""

    tally = Days

    def __init__(self, window: int) -> None:
        self.window, self.mask = window, (ONE << np.uint64(window)) - ONE

    def check(self, size: int | None, at: Any) -> ext.Columns:
        """Return one row per event: the fields of ``Days`` of a key with this event alone."""
        return ext.validate.as_columns(size, at=ext.to_ticks(at, None), active=np.asarray(ONE))

    def merge(self, state: ext.State, into: Any, size: int) -> ext.State:
        """Shift the bits of merged keys to their latest day, and combine them."""
        latest = ext.by_key.raised(np.full(size, ext.NEVER), into, state.tally.latest)
        older = np.minimum(ext.ticks_between(state.tally.latest, latest[into]), np.uint64(MOST))
        active = np.zeros(size, dtype=np.uint64)
        np.bitwise_or.at(active, into, (state.tally.active << older) & self.mask)
        return ext.State(Days(latest, active), ext.NoBody(size))

    def flaw(self, tally: Days) -> str | None:
        """Bit 0 must be set, and no bit may be beyond the window or the range of time."""
        oldest = ext.highest_bit(tally.active).view(np.uint64)
        possible = (tally.active & ONE > 0) & (tally.active <= self.mask)
        possible &= oldest < ext.ticks_between(ext.NEVER, tally.latest)
        return None if possible.all() else "days that cannot be"


@dataclass(frozen=True)
class ActiveDaysConfig:
    """What two sketches must share to merge."""

    window: int


class ActiveDays(ext.Sketch):
    """On how many of the last ``window`` days, at most 63, anything happened; always exact."""

    family, config_class = 200, ActiveDaysConfig

    def __init__(self, window: int = 28) -> None:
        self.config = ActiveDaysConfig(ext.validate.integer(window, "window", 1, MOST))
        super().__init__(ActiveDaysAlgorithm(self.config.window))

    def update(self, *, at: int) -> None:
        """Add an event on day ``at``."""
        self._keyed.add_row(at)

    def update_many(self, *, at: Any) -> None:
        """Add one event per row of a column of days."""
        self._keyed.update_many(None, {"at": at})

    @ext.question
    def query(view: ext.View, window: int | None = None, now: int | None = None) -> ext.Estimate:
        """Return on how many of the days in (now - window, now] anything happened."""
        days = view.state.tally
        reach = np.maximum(days.latest, view.since(window, now)) - view.since(window, now)
        active = days.active & ((ONE << reach.astype(np.uint64)) - ONE)
        count = np.unpackbits(active.view(np.uint8).reshape(-1, 8), axis=1).sum(axis=1) * 1.0
        return ext.Estimate(count, count, count)
